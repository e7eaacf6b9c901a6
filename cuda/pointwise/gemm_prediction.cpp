#include "cuda/pointwise/gemm_prediction.h"

#include <algorithm>
#include <cmath>

#include "cuda/pointwise/tile.h"
#include "divide.h"

namespace warpconv::cuda::pointwise {
namespace {

/** Issue slots of a warp for one step. */
double stepSlots(const GemmKernel& kernel, bool aligned) {
  const GemmModel& model = kernel.model;
  const double copied = kernel.filters / 4.0 + (aligned ? kernel.pixels / 4.0 : kernel.pixels);
  return model.multiply * kernel.multiplied + model.copy * copied * kernel.channels / kernel.threads + model.step;
}

}  // namespace

GemmKernel gemmKernelOf(const GemmModel& model, const TensorBlock& block, int64_t resident) {
  return {model,           block.m,     block.n,  block.k,
          block.threads(), block.parts, resident, double(block.k) * block.threadM * block.threadN / block.parts};
}

double predictGemm(const Matrix& x, const Candidate& candidate, const GemmKernel& kernel, const GpuTraits& traits) {
  const GemmModel& model = kernel.model;
  const double warps = kernel.threads / static_cast<double>(kWarpSize);
  const double steps = static_cast<double>(ceilDivide(ceilDivide(x.channels, kernel.channels), candidate.split));
  const double mostBlocks =
      static_cast<double>(ceilDivide(candidate.blocks, multiprocessorsInUse(traits, candidate.split)));
  const double atOnce = std::min(mostBlocks, static_cast<double>(kernel.resident));
  const double issue = stepSlots(kernel, x.aligned) * warps * x.instructionSeconds;
  const double step = std::max(atOnce * issue, issue + model.stepLatency);
  const double partials = kernel.slices * std::sqrt(candidate.split);
  const double store = model.storeOutput * kernel.filters * kernel.pixels / kernel.threads * partials *
                       std::max(1.0, atOnce * warps / model.storingWarps);
  const double compute = mostBlocks / atOnce * (model.blockLatency + steps * step + store);

  const bool cached = x.tensorBytes < static_cast<double>(traits.l2Bytes);
  const double moved = x.tensorBytes * (cached ? model.cached : model.uncached) / traits.bytesPerSecond;
  const double read = model.read * 4 * static_cast<double>(candidate.blocks / candidate.split) *
                      static_cast<double>(x.channels * (kernel.filters + kernel.pixels));
  return 1e3 * (model.launch + (candidate.split > 1 ? model.cluster : 0) + compute + moved + read);
}

}  // namespace warpconv::cuda::pointwise
