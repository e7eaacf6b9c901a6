#include "cuda/pointwise/dynamic/blocking.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "divide.h"

namespace warpconv::cuda::pointwise {
namespace {

constexpr int kHighestBlockTile = 32;
/** Two M_A are close when the smaller is at least this share of the larger: less than tile edges cost. */
constexpr double kClose = 0.9;

/** Seconds of the paper's kernel: for each step of C_num channels, for each tile besides, and for a launch in a graph
 */
constexpr double kPaperStep = 0.4e-6;
constexpr double kPaperTile = 2e-6;
constexpr double kPaperLaunch = 0.61e-6;

/** BlockTile_W and BlockTile_H of a layout: W lies across the lanes. */
struct BlockTile {
  Layout layout;
  int64_t width;
  int64_t height;
  int iterations;
};

/**
 * The top of the paper's partitioning. The filters' side of a block tile is K, halved for many filters (and again while
 * no kernel is that wide, which the paper's networks do not need); the pixels' side is what fills the multiprocessor,
 * at most 32 at a time.
 */
BlockTile blockTileOf(const Matrix& x, int residentBlocks) {
  const Layout layout = x.filters >= 48 ? Layout::filtersAcrossLanes : Layout::pixelsAcrossLanes;
  const int64_t halvedFrom = layout == Layout::filtersAcrossLanes ? 512 : 24;
  int64_t filters = x.filters >= halvedFrom ? ceilDivide(x.filters, 2) : x.filters;
  while (filters > 512) filters = ceilDivide(filters, 2);
  const int64_t pixels = std::max<int64_t>(x.outputsPerMultiprocessor / (filters * residentBlocks), 1);
  const int iterations = static_cast<int>(std::max<int64_t>(pixels / kHighestBlockTile, 1));
  const int64_t capped = std::min<int64_t>(pixels, kHighestBlockTile);
  if (layout == Layout::filtersAcrossLanes) return {layout, filters, capped, iterations};
  return {layout, capped, filters, iterations};
}

/** T_num, rounded up. */
int64_t elementsFor(const BlockTile& block, int channels) {
  return ceilDivide(ceilDivide(block.width, 2), kWarpSize / channels);
}

/** Those of kDynamicTiles, which has them side by side. */
std::span<const DynamicTile> dynamicTilesOf(Layout layout, int channels) {
  constexpr auto choice = [](const DynamicTile& tile) { return std::pair(tile.layout, tile.channels); };
  static_assert(std::ranges::is_sorted(kDynamicTiles, {}, choice));
  const auto found = std::ranges::equal_range(kDynamicTiles, std::pair(layout, channels), {}, choice);
  return {found.begin(), found.end()};
}

/**
 * The kernel for a channel count: T_num and Warp_H, both rounded to what exists, T_num up and Warp_H down. Nothing
 * where none does.
 */
std::optional<DynamicTile> tileFor(const BlockTile& block, int channels) {
  const int64_t elements = elementsFor(block, channels);
  const int64_t height = std::min(elements, std::max<int64_t>(block.height / 2, 1));
  std::optional<DynamicTile> best;
  for (const DynamicTile& tile : dynamicTilesOf(block.layout, channels)) {
    if (tile.elements < elements || tile.height > height) continue;
    if (best && tile.elements > best->elements) continue;
    best = tile;
  }
  return best;
}

/** Blocks of a tile that a multiprocessor can hold. */
int64_t residentBlocks(const DynamicTile& tile, const GpuTraits& traits) {
  const int64_t byShared = traits.sharedBytesPerMultiprocessor / (tile.sharedBytes() + kReservedBytes);
  const int64_t byRegisters = traits.registersPerMultiprocessor / (DynamicTile::kDynamicThreads * tile.registers());
  return std::max<int64_t>(std::min({byShared, byRegisters, int64_t{8}}), 1);
}

/**
 * The paper's kernel, roughly: it waits for each step's loads, unless enough blocks hide that. Only its order of
 * magnitude matters: on an H200 other families are faster on every layer of the bench, by 1.4 to 26 times.
 */
double predictDynamic(const Matrix& x, const Candidate& candidate, const GpuTraits& traits) {
  const auto& tile = std::get<DynamicTile>(candidate.tile);
  const double chunks = static_cast<double>(ceilDivide(x.channels, tile.channels));
  const double copies = tile.elements / 2.0 + tile.height * tile.channels / 64.0;
  const double instructions = tile.elements * tile.height + tile.elements + tile.height + 6 * copies + 12;
  const int64_t grid = tilesOf(x, tile.blockFilters(), int64_t{tile.blockPixels()} * candidate.iterations);
  const double rounds =
      std::ceil(static_cast<double>(grid) / static_cast<double>(traits.multiprocessors * residentBlocks(tile, traits)));
  const double issue =
      static_cast<double>(candidate.blocks) / traits.multiprocessors * 4 * chunks * instructions * x.instructionSeconds;
  const double latency = rounds * candidate.iterations * (chunks * kPaperStep + kPaperTile);
  return 1e3 * (kPaperLaunch + std::max({issue, latency, x.tensorBytes / traits.bytesPerSecond}));
}

/** Rules a candidate out by the paper's constraints. */
void holdToConstraints(Candidate& candidate, int blocks, const GpuTraits& traits) {
  const int64_t registers = traits.registersPerMultiprocessor / (blocks * DynamicTile::kDynamicThreads);
  // Both of the paper's are shares of a multiprocessor; a block may be limited to less.
  const int64_t bytes = std::min(traits.sharedBytesPerMultiprocessor / blocks, traits.sharedBytesPerBlock);
  if (candidate.registers > registers) {
    candidate.loss = Loss::registers, candidate.limit = registers;
  } else if (candidate.sharedBytes > bytes) {
    candidate.loss = Loss::sharedBytes, candidate.limit = bytes;
  }
}

Candidate candidateFor(const Matrix& x, int blocks, int channels, const GpuTraits& traits) {
  const BlockTile block = blockTileOf(x, blocks);
  Candidate candidate;
  candidate.paper = {block.layout, channels, blocks};
  candidate.iterations = block.iterations;
  if (kWarpSize / channels >= ceilDivide(block.width, 2) * 2) {
    candidate.loss = Loss::halfOfLanes;
    return candidate;
  }
  const std::optional<DynamicTile> found = tileFor(block, channels);
  if (!found) {
    candidate.loss = Loss::noKernel, candidate.limit = elementsFor(block, channels);
    return candidate;
  }
  const DynamicTile& tile = *found;
  candidate.tile = tile;
  const double width = tile.blockWidth();
  const double height = tile.blockHeight();
  // The paper's Warp_H * T_num * Iter / (R_tmpf + R_tmpi), in which C_num cancels.
  candidate.intensity = width * height * block.iterations / (width + height);
  candidate.blocks = tilesOf(x, tile.blockFilters(), tile.blockPixels());
  candidate.registers = tile.registers();
  candidate.sharedBytes = tile.sharedBytes();
  candidate.milliseconds = predictDynamic(x, candidate, traits);
  holdToConstraints(candidate, blocks, traits);
  return candidate;
}

/** Whether `a` is the better of two whose M_A are close to the highest. */
bool isBetter(const Candidate& a, const Candidate& b) {
  if (a.blocks != b.blocks) return a.blocks < b.blocks;
  // Neither metric knows of C_num, which decides how many steps the channels take.
  return a.milliseconds < b.milliseconds;
}

/** Marks the best, if any, by the paper's metrics of those that nothing rules out; says of the others why they lost. */
void chooseOfPaper(std::vector<Candidate>& candidates) {
  double highest = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.isChosen()) highest = std::max(highest, candidate.intensity);
  }
  Candidate* best = nullptr;
  for (Candidate& candidate : candidates) {
    if (!candidate.isChosen()) continue;
    if (candidate.intensity < kClose * highest) {
      candidate.loss = Loss::lowerIntensity;
    } else if (best == nullptr || isBetter(candidate, *best)) {
      best = &candidate;
    }
  }
  for (Candidate& candidate : candidates) {
    if (&candidate == best || !candidate.isChosen()) continue;
    candidate.loss = candidate.blocks > best->blocks ? Loss::moreBlocks : Loss::slowerOfPaper;
  }
  if (best != nullptr) best->ofPaper = true;
}

}  // namespace

std::vector<Candidate> planBlocking(const Matrix& matrix, const GpuTraits& traits) {
  std::vector<Candidate> candidates;
  for (const int blocks : kResidentBlocks) {
    for (const int channels : kChannelCounts) candidates.push_back(candidateFor(matrix, blocks, channels, traits));
  }
  chooseOfPaper(candidates);
  return candidates;
}

Tiles DynamicTile::describe(const Candidate& candidate) const {
  return {{"layout", static_cast<int64_t>(layout)},
          {"C_num", channels},
          {"T_num", elements},
          {"Warp_H", height},
          {"BlockTile_W", blockWidth()},
          {"BlockTile_H", blockHeight()},
          {"Iter", candidate.iterations}};
}

}  // namespace warpconv::cuda::pointwise
