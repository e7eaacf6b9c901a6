#include <algorithm>

#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "cuda/operators/strided.h"
#include "typed/work.h"

namespace warpconv::cuda::operators {
namespace {

/** Where positions lie in the values, the data and the indices. */
using Places = Strided<3>;

struct IndexedArguments {
  IndexedStep::Mode mode;
  ElementType type;
  Places free, serial;
  int components;
  int64_t axes[IndexedStep::kMostAxes], axisStrides[IndexedStep::kMostAxes];
  const int64_t* indices;
  const void* input;
  void* output;
};

__device__ void copyElement(ElementType type, const void* input, int64_t from, void* output, int64_t to) {
  switch (program::widthOf(type)) {
    case 1: static_cast<uint8_t*>(output)[to] = static_cast<const uint8_t*>(input)[from]; return;
    case 2: static_cast<uint16_t*>(output)[to] = static_cast<const uint16_t*>(input)[from]; return;
    case 4: static_cast<uint32_t*>(output)[to] = static_cast<const uint32_t*>(input)[from]; return;
    default: static_cast<uint64_t*>(output)[to] = static_cast<const uint64_t*>(input)[from]; return;
  }
}

/**
 * Thread i of the grid owns free position i, and goes through all serial ones in their order: what meets in one place
 * is of one thread, and the result is the same in every run.
 */
template <typename C>
__global__ void __launch_bounds__(kThreads) indexedKernel(const __grid_constant__ IndexedArguments x) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(i) >= static_cast<unsigned>(x.free.count)) return;
  int own[3];
  x.free.find(i, own);
  for (int j = 0; j < x.serial.count; ++j) {
    int offsets[3];
    x.serial.find(j, offsets);
    const int64_t place = typed::placeOfIndices(x.indices + own[2] + offsets[2], x.components, x.axes, x.axisStrides);
    if (place < 0) continue;
    const int64_t value = int64_t{own[0]} + offsets[0], at = int64_t{own[1]} + offsets[1] + place;
    if (x.mode == IndexedStep::Mode::gather) {
      copyElement(x.type, x.input, at, x.output, value);
    } else if (x.mode == IndexedStep::Mode::assign) {
      copyElement(x.type, x.input, value, x.output, at);
    } else {
      const C brought = typed::readAs<C>(x.type, x.input, value);
      typed::writeAs<C>(x.type, typed::scattered(x.mode, typed::readAs<C>(x.type, x.output, at), brought), x.output,
                        at);
    }
  }
}

}  // namespace

Status indexed(const IndexedStep& step, const int64_t* indices, const void* input, void* output, cudaStream_t stream) {
  IndexedArguments x{step.mode, step.type, {}, {}, static_cast<int>(step.axes.size()), {}, {}, indices, input, output};
  const size_t free = step.extents.size() - static_cast<size_t>(step.serialAxes);
  for (size_t axis = 0; axis < step.extents.size(); ++axis) {
    (axis < free ? x.free : x.serial)
        .append(step.extents[axis], {step.valueStrides[axis], step.dataStrides[axis], step.indexStrides[axis]});
  }
  std::copy(step.axes.begin(), step.axes.end(), x.axes);
  std::copy(step.axisStrides.begin(), step.axisStrides.end(), x.axisStrides);
  return typed::withCompute(step.type, [&](auto like) {
    return launch("indexed", indexedKernel<decltype(like)>, gridFor(x.free.count), stream, x);
  });
}

}  // namespace warpconv::cuda::operators
