#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/im2win/im2win.h"
#include "cuda/im2win/plan.h"
#include "cuda/im2win/window_order.h"
#include "cuda/planning/considered_tiles.h"
#include "cuda/planning/shape.h"
#include "cuda/tensor_core/window_filters.h"

namespace warpconv::cuda {
namespace im2win {
namespace {

const Model& modelOf(const Models& models, const GemmTile& tile) {
  return tile.byWarpgroups() ? models.warpgroup : tile.onTensorCores() ? models.tensor : models.fma;
}

static_assert(std::ranges::all_of(kTiles, [](const NamedTile& named) {
  return !named.tile.byWarpgroups() || named.tile.blockK == kWindowFilterSteps;
}));

bool fitsMasks(const ConvProblem& x) { return x.r + x.s <= kMostMaskBits; }

bool fitsTensor(const ConvProblem& x) { return tensorElements(x) <= kMaxExtent; }

/** The variant's source; of the empty variant the better one that there is. */
Source sourceOf(const GpuRequest& request) {
  if (request.variant == "basic") return Source::tensorBasic;
  if (request.variant.starts_with("explicit")) return Source::tensor;
  if (request.variant.starts_with("implicit") || fitsMasks(request.problem)) return Source::input;
  return Source::tensor;
}

/** The tile that a variant pins, or -1. */
int pinnedTile(const std::string& variant) {
  for (int i = 0; i < kTileCount; ++i) {
    if (kTiles[i].variant == variant) return i;
  }
  return -1;
}

/**
 * Slots of a multiprocessor's four schedulers that pass while its first cache reads what a warp copies of a window. It
 * reads four sectors of 32 bytes in a cycle; 32 adjacent outputs read as many as the stride is apart, up to one each.
 */
double sectorSlots(int64_t stride) {
  constexpr int64_t kSectorFloats = 8;
  constexpr double kSchedulers = 4;
  return kSchedulers * static_cast<double>(std::min(stride, kSectorFloats) - 1);
}

/** Issue slots of a warp for one tile of the reduction. */
double tileSlots(const Model& model, const GemmTile& tile, int64_t strideW) {
  const double threads = tile.threads();
  const double copies = (model.windowCopy + sectorSlots(strideW)) * tile.blockK * tile.blockN / threads +
                        model.filterCopy * tile.blockK * tile.blockM / 4 / threads + model.loop;
  if (tile.onTensorCores()) {
    const double matrices = tile.threadM * tile.threadN / 4.0;
    return model.multiply * matrices * tile.blockK / tile.partsK / 8 + copies;
  }
  const double operands = tile.threadM / tile.pieceM() + tile.threadN / tile.pieceN();
  return tile.blockK * (model.multiply * tile.threadM * tile.threadN + model.operand * operands) + copies;
}

/** Shared memory that each block takes besides its own, from compute capability 8.0 on */
constexpr int64_t kReservedBytes = 1024;

/** On one multiprocessor, as far as registers (by the launch bound) and shared memory go. */
int64_t residentBlocks(const GpuTraits& traits, const GemmTile& tile) {
  const int64_t byShared = traits.sharedBytesPerMultiprocessor / (4 * tile.sharedFloats() + kReservedBytes);
  return std::clamp<int64_t>(byShared, 1, tile.blocksPerMultiprocessor);
}

/** Of what is moved at a share of the device's rate. */
double microsecondsOf(double bytes, double bytesPerSecond) { return bytes / bytesPerSecond * 1e6; }

/** What a tile takes for a problem; all that does not depend on the splits is found once. */
class TileCosts {
 public:
  TileCosts(const GpuRequest& request, const GemmTile& tile, const Models& models)
      : request_(request),
        tile_(tile),
        model_(modelOf(models, tile)),
        slots_(tileSlots(model_, tile, request.problem.stride.w)),
        outputCycles_(model_.output * (tile.blockM * tile.blockN / 128.0 * std::sqrt(tile.partsK))),
        resident_(residentBlocks(request.traits, tile)),
        reductionTiles_(ceilDivide(request.problem.filterSize(), tile.blockK)),
        movedPerSecond_(model_.moved * request.traits.bytesPerSecond),
        copiedPerSecond_(model_.copied * request.traits.bytesPerSecond) {
    const ConvProblem& x = request.problem;
    tiles_ = ceilDivide(x.groupOutputs(), tile.blockM) * ceilDivide(x.n * x.p * x.q, tile.blockN) * x.groups;
    outputs_ = x.outputSize();
    operands_ = x.inputSize() + x.weightSize();
  }

  int64_t reductionTiles() const { return reductionTiles_; }

  double milliseconds(int64_t splits) const {
    const GpuTraits& traits = request_.traits;
    const bool clustered = sumsInClusters(traits, splits);
    const int64_t blocks = tiles_ * splits, tilesEach = ceilDivide(reductionTiles_, splits);
    // Of a group of multiprocessors that share clusters, those left over by clusters of four and eight are idle.
    const int grouped = std::max(traits.multiprocessors * 10 / 11, 1);
    const int64_t multiprocessors = clustered && splits > 2 ? grouped : traits.multiprocessors;
    const int64_t sums = (clustered ? 1 : splits) * outputs_;
    const double moved = 4.0 * static_cast<double>(operands_ + sums);
    const double copied = 4.0 * static_cast<double>(blocks) *
                          static_cast<double>(tilesEach * tile_.blockK * (tile_.blockM + tile_.blockN));
    const double gemm =
        model_.kernel + std::max({computeMicroseconds(blocks, tilesEach, multiprocessors),
                                  microsecondsOf(moved, movedPerSecond_), microsecondsOf(copied, copiedPerSecond_)});
    if (splits == 1) return 1e-3 * gemm;
    if (clustered) return 1e-3 * (gemm + model_.cluster);
    const double summed = 4.0 * static_cast<double>(sums + outputs_);
    return 1e-3 * (gemm + model_.splitSum + microsecondsOf(summed, movedPerSecond_));
  }

 private:
  /**
   * Of the busiest multiprocessor, which issues one instruction a cycle in each of four parts. Cycles are those in
   * which 128 lanes would do the device's peak; where there are 64, they are half as long and all else is counted too
   * dear.
   */
  double computeMicroseconds(int64_t blocks, int64_t tilesEach, int64_t multiprocessors) const {
    const auto count = static_cast<double>(tilesEach);
    const int64_t here = ceilDivide(blocks, multiprocessors);
    const double throughput = static_cast<double>(here) * (tile_.threads() / 128.0 * count * slots_ + outputCycles_);
    const auto rounds = static_cast<double>(ceilDivide(here, resident_));
    const double latency = rounds * (count * (slots_ + model_.tileLatency) + model_.block);
    const double cycles = std::max(throughput, latency) + model_.notHidden * std::min(throughput, latency);
    return cycles * 2 * 128 * request_.traits.multiprocessors / request_.traits.flopsPerSecond * 1e6;
  }

  const GpuRequest& request_;
  const GemmTile& tile_;
  const Model& model_;
  double slots_, outputCycles_;
  int64_t resident_;
  /** Of the reduction: those that splits share; and of the output */
  int64_t reductionTiles_, tiles_;
  /** Elements of the output, and of input and filters */
  int64_t outputs_, operands_;
  double movedPerSecond_, copiedPerSecond_;
};

/** A tile with the number of splits that is best for it, of those that leave no split empty. */
Plan planTile(const GpuRequest& request, Source source, int tile) {
  Plan best{source, tile, 1, false, std::numeric_limits<double>::infinity()};
  const TileCosts costs(request, kTiles[tile].tile, kModels);
  const int64_t tiles = costs.reductionTiles();
  for (const int64_t wanted : {1, 2, 4, 8, 12, 16, 24, 32}) {
    if (wanted > tiles) break;
    const int64_t splits = ceilDivide(tiles, ceilDivide(tiles, wanted));
    const double milliseconds = costs.milliseconds(splits);
    if (milliseconds >= best.milliseconds) continue;
    best.splits = static_cast<int>(splits);
    best.clustered = sumsInClusters(request.traits, splits);
    best.milliseconds = milliseconds;
  }
  return best;
}

/** Each of the tiles that the planner chooses from. */
std::vector<Plan> planTiles(const GpuRequest& request, Source source) {
  std::vector<Plan> plans;
  const bool mayUseTensorCores = hasFastTensorCores(request.traits) && request.problem.filterSize() >= kLeastTensorSum;
  for (int tile = kFirstPlannedTile; tile < kTileCount; ++tile) {
    if (kTiles[tile].tile.onTensorCores() && !mayUseTensorCores) continue;
    if (kTiles[tile].tile.byWarpgroups() && !hasWarpgroupProducts(request.traits)) continue;
    plans.push_back(planTile(request, source, tile));
  }
  return plans;
}

Plan planGemm(const GpuRequest& request, Source source) {
  const int pinned = pinnedTile(request.variant);
  if (pinned >= kFirstPlannedTile) return planTile(request, source, pinned);
  // The paper's kernel and its ablations do not split.
  if (pinned >= 0) return {source, pinned, 1, false, gemmMilliseconds(request, kTiles[pinned].tile, 1)};
  const std::vector<Plan> plans = planTiles(request, source);
  return *std::min_element(plans.begin(), plans.end(),
                           [](const Plan& a, const Plan& b) { return a.milliseconds < b.milliseconds; });
}

Tiles tilesOf(const Plan& plan) {
  const GemmTile& tile = kTiles[plan.tile].tile;
  return {{"blockM", tile.blockM},   {"blockN", tile.blockN}, {"blockK", tile.blockK}, {"threadM", tile.threadM},
          {"threadN", tile.threadN}, {"stages", tile.stages}, {"splits", plan.splits}};
}

/** Of a pinned tile that this device has not got what multiplies for. */
std::optional<std::string> refuseTensorCores(const GpuRequest& request) {
  const int pinned = pinnedTile(request.variant);
  if (pinned < 0) return std::nullopt;
  const GemmTile& tile = kTiles[pinned].tile;
  if (tile.byWarpgroups()) return refuseWarpgroupProducts(request.traits);
  if (tile.onTensorCores()) return cuda::refuseTensorCores(request.traits);
  return std::nullopt;
}

double transformMilliseconds(const GpuRequest& request) {
  const double elements = static_cast<double>(tensorElements(request.problem) + request.problem.inputSize());
  // As measured with the tensor.
  constexpr double kKernel = 5, kShareOfBandwidth = 0.7;
  return 1e-3 * (kKernel + microsecondsOf(4 * elements, kShareOfBandwidth * request.traits.bytesPerSecond));
}

}  // namespace

bool sumsInClusters(const GpuTraits& traits, int64_t splits) {
  // What every device with clusters lets a cluster have.
  constexpr int64_t kMostBlocks = 8;
  return traits.computeCapability >= 90 && splits > 1 && splits <= kMostBlocks;
}

double gemmMilliseconds(const GpuRequest& request, const GemmTile& tile, int64_t splits, const Models& models) {
  return TileCosts(request, tile, models).milliseconds(splits);
}

Plan planIm2win(const GpuRequest& request) {
  const Source source = sourceOf(request);
  if (source == Source::tensorBasic) {
    // Two loads for each multiply-add. A guess: nothing but the ablation asks for it.
    constexpr double kShareOfPeak = 0.05;
    const double flops = 2 * request.problem.multiplyAdds();
    return {source, 0, 1, false,
            transformMilliseconds(request) + flops / (kShareOfPeak * request.traits.flopsPerSecond) * 1e3};
  }
  Plan plan = planGemm(request, source);
  if (source == Source::tensor) plan.milliseconds += transformMilliseconds(request);
  return plan;
}

int64_t stepsOf(const ConvProblem& x, const Plan& plan) {
  return roundUp(x.filterSize(), kTiles[plan.tile].tile.blockK);
}

bool takesRoundedFilters(const Plan& plan) {
  return plan.source != Source::tensorBasic && kTiles[plan.tile].tile.byWarpgroups();
}

FilterForm formOf(const ConvProblem& x, const Plan& plan) {
  return windowsForm(x, stepsOf(x, plan), takesRoundedFilters(plan));
}

Workspace workspaceOf(const ConvProblem& x, const Plan& plan) {
  constexpr int64_t kAlignment = 256;
  return {plan.source == Source::input ? 0 : roundUp(4 * tensorElements(x), kAlignment),
          plan.splits == 1 || plan.clustered ? 0 : 4 * x.outputSize() * plan.splits};
}

}  // namespace im2win

std::optional<std::string> refuseIm2win(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  if (auto refusal = refuseLarge(x)) return refusal;
  // The filters as they are kept: padded to four output channels and to the largest tile of the reduction.
  const int64_t filters = x.groups * roundUp(x.groupOutputs(), 4) * roundUp(x.filterSize(), im2win::kLargestBlockK);
  if (filters > kMaxExtent) {
    return "takes filters of fewer than 2^31 elements once padded to its tiles; this problem has " +
           std::to_string(filters);
  }
  if (auto refusal = im2win::refuseTensorCores(request)) return refusal;
  const bool wantsInput = request.variant.starts_with("implicit");
  if (wantsInput && !im2win::fitsMasks(x)) {
    return "takes filters of at most " + std::to_string(im2win::kMostMaskBits) +
           " rows and columns together without its tensor; this problem has " + std::to_string(x.r + x.s);
  }
  const bool needsTensor = !wantsInput && (!request.variant.empty() || !im2win::fitsMasks(x));
  if (needsTensor && !im2win::fitsTensor(x)) {
    return "takes problems whose im2win tensor has fewer than 2^31 elements; this problem's has " +
           std::to_string(im2win::tensorElements(x));
  }
  return std::nullopt;
}

Estimate estimateIm2win(const GpuRequest& request) {
  const im2win::Plan plan = im2win::planIm2win(request);
  const im2win::Workspace workspace = im2win::workspaceOf(request.problem, plan);
  Estimate estimate{plan.milliseconds, workspace.tensorBytes + workspace.sumBytes, {}};
  if (plan.source == im2win::Source::tensorBasic) return estimate;
  estimate.tiles = im2win::tilesOf(plan);
  const bool choseTile = request.variant.empty() || request.variant == "implicit";
  if (choseTile && plan.source == im2win::Source::input) {
    estimate.considered = [request, plan] {
      return consideredTiles(im2win::kTiles, im2win::planTiles(request, im2win::Source::input), plan, im2win::tilesOf);
    };
  }
  return estimate;
}

std::vector<FilterForm> formsIm2win(const GpuRequest& request, const Weights&) {
  return {im2win::formOf(request.problem, im2win::planIm2win(request))};
}

std::optional<std::string> packedIm2winVariant(const GpuRequest& request, const Weights& weights) {
  if (im2win::planIm2win(request).source != im2win::Source::input) return std::nullopt;
  std::vector<im2win::Plan> plans = im2win::planTiles(request, im2win::Source::input);
  std::erase_if(plans, [&](const im2win::Plan& plan) { return !im2win::formOf(request.problem, plan).isIn(weights); });
  return fastestTile(im2win::kTiles, plans);
}

}  // namespace warpconv::cuda
