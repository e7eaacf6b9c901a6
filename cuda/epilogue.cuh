#pragma once

#include <cstdint>

#include "cuda/bounded_activation.h"

namespace warpconv::cuda {

/** What happens to an output once its sum is complete; null where there is no bias or residual. */
struct Epilogue {
  const float* bias;
  const float* residual;
  BoundedActivation activation;
};

/** NaN passes, as on the CPU. */
__device__ inline float clamp(float x, const BoundedActivation& bounds) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;\nmin.NaN.f32 %0, %0, %2;" : "+f"(x) : "f"(bounds.first), "f"(bounds.second));
  return x;
#else
  return x < bounds.first ? bounds.first : x > bounds.second ? bounds.second : x;
#endif
}

__host__ __device__ inline bool isClamp(const BoundedActivation& activation) {
  return activation.kind == ActivationKind::none || activation.kind == ActivationKind::relu ||
         activation.kind == ActivationKind::clip;
}

/**
 * Not by a switch: its indirect branches took a block of 128 threads with 64 x 64 outputs 3.5 us on an H200, and
 * nothing else can run meanwhile where a multiprocessor has one block.
 */
__device__ inline float activate(float x, const BoundedActivation& activation) {
  if (isClamp(activation)) return clamp(x, activation);
  if (activation.kind == ActivationKind::leakyRelu) return x < 0.0f ? activation.first * x : x;
  if (activation.kind == ActivationKind::sigmoid || activation.kind == ActivationKind::silu) {
    // By a power that does not overflow: e^89 is no float, though e^-89 is one.
    const float power = expf(-fabsf(x));
    const float sigmoid = (x < 0.0f ? power : 1.0f) / (1.0f + power);
    return activation.kind == ActivationKind::silu ? x * sigmoid : sigmoid;
  }
  const float y = x + 3.0f;
  // hardSwish, divided first because x times 6 may overflow.
  return x * ((y < 0.0f ? 0.0f : y > 6.0f ? 6.0f : y) / 6.0f);
}

/** The output at `index` of the NCHW tensor, of channel k. */
__device__ inline float finish(const Epilogue& epilogue, float sum, int64_t k, int64_t index) {
  if (epilogue.bias != nullptr) sum += epilogue.bias[k];
  if (epilogue.residual != nullptr) sum += epilogue.residual[index];
  return activate(sum, epilogue.activation);
}

/** Whether four floats from there on, or none where it is null, can be moved together. */
inline bool isQuadAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

/** Sums of adjacent outputs of a channel: one, or four that can be moved together. */
template <int kWidth>
struct alignas(4 * kWidth) AdjacentSums {
  float x[kWidth];

  __device__ void add(const float* from) {
    const AdjacentSums other = *reinterpret_cast<const AdjacentSums*>(from);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] += other.x[i];
  }
};

/** Whether all sums are finite: in four chains, since each addition waits for the one before. */
template <int kWidth, int kCount>
__device__ inline bool areFinite(const AdjacentSums<kWidth> (&sums)[kCount]) {
  float zeros[4]{};
#pragma unroll
  for (int i = 0; i < kCount * kWidth; ++i) zeros[i % 4] = fmaf(sums[i / kWidth].x[i % kWidth], 0.0f, zeros[i % 4]);
  return zeros[0] + zeros[1] + (zeros[2] + zeros[3]) == 0.0f;
}

/** Where isClamp. Many have one branch around, since most outputs have no bounds, which of few are hardly more. */
template <int kWidth, int kCount>
__device__ inline void clampAll(AdjacentSums<kWidth> (&sums)[kCount], const BoundedActivation& activation) {
  if (kCount * kWidth >= 12 && activation.kind == ActivationKind::none) return;
#pragma unroll
  for (AdjacentSums<kWidth>& of : sums) {
#pragma unroll
    for (float& sum : of.x) sum = clamp(sum, activation);
  }
}

/** One branch finds the activation for all of them where it is no more than bounds. */
template <int kWidth>
__device__ inline void activate(AdjacentSums<kWidth>& sums, const BoundedActivation& activation) {
  if (isClamp(activation)) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums.x[i] = clamp(sums.x[i], activation);
    return;
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums.x[i] = activate(sums.x[i], activation);
}

/** The outputs from `index` on. */
template <int kWidth>
__device__ inline void finish(const Epilogue& epilogue, AdjacentSums<kWidth>& sums, int64_t k, int64_t index) {
  if (epilogue.bias != nullptr) {
    const float bias = epilogue.bias[k];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums.x[i] += bias;
  }
  if (epilogue.residual != nullptr) sums.add(epilogue.residual + index);
  activate(sums, epilogue.activation);
}

/**
 * Whether outputs take no more than a bias and bounds, which is what most do. A loop over outputs is worth having
 * twice, with finishBounded and with all else: where a scheduler has one or two warps, instructions are latency. While
 * each output asked for a residual, 64 to 128 channels of 112 x 112 by 3 x 3 took 32 us of an H200, and take 23.5
 * since.
 */
__host__ __device__ inline bool isBounded(const Epilogue& epilogue) {
  return epilogue.residual == nullptr && isClamp(epilogue.activation);
}

/** Of output channel k. It is the plan's own, which no kernel before can be writing: its load may come early. */
__device__ inline float biasOf(const Epilogue& epilogue, int64_t k) {
  return epilogue.bias == nullptr ? 0.0f : __ldg(epilogue.bias + k);
}

/** Where isBounded, of a channel that has this bias. */
template <int kWidth>
__device__ inline void finishBounded(const Epilogue& epilogue, AdjacentSums<kWidth>& sums, float bias) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums.x[i] = clamp(sums.x[i] + bias, epilogue.activation);
}

/** In place of an output's offset, where there is no output */
inline constexpr int kBeyond = -1;

/** Writes outputs of a channel that need not follow each other, at `channel` + offsets[i] of `output`. */
template <int kWidth>
__device__ inline void storeEach(const AdjacentSums<kWidth>& outputs, const int (&offsets)[kWidth], int channel,
                                 float* output) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if (offsets[i] != kBeyond) output[offsets[i] + channel] = outputs.x[i];
  }
}

/** Finishes such outputs of channel k and writes them. */
template <int kWidth>
__device__ inline void finishEach(const Epilogue& epilogue, AdjacentSums<kWidth>& sums, int64_t k,
                                  const int (&offsets)[kWidth], int channel, float* output) {
  const float bias = epilogue.bias == nullptr ? 0.0f : epilogue.bias[k];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    sums.x[i] += bias;
    if (epilogue.residual != nullptr && offsets[i] != kBeyond) sums.x[i] += epilogue.residual[offsets[i] + channel];
  }
  activate(sums, epilogue.activation);
  storeEach(sums, offsets, channel, output);
}

}  // namespace warpconv::cuda
