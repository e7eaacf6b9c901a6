#include <doctest/doctest.h>

#include <algorithm>

#include "cuda/direct/direct.h"
#include "cuda/halo/halo.h"
#include "cuda/im2col/im2col.h"
#include "cuda/im2win/im2win.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/shuffle/shuffle.h"
#include "cuda/stem/stem.h"
#include "planner/choose.h"
#include "support/named_problems.h"

// Which family `auto` takes on a GPU, by the families' estimates alone: their kernels need nvcc.

using namespace warpconv;

namespace {

constexpr cuda::GpuTraits kH200{90, 132, 65536, 228 * 1024, 227 * 1024, int64_t{60} << 20, 66.9e12, 4.9e12};

struct Family {
  const char* name;
  std::optional<std::string> (*refusal)(const cuda::GpuRequest&);
  Estimate (*estimate)(const cuda::GpuRequest&);
};

/** In the order of cuda/gpu_algorithm_list.cpp: first the five specialised ones. */
constexpr Family kFamilies[] = {{"pointwise", cuda::refusePointwise, cuda::estimatePointwise},
                                {"shuffle", cuda::refuseShuffle, cuda::estimateShuffle},
                                {"im2win", cuda::refuseIm2win, cuda::estimateIm2win},
                                {"halo", cuda::refuseHalo, cuda::estimateHalo},
                                {"stem", cuda::refuseStem, cuda::estimateStem},
                                {"im2col", cuda::refuseIm2col, cuda::estimateIm2col},
                                {"direct", cuda::refuseDirect, cuda::estimateDirect}};
constexpr size_t kSpecialised = 5;

cuda::GpuRequest requestFor(const ConvProblem& problem) { return {problem, {}, "", kH200}; }

std::vector<Candidate> candidatesFor(const ConvProblem& problem) {
  const cuda::GpuRequest request = requestFor(problem);
  std::vector<Candidate> candidates;
  for (const Family& family : kFamilies) {
    candidates.push_back(answer(family.name, family.refusal(request), {}, [&] { return family.estimate(request); }));
  }
  return candidates;
}

ConvProblem named(const std::string& name) {
  for (const test::NamedProblem& one : test::namedProblems(1)) {
    if (one.name == name) return one.problem;
  }
  FAIL("there is no layer " << name);
  return test::namedProblems(1).front().problem;
}

}  // namespace

TEST_CASE("auto leaves im2col and direct to those who ask, on every named layer that another family takes") {
  for (const int64_t batch : {1, 128}) {
    for (const auto& [name, problem] : test::namedProblems(batch)) {
      const std::vector<Candidate> candidates = candidatesFor(problem);
      const bool specialised = std::any_of(candidates.begin(), candidates.begin() + kSpecialised,
                                           [](const Candidate& one) { return one.accepts(); });
      // Images of 4096 x 4096 by the hundred have offsets beyond 32 bits.
      if (batch == 1) REQUIRE(specialised);
      if (!specialised) continue;
      INFO(name << ", batch " << batch);
      CHECK(choose(candidates, {}, "cuda:0").value() < kSpecialised);
    }
  }
}

TEST_CASE("im2col is predicted to take what it was measured to take: 22.0 us for conv7 on an H200") {
  const double milliseconds = cuda::estimateIm2col(requestFor(named("conv7"))).milliseconds;
  CHECK(milliseconds == doctest::Approx(0.022).scale(0).epsilon(0.1));
}

TEST_CASE("auto leaves direct to those who ask on maps of one element, too") {
  for (const auto& [c, k] : {std::pair{960, 240}, {240, 960}, {72, 24}}) {
    ConvRequest request;
    request.inputDims = {1, c, 1, 1};
    request.weightDims = {k, c, 1, 1};
    INFO(c << " to " << k);
    CHECK(choose(candidatesFor(makeConvProblem(request).value()), {}, "cuda:0").value() < kSpecialised);
  }
}

TEST_CASE("direct is predicted to do what it was measured to do: 0.3 to 1.1 TFLOP/s on an H200") {
  for (const std::string name : {"conv4", "conv8", "res_14"}) {
    const ConvProblem problem = named(name);
    const double teraflops =
        2e-12 * problem.multiplyAdds() / (1e-3 * cuda::estimateDirect(requestFor(problem)).milliseconds);
    INFO(name << ": " << teraflops);
    CHECK(teraflops > 0.3);
    CHECK(teraflops < 1.1);
  }
}
