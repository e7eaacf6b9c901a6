#include "cpu/formats/formats.h"

#include <algorithm>
#include <type_traits>

#include "divide.h"
#include "memory/aligned_buffer.h"
#include "typed/small_floats.h"

namespace warpconv {
namespace {

/** A tensor of N images of so many channels and pixels. */
struct Extents {
  int64_t n, channels, area;
  int64_t elements() const { return n * channels * area; }
};

Extents inputsOf(const ConvProblem& x) { return {x.n, x.c, x.h * x.w}; }
Extents outputsOf(const ConvProblem& x) { return {x.n, x.k, x.p * x.q}; }

bool isPlain(const TensorFormat& format) { return format == TensorFormat{}; }

/** Elements of each type, and the integers or floats that memory holds of them. */
struct Single {
  using Stored = float;
  static float decode(float value) { return value; }
  static float encode(float value) { return value; }
};
template <typename Format>
struct Half {
  using Stored = uint16_t;
  static float decode(uint16_t bits) { return Format::decode(bits); }
  static uint16_t encode(float value) { return static_cast<uint16_t>(Format::encode(value)); }
};

template <typename Function>
void withElement(FloatType type, const Function& function) {
  switch (type) {
    case FloatType::float32: return function(Single{});
    case FloatType::float16: return function(Half<typed::Float16>{});
    case FloatType::bfloat16: return function(Half<typed::BFloat16>{});
  }
}

/** Of a task: some 30 microseconds, so that a call that is to stop does so soon. */
constexpr int64_t kTaskElements = 32'768;
/**
 * Of one thread. On a Zen 5 core, by code for any x86-64: 1.5e6 of float16 in NHWC to float32 in NCHW and 0.7e6 back,
 * other formats up to four times as many.
 */
constexpr double kConvertedPerMillisecond = 1e6;
/** Below this a second thread costs more than it brings. */
constexpr int64_t kLeastParallelElements = 100'000;

void forTasks(int64_t elements, int64_t tasks, const RunContext& context, TaskBody body) {
  const RunContext helpers{elements < kLeastParallelElements ? nullptr : context.executor, context.cancellation};
  helpers.parallelFor(tasks, [&](int64_t task) {
    if (!context.isCancelled()) body(task);
  });
}

/** Calls run(first, count) for pieces of elements that are adjacent in both formats. */
template <typename Run>
void forRuns(const Extents& x, const RunContext& context, const Run& run) {
  const int64_t all = x.elements();
  forTasks(all, ceilDivide(all, kTaskElements), context, [&](int64_t task) {
    const int64_t first = task * kTaskElements;
    run(first, std::min(kTaskElements, all - first));
  });
}

/** Pixels and channels of a tile that is turned in the first cache. */
constexpr int64_t kTilePixels = 64, kTileChannels = 16;

struct Tile {
  int64_t image;
  int64_t channel, channels;
  int64_t pixel, pixels;
};

/** Calls turn(tile) for tiles that together are the tensor. */
template <typename Turn>
void forTiles(const Extents& x, const RunContext& context, const Turn& turn) {
  const int64_t taskPixels = roundUp(ceilDivide(kTaskElements, x.channels), kTilePixels);
  const int64_t tasksPerImage = ceilDivide(x.area, taskPixels);
  forTasks(x.elements(), x.n * tasksPerImage, context, [&](int64_t task) {
    const int64_t begin = task % tasksPerImage * taskPixels;
    const int64_t end = std::min(x.area, begin + taskPixels);
    for (int64_t pixel = begin; pixel < end; pixel += kTilePixels) {
      for (int64_t channel = 0; channel < x.channels; channel += kTileChannels) {
        turn(Tile{task / tasksPerImage, channel, std::min(kTileChannels, x.channels - channel), pixel,
                  std::min(kTilePixels, end - pixel)});
      }
    }
  });
}

int64_t pitchOf(const TensorFormat& format, const Extents& x) { return format.pitch == 0 ? x.channels : format.pitch; }

template <typename Element>
void decodePixels(Element, const TensorFormat& format, const Extents& x, const void* from, float* to,
                  const RunContext& context) {
  const auto* const pixels = static_cast<const typename Element::Stored*>(from);
  const int64_t pitch = pitchOf(format, x);
  forTiles(x, context, [&](const Tile& tile) {
    float turned[kTilePixels][kTileChannels];
    const auto* const first = pixels + (tile.image * x.area + tile.pixel) * pitch + tile.channel;
    for (int64_t i = 0; i < tile.pixels; ++i) {
      for (int64_t c = 0; c < tile.channels; ++c) turned[i][c] = Element::decode(first[i * pitch + c]);
    }
    for (int64_t c = 0; c < tile.channels; ++c) {
      float* const plane = to + (tile.image * x.channels + tile.channel + c) * x.area + tile.pixel;
      for (int64_t i = 0; i < tile.pixels; ++i) plane[i] = turned[i][c];
    }
  });
}

template <typename Element>
void encodePixels(Element, const TensorFormat& format, const Extents& x, const float* from, void* to,
                  const RunContext& context) {
  auto* const pixels = static_cast<typename Element::Stored*>(to);
  const int64_t pitch = pitchOf(format, x);
  forTiles(x, context, [&](const Tile& tile) {
    typename Element::Stored turned[kTileChannels][kTilePixels];
    for (int64_t c = 0; c < tile.channels; ++c) {
      const float* const plane = from + (tile.image * x.channels + tile.channel + c) * x.area + tile.pixel;
      for (int64_t i = 0; i < tile.pixels; ++i) turned[c][i] = Element::encode(plane[i]);
    }
    auto* const first = pixels + (tile.image * x.area + tile.pixel) * pitch + tile.channel;
    for (int64_t i = 0; i < tile.pixels; ++i) {
      for (int64_t c = 0; c < tile.channels; ++c) first[i * pitch + c] = turned[c][i];
    }
  });
}

/** An operand as it is computed with: in place, or in scratch memory. */
class PlainOperand {
 public:
  PlainOperand(const TensorFormat& format, const Extents& x, const void* given, const RunContext& context)
      : scratch_(given == nullptr || isPlain(format) ? 0 : x.elements()), given_(static_cast<const float*>(given)) {
    if (scratch_.elements() == 0) return;
    toPlain(format, x.n, x.channels, x.area, given, scratch_.data(), context);
    given_ = scratch_.data();
  }

  const float* data() const { return given_; }

 private:
  AlignedBuffer scratch_;
  const float* given_;
};

}  // namespace

ConvProblem plainProblem(const ConvProblem& problem) {
  ConvProblem plain = problem;
  plain.format = {};
  return plain;
}

Estimate withConversions(Estimate estimate, const ConvProblem& problem) {
  const auto add = [&](const TensorFormat& format, int64_t elements, bool isSure) {
    if (isPlain(format)) return;
    estimate.workspaceBytes += elements * static_cast<int64_t>(sizeof(float));
    if (isSure) estimate.milliseconds += static_cast<double>(elements) / kConvertedPerMillisecond;
  };
  add(problem.format.input, problem.inputSize(), true);
  // Few convolutions have one.
  add(problem.format.residual, problem.outputSize(), false);
  add(problem.format.output, problem.outputSize(), true);
  return estimate;
}

void toPlain(const TensorFormat& format, int64_t n, int64_t channels, int64_t area, const void* from, float* to,
             const RunContext& context) {
  const Extents x{n, channels, area};
  withElement(format.type, [&](auto element) {
    using Element = decltype(element);
    if (format.layout == Layout::nhwc) return decodePixels(element, format, x, from, to, context);
    const auto* const elements = static_cast<const typename Element::Stored*>(from);
    forRuns(x, context, [&](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) to[i] = Element::decode(elements[i]);
    });
  });
}

void fromPlain(const TensorFormat& format, int64_t n, int64_t channels, int64_t area, const float* from, void* to,
               const RunContext& context) {
  const Extents x{n, channels, area};
  withElement(format.type, [&](auto element) {
    using Element = decltype(element);
    if (format.layout == Layout::nhwc) return encodePixels(element, format, x, from, to, context);
    auto* const elements = static_cast<typename Element::Stored*>(to);
    forRuns(x, context, [&](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) elements[i] = Element::encode(from[i]);
    });
  });
}

Status runFormatted(const CpuConvolution& plain, const ConvProblem& problem, const FormattedTensors& tensors,
                    const RunContext& context) {
  const ConvFormat& format = problem.format;
  if (format.isPlain()) {
    return plain.run({static_cast<const float*>(tensors.input), static_cast<const float*>(tensors.residual),
                      static_cast<float*>(tensors.output)},
                     context);
  }
  const Extents outputs = outputsOf(problem);
  const PlainOperand input(format.input, inputsOf(problem), tensors.input, context);
  const PlainOperand residual(format.residual, outputs, tensors.residual, context);
  AlignedBuffer scratch(isPlain(format.output) ? 0 : outputs.elements());
  float* const output = isPlain(format.output) ? static_cast<float*>(tensors.output) : scratch.data();
  if (context.isCancelled()) return stoppedWhileRunning();
  const Status status = plain.run({input.data(), residual.data(), output}, context);
  if (!status.isOk() || isPlain(format.output)) return status;
  fromPlain(format.output, outputs.n, outputs.channels, outputs.area, output, tensors.output, context);
  return context.isCancelled() ? stoppedWhileRunning() : Status{};
}

}  // namespace warpconv
