#include <cmath>

#include "cuda/operators/lines.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

using Mode = ReduceStep::Mode;

// What is kept of the elements seen so far, how one is added, and how what two workers have is joined. Sums and
// products are in double, as on the CPU: of the elements that a line has, the rounding to float is all that shows.

template <Mode kMode>
struct Sum {
  using Value = double;
  static __device__ Value none() { return 0; }
  static __device__ Value add(Value sum, float x, int) {
    const double element = static_cast<double>(x);
    return sum + (kMode == Mode::sumOfSquares ? element * element : element);
  }
  static __device__ Value join(Value a, Value b) { return a + b; }
  static __device__ float finish(Value sum, int length) {
    return static_cast<float>(kMode == Mode::mean ? sum / static_cast<double>(length) : sum);
  }
};

struct ProductOfLine {
  using Value = double;
  static __device__ Value none() { return 1; }
  static __device__ Value add(Value product, float x, int) { return product * static_cast<double>(x); }
  static __device__ Value join(Value a, Value b) { return a * b; }
  static __device__ float finish(Value product, int) { return static_cast<float>(product); }
};

/** The greatest element or the least; NaN, where there is one. */
template <bool kGreatest>
struct Extreme {
  using Value = float;
  static __device__ Value none() { return kGreatest ? -INFINITY : INFINITY; }
  static __device__ Value add(Value most, float x, int) { return join(most, x); }
  static __device__ Value join(Value a, Value b) {
    const bool beats = kGreatest ? b > a : b < a;
    return beats || b != b ? b : a;
  }
  static __device__ float finish(Value most, int) { return most; }
};

/** Its place. Of equal elements the first or, with kLast, the last; two NaN are equal. */
template <bool kGreatest, bool kLastOfEqual>
struct ExtremePlace {
  struct Value {
    float element;
    /** -1 where there is none */
    int place;
  };
  static __device__ Value none() { return {0.0f, -1}; }
  static __device__ Value add(Value best, float x, int place) { return join(best, {x, place}); }
  static __device__ Value join(Value a, Value b) {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    const bool aIsNaN = a.element != a.element, bIsNaN = b.element != b.element;
    if (aIsNaN != bIsNaN) return bIsNaN ? b : a;
    if (aIsNaN || a.element == b.element) return (b.place > a.place) == kLastOfEqual ? b : a;
    return (kGreatest ? b.element > a.element : b.element < a.element) ? b : a;
  }
  static __device__ int64_t finish(Value best, int) { return max(best.place, 0); }
};

/** Lines says which block has which lines; output [outer, inner] has one element for each. */
template <typename Fold, typename Output>
__global__ void __launch_bounds__(Lines::kMostThreads) reduceKernel(Lines lines, const float* input, Output* output) {
  beginStep();
  __shared__ typename Fold::Value shared[Lines::kMostThreads];
  const Lines::Place own = lines.place(static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  typename Fold::Value value = Fold::none();
  if (own.exists) {
    const float* line = input + (int64_t{own.row} * lines.length * lines.inner + own.column);
    for (int i = own.worker; i < lines.length; i += lines.workers) {
      value = Fold::add(value, line[int64_t{i} * lines.inner], i);
    }
  }
  value = joinWorkers(lines, own.worker, value, shared, [](auto a, auto b) { return Fold::join(a, b); });
  if (own.exists && own.worker == 0) {
    output[int64_t{own.row} * lines.inner + own.column] = Fold::finish(value, lines.length);
  }
}

template <typename Fold, typename Output>
Status launchReduce(const Lines& lines, const float* input, void* output, cudaStream_t stream) {
  return launch("reduce", reduceKernel<Fold, Output>, gridFor(lines), stream, lines, input,
                static_cast<Output*>(output));
}

template <bool kGreatest>
Status launchPlace(bool last, const Lines& lines, const float* input, void* output, cudaStream_t stream) {
  return last ? launchReduce<ExtremePlace<kGreatest, true>, int64_t>(lines, input, output, stream)
              : launchReduce<ExtremePlace<kGreatest, false>, int64_t>(lines, input, output, stream);
}

}  // namespace

Status reduce(const ReduceStep& step, const float* input, void* output, cudaStream_t stream) {
  if (step.outer == 0 || step.inner == 0) return {};
  const Lines lines = shareLines(step.outer, step.reduced, step.inner);
  switch (step.mode) {
    case Mode::sum: return launchReduce<Sum<Mode::sum>, float>(lines, input, output, stream);
    case Mode::mean: return launchReduce<Sum<Mode::mean>, float>(lines, input, output, stream);
    case Mode::sumOfSquares: return launchReduce<Sum<Mode::sumOfSquares>, float>(lines, input, output, stream);
    case Mode::product: return launchReduce<ProductOfLine, float>(lines, input, output, stream);
    case Mode::maximum: return launchReduce<Extreme<true>, float>(lines, input, output, stream);
    case Mode::minimum: return launchReduce<Extreme<false>, float>(lines, input, output, stream);
    case Mode::argMaximum: return launchPlace<true>(step.last, lines, input, output, stream);
    case Mode::argMinimum: return launchPlace<false>(step.last, lines, input, output, stream);
  }
  return {StatusCode::internal, "a reduce step has no such mode"};
}

}  // namespace warpconv::cuda::operators
