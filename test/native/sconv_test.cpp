#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cpu/sconv/microkernel.h"
#include "cpu/sconv/packing.h"
#include "cpu/sconv/slicing.h"
#include "support/reference.h"

using namespace warpconv;
using namespace warpconv::sconv;

namespace {

ConvProblem problemOf(int64_t channels, int64_t filter) {
  ConvRequest request;
  request.inputDims = {1, channels, 20, 20};
  request.weightDims = {8, channels, filter, filter};
  return makeConvProblem(request).value();
}

}  // namespace

// By hand, Equations 1 and 2: one channel of a 3 x 3 filter takes (8 + 8) * 9 * 4 = 576 bytes, the output tile 256.
// 0.9 * 48 KiB = 44236 bytes hold 76 channels; 0.9 * 32 KiB = 29491 bytes hold 50.
TEST_CASE("N_c is the whole group where it fits and halves until it does") {
  const CpuCaches large{48 * 1024, 0, 0};
  const CpuCaches small{32 * 1024, 0, 0};
  CHECK(sliceConvolution(problemOf(64, 3), large).channels == 64);
  CHECK(sliceConvolution(problemOf(76, 3), large).channels == 76);
  CHECK(sliceConvolution(problemOf(77, 3), large).channels == 39);
  CHECK(sliceConvolution(problemOf(512, 3), large).channels == 64);
  CHECK(sliceConvolution(problemOf(512, 3), small).channels == 32);
  CHECK(sliceConvolution(problemOf(3, 11), large).channels == 3);
}

TEST_CASE("N_c stays at least one channel, and an unknown cache counts as 32 KiB") {
  CHECK(sliceConvolution(problemOf(4, 19), CpuCaches{1024, 0, 0}).channels == 1);
  CHECK(sliceConvolution(problemOf(512, 3), CpuCaches{}).channels == 32);
}

TEST_CASE("packed windows hold dst[c][r][s][window], zeros outside the input and beyond the count") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const ConvRequest request = test::randomRequest(random, 2e5);
    const ConvProblem x = makeConvProblem(request).value();
    const int64_t channels = x.groupInputs();
    std::vector<float> maps(static_cast<size_t>(channels * x.h * x.w));
    for (size_t i = 0; i < maps.size(); ++i) maps[i] = static_cast<float>(i + 1);
    const int64_t outputs = x.p * x.q;
    const int64_t first = static_cast<int64_t>(random() % static_cast<uint64_t>(outputs));
    const int64_t count = std::min(kTileWindows, outputs - first);
    std::vector<float> packed(static_cast<size_t>(channels * x.r * x.s * kTileWindows), -1.0f);
    packWindows(x, maps.data(), channels, first, count, packed.data());
    for (int64_t i = 0; i < static_cast<int64_t>(packed.size()); ++i) {
      const int64_t window = i % kTileWindows, s = i / kTileWindows % x.s, r = i / (kTileWindows * x.s) % x.r;
      const int64_t c = i / (kTileWindows * x.s * x.r);
      const int64_t h = (first + window) / x.q * x.stride.h + r * x.dilation.h - x.padding.top;
      const int64_t w = (first + window) % x.q * x.stride.w + s * x.dilation.w - x.padding.left;
      const bool real = window < count && h >= 0 && h < x.h && w >= 0 && w < x.w;
      REQUIRE(packed[static_cast<size_t>(i)] == (real ? maps[static_cast<size_t>((c * x.h + h) * x.w + w)] : 0.0f));
    }
  }
}

TEST_CASE("packed filters hold dst[c][r][s][filter], zeros beyond the count") {
  const ConvProblem x = problemOf(3, 2);
  std::vector<float> filters(static_cast<size_t>(5 * x.filterSize()));
  for (size_t i = 0; i < filters.size(); ++i) filters[i] = static_cast<float>(i + 1);
  std::vector<float> packed(static_cast<size_t>(x.filterSize() * kTileFilters), -1.0f);
  packFilters(x, filters.data(), 3, 5, packed.data());
  for (int64_t e = 0; e < x.filterSize(); ++e) {
    for (int64_t f = 0; f < kTileFilters; ++f) {
      const float expected = f < 5 ? filters[static_cast<size_t>(f * x.filterSize() + e)] : 0.0f;
      REQUIRE(packed[static_cast<size_t>(e * kTileFilters + f)] == expected);
    }
  }
}

TEST_CASE("the micro-kernel multiplies every depth exactly") {
  std::mt19937 random(11);
  for (int64_t depth : {1, 2, 3, 7, 64, 577}) {
    std::vector<float> windows(static_cast<size_t>(depth * kTileWindows));
    std::vector<float> filters(static_cast<size_t>(depth * kTileFilters));
    test::fillWithIntegers(windows, random);
    test::fillWithIntegers(filters, random);
    std::vector<float> tile(static_cast<size_t>(kTileFilters * kTileWindows), -1.0f);
    multiplyTile(depth, windows.data(), filters.data(), tile.data());
    for (int64_t f = 0; f < kTileFilters; ++f) {
      for (int64_t w = 0; w < kTileWindows; ++w) {
        double sum = 0;
        for (int64_t e = 0; e < depth; ++e) {
          sum += double{filters[static_cast<size_t>(e * kTileFilters + f)]} *
                 double{windows[static_cast<size_t>(e * kTileWindows + w)]};
        }
        REQUIRE(static_cast<double>(tile[static_cast<size_t>(f * kTileWindows + w)]) == sum);
      }
    }
  }
}
