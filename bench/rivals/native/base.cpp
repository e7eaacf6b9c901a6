// SConv's baseline (Ferrari et al., section 7.1: Caffe's im2col, then OpenBLAS) as the im2col of a build of warpconv,
// which so runs whole networks by it: everything else is the same, the fusion of bias, residual and activation
// included.
#include <algorithm>

#include "cpu/algorithm/epilogue.h"
#include "cpu/im2col/cpu_im2col.h"
#include "im2col.h"
#include "memory/aligned_buffer.h"
#include "openblas.h"

namespace warpconv {
namespace {

rivals::Layer layerOf(const ConvProblem& x) {
  return {.c = x.c,
          .h = x.h,
          .w = x.w,
          .k = x.k,
          .r = x.r,
          .s = x.s,
          .strideH = x.stride.h,
          .strideW = x.stride.w,
          .padH = x.padding.top,
          .padW = x.padding.left,
          .dilationH = x.dilation.h,
          .dilationW = x.dilation.w,
          .groups = x.groups};
}

/** One matrix for all layers, as Caffe has it, which stays: new pages would cost more than writing it does. */
float* matrixOfThread(int64_t elements) {
  static thread_local AlignedBuffer matrix;
  if (matrix.elements() < elements) matrix = AlignedBuffer(elements);
  return matrix.data();
}

/** Of the product of one group: filters and pixels from … up to. */
struct Part {
  int64_t k, kEnd, pixel, pixelEnd;
};

class Base final : public CpuConvolution {
 public:
  Base(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights)
      : problem_(problem),
        layer_(layerOf(problem)),
        activation_(activation),
        filters_(copiedFilters(problem, weights.filters)),
        bias_(problem.k) {
    // The threads are ours: OpenBLAS's own would fight with them for the processors.
    rivals::setOpenBlasThreads(1);
    copyBias(problem, weights, bias_.data());
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const ConvProblem& x = problem_;
    for (int64_t image = 0; image < x.n; ++image) {
      for (int64_t group = 0; group < x.groups; ++group) {
        const float* maps = tensors.input + (image * x.groups + group) * x.groupInputs() * x.h * x.w;
        const int64_t output = image * x.k * pixels();
        const ConvTensors one{columnsOf(maps, context),
                              tensors.residual == nullptr ? nullptr : tensors.residual + output,
                              tensors.output + output};
        multiplyGroup(one, group, context);
      }
    }
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override { return bias_.bytes(); }

 private:
  int64_t pixels() const { return problem_.p * problem_.q; }

  const float* columnsOf(const float* maps, const RunContext& context) const {
    const ConvProblem& x = problem_;
    if (rivals::isMatrix(layer_)) return maps;
    const int64_t elements = x.r * x.s * pixels();
    float* columns = matrixOfThread(x.groupInputs() * elements);
    // Below this a second thread costs more than it brings.
    constexpr int64_t kLeastElements = 100'000;
    const RunContext helpers{x.groupInputs() * elements < kLeastElements ? nullptr : context.executor, nullptr};
    helpers.parallelFor(x.groupInputs(), [&](int64_t c) {
      rivals::writeColumns(layer_, maps + c * x.h * x.w, 1, columns + c * elements);
    });
    return columns;
  }

  /** A part for each thread, of the longer side of the result; the input is the matrix. */
  void multiplyGroup(const ConvTensors& tensors, int64_t group, const RunContext& context) const {
    const int64_t filters = problem_.groupOutputs();
    // About 20 microseconds of multiply-adds.
    constexpr double kLeastMultiplyAdds = 1e6;
    const double work = problem_.multiplyAdds() / static_cast<double>(problem_.n * problem_.groups);
    const int64_t parts = work < kLeastMultiplyAdds ? 1 : context.threads();
    const bool byFilters = filters >= pixels();
    // In whole tiles of the widest micro-kernel.
    constexpr int64_t kTile = 16;
    const int64_t length = byFilters ? filters : pixels();
    const int64_t share = ((length + parts - 1) / parts + kTile - 1) / kTile * kTile;
    context.parallelFor(parts, [&](int64_t part) {
      const int64_t begin = std::min(length, part * share), end = std::min(length, begin + share);
      if (begin == end) return;
      const int64_t k = group * filters;
      multiplyPart(tensors, byFilters ? Part{k + begin, k + end, 0, pixels()} : Part{k, k + filters, begin, end});
    });
  }

  void multiplyPart(const ConvTensors& tensors, const Part& part) const {
    const int64_t depth = problem_.filterSize();
    rivals::multiplyByOpenBlas({.left = filters_->data.data() + part.k * depth,
                                .leftWidth = static_cast<int>(depth),
                                .right = tensors.input + part.pixel,
                                .rightWidth = static_cast<int>(pixels()),
                                .result = tensors.output + part.k * pixels() + part.pixel,
                                .resultWidth = static_cast<int>(pixels()),
                                .rows = static_cast<int>(part.kEnd - part.k),
                                .columns = static_cast<int>(part.pixelEnd - part.pixel),
                                .depth = static_cast<int>(depth)});
    for (int64_t k = part.k; k < part.kEnd; ++k) {
      const int64_t at = k * pixels() + part.pixel;
      const float* residual = tensors.residual == nullptr ? nullptr : tensors.residual + at;
      finishOutputs(tensors.output + at, part.pixelEnd - part.pixel, bias_.data()[k], residual, activation_);
    }
  }

  const ConvProblem problem_;
  const rivals::Layer layer_;
  const Activation activation_;
  const std::shared_ptr<const CopiedFilters> filters_;
  AlignedBuffer bias_;
};

std::optional<std::string> refusal(const ConvProblem& x, const sconv::Switches&) {
  if (x.padding.top == x.padding.bottom && x.padding.left == x.padding.right) return std::nullopt;
  return "takes as much padding at one side as at the other";
}

Estimate estimate(const ConvProblem&, const CpuInfo&, const sconv::Switches&) { return {}; }

std::unique_ptr<CpuConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                        const ConvWeights& weights, const CpuInfo&, const sconv::Switches&) {
  return std::make_unique<Base>(problem, activation, weights);
}

}  // namespace

constexpr CpuAlgorithm kIm2col{"im2col", refusal, estimate, hasCopiedFilters, prepare};

}  // namespace warpconv
