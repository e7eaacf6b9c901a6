#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/host/device.h"
#include "problem/conv_problem.h"
#include "weights/weights.h"

namespace warpconv::cuda {

/** Filters on the device in one of their forms, of which Weights keeps one for all convolutions that take it. */
struct DeviceFilters {
  std::shared_ptr<const DeviceMemory> memory;
  int64_t size = 0;

  float* floats() const { return memory->floats(); }
  int64_t bytes() const { return size; }
};

/** The orders in which algorithms take filters. */
enum class FilterOrder : int64_t { given, transposed, halves, windows, halo, stem, implicit, depthwise, image };

/** How filters lie on the device. Forms are the same where their parameters are. */
struct FilterForm {
  Weights::Parameters parameters{};
  int64_t bytes = 0;

  bool isIn(const Weights& weights) const { return weights.has<DeviceFilters>(parameters); }
};

/**
 * `first` and `second`: what the order depends on besides how K * C/groups * R * S elements are filters. Nothing of it
 * may depend on the input's extents.
 */
inline FilterForm makeForm(FilterOrder order, const ConvProblem& x, int64_t bytes, int64_t first = 0,
                           int64_t second = 0) {
  return {{static_cast<int64_t>(order) | x.groups << 8, x.r << 32 | x.s, first, second}, bytes};
}

/** Filters as they are given. */
inline FilterForm givenForm(const ConvProblem& x) {
  return makeForm(FilterOrder::given, x, x.weightSize() * static_cast<int64_t>(sizeof(float)));
}

inline bool areIn(const std::vector<FilterForm>& forms, const Weights& weights) {
  for (const FilterForm& form : forms) {
    if (!form.isIn(weights)) return false;
  }
  return true;
}

}  // namespace warpconv::cuda
