#include "cuda/pointwise/pointwise.h"

#include <doctest/doctest.h>

#include "support/runs.h"

using namespace warpconv;

namespace {

ConvProblem squareProblem(int64_t channels, int64_t extent) {
  ConvRequest request;
  request.inputDims = {1, channels, extent, extent};
  request.weightDims = {channels, channels, 1, 1};
  return makeConvProblem(request).value();
}

}  // namespace

// Kernels of this family begin while the one before still runs. Each link of the chain reads what the one before wrote
// and writes what it read, so a kernel that does not wait gives other numbers.
TEST_CASE("pointwise kernels in a row wait for each other's outputs") {
  constexpr int kLinks = 40;
  std::mt19937 random(3);
  for (const int64_t extent : {7, 28}) {
    const ConvProblem problem = squareProblem(64, extent);
    const test::GpuCase one = test::makeCase(problem, test::Values::reals, false, false, random);
    for (const std::string& variant : test::variantsFor(cuda::kPointwise, problem)) {
      INFO(variant << ", " << extent << " x " << extent);
      Result<cuda::DeviceMemory> weight = test::device().allocate(problem.weightSize() * 4);
      REQUIRE(weight.isOk());
      test::check(cudaMemcpy(weight.value().data(), one.weight.data(), static_cast<size_t>(weight.value().bytes()),
                             cudaMemcpyDeviceToDevice));
      const auto prepared =
          cuda::kPointwise.prepare(test::requestFor(problem, variant), {std::move(weight.value()), {}}, test::device());
      REQUIRE(prepared.isOk());
      const auto outputOf = [&](bool oneByOne) {
        test::DeviceArray<float> a(one.input.toHost());
        test::DeviceArray<float> b(a.size());
        float* from = a.data();
        float* to = b.data();
        for (int i = 0; i < kLinks; ++i, std::swap(from, to)) {
          REQUIRE(prepared.value()->enqueue({from, nullptr, to}, nullptr, nullptr).isOk());
          if (oneByOne) test::check(cudaStreamSynchronize(nullptr));
        }
        test::check(cudaStreamSynchronize(nullptr));
        return (from == a.data() ? a : b).toHost();
      };
      REQUIRE(outputOf(false) == outputOf(true));
    }
  }
}
