#include "cuda/im2win/warpgroup_gemm.cuh"

namespace warpconv::cuda::im2win {

template GemmKernel gemmKernel<21>();
template GemmKernel gemmKernel<22>();
template GemmKernel gemmKernel<23>();
template GemmKernel gemmKernel<24>();

}  // namespace warpconv::cuda::im2win
