#include "support/reference.h"

#include <doctest/doctest.h>

#include "support/runs.h"

using namespace warpconv;

TEST_CASE("the GPU's reference agrees with the CPU's") {
  std::mt19937 random(test::fuzzSeed());
  for (int round = 0; round < 50; ++round) {
    const ConvRequest request = test::randomRequest(random, 4e4);
    const ConvProblem problem = makeConvProblem(request).value();
    const test::GpuCase one = test::makeCase(problem, test::Values::reals, true, true, random);
    const test::GpuReference onGpu = test::referenceOnGpu(one);
    const test::Reference onCpu =
        test::convolveInDouble(request, problem.outputDims(), problem.padding.top, problem.padding.left,
                               {one.input.toHost(), one.weight.toHost(), one.bias.toHost(), one.residual.toHost()});
    const std::vector<double> output = onGpu.output.toHost();
    const std::vector<double> bound = onGpu.bound.toHost();
    INFO(describe(problem));
    for (size_t i = 0; i < output.size(); ++i) {
      // The order of the sums and fused multiply-adds may differ, in double.
      REQUIRE(std::abs(output[i] - onCpu.output[i]) <= 1e-13 * onCpu.bound[i]);
      REQUIRE(bound[i] == doctest::Approx(onCpu.bound[i]));
    }
  }
}
