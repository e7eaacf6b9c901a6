#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cuda/device.h"
#include "cuda/traits.h"
#include "planner/estimate.h"
#include "problem/activation.h"
#include "problem/conv_problem.h"

namespace warpconv::cuda {

/** One call's tensors in device memory: dense NCHW float32. `residual` has the output's extents, or is null. */
struct GpuTensors {
  const float* input = nullptr;
  const float* residual = nullptr;
  float* output = nullptr;
};

/** A convolution whose weights are on the device, in the layout its algorithm wants. Immutable. */
class GpuConvolution {
 public:
  virtual ~GpuConvolution() = default;
  /**
   * Enqueues output = activation(input * weight + bias + residual) on `stream`, without waiting, allocating or copying
   * to the device. `workspace` has the bytes of the estimate and is free again when the stream has got past the call.
   * The device is current.
   */
  virtual Status enqueue(const GpuTensors& tensors, void* workspace, cudaStream_t stream) const = 0;
  /** Device memory held: weights and biases. */
  virtual int64_t bytes() const = 0;
};

/** What a convolution is made of, on the device: K x C/groups x R x S filters, and K biases or nothing. */
struct GpuWeights {
  DeviceMemory weight;
  DeviceMemory bias;
};

/** What is asked of an algorithm. */
struct GpuRequest {
  ConvProblem problem;
  Activation activation;
  /** One of the algorithm's variants, or empty for the one it would choose */
  std::string variant;
  GpuTraits traits;
};

/** One way to compute a convolution on a GPU. All but `prepare` is plain C++ that needs no GPU. */
struct GpuAlgorithm {
  const char* name;
  /** Names of its variants, for ablations and tests; whatever the variant, the result is right */
  std::span<const std::string_view> variants;
  /** The sentence that refuses the problem, or its variant for the problem, or nothing. */
  std::optional<std::string> (*refusal)(const GpuRequest&);
  /** Only for what is not refused. */
  Estimate (*estimate)(const GpuRequest&);
  /** May transform the weights; returns when the device is done with that. The device is current. */
  Result<std::unique_ptr<GpuConvolution>> (*prepare)(const GpuRequest&, GpuWeights, Device&);
};

/** All of them in order of preference; the last takes every problem. */
std::span<const GpuAlgorithm> gpuAlgorithms();

/** The one of that name, which must be in the list. */
const GpuAlgorithm& gpuAlgorithm(std::string_view name);

}  // namespace warpconv::cuda
