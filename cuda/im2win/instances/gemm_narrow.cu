#include "cuda/im2win/gemm.cuh"

namespace warpconv::cuda::im2win {

template void launchGemm<8>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<9>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<10>(const GemmArguments&, unsigned, cudaStream_t);
template void launchGemm<11>(const GemmArguments&, unsigned, cudaStream_t);

}  // namespace warpconv::cuda::im2win
