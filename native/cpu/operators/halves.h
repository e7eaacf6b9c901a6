#pragma once

#include <span>

#include "cpu/algorithm/cpu_algorithm.h"
#include "program/steps.h"

/**
 * Steps with types on the CPU, by the functions for float32: for what is tried without a GPU, which sessions on the CPU
 * never ask for.
 */
namespace warpconv::operators::halves {

using namespace program;

void elementwise(const ElementwiseStep& step, std::span<const void* const> operands, void* output,
                 const RunContext& context);
void pool(const PoolStep& step, const void* input, void* output, const RunContext& context);
void reduce(const ReduceStep& step, const void* input, void* output, const RunContext& context);
void normalize(const NormalizeStep& step, const float* scale, const float* shift, const void* input, void* output,
               const RunContext& context);
void squeezeExcite(const SqueezeExciteStep& step, const void* input, const float* hiddenWeight, const float* hiddenBias,
                   const float* gateWeight, const float* gateBias, void* output, const RunContext& context);
void interpolate(const InterpolateStep& step, const void* input, void* output, const RunContext& context);
void format(const FormatStep& step, const void* input, void* output, const RunContext& context);

}  // namespace warpconv::operators::halves
