#include "program/indices.h"

#include <string>

namespace warpconv::program {

Status wrongIndex(const GatherStep& step, int64_t place, int64_t index) {
  return invalidArgument("element " + std::to_string(place) + " of the indices of a gather is " +
                         std::to_string(index) + "; the axis has " + std::to_string(step.axis) +
                         " elements, so it must be from " + std::to_string(-step.axis) + " to " +
                         std::to_string(step.axis - 1));
}

Status checkIndices(const GatherStep& step, const int64_t* indices) {
  for (int64_t i = 0; i < step.count; ++i) {
    if (indices[i] < -step.axis || indices[i] >= step.axis) return wrongIndex(step, i, indices[i]);
  }
  return {};
}

}  // namespace warpconv::program
