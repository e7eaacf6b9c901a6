#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace rivals {

/** A convolution of one image: NCHW, float32, no bias. */
struct Layer {
  int64_t c, h, w, k, r, s;
  int64_t strideH, strideW, padH, padW, dilationH, dilationW, groups;

  int64_t p() const { return (h + 2 * padH - dilationH * (r - 1) - 1) / strideH + 1; }
  int64_t q() const { return (w + 2 * padW - dilationW * (s - 1) - 1) / strideW + 1; }
};

/** A competitor prepared for one layer; `weight` is K x C/groups x R x S and stays alive as long as the rival. */
class Rival {
 public:
  virtual ~Rival() = default;
  virtual void run(const float* input, float* output) = 0;
};

/** Throws std::runtime_error, with how to install it, where OpenBLAS is missing. */
std::unique_ptr<Rival> makeIm2colSgemm(const Layer& layer, const float* weight, int threads);
/** NCHW in and out; the reorders to and from its own layouts are part of every run, the weights' is not. */
std::unique_ptr<Rival> makeOneDnn(const Layer& layer, const float* weight, int threads);

/** Its version, how it was built and for which processor. Throws std::runtime_error where OpenBLAS is missing. */
std::string openBlasConfiguration();
std::string oneDnnVersion();

/** GFLOP/s of independent fused multiply-adds on one core. */
double fmaPeak();

}  // namespace rivals
