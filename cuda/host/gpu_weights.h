#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "cuda/host/queue.h"
#include "cuda/host/tables.h"
#include "cuda/planning/filter_form.h"

namespace warpconv::cuda {

/** What a convolution is made of. */
struct GpuWeights {
  /** K x C/groups x R x S filters in CPU memory, and the forms that have been made of them on the queue's device */
  Weights& filters;
  /** K biases on the device, kept as long as the convolution, or null */
  const float* bias;
  Queue& queue;
  Tables& tables;
  /** The filters, if they are on the device instead: `filters` then has only their forms */
  const float* onDevice = nullptr;
};

/** Enqueues what writes filters in their form. */
using OrderFilters = std::function<cudaError_t(const float* filters, void* ordered, cudaStream_t stream)>;

/**
 * The filters in that form, made unless it is there: then they are brought to the device, ordered there, and what was
 * brought is given back. Blocks until all of that is done. `what` is for errors.
 */
Result<std::shared_ptr<const DeviceFilters>> filtersIn(const FilterForm& form, const GpuWeights& weights,
                                                       const ConvProblem& problem, const char* what,
                                                       const OrderFilters& order);

/** The filters as they are given. */
Result<std::shared_ptr<const DeviceFilters>> givenFilters(const GpuWeights& weights, const ConvProblem& problem);

}  // namespace warpconv::cuda
