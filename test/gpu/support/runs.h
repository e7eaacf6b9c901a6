#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/algorithm.h"
#include "cuda/host/gpu_weights.h"
#include "support/gpu_reference.h"
#include "support/named_problems.h"

namespace warpconv::test {

/** The device that the tests run on; fails the test where there is none. */
cuda::Device& device();
/** Of that device, for what a test prepares */
cuda::Queue& queue();

/** What a run made: the output between two guards that nothing may have touched. */
class GuardedOutput {
 public:
  explicit GuardedOutput(int64_t count);
  float* data() const { return memory_.data() + kGuard; }
  /** Every element still as it was made, in both guards */
  bool guardsIntact() const;

 private:
  static constexpr size_t kGuard = 64;
  DeviceArray<float> memory_;
};

cuda::GpuRequest requestFor(const ConvProblem& problem, std::string variant, const Activation& activation = {});

/** What can be run on a case's tensors, while these are there; fails the test when it cannot be made. */
std::unique_ptr<cuda::GpuConvolution> prepare(const cuda::GpuAlgorithm& algorithm, const cuda::GpuRequest& request,
                                              const GpuCase& one);

/** Runs once what was prepared for the case; fails the test when a status is not ok. */
GuardedOutput run(const cuda::GpuConvolution& prepared, int64_t workspaceBytes, const GpuCase& one);

/** Prepares and runs once. */
GuardedOutput run(const cuda::GpuAlgorithm& algorithm, const cuda::GpuRequest& request, const GpuCase& one);

enum class Values { integers, reals, positive, nonFinite };

/** Tensors of those values. Integers are so small that every partial sum is exact. */
GpuCase makeCase(const ConvProblem& problem, Values values, bool withBias, bool withResidual, std::mt19937& random);

/** A random legal problem of at most `mostMultiplyAdds`, biased towards the edges of warps and tiles. */
ConvProblem randomProblem(std::mt19937& random, double mostMultiplyAdds);

/** With windows of `window` x `window`, and a reduction so long that kernels fill each of their buffers many times. */
ConvProblem longReduction(int64_t window);

/** Of few multiply-adds an output, and so many outputs that blocks which take one tile after another do. */
ConvProblem manyTiles();

/** The seed of WARPCONV_FUZZ_SEED, or a random one; printed, so that a failure can be had again. */
unsigned fuzzSeed();

/** The algorithm's variants that take the problem; the empty name stands for its own choice. */
std::vector<std::string> variantsFor(const cuda::GpuAlgorithm& algorithm, const ConvProblem& problem);

/**
 * The algorithms under test: all that take float32, or the one that WARPCONV_GPU_ALGORITHM names; where asked for, also
 * those that take halves alone.
 */
std::vector<cuda::GpuAlgorithm> algorithmsUnderTest(bool withHalves = false);

}  // namespace warpconv::test
