#include "cuda/im2win/gemm.cuh"

namespace warpconv::cuda::im2win {

template void launchGemm<0>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<1>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<2>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<3>(const GemmArguments&, unsigned, cudaStream_t);

}  // namespace warpconv::cuda::im2win
