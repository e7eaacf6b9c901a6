#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "typed/regions.h"
#include "typed/work.h"

namespace warpconv::cuda::operators {
namespace {

/** The step without its buffers; functions of typed/regions.h take any such struct. */
struct Regions {
  int elements;
  bool greatest;
  int64_t n, channels, h, w, p, q, samples;
  double scale;
  bool halfPixel;
};

/** Thread i of the grid owns element i of the output. A region of an image that there is not takes the first. */
template <typename C>
__global__ void __launch_bounds__(kThreads)
    roiAlignKernel(Regions x, const int64_t* images, const C* boxes, const C* input, C* output) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(i) >= static_cast<unsigned>(x.elements)) return;
  const int bins = static_cast<int>(x.channels * x.p * x.q), region = i / bins;
  const int64_t stride = 1, image = typed::placeOfIndices(images + region, 1, &x.n, &stride);
  output[i] = typed::alignedBin<C>(x, input, boxes + 4 * region, image < 0 ? 0 : image, i - region * bins);
}

}  // namespace

Status roiAlign(const RoiAlignStep& step, const int64_t* images, const void* boxes, const void* input, void* output,
                cudaStream_t stream) {
  if (step.n == 0) return {};
  const int64_t elements = step.regions * step.channels * step.p * step.q;
  const Regions x{static_cast<int>(elements),
                  step.greatest,
                  step.n,
                  step.channels,
                  step.h,
                  step.w,
                  step.p,
                  step.q,
                  step.samples,
                  step.scale,
                  step.halfPixel};
  const auto compute = [&](auto like) {
    using C = decltype(like);
    return launch("roiAlign", roiAlignKernel<C>, gridFor(elements), stream, x, images, static_cast<const C*>(boxes),
                  static_cast<const C*>(input), static_cast<C*>(output));
  };
  return step.type == ElementType::float64 ? compute(double{}) : compute(float{});
}

}  // namespace warpconv::cuda::operators
