#include <cuda_fp16.h>

#include <utility>

#include "cuda/compare/tensors.h"
#include "cuda/cuda_status.h"

namespace warpconv::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocksFor(int64_t elements) { return static_cast<unsigned>((elements + kThreads - 1) / kThreads); }

/** One thread an element: 24 bits of SplitMix64's hash of its index. */
__global__ void __launch_bounds__(kThreads) fillKernel(int64_t count, uint64_t seed, float* values) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  uint64_t x = seed + (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  values[i] = static_cast<float>(x >> 40) * 0x1p-23f - 1.0f;
}

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

Status fillRandomly(const DeviceMemory& floats, uint64_t seed, cudaStream_t stream) {
  const int64_t count = floats.bytes() / static_cast<int64_t>(sizeof(float));
  fillKernel<<<blocksFor(count), kThreads, 0, stream>>>(count, seed, floats.floats());
  return launchStatus("random numbers");
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
