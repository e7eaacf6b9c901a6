#pragma once

#include "cuda/epilogue/epilogue.cuh"

namespace warpconv::cuda {

/** Sums of adjacent outputs of a channel: one, or two or four that can be moved together. */
template <int kWidth>
struct alignas(4 * kWidth) AdjacentSums {
  float x[kWidth];

  __device__ static AdjacentSums load(const float* from) { return *reinterpret_cast<const AdjacentSums*>(from); }
  __device__ void store(float* to) const { *reinterpret_cast<AdjacentSums*>(to) = *this; }

  __device__ void add(const float* from) {
    const AdjacentSums other = load(from);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] += other.x[i];
  }
};

/** Whether all are finite. Not by a FiniteCheck, with which halo's kernels compile to other machine code. */
template <int kWidth>
__device__ inline bool areFinite(const AdjacentSums<kWidth>& sums) {
  float zero = 0.0f;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) zero = fmaf(sums.x[i], 0.0f, zero);
  return zero == 0.0f;
}

/** The same of many: in four chains, since each addition waits for the one before. */
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
