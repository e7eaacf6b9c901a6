#include <algorithm>
#include <cmath>
#include <string>

#include "cuda/implicit/implicit.h"
#include "cuda/implicit/plan.h"
#include "cuda/planning/considered_tiles.h"
#include "cuda/planning/half_format.h"
#include "cuda/planning/shape.h"
#include "divide.h"

namespace warpconv::cuda {
namespace implicit {
namespace {

/**
 * Sums of so many products take less time than the copies of their residuals. In tiles of 128x128 on an H200, 1 x 1
 * convolutions of 64 channels were 5 to 9 % faster with more boxes, those of 256 and 512 8 to 14 % with more stages.
 */
constexpr int64_t kShortSum = 128;
/** Of each block the system takes a part. */
constexpr int64_t kReservedBytes = 1024;

/** Pixels lie a multiple of as many elements apart: the copy engine counts in pieces of 16 bytes. */
int64_t pieceOf(FloatType type) { return kPieceBytes / widthOf(type); }

/**
 * Whether outputs can go through boxes of the copy engine, which writes whole pieces of 16 bytes: on an H200 it wrote
 * seven elements beyond a channel that was the last.
 */
bool isBoxed(const ConvProblem& x) {
  const FloatType type = x.format.input.type;
  return x.format.residual.type == type && x.format.output.type == type && x.k % pieceOf(type) == 0;
}

/** Of a tap, that a stage has */
int64_t chunkChannels(const ConvProblem& x) { return kRowBytes / widthOf(x.format.input.type); }

int64_t tilesN(const ConvProblem& x, const ImplicitTile& tile) { return ceilDivide(x.k, tile.filters); }

/** As many as blocks that share a multiprocessor have room for. */
int stagesOf(const GpuTraits& traits, const ImplicitTile& tile, int64_t sharing, int64_t otherBytes) {
  const int64_t each = traits.sharedBytesPerMultiprocessor / sharing - kReservedBytes;
  const int64_t room = std::min<int64_t>(each, mostSharedBytes(traits)) - kBarrierBytes - otherBytes;
  return static_cast<int>(std::clamp<int64_t>(room / tile.stageBytes(), 1, kMostStages));
}

double milliseconds(const GpuRequest& request, const Plan& plan, const Model& model) {
  const ConvProblem& x = request.problem;
  const GpuTraits& traits = request.traits;
  const ImplicitTile tile = tileOf(x, plan.tile);
  const int64_t tiles = tileCount(x, tile);
  // Tiles that a block makes one after the other, and that its multiprocessor does
  const int64_t own = plan.persists ? ceilDivide(tiles, plan.blocks) : 1;
  const int64_t all = plan.persists ? own * ceilDivide(plan.blocks, traits.multiprocessors)
                                    : ceilDivide(plan.blocks, multiprocessorsInUse(traits, plan.split));
  const auto chunks = static_cast<double>(ceilDivide(chunksOf(x), plan.split));
  const double chunk = model.chunks[plan.tile], outputs = model.piece * tile.pieces();
  const double alone = static_cast<double>(own) * (chunks * std::max(model.chunk, chunk) + outputs);
  const double together = static_cast<double>(all) * (chunks * chunk + model.shared * outputs * tile.warpgroups());
  const double cycles = model.begin + std::max(alone, together) + model.cluster * std::log2(plan.split);
  const double arithmetic = cycles / (traits.flopsPerSecond / (2 * 128.0 * traits.multiprocessors));
  const auto width = static_cast<double>(widthOf(x.format.input.type));
  const double moved = width * static_cast<double>(x.inputSize() + x.weightSize() + x.outputSize());
  const double memory = moved / (model.shareOfBandwidth * traits.bytesPerSecond);
  // Neither hides behind the other where both take about as long.
  return 1e3 * std::cbrt(std::pow(arithmetic, 3) + std::pow(memory, 3));
}

std::vector<Plan> planTiles(const GpuRequest& request) {
  std::vector<Plan> plans;
  for (int tile = 0; tile < kTileCount; ++tile) {
    if (!request.variant.empty() && request.variant != kTiles[tile].variant) continue;
    if (!canTake(kTiles[tile].tile, request.problem)) continue;
    Plan best = planTile(request, tile, 1);
    // A cluster makes one tile.
    for (int split = 2;
         kTiles[tile].tile.canBeSingle() && split <= std::min<int64_t>(kMostSplit, chunksOf(request.problem));
         split *= 2) {
      const Plan plan = planTile(request, tile, split);
      if (plan.persists ||
          plan.blocks > int64_t{kTiles[tile].tile.held} * multiprocessorsInUse(request.traits, split)) {
        break;
      }
      if (plan.milliseconds < best.milliseconds) best = plan;
    }
    plans.push_back(best);
  }
  return plans;
}

bool isFaster(const Plan& a, const Plan& b) { return a.milliseconds < b.milliseconds; }

Tiles extentsOf(const Plan& plan) {
  const ImplicitTile& tile = kTiles[plan.tile].tile;
  return {{"blockM", tile.pixels}, {"blockN", tile.filters}, {"splits", plan.split}, {"stages", plan.rooms.stages}};
}

/** The sentence that refuses how tensors lie, or nothing. */
std::optional<std::string> refuseFormat(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  const TensorFormat& input = x.format.input;
  const bool isTaken = isHalf(input.type) || request.precision != Precision::fp32;
  for (const TensorFormat& one : {x.format.residual, x.format.output}) {
    if (!isTaken || input.layout != Layout::nhwc || one.layout != Layout::nhwc ||
        (isHalf(one.type) && one.type != input.type)) {
      return "takes an input in NHWC of 16-bit floats, or of float32 where the precision lets products be of TF32, and "
             "a "
             "residual and an output in NHWC of that type or of float32";
    }
  }
  const int64_t piece = pieceOf(input.type);
  if (pitchOf(input, x.c) % piece != 0 || pitchOf(x.format.residual, x.k) % piece != 0 ||
      pitchOf(x.format.output, x.k) % piece != 0) {
    return "takes tensors whose pixels lie a multiple of " + std::to_string(piece) + " elements apart";
  }
  return std::nullopt;
}

/** What the copy engine's maps of windows have room for. */
std::optional<std::string> refuseWindows(const ConvProblem& x) {
  constexpr int64_t kMostStride = 8, kMostCorner = 127, kMostReach = 255;
  const int64_t rows = (x.r - 1) * x.dilation.h, columns = (x.s - 1) * x.dilation.w;
  const bool fits = std::max(x.stride.h, x.stride.w) <= kMostStride && std::max(rows, columns) <= kMostReach &&
                    std::max(x.padding.top, x.padding.left) <= kMostCorner &&
                    std::max(x.padding.bottom - rows, x.padding.right - columns) <= kMostCorner &&
                    std::min(x.padding.bottom - rows, x.padding.right - columns) >= -kMostCorner;
  if (fits) return std::nullopt;
  return "takes strides up to 8, padding up to 127, and filters that reach less than 128 elements beyond it";
}

}  // namespace

ImplicitTile tileOf(const ConvProblem& x, int index) {
  return kTiles[index].tile.ofWidth(static_cast<int>(widthOf(x.format.input.type)));
}

int64_t chunksOf(const ConvProblem& x) { return x.r * x.s * ceilDivide(x.c, chunkChannels(x)); }

int64_t filterRows(const ConvProblem& x) { return roundUp(x.k, kFilterRows); }

FilterForm formOf(const ConvProblem& x) {
  const int64_t bytes = saturatedProduct({chunksOf(x), filterRows(x), kRowBytes});
  return makeForm(FilterOrder::implicit, x, bytes, static_cast<int64_t>(x.format.input.type));
}

int64_t tileCount(const ConvProblem& x, const ImplicitTile& tile) {
  return ceilDivide(x.n * x.p * x.q, tile.pixels) * tilesN(x, tile);
}

bool canTake(const ImplicitTile& tile, const ConvProblem& x) { return tile.canBeSingle() || isBoxed(x); }

int sharedBytes(const ImplicitTile& tile, const Plan& plan, const Rooms& rooms) {
  const int exchanged = plan.split > 1 ? 4 * tile.pixels * tile.filters : 0;
  return (plan.persists ? tile.outputBytes(rooms.heldBoxes) : 0) +
         std::max(rooms.stages * tile.stageBytes(), exchanged) + kBarrierBytes;
}

int mostSharedBytes(const GpuTraits& traits) { return static_cast<int>(traits.sharedBytesPerBlock); }

Plan planTile(const GpuRequest& request, int index, int split, const Model& model) {
  const ImplicitTile tile = tileOf(request.problem, index);
  const GpuTraits& traits = request.traits;
  const int64_t blocks = tileCount(request.problem, tile) * split;
  const int64_t sharing = std::clamp<int64_t>(ceilDivide(blocks, traits.multiprocessors), 1, tile.held);
  Plan plan{index, split};
  plan.persists = !tile.canBeSingle() || (isBoxed(request.problem) && blocks > sharing * traits.multiprocessors);
  plan.blocks = plan.persists ? std::min(blocks, sharing * traits.multiprocessors) : blocks;
  if (plan.persists) {
    const auto roomsFor = [&](bool more) {
      const int held = tile.heldBoxes(more);
      return Rooms{stagesOf(traits, tile, sharing, tile.outputBytes(held)), held};
    };
    // More boxes let a residual arrive before it is added. Longer sums leave it the time, and gain more by stages.
    plan.rooms = roomsFor(false);
    plan.residualRooms = roomsFor(request.problem.filterSize() <= kShortSum);
  } else {
    // No more than a block has chunks, and such that the next kernel's blocks have room beside it.
    const int64_t chunks = ceilDivide(chunksOf(request.problem), split);
    plan.rooms.stages =
        static_cast<int>(std::min<int64_t>(stagesOf(traits, tile, std::max<int64_t>(sharing, 2), 0), chunks));
    plan.residualRooms = plan.rooms;
  }
  plan.milliseconds = milliseconds(request, plan, model);
  return plan;
}

Plan planImplicit(const GpuRequest& request) {
  const std::vector<Plan> plans = planTiles(request);
  return *std::min_element(plans.begin(), plans.end(), isFaster);
}

}  // namespace implicit

std::optional<std::string> refuseImplicit(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  if (auto refusal = implicit::refuseFormat(request)) return refusal;
  if (auto refusal = refuseWarpgroupProducts(request.traits)) return refusal;
  if (auto refusal = refuseLarge(x)) return refusal;
  if (x.groups > 1) return "takes one group of channels; this problem has " + std::to_string(x.groups);
  if (auto refusal = implicit::refuseWindows(x)) return refusal;
  if (implicit::planTiles(request).empty())
    return "has no kernel of that tile for halves whose residual or output is of float32, or for output channels that "
           "are no multiple of " +
           std::to_string(implicit::pieceOf(x.format.input.type));
  const int64_t chunk = implicit::chunkChannels(x);
  if (implicit::chunksOf(x) * implicit::filterRows(x) > kMaxExtent / chunk) {
    return "takes filters of fewer than 2^31 elements, channels rounded up to " + std::to_string(chunk);
  }
  return std::nullopt;
}

ConvFormat formatImplicit(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  if (request.precision == Precision::tf32 && !isHalf(x.format.input.type)) {
    return pixelsFormat(x, FloatType::float32, implicit::pieceOf(FloatType::float32));
  }
  return halfFormat(request, implicit::pieceOf(FloatType::float16));
}

Estimate estimateImplicit(const GpuRequest& request) {
  const implicit::Plan plan = implicit::planImplicit(request);
  Estimate estimate{plan.milliseconds, 0, implicit::extentsOf(plan)};
  if (request.variant.empty()) {
    estimate.considered = [request, plan] {
      return consideredTiles(implicit::kTiles, implicit::planTiles(request), plan, implicit::extentsOf);
    };
  }
  return estimate;
}

std::vector<FilterForm> formsImplicit(const GpuRequest& request, const Weights&) {
  return {implicit::formOf(request.problem)};
}

}  // namespace warpconv::cuda
