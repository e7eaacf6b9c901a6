#include "cpu/sconv/subsampled.h"

#include <utility>

#include "cpu/algorithm/helpers.h"
#include "divide.h"
#include "memory/aligned_buffer.h"

namespace warpconv::sconv {
namespace {

/** One core of Emerald Rapids copies every other pixel of 56 x 56, 28 x 28 and 14 x 14 at 1.0e6 to 1.2e6. */
constexpr double kCopiedPixelsPerMillisecond = 1.1e6;

/** Multiply-adds that take as long as the copy of one pixel. AVX-512's microkernels make 110e6 a millisecond. */
constexpr double kMultiplyAddsPerPixel = 110e6 / kCopiedPixelsPerMillisecond;

/** Fewer filters leave too little arithmetic for a pixel that is copied. */
constexpr int64_t kLeastFilters = 64;

class SubsampledConvolution final : public CpuConvolution {
 public:
  SubsampledConvolution(const ConvProblem& problem, const ConvProblem& subsampled,
                        std::unique_ptr<CpuConvolution> convolution)
      : problem_(problem),
        subsampled_(subsampled),
        convolution_(std::move(convolution)),
        helpers_(kMultiplyAddsPerPixel * static_cast<double>(subsampled.inputSize())) {}

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    AlignedBuffer pixels(subsampled_.inputSize());
    helpers_.parallelFor(context, problem_.n * problem_.c,
                         [&](int64_t map) { copyMap(map, tensors.input, pixels.data()); });
    return convolution_->run({pixels.data(), tensors.residual, tensors.output}, context);
  }

  int64_t bytes() const override { return convolution_->bytes(); }

 private:
  void copyMap(int64_t map, const float* input, float* pixels) const {
    const ConvProblem& x = problem_;
    const float* from = input + map * x.h * x.w;
    float* to = pixels + map * x.p * x.q;
    for (int64_t p = 0; p < x.p; ++p, from += x.stride.h * x.w, to += x.q) copyRow(from, to);
  }

  void copyRow(const float* from, float* to) const {
    const int64_t q = problem_.q;
    const int64_t stride = problem_.stride.w;
    if (stride == 2) {
      // The one that is used, in vectors
      for (int64_t i = 0; i < q; ++i) to[i] = from[2 * i];
    } else {
      for (int64_t i = 0; i < q; ++i) to[i] = from[stride * i];
    }
  }

  const ConvProblem problem_;
  const ConvProblem subsampled_;
  const std::unique_ptr<CpuConvolution> convolution_;
  const Helpers helpers_;
};

}  // namespace

std::optional<ConvProblem> subsampledProblem(const ConvProblem& problem) {
  const bool isStridedPointwise = problem.r * problem.s == 1 && problem.stride.h * problem.stride.w > 1;
  if (!isStridedPointwise || problem.hasPadding() || problem.groupOutputs() < kLeastFilters) return std::nullopt;
  ConvProblem subsampled = problem;
  subsampled.h = problem.p;
  subsampled.w = problem.q;
  subsampled.stride = {1, 1};
  return subsampled;
}

double subsamplingMilliseconds(const ConvProblem& subsampled) {
  return static_cast<double>(subsampled.inputSize()) / kCopiedPixelsPerMillisecond;
}

int64_t subsampledBytes(const ConvProblem& subsampled) {
  return saturatedProduct({subsampled.inputSize(), static_cast<int64_t>(sizeof(float))});
}

std::unique_ptr<CpuConvolution> convolveSubsampled(const ConvProblem& problem, const ConvProblem& subsampled,
                                                   std::unique_ptr<CpuConvolution> convolution) {
  return std::make_unique<SubsampledConvolution>(problem, subsampled, std::move(convolution));
}

}  // namespace warpconv::sconv
