#include "cpu/direct/cpu_direct.h"

#include <algorithm>

#include "cpu/algorithm/epilogue.h"
#include "memory/aligned_buffer.h"

namespace warpconv {
namespace {

class DirectConvolution final : public CpuConvolution {
 public:
  DirectConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights)
      : problem_(problem),
        activation_(activation),
        filters_(copiedFilters(problem, weights.filters)),
        bias_(problem.k) {
    copyBias(problem, weights, bias_.data());
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const ConvProblem& x = problem_;
    context.parallelFor(x.n * x.k, [&](int64_t map) {
      for (int64_t p = 0; p < x.p && !context.isCancelled(); ++p) computeRow(tensors, map / x.k, map % x.k, p);
    });
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override { return bias_.bytes(); }

 private:
  void computeRow(const ConvTensors& tensors, int64_t n, int64_t k, int64_t p) const {
    const ConvProblem& x = problem_;
    const int64_t row = ((n * x.k + k) * x.p + p) * x.q;
    for (int64_t q = 0; q < x.q; ++q) tensors.output[row + q] = static_cast<float>(sum(tensors.input, n, k, p, q));
    const float* residual = tensors.residual == nullptr ? nullptr : tensors.residual + row;
    finishOutputs(tensors.output + row, x.q, bias_.data()[k], residual, activation_);
  }

  /** sum over c, r, s of input[n, c, p * stride + r * dilation - padding, likewise] * weight[k, c, r, s] */
  double sum(const float* input, int64_t n, int64_t k, int64_t p, int64_t q) const {
    const ConvProblem& x = problem_;
    const int64_t firstChannel = k / x.groupOutputs() * x.groupInputs();
    double total = 0;
    for (int64_t c = 0; c < x.groupInputs(); ++c) {
      const float* map = input + (n * x.c + firstChannel + c) * x.h * x.w;
      const float* filter = filters_->data.data() + (k * x.groupInputs() + c) * x.r * x.s;
      for (int64_t r = 0; r < x.r; ++r) {
        const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
        if (h < 0 || h >= x.h) continue;
        for (int64_t s = 0; s < x.s; ++s) {
          const int64_t w = q * x.stride.w + s * x.dilation.w - x.padding.left;
          if (w < 0 || w >= x.w) continue;
          total += static_cast<double>(map[h * x.w + w]) * static_cast<double>(filter[r * x.s + s]);
        }
      }
    }
    return total;
  }

  const ConvProblem problem_;
  const Activation activation_;
  const std::shared_ptr<const CopiedFilters> filters_;
  AlignedBuffer bias_;
};

std::optional<std::string> refusal(const ConvProblem&, const sconv::Switches&) { return std::nullopt; }

Estimate estimate(const ConvProblem& problem, const CpuInfo&, const sconv::Switches&) {
  // bench/cpu/algorithms.ts on one Zen 5 core: 1.2e6 on 3x3 at 56x56, 0.9e6 on 3x3 at 14x14, 0.2e6 on 1x1 at 28x28.
  constexpr double kMultiplyAddsPerMillisecond = 1e6;
  return {.milliseconds = problem.multiplyAdds() / kMultiplyAddsPerMillisecond, .workspaceBytes = 0, .tiles = {}};
}

std::unique_ptr<CpuConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                        const ConvWeights& weights, const CpuInfo&, const sconv::Switches&) {
  return prepareDirect(problem, activation, weights);
}

}  // namespace

std::unique_ptr<CpuConvolution> prepareDirect(const ConvProblem& problem, const Activation& activation,
                                              const ConvWeights& weights) {
  return std::make_unique<DirectConvolution>(problem, activation, weights);
}

constexpr CpuAlgorithm kDirect{"direct", refusal, estimate, hasCopiedFilters, prepare};

}  // namespace warpconv
