#include "program/indices.h"

#include <string>

namespace warpconv::program {

Status wrongIndex(int64_t place, int64_t index, int64_t axis) {
  return invalidArgument("element " + std::to_string(place) + " of the indices of a gather or scatter is " +
                         std::to_string(index) + "; the axis has " + std::to_string(axis) +
                         " elements, so it must be from " + std::to_string(-axis) + " to " + std::to_string(axis - 1));
}

CheckedIndices checkedIndices(const GatherStep& step) { return {step.indices, step.count, {step.axis}}; }

CheckedIndices checkedIndices(const IndexedStep& step) { return {step.indices, step.indexCount, step.axes}; }

CheckedIndices checkedIndices(const RoiAlignStep& step) { return {step.images, step.regions, {step.n}}; }

Status checkIndices(const CheckedIndices& checked, const int64_t* indices) {
  for (int64_t i = 0; i < checked.count; ++i) {
    const int64_t axis = checked.axisOf(i);
    if (indices[i] < -axis || indices[i] >= axis) return wrongIndex(i, indices[i], axis);
  }
  return {};
}

}  // namespace warpconv::program
