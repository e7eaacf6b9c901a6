#pragma once

#include "cuda/shuffle/launches.h"

namespace warpconv::cuda {

/**
 * An item of the forms with one input map a filter: a segment of the output columns, and `run` output rows, of one
 * output channel of one image. Items are numbered segment fastest, then run, then plane = n * K + k.
 */
struct Strip {
  int segment, firstP, lastP;
  int plane, k;
  const float* map;

  __device__ Strip(const ShuffleCall& call, int item) {
    const Shape& x = call.shape;
    const ShufflePlan& plan = call.plan;
    const int above = call.bySegments.quotient(item);
    segment = item - above * plan.segments;
    plane = call.byRuns.quotient(above);
    firstP = (above - plane * plan.runs) * plan.run;
    lastP = min(firstP + plan.run, x.p);
    const int n = call.byOutputs.quotient(plane);
    k = plane - n * x.k;
    map = call.tensors.input + (n * x.c + call.byGroupOutputs.quotient(k)) * x.h * x.w;
  }

  /** What the sums begin with. */
  __device__ float bias(const ShuffleCall& call) const {
    return call.epilogue.bias == nullptr ? 0.0f : call.epilogue.bias[k];
  }
};

}  // namespace warpconv::cuda
