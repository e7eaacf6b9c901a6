#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/compare/contestant.h"
#include "cuda/compare/tensors.h"

namespace warpconv::cuda {

/** Row-major products: output[i] (m x n) = a[i] (m x k) * b[i] (k x n), the matrices so many floats apart. */
struct Products {
  int64_t m, n, k, count;
  int64_t strideA, strideB, strideOutput;
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

  /** By the algorithm that the library takes itself. */
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

/**
 * Column matrices of as many images as fit, and a product for each; a 1 x 1 filter that visits every pixel multiplies
 * the image itself. By cuBLAS as it chooses, and by all that the heuristics of cuBLASLt propose. `tensors` are NCHW in
 * float32 and outlive them.
 */
Result<Contestants> makeIm2colProducts(std::shared_ptr<const Cublas> cublas, const ConvProblem& problem,
                                       const ContestTensors& tensors, cudaStream_t stream);

}  // namespace warpconv::cuda
