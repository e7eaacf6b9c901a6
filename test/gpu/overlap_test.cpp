#include <doctest/doctest.h>

#include "cuda/algorithm.h"
#include "support/runs.h"

using namespace warpconv;

namespace {

/** One whose output can be its next input. */
ConvProblem chainProblem(int64_t channels, int64_t extent, int64_t filter, int64_t groups) {
  ConvRequest request;
  request.inputDims = {1, channels, extent, extent};
  request.weightDims = {channels, channels / groups, filter, filter};
  request.groups = groups;
  request.padding = {filter / 2, filter / 2, filter / 2, filter / 2};
  return makeConvProblem(request).value();
}

/** What a chain of calls makes of `one`'s input: each link reads what the one before wrote and writes what it read. */
std::vector<float> outputOf(const cuda::GpuConvolution& convolution, const test::GpuCase& one, void* workspace,
                            bool oneByOne) {
  // So few that nothing overflows: an output is up to 14 times as large as its input.
  constexpr int kLinks = 24;
  test::DeviceArray<float> a(one.input.toHost());
  test::DeviceArray<float> b(a.size());
  float* from = a.data();
  float* to = b.data();
  for (int i = 0; i < kLinks; ++i, std::swap(from, to)) {
    REQUIRE(convolution.enqueue({from, nullptr, to}, workspace, nullptr).isOk());
    if (oneByOne) test::check(cudaStreamSynchronize(nullptr));
  }
  test::check(cudaStreamSynchronize(nullptr));
  return (from == a.data() ? a : b).toHost();
}

}  // namespace

// Kernels may begin while the one before still runs, so one that does not wait gives other numbers.
TEST_CASE("kernels in a row wait for each other's outputs") {
  std::mt19937 random(3);
  const ConvProblem problems[] = {chainProblem(64, 7, 1, 1),   chainProblem(64, 28, 1, 1),  chainProblem(64, 14, 3, 1),
                                  chainProblem(96, 14, 3, 96), chainProblem(32, 40, 5, 32), chainProblem(8, 40, 5, 1)};
  for (const ConvProblem& problem : problems) {
    const test::GpuCase one = test::makeCase(problem, test::Values::reals, false, false, random);
    for (const cuda::GpuAlgorithm& algorithm : test::algorithmsUnderTest()) {
      for (const std::string& variant : test::variantsFor(algorithm, problem)) {
        INFO(std::string(algorithm.name) << " '" << variant << "', " << describe(problem));
        const cuda::GpuRequest request = test::requestFor(problem, variant);
        const auto prepared = test::prepare(algorithm, request, one);
        const auto workspace = test::device().allocate(algorithm.estimate(request).workspaceBytes);
        REQUIRE(workspace.isOk());
        const auto made = [&](bool oneByOne) {
          return outputOf(*prepared, one, workspace.value().data(), oneByOne);
        };
        REQUIRE(made(false) == made(true));
      }
    }
  }
}
