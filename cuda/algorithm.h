#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/estimate.h"
#include "cuda/gpu_tensors.h"
#include "cuda/host/device.h"
#include "cuda/planning/filter_form.h"
#include "cuda/planning/traits.h"
#include "problem/activation.h"
#include "problem/conv_problem.h"
#include "problem/plan_request.h"

namespace warpconv::cuda {

struct GpuWeights;

/** A convolution whose weights are on the device, in the form its algorithm wants. Immutable. */
class GpuConvolution {
 public:
  virtual ~GpuConvolution() = default;
  /**
   * Enqueues output = activation(input * weight + bias + residual), in the problem's format, on `stream`, without
   * waiting, allocating or copying to the device. `workspace` has the bytes of the estimate and is free again when the
   * stream has got past the call. The device is current.
   */
  virtual Status enqueue(const GpuTensors& tensors, void* workspace, cudaStream_t stream) const = 0;
  /**
   * Loads the kernel of calls with or without a residual, which takes up to milliseconds, so that the first call does
   * not. The device is current.
   */
  virtual Status load(bool /*withResidual*/) const { return {}; }
};

/** What is asked of an algorithm. */
struct GpuRequest {
  ConvProblem problem;
  Activation activation;
  /** One of the algorithm's variants, or empty for the one it would choose */
  std::string variant;
  GpuTraits traits;
  Precision precision = Precision::fp32;
};

/**
 * One way to compute a convolution on a GPU. All but `prepare` is plain C++ that needs no GPU. What it answers to
 * tensors of any format tells formats/conversions.h.
 */
struct GpuAlgorithm {
  const char* name;
  /** Names of its variants, for ablations and tests; whatever the variant, the result is right */
  std::span<const std::string_view> variants;
  /** The sentence that refuses the problem, or its variant for the problem, or nothing. */
  std::optional<std::string> (*refusal)(const GpuRequest&);
  /** Only for what is not refused. */
  Estimate (*estimate)(const GpuRequest&);
  /**
   * The forms of filters that it takes, only for what is not refused. Where more than one would do, it is one that is
   * there.
   */
  std::vector<FilterForm> (*forms)(const GpuRequest&, const Weights&);
  /**
   * For a request without a variant: the one with the lowest estimate of those whose filters are there in all forms, or
   * nothing. Null where only its own choice can be asked for, or all variants take the same form.
   */
  std::optional<std::string> (*packedVariant)(const GpuRequest&, const Weights&);
  /** Makes the forms that are not there. The device is current. */
  Result<std::unique_ptr<GpuConvolution>> (*prepare)(const GpuRequest&, const GpuWeights&);
  /**
   * The format that it computes a request in: what the others above are asked for. Tensors in another one are converted
   * around it (cuda/formats). Null where that is always float32 in NCHW.
   */
  ConvFormat (*format)(const GpuRequest&) = nullptr;
};

/** All of them in order of preference; the last takes every problem. */
std::span<const GpuAlgorithm> gpuAlgorithms();

/** The one of that name, which must be in the list. */
const GpuAlgorithm& gpuAlgorithm(std::string_view name);

}  // namespace warpconv::cuda
