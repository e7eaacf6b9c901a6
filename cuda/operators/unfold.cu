#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/halves.cuh"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

/** An UnfoldStep in words of neighbouring channels. */
struct Unfolding {
  int pieces;
  FastDivisor byWord, byColumn, byRow, byChannel;
  int channels, h, w, taps, stride, dilation, padding, pitch;
};

/**
 * Thread i of the grid owns word k of output pixel (n, y, x), i = ((n * H + y) * Q + x) * words + k. Its elements lie
 * in different planes, each of which neighbouring threads read nearly in order.
 */
template <typename Type, int kWidth>
__global__ void __launch_bounds__(kThreads)
    unfoldKernel(const __grid_constant__ Unfolding x, const float* input, uint16_t* output) {
  beginStep();
  int word = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(word) >= static_cast<unsigned>(x.pieces)) return;
  const int pixel = x.byWord.divide(word);
  int column = pixel;
  int row = x.byColumn.divide(column);
  const int image = x.byRow.divide(row);
  const int left = column * x.stride - x.padding;
  float values[kWidth];
#pragma unroll
  for (int lane = 0; lane < kWidth; ++lane) {
    int channel = word * kWidth + lane;
    // channel = channel % C, tap = channel / C
    const int tap = x.byChannel.divide(channel);
    const int from = left + tap * x.dilation;
    const bool exists = tap < x.taps && static_cast<unsigned>(from) < static_cast<unsigned>(x.w);
    values[lane] = exists ? input[(int64_t{image} * x.channels + channel) * x.h * x.w + row * x.w + from] : 0.0f;
  }
  *reinterpret_cast<Halves<kWidth>*>(output + int64_t{pixel} * x.pitch + word * kWidth) = narrow<Type>(values);
}

}  // namespace

Status unfold(const UnfoldStep& step, const float* input, void* output, cudaStream_t stream) {
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const int width = widthOfHalves(step.pitch, halvesTo(output));
  const int64_t words = step.pitch / width;
  const Unfolding x{narrow(step.n * step.h * step.q * words),
                    FastDivisor(narrow(words)),
                    FastDivisor(narrow(step.q)),
                    FastDivisor(narrow(step.h)),
                    FastDivisor(narrow(step.channels)),
                    narrow(step.channels),
                    narrow(step.h),
                    narrow(step.w),
                    narrow(step.taps),
                    narrow(step.stride),
                    narrow(step.dilation),
                    narrow(step.padding),
                    narrow(step.pitch)};
  return withHalf(step.type, [&](auto type) {
    return withWidth(width, [&](auto like) {
      return launch("unfold", unfoldKernel<decltype(type), decltype(like)::value>, gridFor(x.pieces), stream, x, input,
                    static_cast<uint16_t*>(output));
    });
  });
}

}  // namespace warpconv::cuda::operators
