#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/compare/cublas.h"

namespace warpconv::cuda {

inline constexpr int kCublasSuccess = 0;
// cublasOperation_t
inline constexpr int kNotTransposed = 0;
inline constexpr int kTransposed = 1;

/** cublasLtMatmulHeuristicResult_t */
struct LtFound {
  uint64_t algorithm[8];
  size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};

struct Cublas::Functions {
  int (*create)(void**);
  int (*destroy)(void*);
  int (*getVersion)(void*, int*);
  int (*setStream)(void*, cudaStream_t);
  int (*setWorkspace)(void*, void*, size_t);
  int (*setMathMode)(void*, int);
  const char* (*getStatusString)(int);
  int (*multiply)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                  float*, int);
  int (*multiplyAll)(void*, int, int, int, int, int, const float*, const float*, int, long long, const float*, int,
                     long long, const float*, float*, int, long long, int);

  // Of cuBLASLt, which cuBLAS is built on: a handle of the one is a handle of the other.
  int (*createLayout)(void**, int, uint64_t, uint64_t, int64_t);
  int (*destroyLayout)(void*);
  int (*setLayoutAttribute)(void*, int, const void*, size_t);
  int (*createProduct)(void**, int, int);
  int (*destroyProduct)(void*);
  int (*setProductAttribute)(void*, int, const void*, size_t);
  int (*createPreference)(void**);
  int (*destroyPreference)(void*);
  int (*setPreferenceAttribute)(void*, int, const void*, size_t);
  int (*findAlgorithms)(void*, void*, void*, void*, void*, void*, void*, int, LtFound*, int*);
  int (*multiplyBy)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                    void*, void*, const uint64_t*, void*, size_t, cudaStream_t);
};

}  // namespace warpconv::cuda
