#pragma once

#include <cstdint>

#include "program/steps.h"
#include "status.h"

namespace warpconv::program {

/** What a run fails with where index number `place` of a gather, `index`, is out of range. */
Status wrongIndex(const GatherStep& step, int64_t place, int64_t index);

/** Fails so for the first of its indices that is out of range. */
Status checkIndices(const GatherStep& step, const int64_t* indices);

}  // namespace warpconv::program
