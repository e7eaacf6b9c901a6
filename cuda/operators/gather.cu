#include <algorithm>

#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "cuda/operators/words.cuh"

namespace warpconv::cuda::operators {
namespace {

struct Rows {
  /** Of the output, and of one row */
  int words, rowWords;
  FastDivisor byRow, byCount;
  int axis;
};

__device__ bool isInRange(int64_t index, int64_t axis) { return index >= -axis && index < axis; }

/** Thread t of the grid moves word t = (outer * count + i) * rowWords + j of the output. */
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    gatherKernel(Rows x, const int64_t* indices, const Word* input, Word* output) {
  beginStep();
  const int word = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(word) >= static_cast<unsigned>(x.words)) return;
  // j = t % rowWords, i = t / rowWords % count, outer = t / (rowWords * count)
  int j = word;
  int i = x.byRow.divide(j);
  const int outer = x.byCount.divide(i);
  const int64_t index = indices[i];
  const int64_t row = !isInRange(index, x.axis) ? 0 : index < 0 ? index + x.axis : index;
  output[word] = input[(int64_t{outer} * x.axis + row) * x.rowWords + j];
}

/** Index i counts along axis i % components. */
struct Axes {
  int components;
  int64_t extents[IndexedStep::kMostAxes];
};

/** One block, whose thread t looks at indices t, t + kThreads, …. Shared memory has the first wrong one of each. */
__global__ void __launch_bounds__(kThreads)
    findWrongKernel(int count, Axes axes, const int64_t* indices, WrongIndex* wrong) {
  beginStep();
  __shared__ int firsts[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  int first = count;
  for (int i = thread; i < count && first == count; i += kThreads) {
    if (!isInRange(indices[i], axes.extents[i % axes.components])) first = i;
  }
  firsts[thread] = first;
  __syncthreads();
  for (int apart = kThreads / 2; apart > 0; apart /= 2) {
    if (thread < apart) firsts[thread] = min(firsts[thread], firsts[thread + apart]);
    __syncthreads();
  }
  if (thread > 0) return;
  *wrong = firsts[0] < count ? WrongIndex{firsts[0], indices[firsts[0]]} : WrongIndex{-1, 0};
}

/** The widest word of which every row has a whole number, on its boundary. */
int wordOf(const GatherStep& step, const void* input, const void* output) {
  const auto together = reinterpret_cast<uintptr_t>(input) | reinterpret_cast<uintptr_t>(output) |
                        static_cast<uintptr_t>(step.inner * step.bytes);
  int word = static_cast<int>(step.bytes);
  while (word < 16 && together % static_cast<uintptr_t>(2 * word) == 0) word *= 2;
  return word;
}

}  // namespace

Status findWrongIndex(const CheckedIndices& checked, const int64_t* indices, WrongIndex* wrong, cudaStream_t stream) {
  Axes axes{static_cast<int>(checked.axes.size()), {}};
  std::copy(checked.axes.begin(), checked.axes.end(), axes.extents);
  return launch("gather", findWrongKernel, Launch{1, kThreads}, stream, static_cast<int>(checked.count), axes, indices,
                wrong);
}

Status gather(const GatherStep& step, const int64_t* indices, const void* input, void* output, cudaStream_t stream) {
  if (step.outer * step.count * step.inner * step.axis == 0) return {};
  const int bytes = wordOf(step, input, output);
  const int64_t rowWords = step.inner * step.bytes / bytes;
  const int64_t words = step.outer * step.count * rowWords;
  const Rows x{static_cast<int>(words), static_cast<int>(rowWords), FastDivisor(static_cast<int>(rowWords)),
               FastDivisor(static_cast<int>(step.count)), static_cast<int>(step.axis)};
  return withWord(bytes, [&](auto word) {
    using Word = decltype(word);
    return launch("gather", gatherKernel<Word>, gridFor(words), stream, x, indices, static_cast<const Word*>(input),
                  static_cast<Word*>(output));
  });
}

}  // namespace warpconv::cuda::operators
