#include <algorithm>

#include "cuda/algorithm.h"
#include "cuda/depthwise/gpu_depthwise.h"
#include "cuda/direct/direct.h"
#include "cuda/halo/halo.h"
#include "cuda/im2col/im2col.h"
#include "cuda/im2win/im2win.h"
#include "cuda/image/image.h"
#include "cuda/implicit/implicit.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/shuffle/shuffle.h"
#include "cuda/stem/stem.h"

namespace warpconv::cuda {

std::span<const GpuAlgorithm> gpuAlgorithms() {
  static constexpr GpuAlgorithm kAlgorithms[] = {kPointwise, kShuffle, kIm2win, kHalo,      kStem,
                                                 kImplicit,  kImage,   kIm2col, kDepthwise, kDirect};
  return kAlgorithms;
}

const GpuAlgorithm& gpuAlgorithm(std::string_view name) {
  const auto all = gpuAlgorithms();
  return *std::find_if(all.begin(), all.end(), [&](const GpuAlgorithm& one) { return one.name == name; });
}

}  // namespace warpconv::cuda
