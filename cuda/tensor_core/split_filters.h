#pragma once

#include <utility>

#include "cuda/host/gpu_weights.h"

namespace warpconv::cuda {

/**
 * Filters in halves of FP16 (fp16_split.cuh), each output channel's by a scale of its own: words of halves in the order
 * that a kernel wants, then the inverse of each scale, as launchFilterScales gives them.
 */
class SplitFilters {
 public:
  /** `order(filters, words, inverses, stream)` enqueues what writes them, unless they are there. `what` is for errors.
   */
  template <typename Order>
  Status bring(const FilterForm& form, const ConvProblem& problem, const GpuWeights& weights, const char* what,
               int64_t words, const Order& order) {
    auto filters = filtersIn(form, weights, problem, what, [&](const float* given, void* ordered, cudaStream_t stream) {
      order(given, static_cast<uint32_t*>(ordered), static_cast<float*>(ordered) + words, stream);
      return cudaGetLastError();
    });
    if (!filters.isOk()) return filters.status();
    filters_ = std::move(filters.value());
    words_ = words;
    return {};
  }

  template <typename Arguments>
  void giveTo(Arguments& x) const {
    x.filter = reinterpret_cast<const uint32_t*>(filters_->floats());
    x.filterInverses = filters_->floats() + words_;
  }

 private:
  std::shared_ptr<const DeviceFilters> filters_;
  int64_t words_ = 0;
};

}  // namespace warpconv::cuda
