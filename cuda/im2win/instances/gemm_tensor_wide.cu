#include "cuda/im2win/gemm.cuh"

namespace warpconv::cuda::im2win {

template GemmKernel gemmKernel<12>();
template GemmKernel gemmKernel<13>();
template GemmKernel gemmKernel<14>();
template GemmKernel gemmKernel<15>();

}  // namespace warpconv::cuda::im2win
