#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "problem/conv_problem.h"

namespace warpconv::test {

/** A convolution in double precision, written from the definition and sharing no code with the library. */
struct Reference {
  /** input * weight + bias + residual, before any activation */
  std::vector<double> output;
  /** |input| * |weight| + |bias| + |residual|: what a rounding error is measured against */
  std::vector<double> bound;
};

struct Tensors {
  std::vector<float> input;
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<float> residual;
};

Reference convolveInDouble(const ConvRequest& request, const std::array<int64_t, 4>& outputDims, int64_t padTop,
                           int64_t padLeft, const Tensors& tensors);

/** Small integers: every partial sum of up to 2^18 products stays below 2^24, so float sums in any order are exact. */
void fillWithIntegers(std::vector<float>& values, std::mt19937& random);
/** Uniform in [-1, 1). */
void fillWithReals(std::vector<float>& values, std::mt19937& random);

/** A random legal problem of at most `mostMultiplyAdds`, biased towards the edges of tiles. */
ConvRequest randomRequest(std::mt19937& random, double mostMultiplyAdds);

}  // namespace warpconv::test
