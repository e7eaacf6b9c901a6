#pragma once

#include "cuda/epilogue.cuh"
#include "cuda/shuffle/shuffle_plan.h"

namespace warpconv::cuda {

/** Everything a launch takes but the stream. */
struct ShuffleCall {
  Shape shape;
  ShufflePlan plan;
  GpuTensors tensors;
  const float* weight;
  Epilogue epilogue;
  /** Elements that every row of the input may be read by at once, and every row of the output written: 4, 2 or 1 */
  int loadWidth;
  int storeWidth;
  /** By the plan's lanes, segments and runs, and the problem's k and groupOutputs */
  Divider byLanes, bySegments, byRuns, byOutputs, byGroupOutputs;
};

void launchSliding(const ShuffleCall& call, cudaStream_t stream);
void launchBlocked(const ShuffleCall& call, cudaStream_t stream);
void launchWide(const ShuffleCall& call, cudaStream_t stream);
void launchWideFilters(const ShuffleCall& call, cudaStream_t stream);
void launchPlanes(const ShuffleCall& call, cudaStream_t stream);

}  // namespace warpconv::cuda
