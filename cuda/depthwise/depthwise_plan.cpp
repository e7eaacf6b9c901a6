#include <algorithm>
#include <cmath>
#include <optional>

#include "cuda/depthwise/gpu_depthwise.h"
#include "cuda/depthwise/plan.h"
#include "cuda/planning/half_format.h"
#include "cuda/planning/shape.h"
#include "divide.h"

namespace warpconv::cuda {
namespace depthwise {
namespace {

constexpr int kSchedulers = 4;
constexpr double kHalfBytes = 2;
/** So that the distance of a strip's columns in bytes fits into 31 bits. */
constexpr int64_t kMostPitch = int64_t{1} << 24;

bool isHalves(const TensorFormat& format) { return isHalf(format.type) && format.layout == Layout::nhwc; }

bool isStrips(const Tile& tile) { return tile.filter > 0; }

/** Whether the tile is for the problem's filters; the last is for those that have no other. */
bool isFor(const Tile& tile, const ConvProblem& x) {
  const bool isPlain = x.r == x.s && x.stride.h == x.stride.w && x.dilation.h == 1 && x.dilation.w == 1;
  return isPlain && tile.filter == x.r && tile.stride == x.stride.h;
}

/**
 * Threads of a slice. Up to 64 have all channels. Of more, a warp or three quarters of one move whole sectors, and a
 * block has strips beside each other.
 */
int lanesFor(int pairs) {
  constexpr int kMost = 64, kWhole = 32, kLess = 24;
  if (pairs <= kMost) return pairs;
  return roundUp(pairs, kLess) < roundUp(pairs, kWhole) ? kLess : kWhole;
}

/**
 * In cycles: those that a scheduler is busy with an input element and an output beside its multiply-adds, and those
 * that a warp waits each time that it has used up what was ahead. Fitted to 648 times of an H200: 28 layers of networks
 * at batch 1, 8 and 128, by several tiles with their two fastest runs, from which they are 10 % off on average. Where
 * what it chooses was measured, it is 4 % slower than the fastest on average, and 21 % at most.
 */
struct Model {
  double input = 31, output = 25, ahead = 393, launchMilliseconds = 1.03e-3;
};
constexpr Model kModel;

/** Cycles of a scheduler for a warp. */
double busyCycles(const Tile& tile, const Shape& x, int run) {
  const double taps = static_cast<double>(x.r) * x.s;
  const double outputs = static_cast<double>(run) * tile.columns;
  const double inputs =
      isStrips(tile) ? ((run - 1.0) * tile.stride + tile.filter) * inputColumns(tile.filter, tile.stride, tile.columns)
                     : taps * outputs;
  return inputs * kModel.input + outputs * (kChannels * taps + kModel.output);
}

/** Cycles from a warp's beginning to its end where it is alone. */
double aloneCycles(const Tile& tile, const Shape& x, int run) {
  const double waits = isStrips(tile) ? std::ceil(((run - 1.0) * tile.stride + tile.filter) / tile.ahead)
                                      : static_cast<double>(x.r) * x.s / 2;
  return waits * kModel.ahead + busyCycles(tile, x, run);
}

double clockOf(const GpuTraits& traits) { return traits.flopsPerSecond / (2 * 128.0 * traits.multiprocessors); }

/** Cycles to move the tensors; input rows that two runs read come from the second cache, at half of the cost. */
double movedCycles(const Shape& x, const GpuTraits& traits, int run) {
  const double inputRows = (run - 1.0) * x.strideH + (x.r - 1.0) * x.dilationH + 1;
  const double again = std::max(inputRows * std::ceil(static_cast<double>(x.p) / run) / x.h - 1, 0.0);
  const double input = kHalfBytes * x.n * x.c * static_cast<double>(x.h) * x.w;
  const double output = kHalfBytes * x.n * x.k * static_cast<double>(x.p) * x.q;
  return (input * (1 + again / 2) + output) / traits.bytesPerSecond * clockOf(traits);
}

double milliseconds(const GpuRequest& request, const Tile& tile, const Plan& plan) {
  const GpuTraits& traits = request.traits;
  const Shape x = shapeOf(request.problem);
  const double busy = busyCycles(tile, x, plan.run) * kThreads / 32 / kSchedulers;
  const double alone = aloneCycles(tile, x, plan.run);
  const auto together = [&](double blocks) { return std::max(alone, blocks * busy); };
  const double each = static_cast<double>(plan.blocks) / traits.multiprocessors;
  const double whole = std::floor(each / tile.resident);
  const double rest = std::ceil(each - whole * tile.resident);
  const double computed = whole * together(tile.resident) + (rest > 0 ? together(rest) : 0);
  return kModel.launchMilliseconds + std::max(computed, movedCycles(x, traits, plan.run)) / clockOf(traits) * 1e3;
}

FilterForm formOf(const ConvProblem& x) {
  return makeForm(FilterOrder::depthwise, x, x.weightSize() * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

Plan planRun(const GpuRequest& request, int index, int run) {
  const Shape x = shapeOf(request.problem);
  const Tile& tile = kTiles[index];
  const int pairs = x.c / kChannels;
  Plan plan{};
  plan.tile = index;
  plan.run = isStrips(tile) ? run : 1;
  plan.lanes = lanesFor(pairs);
  plan.strips = ceilDivide(x.q, tile.columns);
  plan.slices = ceilDivide(pairs, plan.lanes);
  plan.runs = ceilDivide(x.p, plan.run);
  plan.blocks = ceilDivide(int64_t{x.n} * plan.runs * plan.slices * plan.strips * plan.lanes, kThreads);
  plan.milliseconds = milliseconds(request, tile, plan);
  return plan;
}

namespace {

/** The fastest of a tile's plans. */
Plan planTile(const GpuRequest& request, int tile) {
  const auto rows = static_cast<int>(request.problem.p);
  Plan best = planRun(request, tile, 1);
  constexpr int kMostRows = 128;
  for (int run = 2; isStrips(kTiles[tile]) && run <= std::min(rows, kMostRows); ++run) {
    // Several lengths give the same number of runs: only the shortest is tried.
    if (ceilDivide(rows, ceilDivide(rows, run)) != run) continue;
    const Plan plan = planRun(request, tile, run);
    if (plan.milliseconds < best.milliseconds) best = plan;
  }
  return best;
}

}  // namespace

Plan planDepthwise(const GpuRequest& request) {
  std::optional<Plan> best;
  for (int tile = 0; tile < kTileCount - 1; ++tile) {
    if (!isFor(kTiles[tile], request.problem)) continue;
    const Plan plan = planTile(request, tile);
    if (!best || plan.milliseconds < best->milliseconds) best = plan;
  }
  return best ? *best : planTile(request, kTileCount - 1);
}

}  // namespace depthwise

std::optional<std::string> refuseDepthwise(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  const ConvFormat& format = x.format;
  if (!depthwise::isHalves(format.input)) return "takes tensors of float16 or bfloat16 in NHWC; this problem's are not";
  for (const TensorFormat* other : {&format.residual, &format.output}) {
    if (other->type != format.input.type || other->layout != format.input.layout) {
      return "takes an input, a residual and an output of the same type and layout; this problem's differ";
    }
  }
  if (x.groups != x.c || x.k != x.c) {
    return "takes depthwise convolutions with one filter a channel; this problem has " + std::to_string(x.k) +
           " filters for " + std::to_string(x.c) + " channels in " + std::to_string(x.groups) + " groups";
  }
  if (x.c % depthwise::kChannels != 0) {
    return "moves channels in pairs, of an even number of them; this problem has " + std::to_string(x.c);
  }
  for (const TensorFormat* tensor : {&format.input, &format.residual, &format.output}) {
    const int64_t pitch = pitchOf(*tensor, x.c);
    if (pitch % depthwise::kChannels != 0 || pitch > depthwise::kMostPitch) {
      return "takes pixels that are an even number of elements apart, at most " +
             std::to_string(depthwise::kMostPitch) + "; this problem's are " + std::to_string(pitch) + " apart";
    }
  }
  return refuseLarge(x);
}

ConvFormat formatDepthwise(const GpuRequest& request) { return halfFormat(request, depthwise::kChannels); }

Estimate estimateDepthwise(const GpuRequest& request) {
  const depthwise::Plan plan = depthwise::planDepthwise(request);
  const depthwise::Tile& tile = depthwise::kTiles[plan.tile];
  return {plan.milliseconds,
          0,
          {{"channels", plan.lanes * depthwise::kChannels}, {"columns", tile.columns}, {"rows", plan.run}}};
}

std::vector<FilterForm> formsDepthwise(const GpuRequest& request, const Weights&) {
  return {depthwise::formOf(request.problem)};
}

}  // namespace warpconv::cuda
