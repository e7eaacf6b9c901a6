#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "cuda/operators/strided.h"
#include "typed/elements.h"
#include "typed/functions.h"

namespace warpconv::cuda::operators {
namespace {

constexpr int kOperands = static_cast<int>(MapStep::kMostOperands);

struct MapArguments {
  MapStep::Operation operation;
  ElementType types[kOperands], outputType;
  const void* operands[kOperands];
  void* output;
  double p, q;
  int count;
  Strided<kOperands> places;
};

/** Thread i of the grid owns element i. All threads take the same way through types and operations. */
template <typename C>
__global__ void __launch_bounds__(kThreads) mapKernel(const __grid_constant__ MapArguments x) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(i) >= static_cast<unsigned>(x.places.count)) return;
  int offsets[kOperands];
  x.places.find(i, offsets);
  C values[kOperands]{};
  for (int operand = 0; operand < x.count; ++operand) {
    values[operand] = typed::readAs<C>(x.types[operand], x.operands[operand], offsets[operand]);
  }
  C result{};
  typed::withFunction<C>(x.operation, x.p, x.q,
                         [&](const auto& function) { result = function(values[0], values[1], values[2]); });
  typed::writeAs<C>(x.outputType, result, x.output, i);
}

}  // namespace

Status map(const MapStep& step, std::span<const void* const> operands, void* output, cudaStream_t stream) {
  MapArguments x{
      step.operation, {}, step.outputType, {}, output, step.p, step.q, static_cast<int>(operands.size()), {}};
  for (size_t i = 0; i < operands.size(); ++i) {
    x.types[i] = step.types[i];
    x.operands[i] = operands[i];
  }
  for (size_t axis = 0; axis < step.extents.size(); ++axis) {
    int64_t strides[kOperands]{};
    for (size_t i = 0; i < operands.size(); ++i) strides[i] = step.strides[i][axis];
    x.places.append(step.extents[axis], strides);
  }
  return typed::withCompute(step.compute, [&](auto like) {
    return launch("map", mapKernel<decltype(like)>, gridFor(x.places.count), stream, x);
  });
}

}  // namespace warpconv::cuda::operators
