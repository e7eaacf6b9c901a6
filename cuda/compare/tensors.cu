#include <cuda_fp16.h>

#include <utility>

#include "cuda/compare/blocks.h"
#include "cuda/compare/tensors.h"
#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {
namespace {

/** Extents of a tensor: of a filter, n is K and pixels is R * S. */
struct Extents {
  int64_t n, channels, pixels;
  int64_t size() const { return n * channels * pixels; }
};

__device__ void convert(float from, float& to) { to = from; }
__device__ void convert(float from, __half& to) { to = __float2half(from); }
__device__ void convert(__half from, float& to) { to = __half2float(from); }

/** One thread an element, in the order of NCHW. */
template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    convertKernel(Extents x, bool fromNhwc, bool toNhwc, const From* from, To* to) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= x.n * x.channels * x.pixels) return;
  const int64_t pixel = i % x.pixels, channel = i / x.pixels % x.channels, n = i / (x.pixels * x.channels);
  const int64_t nhwc = (n * x.pixels + pixel) * x.channels + channel;
  convert(from[fromNhwc ? nhwc : i], to[toNhwc ? nhwc : i]);
}

template <typename From, typename To>
Status launchConvert(const Extents& x, bool fromNhwc, bool toNhwc, const DeviceMemory& from, const DeviceMemory& to,
                     cudaStream_t stream) {
  convertKernel<<<blocksFor(x.size()), kThreads, 0, stream>>>(
      x, fromNhwc, toNhwc, static_cast<const From*>(from.data()), static_cast<To*>(to.data()));
  return launchStatus("a change of layout");
}

Status fromPlain(const Extents& x, TensorForm form, const DeviceMemory& from, const DeviceMemory& to,
                 cudaStream_t stream) {
  const bool nhwc = form.layout == TensorLayout::nhwc;
  return form.half ? launchConvert<float, __half>(x, false, nhwc, from, to, stream)
                   : launchConvert<float, float>(x, false, nhwc, from, to, stream);
}

Status toPlain(const Extents& x, TensorForm form, const DeviceMemory& from, const DeviceMemory& to,
               cudaStream_t stream) {
  const bool nhwc = form.layout == TensorLayout::nhwc;
  return form.half ? launchConvert<__half, float>(x, nhwc, false, from, to, stream)
                   : launchConvert<float, float>(x, nhwc, false, from, to, stream);
}

}  // namespace

Result<ContestTensors> ContestTensors::allocate(const ConvProblem& x, TensorForm form, Device& device) {
  ContestTensors tensors{form, {}, {}, {}};
  const std::pair<DeviceMemory*, int64_t> sizes[] = {
      {&tensors.input, x.inputSize()}, {&tensors.weight, x.weightSize()}, {&tensors.output, x.outputSize()}};
  for (const auto& [memory, count] : sizes) {
    Result<DeviceMemory> made = device.allocate(count * form.elementBytes());
    if (!made.isOk()) return made.status();
    *memory = std::move(made.value());
  }
  return Result<ContestTensors>(std::move(tensors));
}

Status convertOperands(const ConvProblem& x, const ContestTensors& plain, const ContestTensors& to,
                       cudaStream_t stream) {
  Status status = fromPlain({x.n, x.c, x.h * x.w}, to.form, plain.input, to.input, stream);
  if (!status.isOk()) return status;
  return fromPlain({x.k, x.groupInputs(), x.r * x.s}, to.form, plain.weight, to.weight, stream);
}

Status convertOutput(const ConvProblem& x, const ContestTensors& from, const ContestTensors& plain,
                     cudaStream_t stream) {
  return toPlain({x.n, x.k, x.p * x.q}, from.form, from.output, plain.output, stream);
}

}  // namespace warpconv::cuda
