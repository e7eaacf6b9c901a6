#include "cpu/depthwise/depthwise.h"

#include <algorithm>

#include "cpu/algorithm/epilogue.h"
#include "cpu/depthwise/depthwise_kernel.h"
#include "cpu/direct/cpu_direct.h"
#include "cpu/vector_loops/vector_loops.h"
#include "memory/aligned_buffer.h"

namespace warpconv {

extern const DepthwiseKernel kDepthwisePortable;
#if defined(WARPCONV_X86_KERNELS)
extern const DepthwiseKernel kDepthwiseAvx2;
extern const DepthwiseKernel kDepthwiseAvx512;
#endif

std::span<const DepthwiseKernel* const> depthwiseKernels() {
  static constexpr const DepthwiseKernel* kAll[] = {
    &kDepthwisePortable,
#if defined(WARPCONV_X86_KERNELS)
    &kDepthwiseAvx2,
    &kDepthwiseAvx512,
#endif
  };
  return kAll;
}

bool takesStrips(const ConvProblem& problem) { return problem.s <= kMostStripColumns && problem.stride.w <= 2; }

namespace {

/** Work of one thread below which a second one costs more than it brings, */
constexpr double kLeastParallelMilliseconds = 0.005;
/** and below which only threads that are awake help; the time is sconv's. */
constexpr double kLeastWakingMilliseconds = 0.04;

/** Whether each filter is as large as its map, so that an output is one scalar product. */
bool coversMap(const ConvProblem& x) {
  const bool isWhole = x.r == x.h && x.s == x.w && x.p == 1 && x.q == 1;
  return isWhole && x.dilation.h == 1 && x.dilation.w == 1 && x.padding.top == 0 && x.padding.left == 0;
}

const DepthwiseKernel& chooseKernel(const ConvProblem& problem, const CpuInfo& cpu) {
  const DepthwiseKernel* best = depthwiseKernels().front();
  for (const DepthwiseKernel* kernel : depthwiseKernels()) {
    const bool takes = kernel->isa == Isa::portable || takesStrips(problem);
    if (takes && kernel->isa <= cpu.isaLevel) best = kernel;
  }
  return *best;
}

class DepthwiseConvolution final : public CpuConvolution {
 public:
  DepthwiseConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights,
                       const DepthwiseKernel& kernel)
      : problem_(problem),
        activation_(activation),
        kernel_(kernel),
        pairs_(problem.groupOutputs() == 1 && kernel.takesPairs != nullptr && kernel.takesPairs(problem)),
        filters_(copiedFilters(problem, weights.filters)),
        bias_(problem.k) {
    copyBias(problem, weights, bias_.data());
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const ConvProblem& x = problem_;
    const double milliseconds = x.multiplyAdds() / kernel_.multiplyAddsPerMillisecond;
    const int64_t maps = x.n * x.k;
    const int64_t tasks =
        milliseconds < kLeastParallelMilliseconds ? 1 : std::min<int64_t>(maps, 4 * context.threads());
    context.parallelFor(
        tasks,
        [&](int64_t task) {
          const int64_t end = maps * (task + 1) / tasks;
          int64_t map = maps * task / tasks;
          while (map < end && !context.isCancelled()) {
            map += coversMap(x) ? multiplyMap(map, tensors, context.isa) : convolveFrom(map, end, tensors);
          }
        },
        milliseconds < kLeastWakingMilliseconds ? Executor::Sleepers::leave : Executor::Sleepers::wake);
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override { return bias_.bytes(); }

 private:
  /** A map of one output, along whose taps a vector goes. Returns 1. */
  int64_t multiplyMap(int64_t map, const ConvTensors& tensors, Isa isa) const {
    const ConvProblem& x = problem_;
    const int64_t taps = x.h * x.w;
    const int64_t n = map / x.k, k = map % x.k;
    float* const output = tensors.output + map;
    vectorLoops(isa).multiplyColumns({.left = tensors.input + (n * x.c + k / x.groupOutputs()) * taps,
                                      .leftStride = taps,
                                      .rows = 1,
                                      .right = filters_->data.data() + k * taps,
                                      .rightStride = taps,
                                      .columns = 1,
                                      .k = taps,
                                      .sums = output,
                                      .sumsStride = 1});
    const float* const residual = tensors.residual == nullptr ? nullptr : tensors.residual + map;
    finishOutputs(output, 1, bias_.data()[k], residual, activation_);
    return 1;
  }

  /** Returns how many maps of [map, end) it took at once: never two of different images, whose filters are apart. */
  int64_t convolveFrom(int64_t map, int64_t end, const ConvTensors& tensors) const {
    const ConvProblem& x = problem_;
    const int64_t n = map / x.k;
    const int64_t k = map % x.k;
    const int64_t c = k / x.groupOutputs();
    const int64_t count = pairs_ && map + 1 < end && k + 1 < x.k ? 2 : 1;
    const int64_t output = map * x.p * x.q;
    const float* residual = tensors.residual == nullptr ? nullptr : tensors.residual + output;
    kernel_.convolve({.problem = &x,
                      .count = count,
                      .input = tensors.input + (n * x.c + c) * x.h * x.w,
                      .filter = filters_->data.data() + k * x.r * x.s,
                      .output = tensors.output + output,
                      .finish = {bias_.data() + k, residual, activation_}});
    return count;
  }

  const ConvProblem problem_;
  const Activation activation_;
  const DepthwiseKernel& kernel_;
  const bool pairs_;
  const std::shared_ptr<const CopiedFilters> filters_;
  AlignedBuffer bias_;
};

std::optional<std::string> refusal(const ConvProblem& problem, const sconv::Switches&) {
  if (problem.groupInputs() == 1) return std::nullopt;
  return "takes one input channel per group; this problem has " + std::to_string(problem.groupInputs());
}

Estimate estimate(const ConvProblem& problem, const CpuInfo& cpu, const sconv::Switches&) {
  const double rate = chooseKernel(problem, cpu).multiplyAddsPerMillisecond;
  return {.milliseconds = problem.multiplyAdds() / rate, .workspaceBytes = 0, .tiles = {}};
}

std::unique_ptr<CpuConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                        const ConvWeights& weights, const CpuInfo& cpu, const sconv::Switches&) {
  const DepthwiseKernel& kernel = chooseKernel(problem, cpu);
  // Padded elements are zeros here.
  if (mustSkipPadding(problem, weights.filters)) return prepareDirect(problem, activation, weights);
  return std::make_unique<DepthwiseConvolution>(problem, activation, weights, kernel);
}

}  // namespace

constexpr CpuAlgorithm kDepthwise{"depthwise", refusal, estimate, hasCopiedFilters, prepare};

}  // namespace warpconv
