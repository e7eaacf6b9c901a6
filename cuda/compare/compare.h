#pragma once

#include <string>
#include <vector>

#include "cuda/algorithm.h"
#include "cuda/queue.h"
#include "gpu/gpu.h"

namespace warpconv::cuda {

/** As Gpu::compareWithCudnn. Times are warm medians (timing.h). */
Result<CudnnComparison> compareWithCudnn(Queue& queue, const GpuAlgorithm& algorithm, const GpuRequest& request,
                                         const float* input, const float* weight,
                                         const std::vector<std::string>& libraries);

}  // namespace warpconv::cuda
