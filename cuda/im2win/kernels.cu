#include "cuda/epilogue/adjacent_sums.cuh"
#include "cuda/im2win/kernels.h"
#include "cuda/kernel/launch.cuh"

namespace warpconv::cuda::im2win {
namespace {

constexpr int kThreads = 256;

unsigned blocksFor(int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

struct TransformDivisors {
  FastDivisor byRow, byR, byP;
};

/**
 * Thread i owns the tensor's elements 4 i to 4 i + 3, of which element e is (map, p, x, r) with
 * e = ((map * P + p) * paddedWidth + x) * R + r and map = n * C + c. Reads of neighbouring threads lie along R input
 * rows; padding is written as zeros.
 */
__global__ void __launch_bounds__(kThreads)
    transformKernel(Shape x, TransformDivisors divisors, int elements, const float* input, float* tensor) {
  const int64_t first = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * 4;
  if (first >= elements) return;
  float quad[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // Past the end there is nothing to store, so any element does.
    int r = static_cast<int>(first + i < elements ? first + i : first);
    int p = divisors.byRow.divide(r);
    const int map = divisors.byP.divide(p);
    const int w = divisors.byR.divide(r) - x.padLeft;
    const int h = p * x.strideH + r * x.dilationH - x.padTop;
    const bool inside = h >= 0 && h < x.h && w >= 0 && w < x.w;
    quad[i] = inside ? __ldg(input + (map * x.h + h) * x.w + w) : 0.0f;
  }
  if (first + 4 <= elements) {
    *reinterpret_cast<float4*>(tensor + first) = make_float4(quad[0], quad[1], quad[2], quad[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i < elements) tensor[first + i] = quad[i];
  }
}

struct OutputDivisors {
  FastDivisor byQ, byP, byK, byGroupOutputs;
};

/** Thread i owns output i = ((n * K + k) * P + p) * Q + q and walks over its window, R * S elements for each channel.
 */
__global__ void __launch_bounds__(kThreads)
    basicKernel(Shape x, OutputDivisors divisors, int paddedWidth, int pitch, int length, const float* tensor,
                const float* filter, float* output, Epilogue epilogue) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= int64_t{x.n} * x.k * x.p * x.q) return;
  int q = static_cast<int>(i);
  int p = divisors.byQ.divide(q);
  int k = divisors.byP.divide(p);
  const int n = divisors.byK.divide(k);
  int groupOutput = k;
  const int g = divisors.byGroupOutputs.divide(groupOutput);

  const int row = paddedWidth * x.r;
  const float* map = tensor + ((n * x.c + g * x.groupInputs) * x.p + p) * row + q * x.strideW * x.r;
  const float* weight = filter + int64_t{g} * length * pitch + groupOutput;
  float sum = 0.0f;
  for (int c = 0; c < x.groupInputs; ++c, map += x.p * row) {
    const float* column = map;
    for (int s = 0; s < x.s; ++s, column += x.dilationW * x.r) {
      for (int r = 0; r < x.r; ++r, weight += pitch) sum = fmaf(column[r], *weight, sum);
    }
  }
  output[i] = finish(epilogue, sum, k, i);
}

/** Thread i owns outputs i * kWidth and up to kWidth - 1 more, all of one channel. */
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    splitSumKernel(int outputs, FastDivisor byMap, FastDivisor byChannels, int splits, const float* sums, float* output,
                   Epilogue epilogue) {
  const int64_t first = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * kWidth;
  if (first >= outputs) return;
  const int index = static_cast<int>(first);
  int k = byMap.quotient(index);
  byChannels.divide(k);
  AdjacentSums<kWidth> sum{};
  waitForKernelsBefore();
#pragma unroll 8
  for (int split = 0; split < splits; ++split, sums += outputs) sum.add(sums + index);
  finish(epilogue, sum, k, index);
  sum.store(output + index);
}

}  // namespace

void launchTransform(const Shape& x, int paddedWidth, const float* input, float* tensor, cudaStream_t stream) {
  const int64_t elements = int64_t{x.n} * x.c * x.p * x.r * paddedWidth;
  const TransformDivisors divisors{FastDivisor(paddedWidth * x.r), FastDivisor(x.r), FastDivisor(x.p)};
  transformKernel<<<blocksFor((elements + 3) / 4), kThreads, 0, stream>>>(x, divisors, static_cast<int>(elements),
                                                                          input, tensor);
}

void launchBasic(const Shape& x, int paddedWidth, int pitch, int length, const float* tensor, const float* filter,
                 float* output, const Epilogue& epilogue, cudaStream_t stream) {
  const OutputDivisors divisors{FastDivisor(x.q), FastDivisor(x.p), FastDivisor(x.k), FastDivisor(x.groupOutputs)};
  const int64_t outputs = int64_t{x.n} * x.k * x.p * x.q;
  basicKernel<<<blocksFor(outputs), kThreads, 0, stream>>>(x, divisors, paddedWidth, pitch, length, tensor, filter,
                                                           output, epilogue);
}

cudaError_t launchSplitSum(const Shape& x, int splits, const float* sums, float* output, const Epilogue& epilogue,
                           bool quadOutputs, bool early, cudaStream_t stream) {
  const int outputs = x.n * x.k * x.p * x.q;
  // Its launch is worth 1.3 us on an H200. Launching the GEMM so, too, gained nothing and made times irregular.
  const Launch launch{blocksFor(quadOutputs ? outputs / 4 : outputs), kThreads, 0, early};
  return launchKernel(quadOutputs ? splitSumKernel<4> : splitSumKernel<1>, launch, stream, outputs,
                      FastDivisor(x.p * x.q), FastDivisor(x.k), splits, sums, output, epilogue);
}

}  // namespace warpconv::cuda::im2win
