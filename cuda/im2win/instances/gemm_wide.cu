#include "cuda/im2win/gemm.cuh"

namespace warpconv::cuda::im2win {

template GemmKernel gemmKernel<4>();
template GemmKernel gemmKernel<5>();
template GemmKernel gemmKernel<6>();
template GemmKernel gemmKernel<7>();

}  // namespace warpconv::cuda::im2win
