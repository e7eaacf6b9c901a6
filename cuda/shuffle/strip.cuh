#pragma once

#include "cuda/shuffle/launches.h"

namespace warpconv::cuda {

/** n / by, for n below 2^31. */
__device__ inline unsigned divide(unsigned n, const Divider& by) {
  return static_cast<unsigned>(uint64_t{n} * by.multiplier >> by.shift);
}

/**
 * An item of the forms with one input map a filter: a segment of the output columns, and `run` output rows, of one
 * output channel of one image. Items are numbered segment fastest, then run, then plane = n * K + k.
 */
struct Strip {
  int segment, firstP, lastP;
  int plane, k;
  const float* map;

  __device__ Strip(const ShuffleCall& call, unsigned item) {
    const Shape& x = call.shape;
    const ShufflePlan& plan = call.plan;
    const unsigned above = divide(item, call.bySegments);
    segment = item - above * plan.segments;
    plane = divide(above, call.byRuns);
    firstP = (above - plane * plan.runs) * plan.run;
    lastP = min(firstP + plan.run, x.p);
    const int n = divide(plane, call.byOutputs);
    k = plane - n * x.k;
    map = call.tensors.input + (n * x.c + static_cast<int>(divide(k, call.byGroupOutputs))) * x.h * x.w;
  }

  /** What the sums begin with. */
  __device__ float bias(const ShuffleCall& call) const {
    return call.epilogue.bias == nullptr ? 0.0f : call.epilogue.bias[k];
  }
};

}  // namespace warpconv::cuda
