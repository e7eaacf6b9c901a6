#pragma once

#include "problem/conv_problem.h"
#include "support/device_array.h"

namespace warpconv::test {

/** Device tensors of one convolution; bias and residual may be empty. */
struct GpuCase {
  ConvProblem problem;
  DeviceArray<float> input;
  DeviceArray<float> weight;
  DeviceArray<float> bias;
  DeviceArray<float> residual;
};

/** What the definition gives, before any activation, and what an error is measured against. */
struct GpuReference {
  /** input * weight + bias + residual in double */
  DeviceArray<double> output;
  /** |input| * |weight| + |bias| + |residual| */
  DeviceArray<double> bound;
  /** The sum as one thread adds it up in float, product by product */
  DeviceArray<float> sequential;
};

/** Written from the definition for large problems; shares no code with the library, and is itself checked on the CPU.
 */
GpuReference referenceOnGpu(const GpuCase& one);

/** How `output` compares with the reference. */
struct Comparison {
  /** Outputs that are not bitwise the reference rounded to float (zeros of either sign are equal; NaN equals NaN) */
  unsigned long long unequal = 0;
  /** Outputs for which |output - reference| <= tolerance * bound does not hold, unless both are NaN or the same
   * infinity */
  unsigned long long outside = 0;
  /** Sums over all outputs of |output - reference| and of |sequential - reference| */
  double error = 0;
  double sequentialError = 0;
};

Comparison compareOnGpu(const float* output, const GpuReference& reference, double tolerance);

}  // namespace warpconv::test
