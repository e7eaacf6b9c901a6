#include <cmath>

#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/halves.cuh"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "cuda/operators/windows.cuh"

namespace warpconv::cuda::operators {
namespace {

/** Windows over images in NHWC, in words of neighbouring channels. */
struct PixelWindows {
  Windows windows;
  FastDivisor byWord;
  /** From one pixel to the next */
  int inputPitch, outputPitch;
};

/** Taps of a row that are loaded before the first of them is looked at */
constexpr int kTaps = 4;

/**
 * Thread i of the grid owns word w of output pixel (n, p, q), i = ((n * P + p) * Q + q) * words + w: neighbouring
 * threads have neighbouring channels.
 */
template <PoolStep::Mode kMode, typename Type, int kWidth>
__global__ void __launch_bounds__(kThreads)
    poolHalvesKernel(const __grid_constant__ PixelWindows x, const uint16_t* input, uint16_t* output) {
  beginStep();
  int w = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(w) >= static_cast<unsigned>(x.windows.outputs)) return;
  const int pixel = x.byWord.divide(w);
  const Window window = x.windows.at(pixel);
  // plane is n here: an image has one plane of pixels.
  const uint16_t* map = input + int64_t{window.plane} * x.windows.h * x.windows.w * x.inputPitch + w * kWidth;
  constexpr bool kIsMaximum = kMode == PoolStep::Mode::maximum;
  float result[kWidth];
#pragma unroll
  for (int lane = 0; lane < kWidth; ++lane) result[lane] = kIsMaximum ? -INFINITY : 0.0f;
  for (int r = window.beginR; r < window.endR; ++r) {
    const int row = (window.top + r * x.windows.dilationH) * x.windows.w + window.left;
    for (int s = window.beginS; s < window.endS; s += kTaps) {
      Halves<kWidth> taps[kTaps];
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
        // The last of a row once more, which changes no maximum.
        const int column = min(s + t, window.endS - 1);
        const int64_t at = int64_t{row + column * x.windows.dilationW} * x.inputPitch;
        taps[t] = *reinterpret_cast<const Halves<kWidth>*>(map + at);
      }
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
        float values[kWidth];
        widen<Type>(taps[t], values);
        const bool exists = s + t < window.endS;
#pragma unroll
        for (int lane = 0; lane < kWidth; ++lane) {
          const float value = values[lane];
          if (kIsMaximum) {
            result[lane] = value > result[lane] || value != value ? value : result[lane];
          } else if (exists) {
            result[lane] += value;
          }
        }
      }
    }
  }
  if (!kIsMaximum) {
    const float factor = window.divisor == 0 ? 0.0f : static_cast<float>(1.0 / window.divisor);
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) result[lane] *= factor;
  }
  *reinterpret_cast<Halves<kWidth>*>(output + int64_t{pixel} * x.outputPitch + w * kWidth) = narrow<Type>(result);
}

template <typename Type, int kWidth>
Status launchPool(const PoolStep& step, const PixelWindows& x, const void* input, void* output, cudaStream_t stream) {
  const auto kernel = step.mode == PoolStep::Mode::maximum ? poolHalvesKernel<PoolStep::Mode::maximum, Type, kWidth>
                                                           : poolHalvesKernel<PoolStep::Mode::average, Type, kWidth>;
  return launch("pool", kernel, gridFor(x.windows.outputs), stream, x, static_cast<const uint16_t*>(input),
                static_cast<uint16_t*>(output));
}

}  // namespace

Status poolHalves(const PoolStep& step, const void* input, void* output, cudaStream_t stream) {
  const int64_t channels = step.channels;
  const auto pitchOf = [&](const TensorFormat& format) { return format.pitch == 0 ? channels : format.pitch; };
  const int64_t inputPitch = pitchOf(step.inputFormat), outputPitch = pitchOf(step.outputFormat);
  const int width = widthOfHalves(channels, inputPitch, outputPitch, halvesTo(input), halvesTo(output));
  const int64_t words = channels / width;
  const int64_t outputs = step.planes / channels * step.p * step.q * words;
  if (outputs == 0) return {};
  const PixelWindows x{Windows(step, outputs), FastDivisor(static_cast<int>(words)), static_cast<int>(inputPitch),
                       static_cast<int>(outputPitch)};
  return withHalf(step.inputFormat.type, [&](auto type) {
    return withWidth(width, [&](auto like) {
      return launchPool<decltype(type), decltype(like)::value>(step, x, input, output, stream);
    });
  });
}

}  // namespace warpconv::cuda::operators
