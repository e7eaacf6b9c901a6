#include <algorithm>
#include <cmath>

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

int chooseTile(const ConvProblem& x) {
  const bool isPlain = x.r == x.s && x.stride.h == x.stride.w && x.dilation.h == 1 && x.dilation.w == 1;
  for (int i = 0; isPlain && i < kTileCount; ++i) {
    if (kTiles[i].filter == x.r && kTiles[i].stride == x.stride.h) return i;
  }
  return kTileCount - 1;
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
 * In cycles, counted from the machine code and not yet fitted to times: those that a scheduler is busy with a warp, for
 * the warp as a whole, an input element and an output beside its multiply-adds; those that a warp waits, for its first
 * instructions and each time that it has used up what was ahead.
 */
struct Model {
  double warp = 200, input = 8, output = 12, start = 800, ahead = 600;
};

/** Cycles of a scheduler for a warp. */
double busyCycles(const Tile& tile, const Shape& x, int run) {
  constexpr Model model;
  const double taps = static_cast<double>(x.r) * x.s;
  const double outputs = static_cast<double>(run) * tile.columns;
  const double inputs =
      isStrips(tile) ? ((run - 1.0) * tile.stride + tile.filter) * inputColumns(tile.filter, tile.stride, tile.columns)
                     : taps * outputs;
  return model.warp + inputs * model.input + outputs * (kChannels * taps + model.output);
}

/** Cycles from a warp's beginning to its end where it is alone. */
double aloneCycles(const Tile& tile, const Shape& x, int run) {
  constexpr Model model;
  const double waits = isStrips(tile) ? std::ceil(((run - 1.0) * tile.stride + tile.filter) / tile.ahead)
                                      : static_cast<double>(x.r) * x.s / 2;
  return model.start + waits * model.ahead + busyCycles(tile, x, run);
}

double clockOf(const GpuTraits& traits) { return traits.flopsPerSecond / (2 * 128.0 * traits.multiprocessors); }

/** Cycles to move the tensors; input rows that two runs read come from the second cache, at half of the cost. */
double movedCycles(const Shape& x, const GpuTraits& traits, int run) {
  const double inputRows = (run - 1.0) * x.strideH + (x.r - 1.0) * x.dilationH + 1;
  const double again = std::max(inputRows * std::ceil(static_cast<double>(x.p) / run) / x.h - 1, 0.0);
  const double input = kHalfBytes * x.n * x.c * static_cast<double>(x.h) * x.w;
  const double output = kHalfBytes * x.n * x.k * static_cast<double>(x.p) * x.q;
  const double perSecond =
      input + output < static_cast<double>(traits.l2Bytes) ? 2 * traits.bytesPerSecond : traits.bytesPerSecond;
  constexpr double kShareOfBandwidth = 0.85;
  return (input * (1 + again / 2) + output) / (kShareOfBandwidth * perSecond) * clockOf(traits);
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
  const double moved = movedCycles(x, traits, plan.run);
  // Of the shorter of the two a tenth is not hidden by the other.
  const double cycles = std::max(computed, moved) + 0.1 * std::min(computed, moved);
  constexpr double kLaunchMilliseconds = 1.3e-3;
  return kLaunchMilliseconds + cycles / clockOf(traits) * 1e3;
}

FilterForm formOf(const ConvProblem& x) {
  return makeForm(FilterOrder::depthwise, x, x.weightSize() * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

Plan planRun(const GpuRequest& request, int run) {
  const Shape x = shapeOf(request.problem);
  const int index = chooseTile(request.problem);
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

Plan planDepthwise(const GpuRequest& request) {
  const auto rows = static_cast<int>(request.problem.p);
  Plan best = planRun(request, 1);
  constexpr int kMostRows = 128;
  for (int run = 2; isStrips(kTiles[best.tile]) && run <= std::min(rows, kMostRows); ++run) {
    // Several lengths give the same number of runs: only the shortest is tried.
    if (ceilDivide(rows, ceilDivide(rows, run)) != run) continue;
    const Plan plan = planRun(request, run);
    if (plan.milliseconds < best.milliseconds) best = plan;
  }
  return best;
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
