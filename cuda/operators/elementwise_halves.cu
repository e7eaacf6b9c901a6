#include "cuda/operators/elementwise_plan.h"
#include "cuda/operators/halves.cuh"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

template <typename Type, int kWidth>
__device__ Pack<kWidth> loadHalves(const void* data, int offset) {
  Pack<kWidth> pack;
  widen<Type>(*reinterpret_cast<const Halves<kWidth>*>(static_cast<const uint16_t*>(data) + offset), pack.lane);
  return pack;
}

template <int kWidth>
__device__ Pack<kWidth> loadAs(FloatType type, const void* data, int offset) {
  if (type == FloatType::float16) return loadHalves<Float16, kWidth>(data, offset);
  if (type == FloatType::bfloat16) return loadHalves<BFloat16, kWidth>(data, offset);
  // Eight floats are two words.
  constexpr int kWord = kWidth < 4 ? kWidth : 4;
  const auto* words = reinterpret_cast<const Pack<kWord>*>(static_cast<const float*>(data) + offset);
  Pack<kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) pack.lane[i] = words[i / kWord].lane[i % kWord];
  return pack;
}

template <int kWidth>
__device__ Pack<kWidth> loadTyped(const TypedArguments& x, int operand, int pack) {
  const TypedArguments::Tensor& from = x.operands[operand];
  const int offset = packOffset(x, from, pack, kWidth);
  if constexpr (kWidth > 1) {
    if (from.repeats) {
      const float one = loadAs<1>(from.type, from.data, offset).lane[0];
      Pack<kWidth> repeated;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) repeated.lane[i] = one;
      return repeated;
    }
  }
  return loadAs<kWidth>(from.type, from.data, offset);
}

template <int kWidth>
__device__ void storeTyped(const TypedArguments& x, int pack, const Pack<kWidth>& result) {
  const int offset = packOffset(x, x.output, pack, kWidth);
  void* const output = const_cast<void*>(x.output.data);
  if (x.output.type == FloatType::float32) {
    constexpr int kWord = kWidth < 4 ? kWidth : 4;
    auto* words = reinterpret_cast<Pack<kWord>*>(static_cast<float*>(output) + offset);
#pragma unroll
    for (int word = 0; word < kWidth / kWord; ++word) {
      Pack<kWord> part;
#pragma unroll
      for (int i = 0; i < kWord; ++i) part.lane[i] = result.lane[word * kWord + i];
      words[word] = part;
    }
    return;
  }
  auto* halves = reinterpret_cast<Halves<kWidth>*>(static_cast<uint16_t*>(output) + offset);
  *halves = x.output.type == FloatType::float16 ? narrow<Float16>(result.lane) : narrow<BFloat16>(result.lane);
}

/** As elementwiseKernel, of tensors of types; none of the operands is the output. */
template <int kWidth>
__global__ void __launch_bounds__(kThreads) elementwiseHalvesKernel(const __grid_constant__ TypedArguments x) {
  beginStep();
  extern __shared__ float4 memory[];
  const int pack = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(pack) >= static_cast<unsigned>(x.packs)) return;
  auto* const slots = reinterpret_cast<Pack<kWidth>*>(memory) + threadIdx.x;
  const auto load = [&](int operand) { return loadTyped<kWidth>(x, operand, pack); };
  storeTyped<kWidth>(x, pack, evaluate<kWidth>(x.code, load, slots, kThreads));
}

}  // namespace

Status elementwiseHalves(const ElementwiseStep& step, std::span<const void* const> operands, void* output,
                         cudaStream_t stream) {
  const TypedPlan plan = planTyped(step, operands, output);
  return withWidth(plan.width, [&](auto like) {
    constexpr int kWidth = decltype(like)::value;
    Launch grid = gridFor(plan.arguments.packs);
    grid.sharedBytes = plan.arguments.code.slots * kThreads * static_cast<int>(sizeof(Pack<kWidth>));
    return launch("elementwise", elementwiseHalvesKernel<kWidth>, grid, stream, plan.arguments);
  });
}

}  // namespace warpconv::cuda::operators
