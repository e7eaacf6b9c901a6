#include <algorithm>

#include "cuda/compare/blocks.h"
#include "cuda/compare/oracle.h"
#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {
namespace {

/** Of the judge, whose threads go on: enough for any device */
constexpr unsigned kMostBlocks = 4096;

/** One thread an output: the sum of products and of their magnitudes. */
__global__ void __launch_bounds__(kThreads)
    oracleKernel(ConvProblem x, const float* input, const float* weight, double* exact, double* magnitude) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= x.n * x.k * x.p * x.q) return;
  const int64_t q = i % x.q, p = i / x.q % x.p, k = i / (x.q * x.p) % x.k, n = i / (x.q * x.p * x.k);
  const int64_t channels = x.c / x.groups;
  const float* maps = input + (n * x.c + k / (x.k / x.groups) * channels) * x.h * x.w;
  const float* filter = weight + k * channels * x.r * x.s;
  double sum = 0, total = 0;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t r = 0; r < x.r; ++r) {
      for (int64_t s = 0; s < x.s; ++s) {
        const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
        const int64_t w = q * x.stride.w + s * x.dilation.w - x.padding.left;
        if (h < 0 || h >= x.h || w < 0 || w >= x.w) continue;
        const double product = double{maps[(c * x.h + h) * x.w + w]} * double{filter[(c * x.r + r) * x.s + s]};
        sum += product;
        total += fabs(product);
      }
    }
  }
  exact[i] = sum;
  magnitude[i] = total;
}

/** A non-negative double as an integer of the same order. NaN is larger than all of them. */
__device__ unsigned long long orderOf(double value) {
  return isnan(value) ? 0x7ff8000000000000ull : static_cast<unsigned long long>(__double_as_longlong(value));
}

/** Keeps the largest of a warp's values: an atomic for each of 10^8 outputs would take longer than all the rest. */
__device__ void keepLargest(double* largest, unsigned long long order) {
  for (int distance = warpSize / 2; distance > 0; distance /= 2) {
    order = max(order, __shfl_xor_sync(0xffffffffu, order, distance));
  }
  if (threadIdx.x % warpSize == 0) atomicMax(reinterpret_cast<unsigned long long*>(largest), order);
}

/** Each thread goes on to the outputs after the grid's. */
__global__ void __launch_bounds__(kThreads)
    judgeKernel(int64_t outputs, const float* output, const double* exact, const double* magnitude, Errors* errors) {
  unsigned long long absolute = 0, relative = 0;
  const int64_t threads = int64_t{kThreads} * gridDim.x;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < outputs; i += threads) {
    const double error = fabs(double{output[i]} - exact[i]);
    absolute = max(absolute, orderOf(error));
    relative = max(relative, orderOf(error == 0 ? 0 : error / magnitude[i]));
  }
  keepLargest(&errors->absolute, absolute);
  keepLargest(&errors->relative, relative);
}

}  // namespace

Result<Oracle> Oracle::create(const ConvProblem& problem, const float* input, const float* weight, Device& device,
                              cudaStream_t stream) {
  const int64_t outputs = problem.outputSize();
  Result<DeviceMemory> exact = device.allocate(outputs * static_cast<int64_t>(sizeof(double)));
  if (!exact.isOk()) return exact.status();
  Result<DeviceMemory> magnitude = device.allocate(outputs * static_cast<int64_t>(sizeof(double)));
  if (!magnitude.isOk()) return magnitude.status();
  oracleKernel<<<blocksFor(outputs), kThreads, 0, stream>>>(problem, input, weight,
                                                            static_cast<double*>(exact.value().data()),
                                                            static_cast<double*>(magnitude.value().data()));
  if (Status status = launchStatus("the oracle"); !status.isOk()) return status;
  return Oracle(outputs, std::move(exact.value()), std::move(magnitude.value()));
}

Result<Errors> Oracle::judge(const float* output, Device& device, cudaStream_t stream) const {
  Result<DeviceMemory> found = device.allocate(sizeof(Errors));
  if (!found.isOk()) return found.status();
  auto* errors = static_cast<Errors*>(found.value().data());
  Errors result;
  cudaError_t failed = cudaMemsetAsync(errors, 0, sizeof(Errors), stream);
  if (failed != cudaSuccess) return toStatus(failed, "clearing memory");
  judgeKernel<<<std::min(blocksFor(outputs_), kMostBlocks), kThreads, 0, stream>>>(
      outputs_, output, static_cast<const double*>(exact_.data()), static_cast<const double*>(magnitude_.data()),
      errors);
  if (Status status = launchStatus("the judge"); !status.isOk()) return status;
  failed = cudaMemcpyAsync(&result, errors, sizeof(Errors), cudaMemcpyDeviceToHost, stream);
  if (failed == cudaSuccess) failed = cudaStreamSynchronize(stream);
  if (failed != cudaSuccess) return toStatus(failed, "comparing outputs");
  return result;
}

}  // namespace warpconv::cuda
