#pragma once

#include "cuda/algorithm.h"
#include "cuda/formats/convert.h"

namespace warpconv::cuda {

/** A tensor in the format that was asked for, and in the one that an algorithm computes in. */
struct Conversion {
  FormatExtents extents;
  TensorFormat asked, computed;
  /** In the workspace, of the tensor as it is computed with */
  int64_t offset = 0;

  bool isNeeded() const { return asked != computed; }
  int64_t computedBytes() const;
};

/** What a convolution's tensors have to go through. */
struct Conversions {
  Conversion input, residual, output;
  /** Of the workspace: the algorithm's own begins behind them. */
  int64_t bytes = 0;

  bool areNeeded() const { return input.isNeeded() || residual.isNeeded() || output.isNeeded(); }
};

Conversions conversionsTo(const ConvFormat& computed, const ConvProblem& asked);

/** The request in the format that the algorithm computes it in. */
GpuRequest computedRequest(const GpuAlgorithm& algorithm, const GpuRequest& request);

// What an algorithm answers to a request in any format. Algorithms themselves are only asked for the format that they
// compute in: nothing but these functions and prepareConverted (converted.h) may ask them.

std::optional<std::string> refusalOf(const GpuAlgorithm& algorithm, const GpuRequest& request);
/** With the conversions of input and output; few convolutions have a residual. */
Estimate estimateOf(const GpuAlgorithm& algorithm, const GpuRequest& request);
std::vector<FilterForm> formsOf(const GpuAlgorithm& algorithm, const GpuRequest& request, const Weights& weights);
/** The fastest variant whose filters are there; empty for the algorithm's own choice. */
std::optional<std::string> packedVariantOf(const GpuAlgorithm& algorithm, const GpuRequest& request,
                                           const Weights& weights);

}  // namespace warpconv::cuda
