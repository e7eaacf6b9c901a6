#include "cuda/host/gpu_weights.h"

#include "cuda/host/own_stream.h"

namespace warpconv::cuda {
namespace {

using Filters = Result<std::shared_ptr<const DeviceFilters>>;

Filters kept(DeviceMemory memory) {
  const int64_t bytes = memory.bytes();
  return std::make_shared<const DeviceFilters>(
      DeviceFilters{std::make_shared<const DeviceMemory>(std::move(memory)), bytes});
}

/** A copy of the filters, all of which is there. */
Result<DeviceMemory> brought(const float* filters, int64_t bytes, Queue& queue) {
  Result<DeviceMemory> memory = queue.device().allocate(bytes);
  if (!memory.isOk()) return memory;
  if (Status status = queue.uploadAll(filters, memory.value()); !status.isOk()) return status;
  return memory;
}

Filters ordered(const FilterForm& form, const float* filters, const GpuWeights& weights, const char* what,
                const OrderFilters& order) {
  Result<DeviceMemory> memory = weights.queue.device().allocate(form.bytes);
  if (!memory.isOk()) return memory.status();
  const Status status = runOnOwnStream(
      what, [&](cudaStream_t stream) { return order(filters, memory.value().data(), stream); });
  return status.isOk() ? kept(std::move(memory.value())) : status;
}

}  // namespace

Filters filtersIn(const FilterForm& form, const GpuWeights& weights, const ConvProblem& problem, const char* what,
                  const OrderFilters& order) {
  return weights.filters.form<DeviceFilters>(form.parameters, [&](const float* filters) -> Filters {
    if (weights.onDevice != nullptr) return ordered(form, weights.onDevice, weights, what, order);
    const Result<DeviceMemory> copy = brought(filters, givenForm(problem).bytes, weights.queue);
    return copy.isOk() ? ordered(form, copy.value().floats(), weights, what, order) : copy.status();
  });
}

Filters givenFilters(const GpuWeights& weights, const ConvProblem& problem) {
  const FilterForm form = givenForm(problem);
  return weights.filters.form<DeviceFilters>(form.parameters, [&](const float* filters) -> Filters {
    if (weights.onDevice != nullptr) {
      return ordered(form, weights.onDevice, weights, "copying filters", [&](const float* from, void* to, auto stream) {
        return cudaMemcpyAsync(to, from, static_cast<size_t>(form.bytes), cudaMemcpyDeviceToDevice, stream);
      });
    }
    Result<DeviceMemory> copy = brought(filters, form.bytes, weights.queue);
    return copy.isOk() ? kept(std::move(copy.value())) : copy.status();
  });
}

}  // namespace warpconv::cuda
