#include "cuda/im2win/gemm.cuh"

namespace warpconv::cuda::im2win {

template GemmKernel gemmKernel<16>();
template GemmKernel gemmKernel<17>();
template GemmKernel gemmKernel<18>();
template GemmKernel gemmKernel<19>();
template GemmKernel gemmKernel<20>();

}  // namespace warpconv::cuda::im2win
