#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * NVIDIA's library, found when it is asked for: nothing is linked or installed. Its own declarations are not needed
 * either; the few constants and signatures that are used have been stable from version 7 to 9.
 */
class Cudnn {
 public:
  /** The first of `libraries`, file names or paths, that loads and has what is used. */
  static Result<std::shared_ptr<const Cudnn>> load(const std::vector<std::string>& libraries);
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  ~Cudnn();

  /** For example `9.14.0` */
  std::string version() const;

  struct Functions;
  const Functions& functions() const { return *functions_; }

 private:
  Cudnn() = default;

  void* library_ = nullptr;
  std::unique_ptr<const Functions> functions_;
};

/** One convolution by cuDNN's fastest algorithm, by its own search over all of them with the real tensors. */
class CudnnConvolution {
 public:
  /**
   * Multiply-adds in float32 alone: no TF32. Fails with `unsupported` where cuDNN's descriptors cannot say the problem.
   * The tensors must not be needed: the search writes the output.
   */
  static Result<std::unique_ptr<CudnnConvolution>> create(std::shared_ptr<const Cudnn> cudnn,
                                                          const ConvProblem& problem, const float* input,
                                                          const float* weight, float* output, Device& device,
                                                          cudaStream_t stream);
  CudnnConvolution(const CudnnConvolution&) = delete;
  CudnnConvolution& operator=(const CudnnConvolution&) = delete;
  ~CudnnConvolution();

  Status enqueue(const float* input, const float* weight, float* output) const;
  const char* algorithm() const;
  int64_t workspaceBytes() const { return workspace_.bytes(); }

 private:
  explicit CudnnConvolution(std::shared_ptr<const Cudnn> cudnn) : cudnn_(std::move(cudnn)) {}
  Status describe(const ConvProblem& problem, cudaStream_t stream);
  Status search(const float* input, const float* weight, float* output, Device& device);

  const std::shared_ptr<const Cudnn> cudnn_;
  void* handle_ = nullptr;
  void* inputTensor_ = nullptr;
  void* outputTensor_ = nullptr;
  void* filter_ = nullptr;
  void* convolution_ = nullptr;
  int algorithm_ = 0;
  DeviceMemory workspace_;
};

}  // namespace warpconv::cuda
