#include "cuda/operators/convert.h"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

/** Thread i of the grid owns element i. All threads take the same way through the types. */
__global__ void __launch_bounds__(kThreads)
    castKernel(int count, CastType from, CastType to, const void* input, void* output) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(i) < static_cast<unsigned>(count)) writeNumber(to, readNumber(from, input, i), output, i);
}

}  // namespace

Status cast(const CastStep& step, const void* input, void* output, cudaStream_t stream) {
  return launch("cast", castKernel, gridFor(step.count), stream, static_cast<int>(step.count), step.from, step.to,
                input, output);
}

}  // namespace warpconv::cuda::operators
