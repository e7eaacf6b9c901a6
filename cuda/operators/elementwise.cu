#include "cuda/operators/elementwise_plan.h"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

template <int kWidth>
__device__ Pack<kWidth> loadPack(const ElementwiseArguments& x, int operand, int pack) {
  const ElementwiseArguments::Operand& from = x.operands[operand];
  const float* data = from.data + packOffset(x, from, pack, kWidth);
  if constexpr (kWidth > 1) {
    if (from.repeats) {
      Pack<kWidth> repeated;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) repeated.lane[i] = *data;
      return repeated;
    }
  }
  return *reinterpret_cast<const Pack<kWidth>*>(data);
}

/**
 * Thread i of the grid owns pack i of the output: kWidth neighbouring elements. The code lies with the arguments in
 * constant memory, and all threads of a warp decode the same instruction. Shared memory has a thread's slots kThreads
 * packs apart, each of which it alone uses.
 */
template <int kWidth>
__global__ void __launch_bounds__(kThreads) elementwiseKernel(const __grid_constant__ ElementwiseArguments x) {
  waitForKernelsBefore();
  extern __shared__ float4 memory[];
  const int pack = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(pack) >= static_cast<unsigned>(x.packs)) return;
  auto* const slots = reinterpret_cast<Pack<kWidth>*>(memory) + threadIdx.x;
  const auto load = [&](int operand) { return loadPack<kWidth>(x, operand, pack); };
  const Pack<kWidth> result = evaluate<kWidth>(x.code, load, slots, kThreads);
  // Not before the operands are read, one of which may be the output.
  letNextKernelBegin();
  reinterpret_cast<Pack<kWidth>*>(x.output)[pack] = result;
}

template <int kWidth>
Status launchElementwise(const ElementwiseArguments& x, cudaStream_t stream) {
  Launch grid = gridFor(x.packs);
  grid.sharedBytes = x.code.slots * kThreads * static_cast<int>(sizeof(Pack<kWidth>));
  return launch("elementwise", elementwiseKernel<kWidth>, grid, stream, x);
}

}  // namespace

Status elementwise(const ElementwiseStep& step, std::span<const float* const> operands, float* output,
                   cudaStream_t stream) {
  const ElementwisePlan plan = planElementwise(step, operands, output);
  return plan.width == 1 ? launchElementwise<1>(plan.arguments, stream) : launchElementwise<4>(plan.arguments, stream);
}

}  // namespace warpconv::cuda::operators
