#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/halo/halo.h"
#include "cuda/halo/plan.h"
#include "cuda/shape.h"

namespace warpconv::cuda {
namespace halo {
namespace {

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t roundUp(int64_t a, int64_t b) { return ceilDivide(a, b) * b; }

/** Shared memory beside what sharedBytes counts: barriers and the outputs' offsets */
constexpr int64_t kStaticBytes = 2048;

/**
 * What the prediction of a kernel's time is made of, in cycles, fitted to 80 times of an H200: five tiles, some with
 * several numbers of blocks a cluster, on the named layers of 3 x 3 filters and larger ones, but for those of three
 * channels, at batch 1, and the fastest of six layers at batch 128; `output` again to 22 times of the fastest, when
 * outputs were written in less. Of these it is off by 12 % at most; `product` tells apart tiles that are equal otherwise.
 */
struct Model {
  /** Of a product for each column, and besides for those that take turns */
  double column, product;
  /** Of a block before and after its products; of a chunk, and each two elements of it that a loader brings */
  double block, chunk, elements;
  /** For an output of each thread, from its sum to its store; and for each doubling of a cluster */
  double output, cluster;
};
constexpr Model kModel{3.3, 20, 4320, 643, 1870, 117, 660};

/** Stages that fit, or 0: more than the chunks are of no use. */
int stagesOf(const GpuTraits& traits, const HaloTile& tile, const Grid& grid, int64_t chunks) {
  for (int stages = static_cast<int>(std::min<int64_t>(kMostStages, chunks)); stages > 0; --stages) {
    if (sharedBytes(tile, grid, stages) <= mostSharedBytes(traits)) return stages;
  }
  return 0;
}

double milliseconds(const GpuRequest& request, const HaloTile& tile, const Grid& grid, int cluster) {
  const ConvProblem& x = request.problem;
  const GpuTraits& traits = request.traits;
  const auto chunks = static_cast<double>(ceilDivide(chunksOf(x), cluster));
  const int64_t blocks = tilesM(x, tile) * tilesN(grid, tile) * x.groups * cluster;
  const auto rounds = static_cast<double>(ceilDivide(blocks, multiprocessorsInUse(traits, cluster)));
  const double products = chunks * static_cast<double>(grid.taps.size()) * tile.warpgroupsM() * tile.warpgroupsN() *
                          (kModel.column * tile.columns + kModel.product / tile.parts);
  const auto pairs = static_cast<double>(ceilDivide(patchPixels(tile, grid), 2 * kLoaders));
  const double chunk = kModel.chunk + kModel.elements * pairs;
  const double outputs = kModel.output * tile.blockM * tile.blockN / tile.threads() / cluster;
  const double sums = kModel.cluster * std::log2(cluster);
  const double cycles = rounds * (kModel.block + chunk + std::max(products, (chunks - 1) * chunk) + outputs + sums);
  const double perSecond = traits.flopsPerSecond / (2 * 128.0 * traits.multiprocessors);
  const double moved = 4.0 * static_cast<double>(x.inputSize() + x.weightSize() + x.outputSize());
  // As fast as im2win moves tensors.
  constexpr double kShareOfBandwidth = 0.8;
  return 1e3 * std::max(cycles / perSecond, moved / (kShareOfBandwidth * traits.bytesPerSecond));
}

/** A tile with the cluster that is best for it; of zero stages where it does not fit. */
Plan planTile(const GpuRequest& request, const Grid& grid, int tile) {
  Plan best{tile, 1, 0, std::numeric_limits<double>::infinity()};
  const int64_t chunks = chunksOf(request.problem);
  for (int wanted = 1; wanted <= kMostBlocks && wanted <= chunks; ++wanted) {
    const int64_t each = ceilDivide(chunks, wanted);
    if (ceilDivide(chunks, each) != wanted) continue;
    const int stages = stagesOf(request.traits, kTiles[tile].tile, grid, each);
    if (stages < std::min<int64_t>(2, each)) continue;
    const double predicted = milliseconds(request, kTiles[tile].tile, grid, wanted);
    if (predicted < best.milliseconds) best = {tile, wanted, stages, predicted};
  }
  return best;
}

/** Each of the tiles that fit. */
std::vector<Plan> planTiles(const GpuRequest& request, const Grid& grid) {
  std::vector<Plan> plans;
  for (int tile = 0; tile < kTileCount; ++tile) {
    if (!request.variant.empty() && request.variant != kTiles[tile].variant) continue;
    const Plan plan = planTile(request, grid, tile);
    if (plan.stages > 0) plans.push_back(plan);
  }
  return plans;
}

Tiles tilesOf(const Plan& plan) {
  const HaloTile& tile = kTiles[plan.tile].tile;
  return {{"blockM", tile.blockM},
          {"blockN", tile.blockN},
          {"parts", tile.parts},
          {"stages", plan.stages},
          {"splits", plan.cluster}};
}

std::vector<ConsideredKernel> considered(const std::vector<Plan>& plans, const Plan& chosen) {
  std::vector<ConsideredKernel> kernels;
  for (const Plan& plan : plans) {
    kernels.push_back({std::string(kTiles[plan.tile].variant),
                       tilesOf(plan),
                       {{"milliseconds", plan.milliseconds}},
                       plan.tile == chosen.tile ? "" : "is predicted slower"});
  }
  return kernels;
}

}  // namespace

int64_t patchPixels(const HaloTile& tile, const Grid& grid) { return grid.phases() * (tile.blockN + grid.reach); }

int64_t chunksOf(const ConvProblem& x) { return ceilDivide(x.groupInputs(), kChunkChannels); }

int64_t tilesM(const ConvProblem& x, const HaloTile& tile) { return ceilDivide(x.groupOutputs(), tile.blockM); }

int64_t tilesN(const Grid& grid, const HaloTile& tile) { return ceilDivide(grid.positions, tile.blockN); }

int64_t sharedBytes(const HaloTile& tile, const Grid& grid, int stages) {
  const int64_t pixels = patchPixels(tile, grid);
  return std::max<int64_t>(stages * stageBytes(pixels) + 4 * pixels, tile.outputBytes());
}

int64_t mostSharedBytes(const GpuTraits& traits) { return traits.sharedBytesPerBlock - kStaticBytes; }

Plan planHalo(const GpuRequest& request, const Grid& grid) {
  const std::vector<Plan> plans = planTiles(request, grid);
  return *std::min_element(plans.begin(), plans.end(),
                           [](const Plan& a, const Plan& b) { return a.milliseconds < b.milliseconds; });
}

}  // namespace halo

std::optional<std::string> refuseHalo(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  const int capability = request.traits.computeCapability;
  if (!hasWarpgroupProducts(request.traits)) {
    return "multiplies by warpgroups, which devices of compute capability 9.0 alone have; this device has " +
           std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  }
  if (auto refusal = refuseLarge(x)) return refusal;
  if (x.r * x.s == 1) return "reuses what several taps of a filter read; this problem's filters have one";
  if (x.r * x.s > halo::kMostTaps) {
    return "takes filters of at most " + std::to_string(halo::kMostTaps) + " rows times columns; this problem has " +
           std::to_string(x.r * x.s);
  }
  if (x.filterSize() < kLeastTensorSum) {
    return "takes sums of at least " + std::to_string(kLeastTensorSum) +
           " products, of fewer of which its error may be more than float32's; this problem's have " +
           std::to_string(x.filterSize());
  }
  const halo::Grid grid = halo::makeGrid(x);
  const int64_t filters = x.groups * halo::roundUp(x.groupOutputs(), 2 * halo::kWarpgroupM) *
                          halo::roundUp(x.groupInputs(), halo::kChunkChannels) * x.r * x.s;
  if (std::max(grid.positions, filters) > kMaxExtent) {
    return "takes images and filters of fewer than 2^31 elements once padded to its tiles; this problem has " +
           std::to_string(std::max(grid.positions, filters));
  }
  if (halo::planTiles(request, grid).empty()) {
    return "keeps the elements around a tile of outputs in shared memory, of which this device has too little for " +
           std::to_string(grid.reach) + " elements between the first and the last of a window";
  }
  return std::nullopt;
}

Estimate estimateHalo(const GpuRequest& request) {
  const halo::Grid grid = halo::makeGrid(request.problem);
  const halo::Plan plan = halo::planHalo(request, grid);
  Estimate estimate{plan.milliseconds, 0, halo::tilesOf(plan)};
  if (request.variant.empty()) {
    estimate.considered = [request, grid, plan] { return halo::considered(halo::planTiles(request, grid), plan); };
  }
  return estimate;
}

}  // namespace warpconv::cuda
