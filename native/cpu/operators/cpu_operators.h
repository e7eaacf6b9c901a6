#pragma once

#include <span>

#include "cpu/algorithm/cpu_algorithm.h"
#include "program/steps.h"
#include "status.h"

/**
 * The steps of a network on the CPU, but for convolutions, each with its tensors. They check nothing: a program's steps
 * were checked when it was made. Each splits its work over the threads of `context`, with the same result for any
 * number of them, and looks at its cancellation now and then.
 */
namespace warpconv::operators {

using namespace program;

void matmul(const MatmulStep& step, const float* left, const float* right, const float* bias, float* output,
            const RunContext& context);
/** The output may be an operand that has its layout; otherwise no step's output may overlap what it reads. */
void elementwise(const ElementwiseStep& step, std::span<const float* const> operands, float* output,
                 const RunContext& context);
void pool(const PoolStep& step, const float* input, float* output, const RunContext& context);
/** `output` holds int64 for argMaximum and argMinimum, and float32 otherwise. */
void reduce(const ReduceStep& step, const float* input, void* output, const RunContext& context);
void softmax(const SoftmaxStep& step, const float* input, float* output, const RunContext& context);
/** `scale` and `shift` may be null. */
void normalize(const NormalizeStep& step, const float* scale, const float* shift, const float* input, float* output,
               const RunContext& context);
void localResponse(const LocalResponseStep& step, const float* input, float* output, const RunContext& context);
void copy(const CopyStep& step, const void* input, void* output, const RunContext& context);
void fill(const FillStep& step, float* output);
/** Fails with invalidArgument for an index that is out of range; the output is then unfinished. */
Status gather(const GatherStep& step, const int64_t* indices, const void* input, void* output,
              const RunContext& context);
void interpolate(const InterpolateStep& step, const float* input, float* output, const RunContext& context);
void map(const MapStep& step, std::span<const void* const> operands, void* output, const RunContext& context);
/** Fails as gather does. Scattering, the output holds the data already. */
Status indexed(const IndexedStep& step, const int64_t* indices, const void* input, void* output,
               const RunContext& context);
/** Fails as gather does. */
Status roiAlign(const RoiAlignStep& step, const int64_t* images, const void* boxes, const void* input, void* output,
                const RunContext& context);
void sort(const SortStep& step, const void* input, int64_t* output, const RunContext& context);
void scan(const ScanStep& step, const void* input, void* output, const RunContext& context);
void typedReduce(const TypedReduceStep& step, const void* input, void* output, const RunContext& context);
/** The tensors of a recurrent step; all but the first two and the output may be null. */
struct RecurrentTensors {
  const float *gates, *recurrent, *productBias, *peepholes, *initialHidden, *initialCell;
  const int32_t* lengths;
  float* output;
};
void recurrent(const RecurrentStep& step, const RecurrentTensors& tensors, const RunContext& context);
void typedMatmul(const TypedMatmulStep& step, const void* left, const void* right, void* output,
                 const RunContext& context);

}  // namespace warpconv::operators
