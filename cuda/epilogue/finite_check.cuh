#pragma once

namespace warpconv::cuda {

/**
 * Whether all numbers that it was given are finite. Infinity and NaN times zero are NaN, and stay NaN in a sum.
 */
class FiniteCheck {
 public:
  __device__ void add(float x) { zero_ = fmaf(x, 0.0f, zero_); }
  __device__ bool holds() const { return zero_ == 0.0f; }

 private:
  float zero_ = 0.0f;
};

}  // namespace warpconv::cuda
