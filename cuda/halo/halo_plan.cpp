#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cuda/halo/halo.h"
#include "cuda/halo/plan.h"
#include "cuda/planning/considered_tiles.h"
#include "cuda/planning/shape.h"
#include "divide.h"

namespace warpconv::cuda {
namespace halo {
namespace {

/** Of what shared memory has for each element of the patch, beside its halves */
constexpr int64_t kElementBytes = 8;
/** Shared memory beside what sharedBytes counts: barriers and the outputs' offsets */
constexpr int64_t kStaticBytes = 2048;

/** Rings of shared memory */
struct Rings {
  int stages = 0, slots = 0;
};

/**
 * As many stages as parts of chunks, and slots as groups of taps, as fit; none where fewer do than let a kernel go on.
 * Two of each would: of the present group and of the next, which is waited for once what the group before the present
 * one lies in is given back. With four slots, filters of two are on their way as well.
 */
Rings ringsOf(const GpuTraits& traits, const HaloTile& tile, const Grid& grid, int64_t chunks) {
  const auto wanted = static_cast<int>(std::min<int64_t>(kMostSlots, chunks * grid.groups()));
  const int least = std::min(wanted, 4), enough = std::min(wanted, 6);
  const auto slotsBeside = [&](int stages) {
    int slots = wanted;
    while (slots >= least && sharedBytes(tile, grid, stages, slots) > mostSharedBytes(traits, tile)) --slots;
    return slots;
  };
  const int most = static_cast<int>(std::min<int64_t>(kMostStages, chunks * grid.parts()));
  const int fewest = std::min(most, 2);
  for (int stages = most; stages > fewest; --stages) {
    if (const int slots = slotsBeside(stages); slots >= enough) return {stages, slots};
  }
  const int slots = slotsBeside(fewest);
  return slots >= least ? Rings{fewest, slots} : Rings{};
}

/** Blocks that a device runs at the same time. */
int64_t blocksAtOnce(const GpuTraits& traits, const HaloTile& tile, int cluster) {
  return tile.held * multiprocessorsInUse(traits, static_cast<int>(ceilDivide(cluster, tile.held)));
}

/** Of a block that multiplies `chunks` chunks, where `sharing` are on a multiprocessor. */
double multiplyCycles(const Model& model, int index, const Grid& grid, double chunks, int sharing) {
  const HaloTile& tile = kTiles[index].tile;
  const auto groups = chunks * static_cast<double>(grid.groups());
  const double parts = chunks * static_cast<double>(grid.parts());
  const int64_t together = grid.phases() / grid.parts() * patchOf(tile, grid);
  const auto sets = static_cast<double>(ceilDivide(together, 128));
  const double load =
      model.fetch * std::ceil(sets / tile.heldElements()) + model.elements * sets * 128 / tile.loaders();
  const double products = groups * model.groups[index] * (sharing > 1 ? model.shared : 1.0);
  const double bytes =
      sharing * (parts * 4 * kChunkChannels * static_cast<double>(together) + groups * tile.slotBytes());
  return load + std::max({products, (parts - 1) * load, bytes / model.cacheBytes});
}

/** A tile with the cluster that is best for it; of zero stages where it does not fit. */
Plan planTile(const GpuRequest& request, const Grid& grid, int tile) {
  Plan best{grid.layout, tile, 1, 0, 0, std::numeric_limits<double>::infinity()};
  const int64_t chunks = chunksOf(request.problem, grid);
  for (int wanted = 1; wanted <= kMostBlocks && wanted <= chunks; ++wanted) {
    const int64_t each = ceilDivide(chunks, wanted);
    if (ceilDivide(chunks, each) != wanted) continue;
    const Rings rings = ringsOf(request.traits, kTiles[tile].tile, grid, each);
    if (rings.stages == 0) continue;
    const double predicted = milliseconds(request, tile, grid, wanted);
    if (predicted < best.milliseconds) best = {grid.layout, tile, wanted, rings.stages, rings.slots, predicted};
  }
  return best;
}

bool isFaster(const Plan& a, const Plan& b) { return a.milliseconds < b.milliseconds; }

bool mayBe(const GpuRequest& request, const Grid& grid, const NamedTile& named) {
  return (request.variant.empty() || request.variant == named.variant) && grid.layout.inParts == named.tile.inParts;
}

/** Each of the tiles that fit, with the layout that is best for it. */
std::vector<Plan> planTiles(const GpuRequest& request) {
  std::vector<Grid> grids;
  for (const Layout& layout : layoutsOf(request.problem)) grids.push_back(makeGrid(request.problem, layout));
  std::vector<Plan> plans;
  for (int tile = 0; tile < kTileCount; ++tile) {
    std::optional<Plan> best;
    for (const Grid& grid : grids) {
      if (!mayBe(request, grid, kTiles[tile])) continue;
      const Plan plan = planTile(request, grid, tile);
      if (plan.stages > 0 && (!best || isFaster(plan, *best))) best = plan;
    }
    if (best) plans.push_back(*best);
  }
  return plans;
}

/** Whether planTiles would find any. */
bool fitsAny(const GpuRequest& request) {
  for (const Layout& layout : layoutsOf(request.problem)) {
    const Grid grid = makeGrid(request.problem, layout);
    for (int tile = 0; tile < kTileCount; ++tile) {
      if (mayBe(request, grid, kTiles[tile]) && planTile(request, grid, tile).stages > 0) return true;
    }
  }
  return false;
}

bool wantsParts(const GpuRequest& request) {
  return std::any_of(std::begin(kTiles), std::end(kTiles),
                     [&](const NamedTile& named) { return named.variant == request.variant && named.tile.inParts; });
}

Tiles tilesOf(const Plan& plan) {
  const HaloTile& tile = kTiles[plan.tile].tile;
  return {{"blockM", tile.blockM},
          {"blockN", tile.blockN},
          {"foldedRows", plan.layout.fold.h},
          {"foldedColumns", plan.layout.fold.w},
          {"stages", plan.stages},
          {"slots", plan.slots},
          {"splits", plan.cluster}};
}

}  // namespace

int64_t patchOf(const HaloTile& tile, const Grid& grid) { return tile.blockN + grid.reach; }

int64_t chunksOf(const ConvProblem& x, const Grid& grid) { return ceilDivide(foldedChannels(x, grid), kChunkChannels); }

int64_t tilesM(const ConvProblem& x, const HaloTile& tile) { return ceilDivide(x.groupOutputs(), tile.blockM); }

int64_t tilesN(const Grid& grid, const HaloTile& tile) { return ceilDivide(grid.outputPositions, tile.blockN); }

int64_t outputBlocksOf(const ConvProblem& x, const HaloTile& tile) { return tilesM(x, tile) * tile.warpgroupsM(); }

int64_t filterRows(const ConvProblem& x, const HaloTile& tile) {
  return x.groups * outputBlocksOf(x, tile) * kWarpgroupM;
}

int64_t filterWords(const ConvProblem& x, const HaloTile& tile, const Grid& grid) {
  return filterRows(x, tile) * chunksOf(x, grid) * grid.groups() * kGroupTaps * kChunkChannels;
}

FilterForm formOf(const ConvProblem& x, const Plan& plan) {
  const HaloTile& tile = kTiles[plan.tile].tile;
  const int64_t bytes = 4 * (filterWords(x, tile, makeGrid(x, plan.layout)) + filterRows(x, tile));
  // The order of taps follows from the fold, or in parts from the phase of each tap. Strides of parts are no more than
  // kMostParts, and folds no more than kMostFolded.
  const int64_t parts = x.stride.h | x.stride.w << 8 | x.dilation.h % x.stride.h << 16 | x.dilation.w % x.stride.w << 24;
  const int64_t order = plan.layout.fold.h | plan.layout.fold.w << 8 | (plan.layout.inParts ? parts : 0) << 16;
  return makeForm(FilterOrder::halo, x, bytes, outputBlocksOf(x, tile), order);
}

int64_t sharedBytes(const HaloTile& tile, const Grid& grid, int stages, int slots) {
  const int64_t patch = patchOf(tile, grid);
  const int64_t staged = saturatedProduct({stages, stageBytes(1), grid.phases() / grid.parts(), patch});
  const int64_t offsets = saturatedProduct({kElementBytes, grid.phases(), patch});
  return std::max<int64_t>(tile.outputBytes(), saturatedSum(saturatedSum(staged, slots * tile.slotBytes()), offsets));
}

int64_t mostSharedBytes(const GpuTraits& traits, const HaloTile& tile) {
  // Of each block on a multiprocessor the system takes a part.
  constexpr int64_t kReserved = 1024;
  return (traits.sharedBytesPerBlock + kReserved) / tile.held - kReserved - kStaticBytes;
}

double milliseconds(const GpuRequest& request, int index, const Grid& grid, int cluster, const Model& model) {
  const ConvProblem& x = request.problem;
  const GpuTraits& traits = request.traits;
  const HaloTile& tile = kTiles[index].tile;
  const auto chunks = static_cast<double>(ceilDivide(chunksOf(x, grid), cluster));
  const int64_t blocks = tilesM(x, tile) * tilesN(grid, tile) * x.groups * cluster;
  const int sharing = blocks > traits.multiprocessors ? tile.held : 1;
  const double outputs = model.output * tile.blockM * tile.blockN / tile.threads() / cluster;
  const double each =
      model.block + multiplyCycles(model, index, grid, chunks, sharing) + outputs + model.cluster * std::log2(cluster);
  const int64_t atOnce = blocksAtOnce(traits, tile, cluster);
  const auto rounds = static_cast<double>(ceilDivide(blocks, atOnce));
  const bool isCrowded = 2 * blocks > atOnce;
  const double folded = grid.layout.fold.h * grid.layout.fold.w > 1 ? model.folded : 0.0;
  const double waiting = cluster > 1 && rounds > 1 ? model.rounds : 1.0;
  const double cycles = rounds * each * waiting + (isCrowded ? model.crowded : 0.0) + folded;
  const double perSecond = traits.flopsPerSecond / (2 * 128.0 * traits.multiprocessors);
  const double moved = 4.0 * static_cast<double>(x.inputSize() + x.weightSize() + x.outputSize());
  // As fast as im2win moves tensors.
  constexpr double kShareOfBandwidth = 0.8;
  return 1e3 * std::max(cycles / perSecond, moved / (kShareOfBandwidth * traits.bytesPerSecond));
}

Plan planHalo(const GpuRequest& request) {
  const std::vector<Plan> plans = planTiles(request);
  return *std::min_element(plans.begin(), plans.end(), isFaster);
}

}  // namespace halo

std::optional<std::string> refuseHalo(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  if (auto refusal = refuseWarpgroupProducts(request.traits)) return refusal;
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
  const int64_t filters = x.groups * roundUp(x.groupOutputs(), 2 * halo::kWarpgroupM) *
                          roundUp(x.groupInputs(), halo::kChunkChannels) * x.r * x.s;
  if (std::max(grid.positions, filters) > kMaxExtent) {
    return "takes images and filters of fewer than 2^31 elements once padded to its tiles; this problem has " +
           std::to_string(std::max(grid.positions, filters));
  }
  if (halo::wantsParts(request) && !halo::canBeInParts(x)) {
    return "brings phases one after the other where pinned to " + request.variant +
           ", and there are none to tell apart: that takes strides, filters at least as large, and no more than " +
           std::to_string(halo::kMostParts) + " phases";
  }
  if (!halo::fitsAny(request)) {
    return "keeps the elements around a tile of outputs in shared memory, of which this device has too little for " +
           std::to_string(grid.reach) + " elements between the first and the last of a window";
  }
  return std::nullopt;
}

Estimate estimateHalo(const GpuRequest& request) {
  const halo::Plan plan = halo::planHalo(request);
  Estimate estimate{plan.milliseconds, 0, halo::tilesOf(plan)};
  if (request.variant.empty()) {
    estimate.considered = [request, plan] {
      return consideredTiles(halo::kTiles, halo::planTiles(request), plan, halo::tilesOf);
    };
  }
  return estimate;
}

std::vector<FilterForm> formsHalo(const GpuRequest& request, const Weights&) {
  return {halo::formOf(request.problem, halo::planHalo(request))};
}

std::optional<std::string> packedHaloVariant(const GpuRequest& request, const Weights& weights) {
  std::vector<halo::Plan> plans = halo::planTiles(request);
  std::erase_if(plans, [&](const halo::Plan& plan) { return !halo::formOf(request.problem, plan).isIn(weights); });
  return fastestTile(halo::kTiles, plans);
}

}  // namespace warpconv::cuda
