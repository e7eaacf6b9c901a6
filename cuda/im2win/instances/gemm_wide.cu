#include "cuda/im2win/gemm.cuh"

namespace warpconv::cuda::im2win {

template void launchGemm<4>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<5>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<6>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<7>(const GemmArguments&, unsigned, cudaStream_t);

}  // namespace warpconv::cuda::im2win
