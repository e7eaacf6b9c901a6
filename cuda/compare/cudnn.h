#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cuda/compare/contestant.h"
#include "cuda/compare/tensors.h"
#include "gpu/contest_types.h"

namespace warpconv::cuda {

/**
 * NVIDIA's library on one stream, found when it is asked for: nothing is linked or installed. Its own declarations are
 * not needed either; the few constants and signatures that are used have been stable from version 8 to 9.
 */
class Cudnn {
 public:
  /** The first of `libraries`, file names or paths, that loads and has what is used; `cudnnNotFound` otherwise. */
  static Result<std::shared_ptr<const Cudnn>> open(const std::vector<std::string>& libraries, cudaStream_t stream);
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  ~Cudnn();

  /** For example `9.14.0` */
  std::string version() const;

  struct Functions;
  const Functions& functions() const { return *functions_; }
  void* handle() const { return handle_; }
  Status check(int code, const char* what) const;

 private:
  Cudnn();

  std::unique_ptr<Functions> functions_;
  void* handle_ = nullptr;
};

/** One problem as cuDNN is asked for it. */
struct CudnnRequest {
  std::shared_ptr<const Cudnn> cudnn;
  const ConvProblem& problem;
  RivalForm form;
  /** Whether it is what ours is compared with, and not for information alone */
  bool isCompared;
  /** Of the form's layout and element type; they outlive contestants. */
  const ContestTensors& tensors;
};

/**
 * What `cudnnFindConvolutionForwardAlgorithmEx` finds, which times all its algorithms on the real tensors, but each
 * briefly; of what is for information the fastest. fp32 has multiply-adds alone: no TF32. Fails with `unsupported`
 * where the descriptors cannot say the problem. The search writes the output.
 */
Result<Contestants> findCudnnAlgorithms(const CudnnRequest& request, Device& device);

/**
 * The engine configurations that the heuristics of cuDNN's graph API propose in all their modes, whose engines the
 * older search lacks: as many as can be planned in kLongestPlanning, or kFewestPlans, for fp32 without those that use
 * tensor cores. Of what is for information the first few, without those that compile kernels first.
 */
Result<Contestants> proposeCudnnEngines(const CudnnRequest& request);

/**
 * After which no more is planned, once there are kFewestPlans, as many as PyTorch's search times. Kernels that are
 * compiled first are kept for problems that come later.
 */
inline constexpr std::chrono::seconds kLongestPlanning{3};
inline constexpr size_t kFewestPlans = 10;

}  // namespace warpconv::cuda
