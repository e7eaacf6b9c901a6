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

__device__ inline void widenAs(FloatType type, const Halves<8>& halves, Pack<8>& pack) {
  if (type == FloatType::float16) {
    widen<Float16>(halves, pack.lane);
  } else {
    widen<BFloat16>(halves, pack.lane);
  }
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

/** Packs of a thread that are on their way at once */
constexpr int kAtOnce = 4;

__device__ inline float clip(float x, float low, float high) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;\nmin.NaN.f32 %0, %0, %2;" : "+f"(x) : "f"(low), "f"(high));
  return x;
#else
  return x < low ? low : x > high ? high : x;
#endif
}

/**
 * Thread i of the grid is number i % threads of span i / threads, and has the packs so far from the span's first, and
 * every `threads` from there on. What is the same for all of them is read once. Others are read pack by pack, a summand
 * of halves (a residual) as early as x.
 */
template <typename Type>
__global__ void __launch_bounds__(kThreads, 3) linearKernel(const __grid_constant__ LinearArguments x) {
  beginStep();
  int pack = static_cast<int>(pieceOfThread());
  // pack = i % threads, span = i / threads
  const int span = x.threads.divide(pack), apart = x.threads.divisor();
  const int end = (span + 1) * x.span;
  pack += span * x.span;
  if (pack >= min(end, x.packs)) return;
  const auto load = [&](const TypedArguments::Tensor& from, int at) {
    return loadAs<8>(from.type, from.data, packOffset(x, from, at, 8));
  };
  const auto word = [&](const TypedArguments::Tensor& from, int at) {
    return *reinterpret_cast<const Halves<8>*>(static_cast<const uint16_t*>(from.data) + packOffset(x, from, at, 8));
  };
  const bool hasFactor = x.factor.data != nullptr && !isSameInSpan(x, x.factor);
  const bool hasSummand = x.summand.data != nullptr && !isSameInSpan(x, x.summand);
  const bool addsHalves = hasSummand && x.summand.type != FloatType::float32;
  Pack<8> factor, summand;
#pragma unroll
  // A sum with -0 leaves every product as it is, one of -0 too.
  for (int i = 0; i < 8; ++i) factor.lane[i] = 1.0f, summand.lane[i] = -0.0f;
  if (x.factor.data != nullptr && !hasFactor) factor = load(x.factor, pack);
  if (x.summand.data != nullptr && !hasSummand) summand = load(x.summand, pack);
  for (; pack < end; pack += kAtOnce * apart) {
    Halves<8> words[kAtOnce], added[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = pack + i * apart;
      if (at < end) words[i] = word(x.x, at);
    }
    if (addsHalves) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = pack + i * apart;
        if (at < end) added[i] = word(x.summand, at);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = pack + i * apart;
      if (at >= end) break;
      Pack<8> y;
      widen<Type>(words[i], y.lane);
      if (hasFactor) factor = load(x.factor, at);
      if (addsHalves) {
        widenAs(x.summand.type, added[i], summand);
      } else if (hasSummand) {
        summand = load(x.summand, at);
      }
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        y.lane[lane] = clip(fmaf(y.lane[lane], factor.lane[lane], summand.lane[lane]), x.low, x.high);
      }
      auto* const to = static_cast<uint16_t*>(const_cast<void*>(x.output.data)) + packOffset(x, x.output, at, 8);
      *reinterpret_cast<Halves<8>*>(to) = narrow<Type>(y.lane);
    }
  }
}

}  // namespace

Status elementwiseHalves(const ElementwiseStep& step, std::span<const void* const> operands, void* output,
                         cudaStream_t stream) {
  const TypedPlan plan = planTyped(step, operands, output);
  if (const std::optional<LinearArguments> linear = planLinear(step, plan)) {
    const Launch grid{static_cast<unsigned>(linear->blocks), kThreads};
    return withHalf(linear->output.type, [&](auto like) {
      return launch("elementwise", linearKernel<decltype(like)>, grid, stream, *linear);
    });
  }
  return withWidth(plan.width, [&](auto like) {
    constexpr int kWidth = decltype(like)::value;
    Launch grid = gridFor(plan.arguments.packs);
    grid.sharedBytes = plan.arguments.code.slots * kThreads * static_cast<int>(sizeof(Pack<kWidth>));
    return launch("elementwise", elementwiseHalvesKernel<kWidth>, grid, stream, plan.arguments);
  });
}

}  // namespace warpconv::cuda::operators
