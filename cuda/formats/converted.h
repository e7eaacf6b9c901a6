#pragma once

#include <functional>

#include "cuda/formats/conversions.h"
#include "cuda/host/gpu_weights.h"

namespace warpconv::cuda {

/** Makes what computes the request in its format: the algorithm's own convolution, with conversions where it has to. */
Result<std::unique_ptr<GpuConvolution>> prepareConverted(const GpuAlgorithm& algorithm, const GpuRequest& request,
                                                         const GpuWeights& weights);

/** Enqueues a convolution of tensors in the computed format; `workspace` is what it may take. */
using ComputeConverted = std::function<Status(const GpuTensors& tensors, void* workspace)>;

/** Enqueues the conversions of operands, `compute`, and the conversion of its output. */
Status enqueueConverted(const Conversions& conversions, const GpuTensors& tensors, void* workspace, cudaStream_t stream,
                        const ComputeConverted& compute);

}  // namespace warpconv::cuda
