#include "cuda/im2win/gemm.cuh"

namespace warpconv::cuda::im2win {

template GemmKernel gemmKernel<8>();
template GemmKernel gemmKernel<9>();
template GemmKernel gemmKernel<10>();
template GemmKernel gemmKernel<11>();

}  // namespace warpconv::cuda::im2win
