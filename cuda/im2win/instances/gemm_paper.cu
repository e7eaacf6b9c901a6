#include "cuda/im2win/gemm.cuh"

namespace warpconv::cuda::im2win {

template GemmKernel gemmKernel<0>();
template GemmKernel gemmKernel<1>();
template GemmKernel gemmKernel<2>();
template GemmKernel gemmKernel<3>();

}  // namespace warpconv::cuda::im2win
