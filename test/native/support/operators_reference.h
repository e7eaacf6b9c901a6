#pragma once

#include <cstdint>
#include <vector>

#include "program/steps.h"

/** The steps of a network in double precision, written from their definitions and sharing no code with the library. */
namespace warpconv::test {

struct Expected {
  std::vector<double> output;
  /** What a rounding error is measured against, for each element: the sum of the magnitudes that are summed */
  std::vector<double> bound;
};

/** Elements are found by the last position that the strides reach, so the vectors may hold more. */
Expected matmulInDouble(const program::MatmulStep& step, const std::vector<float>& left,
                        const std::vector<float>& right, const std::vector<float>& bias);
std::vector<double> elementwiseInDouble(const program::ElementwiseStep& step,
                                        const std::vector<std::vector<float>>& operands);
/** One instruction on numbers. */
double applyInDouble(const program::ElementwiseStep::Instruction& code, double a, double b);
Expected poolInDouble(const program::PoolStep& step, const std::vector<float>& input);
/** Places for argMaximum and argMinimum. */
Expected reduceInDouble(const program::ReduceStep& step, const std::vector<float>& input);
std::vector<double> softmaxInDouble(const program::SoftmaxStep& step, const std::vector<float>& input);
Expected normalizeInDouble(const program::NormalizeStep& step, const std::vector<float>& scale,
                           const std::vector<float>& shift, const std::vector<float>& input);
std::vector<double> localResponseInDouble(const program::LocalResponseStep& step, const std::vector<float>& input);
Expected interpolateInDouble(const program::InterpolateStep& step, const std::vector<float>& input);

/** Calls body(position) for every position of the extents, the last axis fastest. */
template <typename Body>
void forEachPosition(const std::vector<int64_t>& extents, Body body) {
  std::vector<int64_t> position(extents.size(), 0);
  for (const int64_t extent : extents) {
    if (extent == 0) return;
  }
  while (true) {
    body(position);
    size_t axis = extents.size();
    while (axis > 0 && ++position[axis - 1] == extents[axis - 1]) position[--axis] = 0;
    if (axis == 0) return;
  }
}

inline int64_t offsetAt(const std::vector<int64_t>& position, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < position.size(); ++axis) offset += position[axis] * strides[axis];
  return offset;
}

}  // namespace warpconv::test
