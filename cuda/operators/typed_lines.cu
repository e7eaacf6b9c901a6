#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "cuda/operators/strided.h"
#include "typed/work.h"

namespace warpconv::cuda::operators {
namespace {

/** The same for all threads; program::SortStep as kernels take it. */
struct Sorting {
  ElementType type;
  int length, inner, count, elements;
  bool greatest;
};

/** Thread i of the grid owns element i of the input: its rank in its line is how many come before it. */
template <typename C>
__global__ void __launch_bounds__(kThreads) sortKernel(Sorting x, const void* input, int64_t* output) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(i) >= static_cast<unsigned>(x.elements)) return;
  const int column = i % x.inner, place = i / x.inner % x.length, outer = i / x.inner / x.length;
  const int64_t line = int64_t{outer} * x.length * x.inner + column;
  const C own = typed::readAs<C>(x.type, input, i);
  int rank = 0;
  for (int other = 0; other < x.length && rank < x.count; ++other) {
    const C element = typed::readAs<C>(x.type, input, line + int64_t{other} * x.inner);
    const bool isEqual = !typed::isBefore(element, own, x.greatest) && !typed::isBefore(own, element, x.greatest);
    if (typed::isBefore(element, own, x.greatest) || (isEqual && other < place)) ++rank;
  }
  if (rank < x.count) output[(int64_t{outer} * x.count + rank) * x.inner + column] = place;
}

// Steps without their lists and buffers, which kernels cannot hold; functions of typed/work.h take any such struct.

struct Scanning {
  ScanStep::Mode mode;
  ElementType type;
  int64_t length, inner;
  bool exclusive, reversed;
};

/** Thread i of the grid owns line i. */
template <typename C>
__global__ void __launch_bounds__(kThreads) scanKernel(int lines, Scanning x, const void* input, void* output) {
  beginStep();
  const int line = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(line) < static_cast<unsigned>(lines)) typed::scanLine<C>(x, input, output, line);
}

struct Reducing {
  ReduceStep::Mode mode;
  ElementType type;
  int64_t reduced, inner;
  bool last;
};

/** Thread i of the grid owns element i of the output. */
template <typename C>
__global__ void __launch_bounds__(kThreads) reduceKernel(int lines, Reducing x, const void* input, void* output) {
  beginStep();
  const int line = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(line) < static_cast<unsigned>(lines)) typed::reduceLine<C>(x, input, output, line);
}

struct TypedProduct {
  ElementType leftType, rightType, outputType;
  int64_t k, leftStep, rightStep;
  Strided<2> places;
};

/** Thread i of the grid owns element i of the output. */
template <typename C>
__global__ void __launch_bounds__(kThreads)
    matmulKernel(const __grid_constant__ TypedProduct x, const void* left, const void* right, void* output) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(i) >= static_cast<unsigned>(x.places.count)) return;
  int offsets[2];
  x.places.find(i, offsets);
  const typed::Vector row{x.leftType, offsets[0], x.leftStep}, column{x.rightType, offsets[1], x.rightStep};
  typed::writeAs<C>(x.outputType, typed::dotOf<C>(row, column, left, right, x.k), output, i);
}

}  // namespace

Status sort(const SortStep& step, const void* input, int64_t* output, cudaStream_t stream) {
  const int64_t elements = step.outer * step.length * step.inner;
  const Sorting x{step.type,
                  static_cast<int>(step.length),
                  static_cast<int>(step.inner),
                  static_cast<int>(step.count),
                  static_cast<int>(elements),
                  step.greatest};
  return typed::withCompute(step.type, [&](auto like) {
    return launch("sort", sortKernel<decltype(like)>, gridFor(elements), stream, x, input, output);
  });
}

Status scan(const ScanStep& step, const void* input, void* output, cudaStream_t stream) {
  const Scanning x{step.mode, step.type, step.length, step.inner, step.exclusive, step.reversed};
  const int64_t lines = step.outer * step.inner;
  return typed::withCompute(step.type, [&](auto like) {
    return launch("scan", scanKernel<decltype(like)>, gridFor(lines), stream, static_cast<int>(lines), x, input,
                  output);
  });
}

Status typedReduce(const TypedReduceStep& step, const void* input, void* output, cudaStream_t stream) {
  const Reducing x{step.mode, step.type, step.reduced, step.inner, step.last};
  const int64_t lines = step.outer * step.inner;
  return typed::withCompute(step.type, [&](auto like) {
    return launch("reduce", reduceKernel<decltype(like)>, gridFor(lines), stream, static_cast<int>(lines), x, input,
                  output);
  });
}

Status typedMatmul(const TypedMatmulStep& step, const void* left, const void* right, void* output,
                   cudaStream_t stream) {
  const size_t batch = step.batch.size();
  TypedProduct x{
      step.leftType, step.rightType, step.outputType, step.k, step.leftStrides.back(), step.rightStrides[batch], {}};
  for (size_t axis = 0; axis < batch; ++axis) {
    x.places.append(step.batch[axis], {step.leftStrides[axis], step.rightStrides[axis]});
  }
  x.places.append(step.m, {step.leftStrides[batch], 0});
  x.places.append(step.n, {0, step.rightStrides.back()});
  return typed::withCompute(step.compute, [&](auto like) {
    return launch("matmul", matmulKernel<decltype(like)>, gridFor(x.places.count), stream, x, left, right, output);
  });
}

}  // namespace warpconv::cuda::operators
