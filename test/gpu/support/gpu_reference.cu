#include "support/gpu_reference.h"

namespace warpconv::test {
namespace {

struct Pointers {
  const float* input;
  const float* weight;
  const float* bias;
  const float* residual;
  double* output;
  double* bound;
  float* sequential;
};

__global__ void referenceKernel(ConvProblem x, Pointers at) {
  const int64_t o = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (o >= x.n * x.k * x.p * x.q) return;
  const int64_t q = o % x.q, p = o / x.q % x.p, k = o / (x.q * x.p) % x.k, n = o / (x.q * x.p * x.k);
  const int64_t inputs = x.c / x.groups, group = k / (x.k / x.groups);
  double sum = 0, bound = 0;
  float sequential = 0;
  for (int64_t f = 0; f < inputs * x.r * x.s; ++f) {
    const int64_t s = f % x.s, r = f / x.s % x.r, c = f / (x.s * x.r);
    const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
    const int64_t w = q * x.stride.w + s * x.dilation.w - x.padding.left;
    if (h < 0 || w < 0 || h >= x.h || w >= x.w) continue;
    const float a = at.input[((n * x.c + group * inputs + c) * x.h + h) * x.w + w];
    const float b = at.weight[k * inputs * x.r * x.s + f];
    const double product = double{a} * double{b};
    sum += product;
    bound += fabs(product);
    sequential = __fadd_rn(sequential, __fmul_rn(a, b));
  }
  const float bias = at.bias == nullptr ? 0.0f : at.bias[k];
  const float residual = at.residual == nullptr ? 0.0f : at.residual[o];
  at.output[o] = sum + double{bias} + double{residual};
  at.bound[o] = bound + fabs(double{bias}) + fabs(double{residual});
  at.sequential[o] = sequential + bias + residual;
}

__device__ bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

__global__ void compareKernel(size_t count, const float* output, const double* reference, const double* bound,
                              const float* sequential, double tolerance, Comparison* result) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  const double y = double{output[i]};
  const double error = fabs(y - reference[i]);
  if (!same(y, double{static_cast<float>(reference[i])})) atomicAdd(&result->unequal, 1ull);
  if (!(error <= tolerance * bound[i]) && !same(y, reference[i])) atomicAdd(&result->outside, 1ull);
  atomicAdd(&result->error, error);
  atomicAdd(&result->sequentialError, fabs(double{sequential[i]} - reference[i]));
}

constexpr unsigned kThreads = 256;
unsigned blocksFor(size_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

}  // namespace

GpuReference referenceOnGpu(const GpuCase& one) {
  const auto count = static_cast<size_t>(one.problem.outputSize());
  GpuReference reference{DeviceArray<double>(count), DeviceArray<double>(count), DeviceArray<float>(count)};
  const Pointers at{one.input.data(),           one.weight.data(),       one.bias.data(),
                    one.residual.data(),        reference.output.data(), reference.bound.data(),
                    reference.sequential.data()};
  referenceKernel<<<blocksFor(count), kThreads>>>(one.problem, at);
  check(cudaGetLastError());
  return reference;
}

Comparison compareOnGpu(const float* output, const GpuReference& reference, double tolerance) {
  const DeviceArray<Comparison> result(std::vector<Comparison>(1));
  const size_t count = reference.output.size();
  compareKernel<<<blocksFor(count), kThreads>>>(count, output, reference.output.data(), reference.bound.data(),
                                                reference.sequential.data(), tolerance, result.data());
  check(cudaGetLastError());
  return result.toHost()[0];
}

}  // namespace warpconv::test
