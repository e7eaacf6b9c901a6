#pragma once

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/gpu_tensors.h"
#include "cuda/kernel/fast_divisor.h"
#include "cuda/kernel/launch.cuh"
#include "cuda/shuffle/shuffle_plan.h"

namespace warpconv::cuda {

/** Everything a launch takes but the stream. */
struct ShuffleCall {
  Shape shape;
  ShufflePlan plan;
  FloatTensors tensors;
  const float* weight;
  Epilogue epilogue;
  /** Elements that every row of the input may be read by at once, and every row of the output written: 4, 2 or 1 */
  int loadWidth;
  int storeWidth;
  /**
   * By the plan's lanes, segments and runs, and the problem's k and groupOutputs: a kernel's first instructions are
   * divisions otherwise
   */
  FastDivisor byLanes, bySegments, byRuns, byOutputs, byGroupOutputs;
  bool overlaps;

  /** Of the plan's blocks */
  Launch launch(int threads = kShuffleThreads) const {
    return {static_cast<unsigned>(plan.blocks), static_cast<unsigned>(threads), plan.sharedBytes, overlaps};
  }
};

/** What take<F, T>() returns for an F x F filter and a stride of T, as all forms but `blocked` have them. */
template <typename Take>
auto withSquareFilter(int extent, int stride, const Take& take) {
  const auto withStride = [&]<int F>() {
    return stride == 1 ? take.template operator()<F, 1>() : take.template operator()<F, 2>();
  };
  switch (extent) {
    case 3: return withStride.template operator()<3>();
    case 5: return withStride.template operator()<5>();
    default: return withStride.template operator()<7>();
  }
}

cudaError_t launchSliding(const ShuffleCall& call, cudaStream_t stream);
cudaError_t launchBlocked(const ShuffleCall& call, cudaStream_t stream);
cudaError_t launchWide(const ShuffleCall& call, cudaStream_t stream);
cudaError_t launchWideFilters(const ShuffleCall& call, cudaStream_t stream);
cudaError_t launchDilated(const ShuffleCall& call, cudaStream_t stream);
cudaError_t launchPlanes(const ShuffleCall& call, cudaStream_t stream);

}  // namespace warpconv::cuda
