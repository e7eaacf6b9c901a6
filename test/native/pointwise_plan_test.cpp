#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "cuda/pointwise/planner.h"
#include "cuda/pointwise/pointwise.h"

using namespace warpconv;
using namespace warpconv::cuda;
using namespace warpconv::cuda::pointwise;

namespace {

/** An SM of the paper's GPU: 64 KB of registers and of shared memory; 68 of them. */
constexpr GpuTraits kTuring{75, 68, 65536, 64 * 1024, 64 * 1024, 4 << 20, 13e12, 6e11};
constexpr GpuTraits kHopper{90, 132, 65536, 228 * 1024, 227 * 1024, 50 << 20, 67e12, 3.3e12};

ConvProblem problemOf(int64_t batch, int64_t channels, int64_t extent, int64_t filters, int64_t groups = 1) {
  ConvRequest request;
  request.inputDims = {batch, channels, extent, extent};
  request.weightDims = {filters, channels / groups, 1, 1};
  request.groups = groups;
  return makeConvProblem(request).value();
}

Candidate candidateOf(const ConvProblem& problem, const GpuTraits& traits, std::string_view name) {
  const std::vector<Candidate> all = planPointwise(problem, traits);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Candidate& one) { return one.name() == name; });
  REQUIRE_MESSAGE(found != all.end(), name);
  return *found;
}

void checkTile(const Candidate& candidate, pointwise::Layout layout, int channels, int elements, int height) {
  INFO(candidate.name());
  const auto* tile = std::get_if<DynamicTile>(&candidate.tile);
  REQUIRE(tile != nullptr);
  CHECK(tile->layout == layout);
  CHECK(tile->channels == channels);
  CHECK(tile->elements == elements);
  CHECK(tile->height == height);
}

GpuRequest requestFor(const ConvProblem& problem, std::string variant, const GpuTraits& traits = kHopper) {
  return {problem, {}, std::move(variant), traits};
}

}  // namespace

// Worked by hand: 16 -> 96 channels at 112 x 112, batch 1, 68 multiprocessors.
//   O_sm = ceil(96 * 12544 / 68) = 17710. K = 96 >= 48: L1, BlockTile_W = 96, WarpTile_W = 48.
//   2 blocks: BlockTile_H = 17710 / 192 = 92, so Iter = 92 / 32 = 2 and BlockTile_H = 32, first Warp_H = 16.
//   C_num 1: Ele_count 32, T_num = 48 / 32, rounded up: 2; Warp_H = min(2, 16) = 2. Tile 128 x 4.
//   C_num 4: Ele_count 8, T_num 6, Warp_H 6, of which 4 exists. Tile 96 x 8.
//   C_num 8: Ele_count 4, T_num 12, Warp_H 12, of which 8 exists. Tile 96 x 16.
//   C_num 16: T_num 24 is more than any kernel has.
//   M_A of C_num 8 = 96 * 16 * 2 / 112 = 27.43; M_B = 1 * 12544 / 16 = 784.
//   Registers: R_o 96, R_i 12, R_f 8, R_tmpf 8 * 96 / 128 = 6, R_tmpi 8 * 16 / 128 = 1, const 40: 163.
//   Limits: 65536 / 256 = 256 with 2 blocks; 128 with 4.
//   Rows of 96 elements are padded to 100, whose remainder by 32 is Ele_count: 2 * 8 * (100 + 16) floats = 7424 bytes;
//   the staged tile, 96 * 16 floats, is smaller. 16 offsets of pixels: 7488.
TEST_CASE("L1: a layer of 96 filters is blocked as worked out by hand") {
  const ConvProblem problem = problemOf(1, 16, 112, 96);
  checkTile(candidateOf(problem, kTuring, "L1-c1-b2"), pointwise::Layout::filtersAcrossLanes, 1, 2, 2);
  checkTile(candidateOf(problem, kTuring, "L1-c4-b2"), pointwise::Layout::filtersAcrossLanes, 4, 6, 4);
  const Candidate best = candidateOf(problem, kTuring, "L1-c8-b2");
  checkTile(best, pointwise::Layout::filtersAcrossLanes, 8, 12, 8);
  CHECK(best.iterations == 2);
  CHECK(best.intensity == doctest::Approx(96.0 * 16 * 2 / 112));
  CHECK(best.blocks == 784);
  CHECK(best.registers == 163);
  CHECK(best.sharedBytes == 7488);
  CHECK(best.ofPaper);
  CHECK(candidateOf(problem, kTuring, "L1-c16-b2").lost() == "no kernel holds 24 elements a thread");
  CHECK(candidateOf(problem, kTuring, "L1-c8-b4").lost() == "needs 163 registers a thread where 128 are free");
  CHECK(candidateOf(problem, kTuring, "L1-c4-b2").lost() == "has a lower arithmetic intensity");
}

// 144 -> 32 channels at 28 x 28: O_sm = ceil(32 * 784 / 68) = 369. K = 32 < 48: L2; K >= 24: 16 filters a block.
//   2 blocks: 369 / (16 * 2) = 11 pixels, WarpTile_W = 6; first Warp_H = 16 / 2 = 8.
//   C_num 2: Ele_count 16 >= 12: half of the lanes idle. C_num 4: Ele_count 8, T_num 1, Warp_H 1: 16 pixels, 2 filters.
//   C_num 16: Ele_count 2, T_num 3, rounded up to 4 (a power of two), Warp_H min(3, 8), of which 2 exists.
//   C_num 32: Ele_count 1, T_num 6, rounded up to 8, Warp_H 6, of which 4 exists: 16 pixels, 8 filters.
//   M_A: C_num 32: 16 * 8 / 24 = 5.33; C_num 16: 16 * 4 / 20 = 3.2. M_B of C_num 32: (32 / 8) * (784 / 16) = 196.
TEST_CASE("L2: a layer of 32 filters is blocked as worked out by hand") {
  const ConvProblem problem = problemOf(1, 144, 28, 32);
  CHECK(candidateOf(problem, kTuring, "L2-c2-b2").lost() == "leaves half of the lanes without an element");
  checkTile(candidateOf(problem, kTuring, "L2-c4-b2"), pointwise::Layout::pixelsAcrossLanes, 4, 1, 1);
  checkTile(candidateOf(problem, kTuring, "L2-c16-b2"), pointwise::Layout::pixelsAcrossLanes, 16, 4, 2);
  const Candidate best = candidateOf(problem, kTuring, "L2-c32-b2");
  checkTile(best, pointwise::Layout::pixelsAcrossLanes, 32, 8, 4);
  CHECK(best.intensity == doctest::Approx(16.0 * 8 / 24));
  CHECK(best.blocks == 196);
  CHECK(best.ofPaper);
}

TEST_CASE("the layout follows the filters, and so does halving") {
  const auto widthAt = [](int64_t filters, std::string_view name) {
    return std::get<DynamicTile>(candidateOf(problemOf(8, 8, 56, filters), kTuring, name).tile).blockFilters();
  };
  CHECK(planPointwise(problemOf(8, 8, 56, 47), kTuring).front().name() == "L2-c1-b2");
  CHECK(planPointwise(problemOf(8, 8, 56, 48), kTuring).front().name() == "L1-c1-b2");
  // 511 filters are one tile of 512, 512 two of 256; 1280 are halved until a kernel is as wide: 320; 384 exists.
  CHECK(widthAt(511, "L1-c1-b2") == 512);
  CHECK(widthAt(512, "L1-c1-b2") == 256);
  CHECK(widthAt(1280, "L1-c1-b2") == 384);
  // 23 filters are one side of 2 * 8 at most, 24 are halved into two of 12: 2 * 4 exists.
  CHECK(widthAt(23, "L2-c16-b2") == 16);
  CHECK(widthAt(24, "L2-c16-b2") == 8);
}

TEST_CASE("every plan chooses one candidate that exists, and says of the others why they lost") {
  const std::set<std::string_view> names(std::begin(kVariants), std::end(kVariants));
  for (const GpuTraits& traits : {kTuring, kHopper}) {
    for (const int64_t filters : {1, 2, 23, 24, 47, 48, 96, 130, 511, 512, 2048, 5000}) {
      for (const int64_t extent : {1, 7, 28, 112}) {
        for (const int64_t channels : {1, 3, 64, 2048}) {
          const std::vector<Candidate> all = planPointwise(problemOf(2, channels, extent, filters), traits);
          CHECK(std::count_if(all.begin(), all.end(), [](const Candidate& one) { return one.isChosen(); }) == 1);
          CHECK(std::count_if(all.begin(), all.end(), [](const Candidate& one) { return one.ofPaper; }) <= 1);
          const std::optional<Candidate> chosen = findCandidate(all, "");
          REQUIRE(chosen.has_value());
          for (const Candidate& one : all) {
            CHECK(names.count(one.name()) == 1);
            if (std::holds_alternative<FmaTile>(one.tile)) CHECK(chosen->milliseconds <= one.milliseconds);
            const auto* tile = std::get_if<DynamicTile>(&one.tile);
            if (tile != nullptr) CHECK(std::count(kDynamicTiles.begin(), kDynamicTiles.end(), *tile) == 1);
          }
        }
      }
    }
  }
}

TEST_CASE("only GPUs with clusters are offered tiles that blocks share") {
  const ConvProblem problem = problemOf(1, 2048, 7, 512);
  const auto shared = [&](const GpuTraits& traits) {
    const std::vector<Candidate> all = planPointwise(problem, traits);
    return std::any_of(all.begin(), all.end(), [](const Candidate& one) { return one.split > 1; });
  };
  CHECK(shared(kHopper));
  CHECK_FALSE(shared(kTuring));
}

TEST_CASE("pointwise refuses what it cannot take, and says why") {
  CHECK_FALSE(refusePointwise(requestFor(problemOf(1, 8, 7, 8), "")));
  CHECK_FALSE(refusePointwise(requestFor(problemOf(1, 8, 7, 8, 4), "")));
  ConvRequest request;
  request.inputDims = {1, 8, 7, 7};
  request.weightDims = {8, 8, 1, 3};
  CHECK(*refusePointwise(requestFor(makeConvProblem(request).value(), "")) ==
        "takes 1 x 1 filters; this problem has 1 x 3 ones");
  request.weightDims = {8, 8, 1, 1};
  request.padding = {1, 0, 0, 0};
  CHECK(*refusePointwise(requestFor(makeConvProblem(request).value(), "")) ==
        "takes no padding; this problem has 1 rows above, 0 below, 0 columns to the left and 0 to the right");
  CHECK(refusePointwise(requestFor(problemOf(1, 8, 7, 8), "L1-c1-b2")).has_value());
}

TEST_CASE("an estimate names the tile of the choice and asks for no workspace") {
  const Estimate paper = estimatePointwise(requestFor(problemOf(1, 16, 112, 96), "L1-c8-b2", kTuring));
  CHECK(paper.workspaceBytes == 0);
  CHECK(paper.tiles == Tiles{{"layout", 1},
                             {"C_num", 8},
                             {"T_num", 12},
                             {"Warp_H", 8},
                             {"BlockTile_W", 96},
                             {"BlockTile_H", 16},
                             {"Iter", 2}});
}

TEST_CASE("an estimate shows what was considered, as worked out by hand above, and why each lost") {
  using Figures = std::vector<std::pair<std::string, double>>;
  const ConvProblem problem = problemOf(1, 16, 112, 96);
  const auto estimateOf = [&](const std::string& variant) {
    return estimatePointwise(requestFor(problem, variant, kTuring));
  };
  const auto entryOf = [](const Estimate& estimate, std::string_view name) {
    const auto named = [&](const ConsideredKernel& one) { return one.name == name; };
    const std::vector<ConsideredKernel> considered = estimate.considered();
    REQUIRE(std::count_if(considered.begin(), considered.end(), named) == 1);
    return *std::find_if(considered.begin(), considered.end(), named);
  };
  const auto chosenOf = [](const Estimate& estimate) {
    const auto chosen = [](const ConsideredKernel& one) { return one.lost.empty(); };
    const std::vector<ConsideredKernel> considered = estimate.considered();
    REQUIRE(std::count_if(considered.begin(), considered.end(), chosen) == 1);
    return *std::find_if(considered.begin(), considered.end(), chosen);
  };

  const Estimate pinned = estimateOf("L1-c8-b2");
  const ConsideredKernel best = chosenOf(pinned);
  CHECK(best.name == "L1-c8-b2");
  CHECK(best.tiles == pinned.tiles);
  CHECK(best.figures == Figures{{"M_A", 96.0 * 16 * 2 / 112},
                                {"M_B", 784},
                                {"registers", 163},
                                {"sharedBytes", 7488},
                                {"milliseconds", pinned.milliseconds}});
  CHECK(entryOf(pinned, "L1-c8-b4").lost == "needs 163 registers a thread where 128 are free");
  const ConsideredKernel none = entryOf(pinned, "L1-c16-b2");
  CHECK(none.lost == "no kernel holds 24 elements a thread");
  CHECK(none.tiles.empty());
  CHECK(none.figures.empty());

  const Estimate free = estimateOf("");
  const ConsideredKernel own = chosenOf(free);
  CHECK(own.tiles == free.tiles);
  CHECK(own.figures.back() == std::pair<std::string, double>{"milliseconds", free.milliseconds});
  CHECK(entryOf(free, "L1-c8-b2").lost == "is predicted slower");
  CHECK(entryOf(pinned, own.name).lost == "would be chosen if options.variant were not 'L1-c8-b2'");
  CHECK(chosenOf(estimateOf("paper")).name == "L1-c8-b2");
  CHECK(free.considered().size() == planPointwise(problem, kTuring).size());
}

TEST_CASE("tensor cores are offered where they are faster, and sums are long enough for their accuracy") {
  const auto offers = [](int64_t channels, int computeCapability) {
    ConvRequest request;
    request.inputDims = {8, channels, 14, 14};
    request.weightDims = {128, channels, 1, 1};
    GpuTraits traits = kHopper;
    traits.computeCapability = computeCapability;
    const std::vector<Candidate> candidates = planPointwise(makeConvProblem(request).value(), traits);
    return std::any_of(candidates.begin(), candidates.end(),
                       [](const Candidate& one) { return std::holds_alternative<TensorTile>(one.tile); });
  };
  CHECK(offers(64, 90));
  CHECK(offers(64, 80));
  CHECK_FALSE(offers(63, 90));
  for (const int computeCapability : {75, 86, 89, 120}) CHECK_FALSE(offers(256, computeCapability));
}

TEST_CASE("channels are shared out in whole units") {
  CHECK(channelsOfBlock(960, 8, 8) == 120);
  CHECK(channelsOfBlock(960, 32, 8) == 128);
  CHECK(channelsOfBlock(13, 8, 1) == 16);
  CHECK(channelsOfBlock(13, 8, 4) == 8);
  CHECK(channelsOfBlock(13, 1, 1) == 13);
}

TEST_CASE("pixels are streamed where a device holds all blocks at once, and their filters") {
  const auto isStreamed = [](const Candidate& one) {
    return std::holds_alternative<StreamTile>(one.tile) || std::holds_alternative<StreamTensorTile>(one.tile) ||
           std::holds_alternative<WarpgroupTile>(one.tile) || std::holds_alternative<RowsTile>(one.tile) ||
           std::holds_alternative<Tf32RowsTile>(one.tile) || std::holds_alternative<Bf16RowsTile>(one.tile);
  };
  for (const GpuTraits& traits : {kHopper, kTuring}) {
    for (const ConvProblem& problem : {problemOf(1, 24, 56, 144), problemOf(1, 2048, 7, 512), problemOf(1, 1, 1, 1),
                                       problemOf(8, 64, 28, 96, 4), problemOf(1, 4096, 56, 4096)}) {
      for (const Candidate& one : planPointwise(problem, traits)) {
        if (!isStreamed(one)) continue;
        INFO(describe(problem), " ", one.name());
        CHECK(one.sharedBytes <= std::min(kMostStreamedBytes, traits.sharedBytesPerBlock));
        // By registers, which 65536 of a multiprocessor hold; threads of a block are at least 32.
        const int64_t most = traits.registersPerMultiprocessor / (int64_t{32} * one.registers);
        CHECK(one.blocks <= most * traits.multiprocessors);
        if (std::holds_alternative<StreamTensorTile>(one.tile)) CHECK(traits.computeCapability >= 80);
        if (std::holds_alternative<WarpgroupTile>(one.tile)) CHECK(traits.computeCapability == 90);
        if (std::holds_alternative<RowsTile>(one.tile)) CHECK(traits.computeCapability == 90);
        if (std::holds_alternative<Tf32RowsTile>(one.tile)) CHECK(traits.computeCapability == 90);
        if (std::holds_alternative<Bf16RowsTile>(one.tile)) CHECK(traits.computeCapability == 90);
      }
    }
  }
  const auto chosen = [](const ConvProblem& problem) { return *findCandidate(planPointwise(problem, kHopper), ""); };
  CHECK(std::holds_alternative<StreamTile>(chosen(problemOf(2, 16, 112, 96)).tile));
  CHECK(std::holds_alternative<Bf16RowsTile>(chosen(problemOf(1, 32, 112, 16)).tile));
  CHECK(std::holds_alternative<Bf16RowsTile>(chosen(problemOf(1, 24, 56, 144)).tile));
  CHECK(std::holds_alternative<Tf32RowsTile>(chosen(problemOf(1, 144, 56, 24)).tile));
  CHECK(std::holds_alternative<RowsTile>(chosen(problemOf(4, 144, 56, 24)).tile));
  CHECK(std::holds_alternative<WarpgroupTile>(chosen(problemOf(1, 960, 7, 160)).tile));
  CHECK_FALSE(isStreamed(chosen(problemOf(128, 64, 56, 256))));
}

TEST_CASE("pixels are streamed where threads can hold all of their channels") {
  const auto streams = [](int64_t channels) {
    std::vector<std::string> names;
    for (const Candidate& one : planPointwise(problemOf(1, channels, 28, 16), kHopper)) {
      if (std::holds_alternative<StreamTile>(one.tile)) names.push_back(one.name());
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(streams(16) == Names{"stream-12x256x1", "stream-4x512x1", "stream-8x128x4", "stream-4x64x8"});
  CHECK(streams(17) == Names{"stream-4x512x1", "stream-8x128x4", "stream-4x64x8"});
  CHECK(streams(33) == Names{"stream-8x128x4", "stream-4x64x8"});
  CHECK(streams(65) == Names{"stream-4x64x8"});
  CHECK(streams(192) == Names{"stream-4x64x8"});
  CHECK(streams(193) == Names{});
  for (const StreamTile& tile : kStreamTiles) {
    CHECK(tile.mostChannels() == tile.threadChannels * tile.slices);
    // Four bytes of a filter's channel, and of a slice's sums
    const int64_t sums = tile.slices > 1 ? tile.slices * tile.filters * tile.pixels() : 0;
    CHECK(tile.sharedBytes() == 4 * (tile.mostChannels() * tile.filters + sums));
  }
}

TEST_CASE("warpgroups with pixels in shared memory are offered where channels come in eights") {
  const auto offers = [](int64_t channels, int64_t groups) {
    const std::vector<Candidate> all = planPointwise(problemOf(1, channels, 14, 64, groups), kHopper);
    return std::any_of(all.begin(), all.end(),
                       [](const Candidate& one) { return std::holds_alternative<WarpgroupTile>(one.tile); });
  };
  for (const int64_t channels : {64, 72, 200, 256}) CHECK(offers(channels, 1));
  for (const int64_t channels : {65, 76, 100, 255}) CHECK_FALSE(offers(channels, 1));
  CHECK(offers(2 * 72, 2));
  CHECK_FALSE(offers(2 * 68, 2));
}

TEST_CASE("products of TF32 by rows are offered where threads can hold all channels of a block") {
  for (const int64_t channels : {63, 64, 72, 73, 144, 145, 384, 385, 1024}) {
    for (const Tf32RowsTile& tile : kTf32RowsTiles) {
      for (const int split : {1, 2, 4, 8}) {
        const int64_t ofBlock = channelsOfBlock(channels, 8, split);
        // Each block has a channel at least, and the threads' pieces can be shared out.
        const bool isWanted = channels >= 64 && ofBlock <= tile.mostChunks * tile.chunkSteps * 8 &&
                              channels > (split - 1) * 8 && tile.filters / 4 % split == 0;
        std::string name = "rows-tf32-" + std::to_string(tile.filters) + "x64x" + std::to_string(tile.chunkSteps);
        if (split > 1) name += "-s" + std::to_string(split);
        INFO(channels, " channels, ", name);
        CHECK(findCandidate(planPointwise(problemOf(1, channels, 7, 16), kHopper), name).has_value() == isWanted);
      }
    }
  }
}

TEST_CASE("products of BF16 by rows are offered where threads can hold all channels") {
  for (const int64_t channels : {1, 3, 16, 17, 32, 33, 64}) {
    for (const Bf16RowsTile& tile : kBf16RowsTiles) {
      const std::string name = "rows-bf16-" + std::to_string(tile.filters) + "x64x" + std::to_string(tile.chunkSteps);
      INFO(channels, " channels, ", name);
      const auto candidates = planPointwise(problemOf(1, channels, 28, 96), kHopper);
      CHECK(findCandidate(candidates, name).has_value() == (channels <= 16 * tile.chunkSteps));
      CHECK_FALSE(findCandidate(candidates, name + "-s2").has_value());
    }
  }
}

TEST_CASE("pixels of a warpgroup's tiles are shared out evenly, in fours") {
  CHECK(pixelsOfTile(49, 32) == 28);
  CHECK(pixelsOfTile(196, 64) == 52);
  CHECK(pixelsOfTile(3136, 64) == 64);
  CHECK(pixelsOfTile(1, 32) == 4);
  for (int64_t pixels = 1; pixels < 300; ++pixels) {
    for (const WarpgroupTile& tile : kWarpgroupTiles) {
      const int64_t each = pixelsOfTile(pixels, tile.pixels);
      CHECK(each % 4 == 0);
      CHECK(each <= tile.pixels);
      // What the planner counts blocks by
      CHECK((pixels + each - 1) / each <= (pixels + tile.pixels - 1) / tile.pixels);
    }
  }
}

TEST_CASE("small filters lie in memory several times, as often as there are tiles of pixels at most") {
  CHECK(copiesOf(6144, 100) == 64);
  CHECK(copiesOf(6144, 49) == 32);
  CHECK(copiesOf(6144, 7) == 4);
  CHECK(copiesOf(6144, 1) == 1);
  CHECK(copiesOf(kMostCopiedBytes / 2, 49) == 2);
  CHECK(copiesOf(kMostCopiedBytes / 2 + 16, 49) == 1);
  CHECK(copiesOf(int64_t{1} << 40, int64_t{1} << 40) == 1);
}

TEST_CASE("a warpgroup's block has the filters of whole chunks, and room for what comes of its cluster") {
  constexpr WarpgroupTile kNarrow = kWarpgroupTiles[0], kWide = kWarpgroupTiles[1];
  CHECK(kNarrow.chunkChannels() == 128);
  CHECK(kWide.chunkChannels() == 64);
  // 256 bytes of filters a channel: 64 of them, by two halves of two bytes
  CHECK(kNarrow.filterBytes(128) == 128 * 256);
  CHECK(kNarrow.filterBytes(129) == 256 * 256);
  // Those, a chunk of as many bytes a pixel's channel, and 64 x 32 or 64 x 64 sums
  CHECK(kNarrow.sharedBytes(128, 4, true) == 128 * 256 + 128 * 32 * 4 + 64 * 32 * 4);
  CHECK(kWide.sharedBytes(64, 8, true) == 64 * 256 + 64 * 64 * 4 + 64 * 64 * 4);
  // Both chunks of a pair
  CHECK(kWide.sharedBytes(65, 1, false) == 128 * 256 + 2 * 64 * 64 * 4);
  CHECK(kWide.sharedBytes(129, 1, true) == 192 * 256 + 64 * 64 * 4);
  CHECK(kNarrow.sharedBytes(129, 1, true) == 256 * 256 + 2 * 128 * 32 * 4);
  CHECK(kNarrow.sharedBytes(129, 1, false) == 256 * 256 + 128 * 32 * 4);
}

TEST_CASE("a block with pixels as rows has the filters of whole chunks, and room for what comes of its cluster") {
  constexpr RowsTile kNarrow{{24, 3, 2}}, kWide{{64, 4, 2}};
  // Four bytes of a filter's channel, in whole chunks of 48 channels, or 64
  CHECK(kNarrow.filterBytes(48) == 48 * 24 * 4);
  CHECK(kNarrow.filterBytes(49) == 96 * 24 * 4);
  CHECK(kWide.sharedBytes(64, 1) == 64 * 64 * 4);
  CHECK(kWide.sharedBytes(65, 8) == 128 * 64 * 4 + 64 * 64 * 4);
  // A thread's sums of two pixels, which blocks share out evenly
  CHECK(kNarrow.pieces() == 6);
  CHECK(kNarrow.mayBeSplit(2));
  CHECK_FALSE(kNarrow.mayBeSplit(4));
  CHECK(kWide.mayBeSplit(8));
  // Six bytes of a filter's channel: three of two
  constexpr Bf16RowsTile kBf16{{24, 2, 5}};
  CHECK(kBf16.filterBytes(17) == 32 * 24 * 6);
  CHECK(kBf16.halves().planeBytes() == 24 * 8 * 6);
  CHECK_FALSE(kBf16.halves().isScaled());
  // Eight bytes of a filter's channel, in whole chunks of 24 channels
  constexpr Tf32RowsTile kTf32{{24, 3, 2}, 3};
  CHECK(kTf32.filterBytes(72) == 72 * 24 * 8);
  CHECK(kTf32.filterBytes(49) == 72 * 24 * 8);
  CHECK(kTf32.sharedBytes(72, 2) == 72 * 24 * 8 + 64 * 24 * 4);
  CHECK(kTf32.mostChannels() == 72);
}

TEST_CASE("the halves of a tile's filters lie side by side, plane by plane, or one after the other") {
  constexpr HalvesLayout kPaired{24, true, 16}, kApart{64, false, 16}, kTf32{24, true, 8};
  CHECK(kPaired.stepBytes() == 16 * 24 * 4);
  CHECK(kPaired.planeBytes() == 2 * kPaired.lowBytes());
  CHECK(kApart.lowBytes() == kApart.stepBytes() / 2);
  CHECK(kApart.planeBytes() == kApart.lowBytes() / 2);
  CHECK(kTf32.stepBytes() == 8 * 24 * 8);
}
