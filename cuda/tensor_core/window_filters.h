#pragma once

#include "cuda/planning/filter_form.h"
#include "divide.h"

namespace warpconv::cuda {

// Filters in window order: a step of the reduction has an element of all output channels (window_filter_order.h).
// im2win takes them so, and pointwise shares the rounded ones with it.

/** From one step to the next: a group's output channels, padded */
inline int64_t windowFilterPitch(const ConvProblem& x) { return roundUp(x.groupOutputs(), 4); }

/** Of `steps` steps. `rounded`: for products of warpgroups. */
inline FilterForm windowsForm(const ConvProblem& x, int64_t steps, bool rounded) {
  return makeForm(FilterOrder::windows, x, 4 * x.groups * windowFilterPitch(x) * steps, steps, rounded);
}

/** Steps of products of warpgroups, of which there are whole numbers */
inline constexpr int kWindowFilterSteps = 32;

}  // namespace warpconv::cuda
