#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/compare/contestant.h"
#include "cuda/compare/tensors.h"
#include "problem/plan_request.h"

namespace warpconv::cuda {

/** Row-major products: output[i] (m x n) = a[i] (m x k) * b[i] (k x n, or in memory n x k). */
struct Products {
  int64_t m, n, k, count;
  /** Elements from one matrix to the next */
  int64_t strideA, strideB, strideOutput;
  /** Elements from one row to the next */
  int64_t pitchA, pitchB, pitchOutput;
  bool isBTransposed = false;
};

/** NVIDIA's matrix products on one stream, found when they are asked for, with TF32 off. */
class Cublas {
 public:
  /** Fails with `unsupported` where none of `libraries`, file names or paths, loads. */
  static Result<std::shared_ptr<const Cublas>> open(const std::vector<std::string>& libraries, Device& device,
                                                    cudaStream_t stream);
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  ~Cublas();

  /** For example `13.1.0` */
  std::string version() const;

  /** In float32, by the algorithm that the library takes itself. */
  Status multiply(const Products& products, const float* a, const float* b, float* output) const;

  struct Functions;
  const Functions& functions() const { return *functions_; }
  /** Whether cuBLASLt is there with all that is used of it. */
  bool hasLt() const;
  void* handle() const { return handle_; }
  const DeviceMemory& workspace() const { return workspace_; }
  cudaStream_t stream() const { return stream_; }
  Status check(int code, const char* what) const;

 private:
  Cublas();
  Status start(Device& device, cudaStream_t stream);

  std::unique_ptr<Functions> functions_;
  void* handle_ = nullptr;
  DeviceMemory workspace_;
  cudaStream_t stream_ = nullptr;
};

/** One problem as products. The tensors, in the type of the arithmetic and any layout, outlive contestants. */
struct ProductsRequest {
  std::shared_ptr<const Cublas> cublas;
  const ConvProblem& problem;
  Precision arithmetic;
  const ContestTensors& tensors;
};

/**
 * By all that the heuristics of cuBLASLt propose, and in float32 without TF32 by cuBLAS as it chooses, too. A 1 x 1
 * filter that visits every pixel multiplies the image itself. Other filters multiply column matrices of as many images
 * as fit, in float32 and NCHW alone.
 */
Result<Contestants> makeProducts(const ProductsRequest& request);

}  // namespace warpconv::cuda
