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

// Worked by hand for 64 -> 64 channels, 3 x 3, 56 x 56 outputs, by rows of 4 tiles of 14 windows.
//   #IN = 56 * 4 = 224, #FS = 64 / 32 = 2, |OUT| = 14 * 32 * 4 = 1792
//   One channel takes 3 rows of 14 + 2 inputs and 32 * 9 filter elements: 192 + 1152 bytes. All 64 take
//   12288 + 73728 + 1792 = 87808 of the 524288 bytes of half the L2 cache, so N_c = 64.
// Weight-stationary: K2 = 224, 112, 56 input tiles take 73728 + K2 * 14080 = 3227648, 1650688, 862208 of 943718 -> 56;
//   K3 = 2 takes 2 * 73728 + 56 * 12288 + 112 * 1792 = 1036288 of 0.9 * L3 -> 2.
//   DRAM = (224 * 12288 + 2 * 73728) / 64 = 45312 lines, L3 = 3 * 2304 = 6912, L2 = 1 * 43008:
//   250 * 45312 + 50 * 6912 + 14 * 43008 = 12275712 cycles.
// Input-stationary: K2 = 2, K3 = 224, no reload: 250 * 45312 + 14 * 223 * 2304 = 18521088 cycles.
TEST_CASE("a 3 x 3 layer at 56 x 56 is sliced as worked out by hand") {
  const Slicing slicing = sliceConvolution(problemOf(64, 56, 64, 3), kTile, kCaches);
  CHECK(slicing.presentation == Presentation::asTheyLie);
  CHECK(slicing.windows == 14);
  CHECK(slicing.tilesPerRow == 4);
  CHECK(slicing.filters == 32);
  CHECK(slicing.channels == 64);
  CHECK(slicing.schedule == Schedule::weightStationary);
  CHECK(slicing.k2 == 56);
  CHECK(slicing.k3 == 2);
  CHECK(slicing.cost == 12275712.0);
  CHECK(slicing.otherCost == 18521088.0);
}

// 49 windows make 4 tiles of 14; 13 + 13 + 13 + 10 spreads them better. N_c = 3200 takes 180 * 3200 + 1664 = 577664 of
// 524288 bytes, 1600 half of that.
TEST_CASE("a pointwise layer is one matrix product, and its windows are spread over the tiles") {
  const Slicing slicing = sliceConvolution(problemOf(3200, 7, 32, 1), kTile, kCaches);
  CHECK(slicing.presentation == Presentation::asTheyLie);
  CHECK(slicing.tilesPerRow == 0);
  CHECK(slicing.windows == 13);
  CHECK(slicing.channels == 1600);
  CHECK(sliceConvolution(problemOf(8, 1, 32, 1), kTile, kCaches).windows == 1);
}

TEST_CASE("windows are read by rows where the rows are long enough, and packed elsewhere") {
  const Slicing seven = sliceConvolution(problemOf(64, 7, 64, 3), kTile, kCaches);
  CHECK(seven.presentation == Presentation::asTheyLie);
  CHECK(seven.windows == 14);
  CHECK(seven.rowsPerTile == 2);
  CHECK(seven.tilesPerRow == 1);
  CHECK(inputTiles(problemOf(64, 7, 64, 3), seven) == 4);
  const Slicing twentySeven = sliceConvolution(problemOf(64, 27, 64, 3), kTile, kCaches);
  CHECK(twentySeven.windows == 14);
  CHECK(twentySeven.tilesPerRow == 2);
  CHECK(twentySeven.rowsPerTile == 1);
  CHECK(inputTiles(problemOf(64, 27, 64, 3), twentySeven) == 54);
  const Slicing five = sliceConvolution(problemOf(64, 5, 64, 3), kTile, kCaches);
  CHECK(five.presentation == Presentation::packed);
  CHECK(five.windows == 13);

  ConvRequest request;
  request.inputDims = {1, 8, 60, 60};
  request.weightDims = {8, 8, 3, 3};
  request.padding = {1, 1, 1, 1};
  CHECK(sliceConvolution(makeConvProblem(request).value(), kTile, kCaches).presentation == Presentation::asTheyLie);
  request.stride = {2, 2};
  request.dilation = {9, 9};
  CHECK(sliceConvolution(makeConvProblem(request).value(), kTile, kCaches).presentation == Presentation::asTheyLie);
  request.stride = {3, 3};
  CHECK(sliceConvolution(makeConvProblem(request).value(), kTile, kCaches).presentation == Presentation::packed);
}

// (524288 - 1792) / 1344 = 388 channels of a 3 x 3 layer by rows of 14 fit. By two rows of 7 a channel takes 4 rows of
// 7 + 2 inputs: (524288 - 1792) / (144 + 1152) = 403.
TEST_CASE("N_c is the whole group where it fits, halves until it does, and stays at least one") {
  CHECK(sliceConvolution(problemOf(388, 14, 64, 3), kTile, kCaches).channels == 388);
  CHECK(sliceConvolution(problemOf(389, 14, 64, 3), kTile, kCaches).channels == 195);
  CHECK(sliceConvolution(problemOf(403, 7, 64, 3), kTile, kCaches).channels == 403);
  CHECK(sliceConvolution(problemOf(404, 7, 64, 3), kTile, kCaches).channels == 202);
  CHECK(sliceConvolution(problemOf(4, 30, 64, 19), kTile, CpuCaches{0, 1024, 0}).channels == 1);
}

TEST_CASE("switches take the choice out of the hands of the analysis") {
  const ConvProblem problem = problemOf(64, 56, 64, 3);
  const Slicing free = sliceConvolution(problem, kTile, kCaches);
  const Slicing is = sliceConvolution(problem, kTile, kCaches, {.schedule = Schedule::inputStationary});
  CHECK(is.schedule == Schedule::inputStationary);
  CHECK(is.cost == free.otherCost);
  CHECK(is.otherCost == free.cost);
  CHECK(is.k2 == 2);
  CHECK(is.k3 == 224);
  const Slicing packed = sliceConvolution(problem, kTile, kCaches, {.presentation = Presentation::packed});
  CHECK(packed.presentation == Presentation::packed);
  CHECK(packed.tilesPerRow == 0);
  // By rows where they are short, which the analysis would rather pack: two rows of 5 in a tile of 14.
  const Slicing rows =
      sliceConvolution(problemOf(64, 5, 64, 3), kTile, kCaches, {.presentation = Presentation::asTheyLie});
  CHECK(rows.presentation == Presentation::asTheyLie);
  CHECK(rows.tilesPerRow == 1);
  CHECK(rows.windows == 10);
  CHECK_FALSE(free.packAhead);
  // Nothing is packed, ahead or on demand, unless windows are.
  CHECK_FALSE(sliceConvolution(problem, kTile, kCaches, {.packAhead = true}).packAhead);
  CHECK(sliceConvolution(problem, kTile, kCaches, {.presentation = Presentation::packed, .packAhead = true}).packAhead);
}

TEST_CASE("a presentation is refused where the micro-kernel could not read it") {
  ConvRequest request;
  request.inputDims = {1, 8, 60, 60};
  request.weightDims = {8, 8, 3, 3};
  const auto refuses = [&](Presentation presentation) {
    return presentationRefusal(makeConvProblem(request).value(), presentation).has_value();
  };
  CHECK_FALSE(refuses(Presentation::asTheyLie));
  request.padding.top = 1;
  request.stride.w = 2;
  CHECK_FALSE(refuses(Presentation::asTheyLie));
  request.stride.w = 3;
  CHECK(refuses(Presentation::asTheyLie));
  CHECK_FALSE(refuses(Presentation::packed));
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
          const bool packed = cut.presentation == Presentation::packed;
          const int64_t rows = packed ? filter : cut.rowsPerTile + filter - 1;
          const int64_t columns = packed ? cut.windows * filter : cut.windows / cut.rowsPerTile + filter - 1;
          const double in = static_cast<double>(cut.channels * rows * columns) * 4;
          const double fs = static_cast<double>(cut.filters) * depth;
          const double out = static_cast<double>(cut.windows * cut.filters) * 4;
          const bool weightStationary = cut.schedule == Schedule::weightStationary;
          const double stationary = weightStationary ? fs : in;
          const double moving = weightStationary ? in : fs;
          const auto k2 = static_cast<double>(cut.k2);
          const auto k3 = static_cast<double>(cut.k3);
          CHECK((cut.channels == 1 || in + fs + out <= 0.5 * 1024 * 1024));
          CHECK((cut.k2 == 1 || stationary + k2 * (moving + out) <= 0.9 * 1024 * 1024));
          CHECK((cut.k3 == 1 || k3 * stationary + k2 * moving + k2 * k3 * out <= 0.9 * 32 * 1024 * 1024));
          CHECK(cut.cost <= cut.otherCost);
        }
      }
    }
  }
}
