#pragma once

#include <memory>

#include "cuda/algorithm.h"
#include "cuda/queue.h"
#include "planner/backend.h"

namespace warpconv::cuda {

/** Device memory as the rest of the library holds it. */
class ResidentMemory final : public GpuMemory {
 public:
  ResidentMemory(DeviceMemory memory, int device) : memory_(std::move(memory)), device_(device) {}

  int64_t bytes() const override { return memory_.bytes(); }
  int device() const override { return device_; }
  const DeviceMemory& memory() const { return memory_; }

 private:
  const DeviceMemory memory_;
  const int device_;
};

/** A copy in device memory of its own. Returns when `from` is free again; kernels enqueued later see the copy. */
Result<DeviceMemory> copyToDevice(Queue& queue, const void* from, int64_t bytes);

/** A convolution with its weights on a device, and the scratch memory that a call of it needs there. */
struct PlacedConvolution {
  std::unique_ptr<GpuConvolution> convolution;
  int64_t workspaceBytes;
};

/** Uploads K x C/groups x R x S filters and, unless null, K biases. Blocks until the device has prepared them. */
Result<PlacedConvolution> placeConvolution(Queue& queue, const GpuAlgorithm& algorithm, const GpuRequest& request,
                                           const float* weight, const float* bias);

/**
 * A convolution with its weights on the device of a queue, and the scratch memory for one call: kernels of a queue run
 * one after another, so calls that overlap share it.
 */
class ResidentConvolution final : public Prepared {
 public:
  /** See placeConvolution. */
  static Result<std::shared_ptr<const ResidentConvolution>> prepare(std::shared_ptr<Queue> queue,
                                                                    const GpuAlgorithm& algorithm,
                                                                    const GpuRequest& request, const float* weight,
                                                                    const float* bias);

  Status run(const Operands& operands, const Cancellation* cancellation) const override;
  bool canEnqueue(const Operands& operands) const override { return operands.areResident(); }
  Status enqueue(const Operands& operands, std::function<void(Status)> done) const override;
  int64_t bytes() const override { return convolution_->bytes() + workspace_.bytes(); }

 private:
  ResidentConvolution(std::shared_ptr<Queue> queue, const ConvProblem& problem,
                      std::unique_ptr<GpuConvolution> convolution, DeviceMemory workspace)
      : queue_(std::move(queue)),
        problem_(problem),
        convolution_(std::move(convolution)),
        workspace_(std::move(workspace)) {}

  Status enqueue(const Operands& operands) const;
  /** `resident` begins as the operands and gets memory of its own for those that are not. */
  Status runCopied(const Operands& operands, Operands& resident, const Cancellation* cancellation) const;

  const std::shared_ptr<Queue> queue_;
  const ConvProblem problem_;
  const std::unique_ptr<GpuConvolution> convolution_;
  const DeviceMemory workspace_;
};

}  // namespace warpconv::cuda
