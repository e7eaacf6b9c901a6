#include "cpu/sconv/slicing.h"

#include <doctest/doctest.h>

using namespace warpconv;
using namespace warpconv::sconv;

namespace {

constexpr TileShape kTile{14, 32};
constexpr CpuCaches kCaches{48 * 1024, 1024 * 1024, 32 * 1024 * 1024};

ConvProblem problemOf(int64_t channels, int64_t extent, int64_t filters, int64_t filter) {
  ConvRequest request;
  request.inputDims = {1, channels, extent, extent};
  request.weightDims = {filters, channels, filter, filter};
  request.paddingMode = PaddingMode::same;
  return makeConvProblem(request).value();
}

}  // namespace

// Worked by hand for 64 -> 64 channels, 3 x 3, 56 x 56 outputs.
//   #IN = 3136 / 14 = 224, #FS = 64 / 32 = 2, |OUT| = 14 * 32 * 4 = 1792
//   N_c = 64 and 32 take 107776 and 54784 bytes of the 44236 that 0.9 * L1 leaves; 16 takes
//   |IN| + |FS| + |OUT| = 14*16*9*4 + 32*16*9*4 + 1792 = 8064 + 18432 + 1792 = 28288.
// Weight-stationary: K2 = 224, 112, 56 input tiles take 18432 + K2 * 9856 = 2226176, 1122304, 570368 of 943718 -> 56;
//   K3 = 2 takes 2 * 18432 + 56 * 8064 + 112 * 1792 = 689152 of 0.9 * L3 -> 2.
//   DRAM = (224 * 8064 + 2 * 18432) / 64 = 28800 lines, L3 = 3 * 576 = 1728, L2 = 1 * 28224, and 4 channel sets:
//   4 * (250 * 28800 + 50 * 1728 + 14 * 28224) = 30726144 cycles.
// Input-stationary: K2 = 2, K3 = 224, no reload: 4 * (250 * 28800 + 14 * 223 * 576) = 35993088 cycles.
TEST_CASE("a 3 x 3 layer at 56 x 56 is sliced as worked out by hand") {
  const Slicing slicing = sliceConvolution(problemOf(64, 56, 64, 3), kTile, kCaches);
  CHECK(slicing.windows == 14);
  CHECK(slicing.filters == 32);
  CHECK(slicing.channels == 16);
  CHECK(slicing.schedule == Schedule::weightStationary);
  CHECK(slicing.k2 == 56);
  CHECK(slicing.k3 == 2);
  CHECK(slicing.cost == 30726144.0);
  CHECK(slicing.otherCost == 35993088.0);
}

// 49 windows make 4 tiles of 14; 13 + 13 + 13 + 10 spreads them better. N_c = 832, 416, 208 take 151424, 76544 and
// 13*208*4 + 32*208*4 + 13*32*4 = 39104 bytes.
TEST_CASE("the windows of a small map are spread over its tiles") {
  const Slicing slicing = sliceConvolution(problemOf(832, 7, 32, 1), kTile, kCaches);
  CHECK(slicing.windows == 13);
  CHECK(slicing.channels == 208);
  CHECK(sliceConvolution(problemOf(8, 13, 32, 1), kTile, kCaches).windows == 13);
  CHECK(sliceConvolution(problemOf(8, 1, 32, 1), kTile, kCaches).windows == 1);
}

TEST_CASE("N_c is the whole group where it fits, halves until it does, and stays at least one") {
  CHECK(sliceConvolution(problemOf(24, 14, 64, 3), kTile, kCaches).channels == 24);
  CHECK(sliceConvolution(problemOf(25, 14, 64, 3), kTile, kCaches).channels == 25);
  CHECK(sliceConvolution(problemOf(27, 14, 64, 3), kTile, kCaches).channels == 14);
  CHECK(sliceConvolution(problemOf(4, 30, 64, 19), kTile, CpuCaches{1024, 0, 0}).channels == 1);
}

TEST_CASE("caches that the machine does not tell count as small ones") {
  const Slicing unknown = sliceConvolution(problemOf(512, 28, 512, 3), kTile, CpuCaches{});
  const Slicing small = sliceConvolution(problemOf(512, 28, 512, 3), kTile, {32 * 1024, 512 * 1024, 4 * 1024 * 1024});
  CHECK(unknown.channels == small.channels);
  CHECK(unknown.k2 == small.k2);
  CHECK(unknown.k3 == small.k3);
}

TEST_CASE("every slicing keeps to the capacities of Equations 2, 4 and 5, or cannot be cut smaller") {
  for (int64_t channels : {1, 3, 16, 100, 512, 2048}) {
    for (int64_t extent : {1, 7, 13, 56, 224}) {
      for (int64_t filters : {1, 31, 32, 33, 1000}) {
        for (int64_t filter : {1, 3, 7}) {
          const ConvProblem problem = problemOf(channels, extent, filters, filter);
          const Slicing cut = sliceConvolution(problem, kTile, kCaches);
          const double depth = static_cast<double>(cut.channels * filter * filter) * 4;
          const double in = static_cast<double>(cut.windows) * depth;
          const double fs = static_cast<double>(cut.filters) * depth;
          const double out = static_cast<double>(cut.windows * cut.filters) * 4;
          const bool weightStationary = cut.schedule == Schedule::weightStationary;
          const double stationary = weightStationary ? fs : in;
          const double moving = weightStationary ? in : fs;
          const auto k2 = static_cast<double>(cut.k2);
          const auto k3 = static_cast<double>(cut.k3);
          CHECK((cut.channels == 1 || in + fs + out <= 0.9 * 48 * 1024));
          CHECK((cut.k2 == 1 || stationary + k2 * (moving + out) <= 0.9 * 1024 * 1024));
          CHECK((cut.k3 == 1 || k3 * stationary + k2 * moving + k2 * k3 * out <= 0.9 * 32 * 1024 * 1024));
          CHECK(cut.cost <= cut.otherCost);
        }
      }
    }
  }
}
