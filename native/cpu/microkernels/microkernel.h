#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "devices/cpu_info.h"
#include "problem/activation.h"
#include "problem/conv_problem.h"

namespace warpconv {

/** Windows that begin in one input row: lanes `lane` to `lane + count` of a tile; window i at column w + i * strideW.
 */
struct WindowSegment {
  int64_t lane;
  int64_t count;
  /** Input coordinates of the first window's first element; negative in padding */
  int64_t h;
  int64_t w;
};

/** Up to `Microkernel::windows` adjacent windows, cut into the output rows they lie in. */
struct WindowTile {
  const ConvProblem* problem;
  const WindowSegment* segments;
  int64_t segmentCount;
  /** First of `channels` input maps of H x W */
  const float* maps;
  int64_t channels;
};

/**
 * Which elements of a tile's windows lie in padding: they are neither read nor multiplied. Window i of `count` has
 * element (r, s) if its row and its column lie inside.
 */
struct PaddedWindows {
  /** Bit i of columns[s]: the column of window i lies inside. Null where every element of every window does. */
  const uint16_t* columns = nullptr;
  /** Windows before count / 2 have the rows from this one on, … */
  int64_t firstRow = 0;
  /** … and the others those before this one */
  int64_t endRow = 0;
};

/** The rows of a tile of outputs and of residuals that are to be brought to the cache; no `output` for none. */
struct OutputRows {
  const float* output = nullptr;
  /** Or null */
  const float* residual = nullptr;
  int64_t count = 0;
  int64_t stride = 0;
  /** Floats in a row */
  int64_t length = 0;
};

/**
 * Where the windows of a tile lie: element (c, r, s) of window i of `count` at
 * first[c * channelStride + r * rowStride + s * tapStride + i * step], and from window count / 2 on at
 * second[… + (i - count / 2) * step], so that a tile may hold two short output rows.
 */
struct WindowView {
  const float* first;
  /** first + count / 2 * step where the windows lie in one row */
  const float* second;
  int64_t channels;
  /** Filter rows that any window has inside the input */
  int64_t rows;
  int64_t taps;
  int64_t channelStride;
  int64_t rowStride;
  int64_t tapStride;
  /** 1 or 2 */
  int64_t step;
  /** Where the filters of (0, 0, 0) lie, in elements of the panel, */
  int64_t firstElement = 0;
  /** and how many elements a channel has there: rows * taps, or more where whole rows lie in padding */
  int64_t filterElements;
  /** How many floats further on lie the filters that come next, which are brought to the L2 cache meanwhile */
  int64_t ahead = 0;
  OutputRows outputs{};
  PaddedWindows padded;
  /**
   * Unless null, element e of window i lies at first[offsets[e] + i] instead, for e < taps, and a vector may be loaded
   * from there on. For lane microkernels only.
   */
  const int64_t* offsets = nullptr;
};

/** What happens to an output once its sum is complete. */
struct Finish {
  /** One per filter of the tile */
  const float* bias;
  /** At the same positions as the output, or null */
  const float* residual;
  Activation activation;
};

/** A tile of sums on its way into NCHW outputs. */
struct OutputTile {
  int64_t filters;
  int64_t windows;
  /** Element [first filter][first window]; `rowStride` floats from filter to filter */
  float* output;
  int64_t rowStride;
  /** Add to what the output holds from earlier channel sets */
  bool add;
  /** Null until the last channel set */
  const Finish* finish;
};

/** Floats from one packed element to the next: [element][window], whatever the number of windows in the tile. */
inline constexpr int64_t kPackedWindows = 16;
/** Filters of the widest tile, of kPackedWindows windows: no tile has more sums. */
inline constexpr int64_t kMostFilters = 32;

/**
 * Microkernel::storeElements where sums are turned, and where they are stored as they are: fitted to 37 pointwise
 * layers of mobile networks and ResNet-50 on one Zen 4 core (docs/experiments.md).
 */
inline constexpr double kTurnedStoreElements = 16;
inline constexpr double kPlainStoreElements = 5;

/**
 * The innermost part of a sliced convolution for one instruction set (Ferrari et al., SConv, sections 5 and 6).
 * Filters lie in vector lanes and windows are broadcast, so that a tile may have any number of windows up to `windows`
 * at full speed; the sums are turned on their way into the NCHW output.
 */
struct Microkernel {
  const char* name;
  Isa isa;
  /** N_win and N_f: the largest tile. The filter panel's width is a multiple of `lanes`. */
  int64_t windows;
  int64_t filters;
  int64_t lanes;
  /** 1, or the lanes of a vector of windows: tiles in between take as long as the next multiple */
  int64_t windowStep;
  /** What one core reaches in whole layers, beside the definition of each kernel; for predictions */
  double multiplyAddsPerMillisecond;
  /** What a vector of sums costs on its way to the outputs, in elements of a filter; for predictions */
  double storeElements;

  /** Packs dst[c][r][s][kPackedWindows]; lanes beyond the tile hold anything, padded elements are zero. */
  void (*pack)(const WindowTile& tile, float* dst);
  /**
   * sums[w][kMostFilters] = the sum over the view's elements (c, r, s), in their order, of the element of window w
   * times filters[(c * filterElements + r * taps + s) * width + f], where `width` is the panel's: a multiple of `lanes`
   * up to `filters`.
   */
  void (*multiply)(int64_t count, int64_t width, const WindowView& windows, const float* filters, float* sums);
  void (*store)(const OutputTile& tile, const float* sums);
  /** Both, for a tile's windows. All that a lane microkernel has of these four. */
  void (*convolve)(const OutputTile& tile, int64_t width, const WindowView& windows, const float* filters);
  /** Whether `convolve` brings the view's outputs to the cache itself */
  bool bringsOutputs = false;
  /** even[i] = from[2 * i] and odd[i] = from[2 * i + 1] for i < count. Of lane microkernels only. */
  void (*splitPairs)(const float* from, int64_t count, float* even, float* odd) = nullptr;
  /**
   * dst[i * width + row] = from[row * stride + i] for row < rows and i < columns, and zeros for the other rows below
   * `width`: 16, or a multiple of `lanes`. Null where plain code is as good. Not of lane microkernels.
   */
  void (*turn)(const float* from, int64_t stride, int64_t rows, int64_t columns, int64_t width, float* dst) = nullptr;
};

/** All that were built, narrowest instruction set first. */
std::span<const Microkernel* const> microkernels();

/** The last of them that `isa` allows. */
const Microkernel& widestMicrokernel(Isa isa);

/** Those whose windows lie in lanes, in the same order */
std::span<const Microkernel* const> laneMicrokernels();

/**
 * One for views of one row of elements without padding at step 1: its windows lie in lanes, as they do in the output,
 * which its sums go to straight from registers. The widest that `isa` allows.
 */
const Microkernel& laneMicrokernel(Isa isa);

}  // namespace warpconv
