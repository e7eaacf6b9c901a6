#pragma once

#include <cstdint>
#include <vector>

#include "program/steps.h"
#include "status.h"

namespace warpconv::program {

/** Indices that must be in range: number i counts along axis i % axes.size(), of that extent. */
struct CheckedIndices {
  Buffer indices;
  int64_t count;
  std::vector<int64_t> axes;

  int64_t axisOf(int64_t i) const { return axes[static_cast<size_t>(i) % axes.size()]; }
};

CheckedIndices checkedIndices(const GatherStep& step);
CheckedIndices checkedIndices(const IndexedStep& step);
CheckedIndices checkedIndices(const RoiAlignStep& step);

/** What a run fails with where index number `place`, of an axis of that extent, is out of range. */
Status wrongIndex(int64_t place, int64_t index, int64_t axis);

/** Fails so for the first of its indices that is out of range. */
Status checkIndices(const CheckedIndices& checked, const int64_t* indices);

}  // namespace warpconv::program
