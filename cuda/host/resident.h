#pragma once

#include <memory>

#include "backend/backend.h"
#include "cuda/algorithm.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/host/queue.h"

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

/** A convolution with its weights on a device, and the scratch memory that a call of it needs there. */
struct PlacedConvolution {
  std::unique_ptr<GpuConvolution> convolution;
  int64_t workspaceBytes;
};

/** By the algorithm, or by the direct one where it alone is right: it leaves padded elements out. */
Result<PlacedConvolution> placeConvolution(const GpuAlgorithm& algorithm, const GpuRequest& request,
                                           const GpuWeights& weights);

/**
 * A convolution with its weights on the device of a queue, and the scratch memory for one call: kernels of a queue run
 * one after another, so calls that overlap share it.
 */
class ResidentConvolution final : public PreparedConvolution {
 public:
  /** K x C/groups x R x S filters and, unless null, K biases, in CPU memory. Blocks until they are free again. */
  static Result<std::shared_ptr<const ResidentConvolution>> prepare(std::shared_ptr<Queue> queue,
                                                                    const GpuAlgorithm& algorithm,
                                                                    const GpuRequest& request, const float* weight,
                                                                    const float* bias);

  Status run(const Operands& operands, const Cancellation* cancellation) const override;
  bool canEnqueue(const Operands& operands) const override { return operands.areResident(); }
  Status enqueue(const Operands& operands, std::function<void(Status)> done) const override;
  int64_t bytes() const override { return weightBytes_ + bias_.bytes() + workspace_.bytes(); }

 private:
  ResidentConvolution(std::shared_ptr<Queue> queue, const ConvProblem& problem)
      : queue_(std::move(queue)), problem_(problem) {}

  Status place(const GpuAlgorithm& algorithm, const GpuRequest& request, const float* weight, const float* bias);
  Status enqueue(const Operands& operands) const;
  /** `resident` begins as the operands and gets memory of its own for those that are not. */
  Status runCopied(const Operands& operands, Operands& resident, const Cancellation* cancellation) const;

  const std::shared_ptr<Queue> queue_;
  const ConvProblem problem_;
  DeviceMemory bias_;
  std::unique_ptr<GpuConvolution> convolution_;
  DeviceMemory workspace_;
  /** Of the forms of filters, and of tables */
  int64_t weightBytes_ = 0;
};

}  // namespace warpconv::cuda
