#include "cuda/shuffle/shuffle_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cuda/shuffle/shuffle.h"

using namespace warpconv;

namespace {

cuda::GpuTraits traits() {
  cuda::GpuTraits traits;
  traits.computeCapability = 90;
  traits.multiprocessors = 132;
  traits.registersPerMultiprocessor = 65536;
  traits.sharedBytesPerMultiprocessor = 228 * 1024;
  traits.l2Bytes = int64_t{50} << 20;
  traits.flopsPerSecond = 6.69e13;
  traits.bytesPerSecond = 3.35e12;
  return traits;
}

ConvProblem problem(std::array<int64_t, 4> input, std::array<int64_t, 4> weight, int64_t stride, int64_t pad,
                    int64_t groups, int64_t dilation = 1) {
  ConvRequest request;
  request.inputDims = input;
  request.weightDims = weight;
  request.stride = {stride, stride};
  request.dilation = {dilation, dilation};
  request.padding = {pad, pad, pad, pad};
  request.groups = groups;
  return makeConvProblem(request).value();
}

cuda::GpuRequest asked(const ConvProblem& x, std::string variant = "") { return {x, {}, std::move(variant), traits()}; }

cuda::ShufflePlan plan(const ConvProblem& x, std::string variant = "") {
  return cuda::planShuffle(asked(x, std::move(variant)));
}

}  // namespace

TEST_CASE("a lattice reads what the definition reads, and covers every output once") {
  for (int stride = 1; stride <= 6; ++stride) {
    for (int dilation = 1; dilation <= 6; ++dilation) {
      const int pad = 3, taps = 4, outputs = 17;
      const cuda::Lattice lattice = cuda::makeLattice(stride, dilation, pad, taps);
      std::vector<int> seen(outputs, 0);
      for (int residue = 0; residue < lattice.residues; ++residue) {
        for (int i = 0; residue + lattice.residues * i < outputs; ++i) {
          const int output = residue + lattice.residues * i;
          ++seen[static_cast<size_t>(output)];
          for (int tap = 0; tap < taps; ++tap) {
            const int read = residue * lattice.fullStride + lattice.dilation * (lattice.stride * i + tap) - lattice.pad;
            REQUIRE(read == output * stride + tap * dilation - pad);
          }
        }
      }
      CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    }
  }
}

TEST_CASE("one tap is not dilated") {
  const cuda::Lattice lattice = cuda::makeLattice(1, 5, 0, 1);
  CHECK(lattice.residues == 1);
  CHECK(lattice.stride == 1);
}

TEST_CASE("strips of lanes: four input columns each, side by side in a warp, or a row in segments") {
  const cuda::ShufflePlan narrow = plan(problem({1, 8, 28, 28}, {8, 1, 3, 3}, 1, 1, 8), "wide");
  CHECK(narrow.lanes == 7);
  CHECK(narrow.columns == 28);
  CHECK(narrow.segments == 1);
  const cuda::ShufflePlan row = plan(problem({1, 1, 64, 128}, {1, 1, 3, 3}, 1, 1, 1), "wide");
  CHECK(row.lanes == 32);
  CHECK(row.segments == 1);
  const cuda::ShufflePlan wide = plan(problem({1, 1, 64, 129}, {1, 1, 3, 3}, 1, 1, 1), "wide");
  CHECK(wide.segments == 2);
  CHECK(wide.edges);
  // One segment of outputs, whose last windows reach into a chunk beyond the strip.
  const cuda::ShufflePlan valid = plan(problem({1, 1, 64, 130}, {1, 1, 3, 3}, 1, 0, 1), "wide");
  CHECK(valid.lanes == 32);
  CHECK(valid.segments == 1);
  CHECK(valid.edges);
  CHECK_FALSE(row.edges);
  CHECK(plan(problem({1, 8, 56, 56}, {8, 1, 5, 5}, 2, 2, 8), "wide").columns == 28);
}

TEST_CASE("column reuse gives up lanes to a stride, and refuses when too few are left") {
  CHECK(plan(problem({1, 1, 9, 99}, {1, 1, 5, 5}, 1, 2, 1), "both").columns == 32);
  CHECK(plan(problem({1, 1, 9, 99}, {1, 1, 5, 5}, 2, 2, 1), "both").columns == 30);
  CHECK(plan(problem({1, 1, 9, 99}, {1, 1, 5, 5}, 2, 2, 1), "row").columns == 32);
  const ConvProblem broad = problem({1, 1, 50, 99}, {1, 1, 3, 40}, 2, 2, 1);
  REQUIRE(cuda::refuseShuffle(asked(broad, "both")).has_value());
  CHECK(cuda::refuseShuffle(asked(broad, "both"))->find("40 columns") != std::string::npos);
  CHECK_FALSE(cuda::refuseShuffle(asked(broad)).has_value());
}

TEST_CASE("the forms and who takes them") {
  const ConvProblem small = problem({128, 960, 7, 7}, {960, 1, 3, 3}, 1, 1, 960);
  CHECK(plan(small).form == cuda::ShuffleForm::planes);
  CHECK(plan(small).planes % 4 == 0);
  CHECK(plan(problem({1, 960, 7, 7}, {960, 1, 3, 3}, 1, 1, 960)).form == cuda::ShuffleForm::wide);
  CHECK(plan(small, "both").form == cuda::ShuffleForm::sliding);
  CHECK(plan(problem({1, 32, 112, 112}, {32, 1, 3, 3}, 1, 1, 32)).form == cuda::ShuffleForm::wide);
  CHECK(plan(problem({1, 3, 224, 224}, {64, 3, 7, 7}, 2, 3, 1)).form == cuda::ShuffleForm::wideFilters);
  CHECK(plan(problem({1, 3, 227, 227}, {96, 3, 11, 11}, 4, 0, 1)).form == cuda::ShuffleForm::blocked);
  CHECK(cuda::refuseShuffle(asked(problem({1, 3, 9, 9}, {4, 3, 3, 3}, 1, 1, 1), "planes")).has_value());
  CHECK(cuda::refuseShuffle(asked(problem({1, 8, 9, 9}, {8, 1, 3, 3}, 1, 2, 8), "wide")).has_value());
  CHECK(cuda::refuseShuffle(asked(problem({1, 8, 9, 9}, {8, 1, 3, 3}, 1, 1, 8, 2), "wide")).has_value());
  CHECK(plan(problem({1, 256, 33, 33}, {256, 1, 3, 3}, 1, 2, 256, 2)).form == cuda::ShuffleForm::dilated);
  CHECK(plan(problem({1, 256, 33, 33}, {256, 2, 3, 3}, 1, 2, 128, 2)).form == cuda::ShuffleForm::blocked);
  // A stride of 4 over rows that are 2 apart is one of 2 over every other row; over rows that are 3 apart it stays 4.
  CHECK(plan(problem({1, 8, 33, 33}, {8, 1, 3, 3}, 4, 2, 8, 2)).form == cuda::ShuffleForm::dilated);
  CHECK(cuda::refuseShuffle(asked(problem({1, 8, 33, 33}, {8, 1, 3, 3}, 4, 2, 8, 3), "dilated")).has_value());
}

TEST_CASE("9 x 9 filters of several maps are wide, their filters a part of the maps at a time") {
  const cuda::ShufflePlan last = plan(problem({8, 64, 256, 256}, {3, 64, 9, 9}, 1, 4, 1));
  CHECK(last.form == cuda::ShuffleForm::wideFilters);
  CHECK(last.channels < 64);
  CHECK(last.sharedBytes <= cuda::kSharedBytes);
  CHECK(cuda::refuseShuffle(asked(problem({1, 8, 32, 32}, {8, 1, 9, 9}, 1, 4, 8), "wide")).has_value());
  CHECK(cuda::refuseShuffle(asked(problem({1, 8, 32, 32}, {4, 8, 9, 9}, 2, 4, 1), "wide")).has_value());
}

TEST_CASE("dilated: items cover every output row of every residue, and no run is empty") {
  std::mt19937 random(9);
  for (int round = 0; round < 500; ++round) {
    const int64_t height = 20 + random() % 100, channels = 1 + random() % 200, dilation = 2 + random() % 8;
    const ConvProblem x = problem({1 + static_cast<int64_t>(random() % 4), channels, height, 37}, {channels, 1, 3, 3},
                                  1, dilation, channels, dilation);
    INFO(describe(x));
    const cuda::ShufflePlan made = plan(x, "dilated");
    const int64_t rows = (x.p + dilation - 1) / dilation;
    CHECK(made.run * made.runs >= rows);
    CHECK(made.run * (made.runs - 1) < rows);
    CHECK(made.blocks * cuda::kShuffleThreads >= x.n * x.k * x.q * std::min(dilation, x.p) * made.runs);
  }
}

TEST_CASE("wide: runs of the rows that were fastest, or within 2 % of it, on an H100") {
  struct Layer {
    int64_t batch, channels, extent, filter, stride;
    std::vector<int> rows;
  };
  const Layer layers[] = {
      {1, 32, 112, 3, 1, {2}},    {1, 96, 112, 3, 2, {3}},          {1, 960, 7, 3, 1, {1}},
      {1, 1152, 7, 5, 1, {1}},    {1, 240, 28, 5, 1, {4}},          {1, 96, 56, 7, 1, {6}},
      {1, 384, 14, 7, 1, {2}},    {128, 144, 56, 3, 1, {7, 8, 10}}, {128, 96, 112, 3, 2, {4, 6, 7}},
      {128, 240, 28, 5, 1, {28}}, {128, 96, 56, 7, 1, {56}},
  };
  for (const Layer& x : layers) {
    const ConvProblem layer = problem({x.batch, x.channels, x.extent, x.extent}, {x.channels, 1, x.filter, x.filter},
                                      x.stride, x.filter / 2, x.channels);
    INFO(describe(layer));
    const int run = plan(layer, "wide").run;
    CAPTURE(run);
    CHECK(std::find(x.rows.begin(), x.rows.end(), run) != x.rows.end());
  }
}

TEST_CASE("planes: a warp's lanes cover its maps, which start on 16 bytes and fit into shared memory") {
  std::mt19937 random(8);
  int taken = 0;
  for (int round = 0; round < 2000; ++round) {
    const int64_t extent = 3 + random() % 40, channels = 1 + random() % 400;
    const int64_t filter = 3 + 2 * (random() % 3), stride = 1 + random() % 2, pad = random() % filter;
    if (extent + 2 * pad < filter) continue;
    const ConvProblem x = problem({1 + static_cast<int64_t>(random() % 200), channels, extent, extent},
                                  {channels, 1, filter, filter}, stride, pad, channels);
    if (cuda::refuseShuffle(asked(x, "planes")).has_value()) continue;
    ++taken;
    const cuda::ShufflePlan made = plan(x, "planes");
    INFO(describe(x));
    CHECK(made.planes % 4 == 0);
    CHECK(made.planes * made.lanes <= cuda::kWarpLanes);
    CHECK(made.lanes * made.columns >= x.q);
    CHECK((made.lanes - 1) * made.columns < x.q);
    const bool inPlace = stride == 1 && x.p == x.h && x.q == x.w;
    const int64_t floats = x.h * x.w + filter * filter + (inPlace ? 0 : x.p * x.q);
    CHECK(made.sharedBytes == 4 * made.planes * floats);
    CHECK(made.sharedBytes <= cuda::kSharedBytes);
    CHECK(made.blocks >= 1);
    CHECK(made.blocks <= made.blocksResident * traits().multiprocessors);
    CHECK(made.blocksResident * (made.sharedBytes + 1024) <= traits().sharedBytesPerMultiprocessor);
  }
  CHECK(taken > 500);
}

TEST_CASE("planes: small maps, where there are some thousands of them") {
  CHECK(plan(problem({8, 672, 14, 14}, {672, 1, 5, 5}, 1, 2, 672)).form == cuda::ShuffleForm::planes);
  CHECK(plan(problem({4, 672, 14, 14}, {672, 1, 5, 5}, 1, 2, 672)).form == cuda::ShuffleForm::wide);
  CHECK(plan(problem({16, 576, 14, 14}, {576, 1, 3, 3}, 2, 1, 576)).form == cuda::ShuffleForm::planes);
  CHECK(plan(problem({8, 576, 14, 14}, {576, 1, 3, 3}, 2, 1, 576)).form == cuda::ShuffleForm::wide);
  CHECK(plan(problem({128, 192, 28, 28}, {192, 1, 3, 3}, 1, 1, 192)).form == cuda::ShuffleForm::wide);
}

TEST_CASE("filters that shared memory does not hold are taken in parts of their input maps, or refused") {
  const cuda::ShufflePlan deep = plan(problem({1, 2048, 7, 7}, {512, 2048, 3, 3}, 1, 1, 1), "both");
  CHECK(deep.channels < 2048);
  CHECK(deep.sharedBytes <= cuda::kSharedBytes);
  CHECK_FALSE(cuda::refuseShuffle(asked(problem({1, 1, 200, 200}, {1, 1, 110, 110}, 1, 0, 1))).has_value());
  CHECK(cuda::refuseShuffle(asked(problem({1, 1, 200, 200}, {1, 1, 111, 111}, 1, 0, 1))).has_value());
}

TEST_CASE("runs cover every output row without an empty one, and more of them where the machine is not full") {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const int64_t height = 3 + random() % 300;
    const int64_t channels = 1 + random() % 200;
    const ConvProblem x = problem({1, channels, height, 40}, {channels, 1, 3, 3}, 1, 1, channels);
    for (const char* variant : {"both", "wide"}) {
      const cuda::ShufflePlan made = plan(x, variant);
      INFO(describe(x) << ' ' << variant);
      CHECK(made.run * made.runs >= x.p);
      CHECK(made.run * (made.runs - 1) < x.p);
      CHECK(made.run <= 56);
    }
  }
  CHECK(plan(problem({1, 1, 512, 512}, {1, 1, 3, 3}, 1, 0, 1)).run <
        plan(problem({128, 1, 512, 512}, {1, 1, 3, 3}, 1, 0, 1)).run);
}
