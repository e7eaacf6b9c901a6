#include "cpu/depthwise/depthwise.h"

#include <algorithm>

#include "cpu/depthwise/depthwise_kernel.h"
#include "cpu/direct/direct.h"
#include "memory/aligned_buffer.h"

namespace warpconv {

extern const DepthwiseKernel kDepthwisePortable;
#if defined(WARPCONV_X86_KERNELS)
extern const DepthwiseKernel kDepthwiseAvx512;
#endif

std::span<const DepthwiseKernel* const> depthwiseKernels() {
  static constexpr const DepthwiseKernel* kAll[] = {
    &kDepthwisePortable,
#if defined(WARPCONV_X86_KERNELS)
    &kDepthwiseAvx512,
#endif
  };
  return kAll;
}

namespace {

/** Below this a second thread costs more than it brings. */
constexpr double kLeastParallelMultiplyAdds = 5e5;

const DepthwiseKernel& chooseKernel(const ConvProblem& problem, const CpuInfo& cpu) {
  const DepthwiseKernel* best = depthwiseKernels().front();
  for (const DepthwiseKernel* kernel : depthwiseKernels()) {
    const bool takes = kernel->isa == Isa::portable || (problem.s <= kernel->mostColumns && problem.stride.w <= 2);
    if (takes && kernel->isa <= cpu.isaLevel) best = kernel;
  }
  return *best;
}

class DepthwiseConvolution final : public PreparedConvolution {
 public:
  DepthwiseConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights,
                       const DepthwiseKernel& kernel)
      : problem_(problem), activation_(activation), kernel_(kernel), weight_(problem.weightSize()), bias_(problem.k) {
    std::copy_n(weights.weight, problem.weightSize(), weight_.data());
    copyBias(problem, weights, bias_.data());
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const ConvProblem& x = problem_;
    const bool parallel = x.multiplyAdds() >= kLeastParallelMultiplyAdds;
    const int64_t maps = x.n * x.k;
    const int64_t tasks = parallel ? std::min<int64_t>(maps, 4 * context.threads()) : 1;
    context.parallelFor(tasks, [&](int64_t task) {
      for (int64_t map = maps * task / tasks; map < maps * (task + 1) / tasks && !context.isCancelled(); ++map) {
        convolveMap(tensors, map / x.k, map % x.k);
      }
    });
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override { return weight_.bytes() + bias_.bytes(); }

 private:
  void convolveMap(const ConvTensors& tensors, int64_t n, int64_t k) const {
    const ConvProblem& x = problem_;
    const int64_t c = k / x.groupOutputs();
    const int64_t output = (n * x.k + k) * x.p * x.q;
    const float* residual = tensors.residual == nullptr ? nullptr : tensors.residual + output;
    kernel_.convolve({.problem = &x,
                      .input = tensors.input + (n * x.c + c) * x.h * x.w,
                      .filter = weight_.data() + k * x.r * x.s,
                      .output = tensors.output + output,
                      .finish = {bias_.data() + k, residual, activation_}});
  }

  const ConvProblem problem_;
  const Activation activation_;
  const DepthwiseKernel& kernel_;
  AlignedBuffer weight_;
  AlignedBuffer bias_;
};

std::optional<std::string> refusal(const ConvProblem& problem) {
  if (problem.groupInputs() == 1) return std::nullopt;
  return "takes one input channel per group; this problem has " + std::to_string(problem.groupInputs());
}

Estimate estimate(const ConvProblem& problem, const CpuInfo& cpu) {
  const double rate = chooseKernel(problem, cpu).multiplyAddsPerMillisecond;
  return {.milliseconds = problem.multiplyAdds() / rate, .workspaceBytes = 0, .tiles = {}};
}

std::unique_ptr<PreparedConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                             const ConvWeights& weights, const CpuInfo& cpu) {
  const DepthwiseKernel& kernel = chooseKernel(problem, cpu);
  // Masked lanes are zeros, which an infinite or NaN weight would turn into NaN.
  if (problem.hasPadding() && kernel.isa != Isa::portable && !allFinite(weights.weight, problem.weightSize())) {
    return prepareDirect(problem, activation, weights, cpu);
  }
  return std::make_unique<DepthwiseConvolution>(problem, activation, weights, kernel);
}

}  // namespace

constexpr CpuAlgorithm kDepthwise{"depthwise", refusal, estimate, prepare};

}  // namespace warpconv
