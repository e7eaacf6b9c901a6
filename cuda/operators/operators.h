#pragma once

#include <cstdint>
#include <span>

#include "program/indices.h"
#include "program/steps.h"
#include "status.h"

typedef struct CUstream_st* cudaStream_t;

/**
 * The steps of a network on a GPU, but for convolutions: each enqueues its kernels on a stream, with tensors in device
 * memory on boundaries of their elements, and neither waits nor allocates. Only for steps that `refusal` of limits.h
 * lets pass. The device is current.
 */
namespace warpconv::cuda::operators {

using namespace program;

/** `multiprocessors` of the device: how many blocks it takes to occupy it. */
Status matmul(const MatmulStep& step, const float* left, const float* right, const float* bias, float* output,
              int multiprocessors, cudaStream_t stream);
/** The output may be an operand that has its layout; otherwise no step's output may overlap what it reads. */
Status elementwise(const ElementwiseStep& step, std::span<const float* const> operands, float* output,
                   cudaStream_t stream);
/** Of steps that are not plain: with types, or an output that is not dense. */
Status elementwiseHalves(const ElementwiseStep& step, std::span<const void* const> operands, void* output,
                         cudaStream_t stream);
Status pool(const PoolStep& step, const float* input, float* output, cudaStream_t stream);
Status poolHalves(const PoolStep& step, const void* input, void* output, cudaStream_t stream);
/** `output` holds int64 for argMaximum and argMinimum, and float32 otherwise. */
Status reduce(const ReduceStep& step, const float* input, void* output, cudaStream_t stream);
Status reduceHalves(const ReduceStep& step, const void* input, float* output, cudaStream_t stream);
Status softmax(const SoftmaxStep& step, const float* input, float* output, cudaStream_t stream);
/** `scale` and `shift` may be null. */
Status normalize(const NormalizeStep& step, const float* scale, const float* shift, const float* input, float* output,
                 cudaStream_t stream);
Status normalizeHalves(const NormalizeStep& step, const float* scale, const float* shift, const void* input,
                       void* output, cudaStream_t stream);
Status localResponse(const LocalResponseStep& step, const float* input, float* output, cudaStream_t stream);
/** The constants of squeeze-and-excitation, on the device; biases may be null. */
struct Gates {
  const float *hiddenWeight, *hiddenBias, *gateWeight, *gateBias;
};
Status squeezeExcite(const SqueezeExciteStep& step, const Gates& gates, const void* input, void* output,
                     cudaStream_t stream);
Status copy(const CopyStep& step, const void* input, void* output, cudaStream_t stream);
Status fill(const FillStep& step, float* output, cudaStream_t stream);

/** What findWrongIndex has found. */
struct WrongIndex {
  /** Among the indices; -1 where all are in range */
  int64_t place;
  int64_t index;
};

/** Writes the first index that is out of range to `wrong`. */
Status findWrongIndex(const CheckedIndices& checked, const int64_t* indices, WrongIndex* wrong, cudaStream_t stream);
/** Takes an index that is out of range for 0: nothing beyond the input is read. */
Status gather(const GatherStep& step, const int64_t* indices, const void* input, void* output, cudaStream_t stream);

/** With the step's positions and weights in device memory. */
Status interpolate(const InterpolateStep& step, const int32_t* positions, const float* weights, const float* input,
                   float* output, cudaStream_t stream);
Status interpolateHalves(const InterpolateStep& step, const int32_t* positions, const float* weights, const void* input,
                         void* output, cudaStream_t stream);
Status map(const MapStep& step, std::span<const void* const> operands, void* output, cudaStream_t stream);
/** Leaves out what has an index that is out of range. Scattering, the output holds the data already. */
Status indexed(const IndexedStep& step, const int64_t* indices, const void* input, void* output, cudaStream_t stream);
/** Takes an image that is out of range for the first. */
Status roiAlign(const RoiAlignStep& step, const int64_t* images, const void* boxes, const void* input, void* output,
                cudaStream_t stream);
Status sort(const SortStep& step, const void* input, int64_t* output, cudaStream_t stream);
Status scan(const ScanStep& step, const void* input, void* output, cudaStream_t stream);
Status typedReduce(const TypedReduceStep& step, const void* input, void* output, cudaStream_t stream);
/** The tensors of a recurrent step; all but the first two and the output may be null. */
struct RecurrentTensors {
  const float *gates, *recurrent, *productBias, *peepholes, *initialHidden, *initialCell;
  const int32_t* lengths;
  float* output;
};
/** `multiprocessors` as for a product of matrices. */
Status recurrent(const RecurrentStep& step, const RecurrentTensors& tensors, int multiprocessors, cudaStream_t stream);
Status typedMatmul(const TypedMatmulStep& step, const void* left, const void* right, void* output, cudaStream_t stream);

}  // namespace warpconv::cuda::operators
