#include "cuda/pointwise/planner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>

#include "divide.h"

namespace warpconv::cuda::pointwise {
namespace {

constexpr int kChannelCounts[] = {1, 2, 4, 8, 16, 32};
constexpr int kResidentBlocks[] = {2, 4};
constexpr int kHighestBlockTile = 32;
/** Two M_A are close when the smaller is at least this share of the larger: less than tile edges cost. */
constexpr double kClose = 0.9;
/** Of each tile of the extension with each split, and of the paper's */
constexpr int kSplits[] = {1, 2, 4, 8};
constexpr size_t kMostCandidates = std::size(kChannelCounts) * std::size(kResidentBlocks) +
                                   std::size(kSplits) * (std::size(kGemmTiles) + std::size(kTensorTiles) +
                                                         std::size(kStreamTiles) + std::size(kStreamTensorTiles) +
                                                         std::size(kWarpgroupTiles) + std::size(kRowsTiles) +
                                                         std::size(kTf32RowsTiles) + std::size(kBf16RowsTiles));
/** Shared memory that each block takes besides its own, from compute capability 8.0 on. */
constexpr int64_t kReservedBytes = 1024;

/** The output matrix as the planner sees it: of one group, and what one multiprocessor has to do of all groups. */
struct Matrix {
  int64_t filters;
  int64_t pixels;
  int64_t channels;
  int64_t groups;
  int64_t outputsPerMultiprocessor;
  /** Pixels can be copied by fours. */
  bool aligned;
  /** Input, output and filters, once each */
  double tensorBytes;
  /** Of the device: in which each of a multiprocessor's four parts issues an instruction of a warp */
  double instructionSeconds;
};

double tensorBytesOf(const ConvProblem& x) {
  return 4.0 * static_cast<double>(x.groups * (x.n * x.p * x.q * (x.groupInputs() + x.groupOutputs()) +
                                               x.groupInputs() * x.groupOutputs()));
}

Matrix matrixOf(const ConvProblem& x, const GpuTraits& traits) {
  return {x.groupOutputs(),
          x.n * x.p * x.q,
          x.groupInputs(),
          x.groups,
          ceilDivide(x.outputSize(), traits.multiprocessors),
          x.stride.h == 1 && x.stride.w == 1 && x.p * x.q % 4 == 0,
          tensorBytesOf(x),
          2.0 * kWarpSize * traits.multiprocessors / traits.flopsPerSecond};
}

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

int64_t tilesOf(const Matrix& x, int64_t filters, int64_t pixels) {
  return x.groups * ceilDivide(x.filters, filters) * ceilDivide(x.pixels, pixels);
}

/** Blocks of a tile that a multiprocessor can hold. */
int64_t residentBlocks(const DynamicTile& tile, const GpuTraits& traits) {
  const int64_t byShared = traits.sharedBytesPerMultiprocessor / (tile.sharedBytes() + kReservedBytes);
  const int64_t byRegisters = traits.registersPerMultiprocessor / (DynamicTile::kDynamicThreads * tile.registers());
  return std::max<int64_t>(std::min({byShared, byRegisters, int64_t{8}}), 1);
}

/**
 * The paper's kernel, roughly: it waits for each step's loads, unless enough blocks hide that. Only its order of
 * magnitude matters: on an H200 the extension is faster on every layer of the bench, by 1.4 to 26 times.
 */
double predictDynamic(const Matrix& x, const Candidate& candidate, const GpuTraits& traits) {
  const auto& tile = std::get<DynamicTile>(candidate.tile);
  const double chunks = static_cast<double>(ceilDivide(x.channels, tile.channels));
  const double copies = tile.elements / 2.0 + tile.height * tile.channels / 64.0;
  const double instructions = tile.elements * tile.height + tile.elements + tile.height + 6 * copies + 12;
  const int64_t grid = tilesOf(x, tile.blockFilters(), int64_t{tile.blockPixels()} * candidate.iterations);
  const double rounds =
      std::ceil(static_cast<double>(grid) / static_cast<double>(traits.multiprocessors * residentBlocks(tile, traits)));
  const double issue = static_cast<double>(candidate.blocks) / traits.multiprocessors * 4 * chunks * instructions *
                       x.instructionSeconds;
  const double latency = rounds * candidate.iterations * (chunks * kPaperStep + kPaperTile);
  return 1e3 * (kPaperLaunch + std::max({issue, latency, x.tensorBytes / traits.bytesPerSecond}));
}

/** A kernel of the extension as the prediction sees it. */
struct GemmKernel {
  const Model& model;
  int filters, pixels, channels, threads;
  /** Warps that share an output */
  int slices;
  /** Blocks that a multiprocessor holds */
  int64_t resident;
  /** Multiply-adds of a lane in one step, `channels` of the tile */
  double multiplied;
};

/** Of a block that has so many channels, of `split` that share them. */
template <typename Tile>
int64_t sharedBytesOf(const Tile& tile, int64_t channels, int split, bool aligned) {
  return sharedBytesFor(tile, channels, split, aligned) + tile.offsetBytes();
}

int64_t residentBlocks(int64_t sharedBytes, int most, const GpuTraits& traits) {
  return std::clamp<int64_t>(traits.sharedBytesPerMultiprocessor / (sharedBytes + kReservedBytes), 1, most);
}

GemmKernel kernelOf(const GemmTile& tile, int64_t sharedBytes, const GpuTraits& traits, const Models& models) {
  return {models.fma,
          tile.filters,
          tile.pixels,
          tile.stepChannels(),
          tile.threads(),
          tile.slices,
          residentBlocks(sharedBytes, tile.residentBlocks(), traits),
          double(tile.channels) * tile.threadFilters * tile.threadPixels / tile.slices};
}

/** Of a tile on tensor cores. */
GemmKernel kernelOf(const Model& model, const TensorBlock& block, int64_t resident) {
  return {model,           block.m,     block.n,  block.k,
          block.threads(), block.parts, resident, double(block.k) * block.threadM * block.threadN / block.parts};
}

GemmKernel kernelOf(const TensorTile& tile, int64_t sharedBytes, const GpuTraits& traits, const Models& models) {
  return kernelOf(models.tensor, tile.block, residentBlocks(sharedBytes, tile.residentBlocks, traits));
}

GemmKernel kernelOf(const StreamTensorTile& tile, int64_t sharedBytes, const GpuTraits& traits, const Models& models) {
  return kernelOf(models.streamTensor, tile.block(), residentBlocks(sharedBytes, tile.residentBlocks, traits));
}

/** Blocks of a tile, that are no more than registers let it hold, on a multiprocessor. */
template <typename Tile>
int64_t blocksHeld(const Tile& tile, int64_t sharedBytes, const GpuTraits& traits) {
  if constexpr (requires { tile.residentBlocks(); }) {
    return residentBlocks(sharedBytes, tile.residentBlocks(), traits);
  } else {
    return residentBlocks(sharedBytes, tile.residentBlocks, traits);
  }
}

/** Issue slots of a warp for one step. */
double stepSlots(const GemmKernel& kernel, bool aligned) {
  const Model& model = kernel.model;
  const double copied = kernel.filters / 4.0 + (aligned ? kernel.pixels / 4.0 : kernel.pixels);
  return model.multiply * kernel.multiplied + model.copy * copied * kernel.channels / kernel.threads + model.step;
}

double predictGemm(const Matrix& x, const Candidate& candidate, const GemmKernel& kernel, const GpuTraits& traits) {
  const Model& model = kernel.model;
  const double warps = kernel.threads / static_cast<double>(kWarpSize);
  const double steps = static_cast<double>(ceilDivide(ceilDivide(x.channels, kernel.channels), candidate.split));
  const double mostBlocks =
      static_cast<double>(ceilDivide(candidate.blocks, multiprocessorsInUse(traits, candidate.split)));
  const double atOnce = std::min(mostBlocks, static_cast<double>(kernel.resident));
  const double issue = stepSlots(kernel, x.aligned) * warps * x.instructionSeconds;
  const double step = std::max(atOnce * issue, issue + model.stepLatency);
  const double partials = kernel.slices * std::sqrt(candidate.split);
  const double store = model.storeOutput * kernel.filters * kernel.pixels / kernel.threads * partials *
                       std::max(1.0, atOnce * warps / model.storingWarps);
  const double compute = mostBlocks / atOnce * (model.blockLatency + steps * step + store);

  const bool cached = x.tensorBytes < static_cast<double>(traits.l2Bytes);
  const double moved = x.tensorBytes * (cached ? model.cached : model.uncached) / traits.bytesPerSecond;
  const double read = model.read * 4 * static_cast<double>(candidate.blocks / candidate.split) *
                      static_cast<double>(x.channels * (kernel.filters + kernel.pixels));
  return 1e3 * (model.launch + (candidate.split > 1 ? model.cluster : 0) + compute + moved + read);
}

double predictStream(const Matrix& x, const Candidate& candidate, const StreamTile& tile, const GpuTraits& traits,
                     const StreamModel& model) {
  const auto blocks = static_cast<double>(candidate.blocks);
  const auto most = static_cast<double>(ceilDivide(candidate.blocks, traits.multiprocessors));
  const auto sliceChannels = static_cast<double>(ceilDivide(x.channels, tile.slices));
  const double slots = sliceChannels * tile.filters * tile.threadPixels + model.warp;
  // Each of a multiprocessor's four parts issues for a warp of its own.
  const double warps = std::max(most * tile.threads() / kWarpSize, 4.0);
  const double joined = tile.slices > 1 ? model.joined * most * 4.0 * tile.slices * tile.filters * tile.pixels() : 0.0;
  const double stored = model.stored * 4 * static_cast<double>(x.groups * x.filters * x.pixels);
  const double read = model.read * 4 * blocks * static_cast<double>(x.channels * (tile.filters + tile.pixels()));
  return 1e3 * (model.block + warps * slots * x.instructionSeconds + joined + stored + read);
}

double predictWarpgroup(const Matrix& x, const Candidate& candidate, const WarpgroupTile& tile, const GpuTraits& traits,
                        const WarpgroupModel& model) {
  const int64_t channels = channelsOfBlock(x.channels, tile.unitChannels(), candidate.split);
  const auto most = static_cast<double>(ceilDivide(candidate.blocks, multiprocessorsInUse(traits, candidate.split)));
  const double atOnce = std::min(most, static_cast<double>(blocksHeld(tile, candidate.sharedBytes, traits)));
  const double chunks = tile.isPair(channels, x.aligned) ? model.pair : tile.chunks(channels);
  const double multiply = chunks * model.chunk * (1 + model.shared * (atOnce - 1));
  const double tileBytes = 4.0 * tile.kFilters * tile.pixels, blocks = static_cast<double>(candidate.blocks);
  const double sent = tileBytes * (candidate.split - 1) / candidate.split;
  const double store = model.stored * tileBytes / candidate.split * atOnce * (x.aligned ? 1.0 : model.unaligned);
  const double read = model.read * 4 * blocks * static_cast<double>(channels * (tile.kFilters + tile.pixels));
  return 1e3 * (most / atOnce * (model.block + multiply + store + model.exchanged * sent * atOnce) + read);
}

double predictRows(const Matrix& x, const Candidate& candidate, const auto& tile, const GpuTraits& traits,
                   const RowsModel& model) {
  const int64_t channels = channelsOfBlock(x.channels, tile.unitChannels(), candidate.split);
  const auto most = static_cast<double>(ceilDivide(candidate.blocks, multiprocessorsInUse(traits, candidate.split)));
  const double atOnce = std::min(most, static_cast<double>(blocksHeld(tile, candidate.sharedBytes, traits)));
  const double slower = (1 + model.shared * (atOnce - 1)) * (x.aligned ? 1.0 : model.unaligned);
  const double step = model.step + model.filter * tile.filters;
  const double steps = tile.chunks(channels) * (model.chunk + tile.chunkSteps * step) * slower;
  const double tileBytes = 4.0 * tile.filters * tile.kPixels, blocks = static_cast<double>(candidate.blocks);
  const double store = model.stored * tileBytes / candidate.split * slower;
  const double read = model.read * 4 * blocks * static_cast<double>(channels * (tile.filters + tile.kPixels));
  const double exchange = candidate.split > 1 ? model.exchanged * blocks * tileBytes : 0.0;
  return 1e3 * (most / atOnce * (model.block + steps + store) + read + exchange);
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

/** The extents of what a block computes. */
struct Patch {
  int filters, pixels;
};
template <typename Tile>
Patch patchOf(const Tile& tile) {
  if constexpr (std::is_same_v<Tile, TensorTile>) {
    return {tile.block.m, tile.block.n};
  } else if constexpr (std::is_same_v<Tile, StreamTensorTile>) {
    return {tile.m, tile.n};
  } else if constexpr (std::is_same_v<Tile, StreamTile>) {
    return {tile.filters, tile.pixels()};
  } else if constexpr (std::is_same_v<Tile, WarpgroupTile>) {
    return {tile.kFilters, tile.pixels};
  } else if constexpr (requires { tile.kPixels; }) {
    return {tile.filters, tile.kPixels};
  } else {
    return {tile.filters, tile.pixels};
  }
}

/** Of a tile, not split, and without the prediction. */
template <typename Tile>
Candidate extensionCandidate(const Matrix& x, const Tile& tile) {
  const auto [filters, pixels] = patchOf(tile);
  Candidate candidate;
  candidate.tile = tile;
  candidate.intensity = double(filters) * pixels / (filters + pixels);
  candidate.blocks = tilesOf(x, filters, pixels);
  candidate.registers = tile.registers();
  return candidate;
}

/** Milliseconds of a candidate of that tile. */
template <typename Tile>
double predict(const Matrix& x, const Candidate& candidate, const Tile& tile, const GpuTraits& traits,
               const Models& models) {
  if constexpr (std::is_same_v<Tile, StreamTile>) {
    return predictStream(x, candidate, tile, traits, models.stream);
  } else if constexpr (std::is_same_v<Tile, WarpgroupTile>) {
    return predictWarpgroup(x, candidate, tile, traits, models.warpgroup);
  } else if constexpr (std::is_same_v<Tile, RowsTile>) {
    return predictRows(x, candidate, tile, traits, models.rows);
  } else if constexpr (std::is_same_v<Tile, Tf32RowsTile>) {
    return predictRows(x, candidate, tile, traits, models.tf32Rows);
  } else if constexpr (std::is_same_v<Tile, Bf16RowsTile>) {
    return predictRows(x, candidate, tile, traits, models.bf16Rows);
  } else {
    return predictGemm(x, candidate, kernelOf(tile, candidate.sharedBytes, traits, models), traits);
  }
}

/** Whether a tile's pixels go straight to registers. */
template <typename Tile>
constexpr bool isStreamed = !std::is_same_v<Tile, GemmTile> && !std::is_same_v<Tile, TensorTile>;

/**
 * Streaming is for problems of which the device holds all blocks at once: a later block's filters are not brought while
 * the kernel before runs. With 128 images the fastest of them was 1 to 45 % slower than the fastest of the other
 * kernels here, on each of the bench's 15 layers. Where threads hold all channels there must be registers for them;
 * warpgroups take eight at a time.
 */
template <typename Tile>
bool isOffered(const Matrix& x, const Tile& tile, const Candidate& candidate, const GpuTraits& traits) {
  if constexpr (requires { tile.takes(x.channels); }) {
    if (!tile.takes(x.channels)) return false;
  }
  if constexpr (requires { tile.mostChannels(); }) {
    if (channelsOfBlock(x.channels, tile.unitChannels(), candidate.split) > tile.mostChannels()) return false;
  }
  if (!isStreamed<Tile>) return candidate.sharedBytes <= traits.sharedBytesPerBlock;
  const int64_t held = blocksHeld(tile, candidate.sharedBytes, traits) * traits.multiprocessors;
  return candidate.sharedBytes <= std::min(kMostStreamedBytes, traits.sharedBytesPerBlock) && candidate.blocks <= held;
}

/** Splits that tiles are offered with: where there are clusters, while each block has a stage of channels. */
template <typename Tile>
void addCandidates(const Matrix& x, std::span<const Tile> tiles, const GpuTraits& traits, const Models& models,
                   std::vector<Candidate>& candidates) {
  for (const Tile& tile : tiles) {
    const Candidate whole = extensionCandidate(x, tile);
    for (const int split : kSplits) {
      const bool worth = split == 1 || (traits.computeCapability >= 90 && tile.mayBeSplit(split) &&
                                        x.channels > (split - 1) * int64_t{tile.stepChannels()});
      if (!worth) continue;
      Candidate candidate = whole;
      candidate.split = split;
      candidate.blocks *= split;
      const int64_t channels = channelsOfBlock(x.channels, tile.unitChannels(), split);
      // Filters take more than a byte for each channel: so many do not fit, and their bytes may not fit into 32 bits.
      if (isStreamed<Tile> && channels > kMostStreamedBytes) continue;
      candidate.sharedBytes = sharedBytesOf(tile, channels, split, x.aligned);
      if (!isOffered(x, tile, candidate, traits)) continue;
      candidate.milliseconds = predict(x, candidate, tile, traits, models);
      candidates.push_back(candidate);
    }
  }
}

/** The fastest by prediction of the paper's choice and the extension. */
void choose(std::vector<Candidate>& candidates) {
  const auto slower = [](const Candidate& a, const Candidate& b) {
    if (a.isChosen() != b.isChosen()) return a.isChosen();
    return a.milliseconds < b.milliseconds;
  };
  const auto best = std::min_element(candidates.begin(), candidates.end(), slower);
  for (auto candidate = candidates.begin(); candidate != candidates.end(); ++candidate) {
    if (candidate != best && candidate->isChosen()) candidate->loss = Loss::slower;
  }
}

std::string sizesOf(int filters, int pixels) { return std::to_string(filters) + "x" + std::to_string(pixels); }
std::string sizesOf(int filters, int pixels, int slices) {
  return sizesOf(filters, pixels) + "x" + std::to_string(slices);
}
/** Nothing where the blocking leads to no kernel; the paper's are named by what they are planned from. */
struct TileName {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(const DynamicTile&) const { return {}; }
  std::string operator()(const GemmTile& tile) const { return sizesOf(tile.filters, tile.pixels, tile.slices); }
  std::string operator()(const TensorTile& tile) const {
    return "tensor-" + sizesOf(tile.block.m, tile.block.n, tile.block.parts);
  }
  std::string operator()(const StreamTile& tile) const {
    return "stream-" + sizesOf(tile.filters, tile.pixels(), tile.slices);
  }
  std::string operator()(const StreamTensorTile& tile) const {
    return "stream-tensor-" + sizesOf(tile.m, tile.n, tile.parts);
  }
  std::string operator()(const WarpgroupTile& tile) const { return "warpgroup-" + sizesOf(tile.kFilters, tile.pixels); }
  std::string operator()(const RowsTile& tile) const {
    return "rows-" + sizesOf(tile.filters, tile.kPixels, tile.chunkSteps);
  }
  std::string operator()(const Tf32RowsTile& tile) const {
    return "rows-tf32-" + sizesOf(tile.filters, tile.kPixels, tile.chunkSteps);
  }
  std::string operator()(const Bf16RowsTile& tile) const {
    return "rows-bf16-" + sizesOf(tile.filters, tile.kPixels, tile.chunkSteps);
  }
};

}  // namespace

std::string Candidate::name() const {
  if (paper.channels > 0) {
    const char* const layout = paper.layout == Layout::filtersAcrossLanes ? "L1-c" : "L2-c";
    return layout + std::to_string(paper.channels) + "-b" + std::to_string(paper.blocks);
  }
  const std::string name = std::visit(TileName{}, tile);
  return split > 1 ? name + "-s" + std::to_string(split) : name;
}

std::string Candidate::lost() const {
  switch (loss) {
    case Loss::none:
      return {};
    case Loss::halfOfLanes:
      return "leaves half of the lanes without an element";
    case Loss::noKernel:
      return "no kernel holds " + std::to_string(limit) + " elements a thread";
    case Loss::registers:
      return "needs " + std::to_string(registers) + " registers a thread where " + std::to_string(limit) + " are free";
    case Loss::sharedBytes:
      return "needs " + std::to_string(sharedBytes) + " bytes of shared memory a block where " + std::to_string(limit) +
             " are free";
    case Loss::lowerIntensity:
      return "has a lower arithmetic intensity";
    case Loss::moreBlocks:
      return "needs more blocks";
    case Loss::slowerOfPaper:
      return "is as good by both metrics but slower";
    case Loss::slower:
      return "is predicted slower";
  }
  return {};
}

std::vector<Candidate> planPointwise(const ConvProblem& problem, const GpuTraits& traits, const Models& models) {
  const Matrix matrix = matrixOf(problem, traits);
  std::vector<Candidate> candidates;
  candidates.reserve(kMostCandidates);
  for (const int blocks : kResidentBlocks) {
    for (const int channels : kChannelCounts) candidates.push_back(candidateFor(matrix, blocks, channels, traits));
  }
  chooseOfPaper(candidates);
  addCandidates<GemmTile>(matrix, kGemmTiles, traits, models, candidates);
  addCandidates<StreamTile>(matrix, kStreamTiles, traits, models, candidates);
  if (hasFastTensorCores(traits) && matrix.channels >= kLeastTensorSum) {
    addCandidates<TensorTile>(matrix, kTensorTiles, traits, models, candidates);
    addCandidates<StreamTensorTile>(matrix, kStreamTensorTiles, traits, models, candidates);
    if (hasWarpgroupProducts(traits)) {
      addCandidates<WarpgroupTile>(matrix, kWarpgroupTiles, traits, models, candidates);
      addCandidates<RowsTile>(matrix, kRowsTiles, traits, models, candidates);
      addCandidates<Tf32RowsTile>(matrix, kTf32RowsTiles, traits, models, candidates);
    }
  }
  if (hasWarpgroupProducts(traits)) {
    addCandidates<Bf16RowsTile>(matrix, kBf16RowsTiles, traits, models, candidates);
  }
  choose(candidates);
  return candidates;
}

int64_t pixelsOfTile(int64_t pixels, int most) { return roundUp(ceilDivide(pixels, ceilDivide(pixels, most)), 4); }

std::optional<Candidate> findCandidate(const std::vector<Candidate>& candidates, std::string_view variant) {
  for (const Candidate& candidate : candidates) {
    const bool wanted = variant.empty()            ? candidate.isChosen()
                        : variant == kPaperVariant ? candidate.ofPaper
                                                   : candidate.name() == variant;
    if (wanted && candidate.tile.index() != 0) return candidate;
  }
  return std::nullopt;
}

}  // namespace warpconv::cuda::pointwise
