#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/compare/cudnn.h"

namespace warpconv::cuda {

// Values of cuDNN's enumerations.
inline constexpr int kCudnnSuccess = 0;
inline constexpr int kCudnnFloat = 0;
inline constexpr int kCudnnHalf = 2;
inline constexpr int kCudnnBfloat16 = 9;
inline constexpr int kCudnnCrossCorrelation = 1;

constexpr int cudnnTypeOf(FloatType type) {
  switch (type) {
    case FloatType::float32: return kCudnnFloat;
    case FloatType::float16: return kCudnnHalf;
    case FloatType::bfloat16: return kCudnnBfloat16;
  }
  return kCudnnFloat;
}

/** cudnnConvolutionFwdAlgoPerf_t */
struct CudnnFound {
  int algorithm;
  int status;
  float milliseconds;
  size_t workspaceBytes;
  int determinism;
  int math;
  int reserved[3];
};

struct Cudnn::Functions {
  size_t (*getVersion)();
  const char* (*getErrorString)(int);
  int (*create)(void**);
  int (*destroy)(void*);
  int (*setStream)(void*, cudaStream_t);

  int (*createTensor)(void**);
  int (*destroyTensor)(void*);
  int (*setTensor4d)(void*, int, int, int, int, int, int);
  int (*createFilter)(void**);
  int (*destroyFilter)(void*);
  int (*setFilter4d)(void*, int, int, int, int, int, int);
  int (*createConvolution)(void**);
  int (*destroyConvolution)(void*);
  int (*setConvolution2d)(void*, int, int, int, int, int, int, int, int);
  int (*setGroupCount)(void*, int);
  int (*setMathType)(void*, int);
  int (*find)(void*, void*, const void*, void*, const void*, void*, void*, void*, int, int*, CudnnFound*, void*,
              size_t);
  int (*forward)(void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*,
                 void*, void*);

  int (*createDescriptor)(int, void**);
  int (*destroyDescriptor)(void*);
  int (*setAttribute)(void*, int, int, int64_t, const void*);
  int (*getAttribute)(void*, int, int, int64_t, int64_t*, void*);
  int (*finalize)(void*);
  int (*execute)(void*, void*, void*);
};

}  // namespace warpconv::cuda
