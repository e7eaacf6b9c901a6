// Compiled with -mavx512f: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include <immintrin.h>

#include "cpu/epilogue.h"
#include "cpu/microkernels/avx512.h"
#include "cpu/microkernels/outer_product.h"
#include "cpu/microkernels/portable.h"

namespace warpconv {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  using Register = __m512;

  static Register zero() { return _mm512_setzero_ps(); }
  static Register load(const float* from) { return _mm512_loadu_ps(from); }
  static Register broadcast(const float* from) { return _mm512_set1_ps(*from); }
  static Register multiplyAdd(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
  static void store(float* to, Register value) { _mm512_storeu_ps(to, value); }
};

/** The lanes of one segment, worked out once for all its rows. */
struct SegmentLanes {
  /** Windows of the segment */
  __mmask16 windows;
  /** Of the 32 columns from the first window's on: those inside the input */
  __mmask16 low;
  __mmask16 high;
};

SegmentLanes lanesFrom(const ConvProblem& x, const WindowSegment& at, int64_t column) {
  return {firstLanes(at.count), columnsInside(column, 16, x.w), columnsInside(column + 16, 16, x.w)};
}

/** Calls `packRow(row, dst)` for every input row of a segment, with null for a row of padding. */
template <typename PackRow>
void forEachRow(const WindowTile& tile, const WindowSegment& at, float* dst, PackRow packRow) {
  const ConvProblem& x = *tile.problem;
  dst += at.lane;
  for (int64_t c = 0; c < tile.channels; ++c) {
    const float* map = tile.maps + c * x.h * x.w;
    for (int64_t r = 0; r < x.r; ++r, dst += x.s * kPackedWindows) {
      const int64_t h = at.h + r * x.dilation.h;
      packRow(h >= 0 && h < x.h ? map + h * x.w + at.w : nullptr, dst);
    }
  }
}

__m512 loadOrZero(__mmask16 lanes, const float* from) {
  return from == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, from);
}

/**
 * Vector-based packing (SConv, section 6.2): at stride 1, element s of 16 windows is element 0 shifted left by s *
 * dilation with the next 16 columns shifted in, so two loads serve all S.
 */
void packShifted(const WindowTile& tile, const WindowSegment& at, float* dst) {
  const ConvProblem& x = *tile.problem;
  const SegmentLanes lanes = lanesFrom(x, at, at.w);
  const __m512i step = _mm512_set1_epi32(static_cast<int>(x.dilation.w));
  const __m512i unshifted = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const int64_t elements = x.s;
  forEachRow(tile, at, dst, [&](const float* row, float* to) {
    const __m512 low = loadOrZero(lanes.low, row);
    const __m512 high = loadOrZero(lanes.high, row == nullptr ? nullptr : row + 16);
    __m512i shift = unshifted;
    for (int64_t s = 0; s < elements; ++s, to += kPackedWindows) {
      _mm512_mask_storeu_ps(to, lanes.windows, _mm512_permutex2var_ps(low, shift, high));
      shift = _mm512_add_epi32(shift, step);
    }
  });
}

/** One element of the filter's row at a time: at stride 1 as it lies, at stride 2 the even ones of 32 columns. */
template <bool kEven>
void packLoaded(const WindowTile& tile, const WindowSegment& at, float* dst) {
  const ConvProblem& x = *tile.problem;
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  for (int64_t s = 0; s < x.s; ++s, dst += kPackedWindows) {
    const int64_t ahead = s * x.dilation.w;
    const SegmentLanes lanes = lanesFrom(x, at, at.w + ahead);
    forEachRow(tile, at, dst, [&](const float* row, float* to) {
      __m512 windows = loadOrZero(lanes.low, row == nullptr ? nullptr : row + ahead);
      if constexpr (kEven) {
        const __m512 high = loadOrZero(lanes.high, row == nullptr ? nullptr : row + ahead + 16);
        windows = _mm512_permutex2var_ps(windows, even, high);
      }
      _mm512_mask_storeu_ps(to, lanes.windows, windows);
    });
  }
}

void pack(const WindowTile& tile, float* dst) {
  const ConvProblem& x = *tile.problem;
  if (x.stride.w > 2) return portable::pack(tile, dst);
  const bool shifts = x.stride.w == 1 && (x.s - 1) * x.dilation.w <= 16;
  const auto packSegment = shifts ? packShifted : x.stride.w == 1 ? packLoaded<false> : packLoaded<true>;
  for (int64_t i = 0; i < tile.segmentCount; ++i) packSegment(tile, tile.segments[i], dst);
}

/** Turns 16 vectors of 16: element j of vector i goes to element i of vector j. */
void transpose(__m512 (&rows)[16]) {
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
  }
  // In each group of four vectors: 128-bit quarter q of u[4g + k] holds column 4q + k of rows 4g to 4g + 3.
  __m512 u[16];
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const __m512d a = _mm512_castps_pd(t[4 * g]), b = _mm512_castps_pd(t[4 * g + 1]);
    const __m512d c = _mm512_castps_pd(t[4 * g + 2]), d = _mm512_castps_pd(t[4 * g + 3]);
    u[4 * g] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    u[4 * g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    u[4 * g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    u[4 * g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const __m512 low01 = _mm512_shuffle_f32x4(u[k], u[4 + k], 0x88),
                 high01 = _mm512_shuffle_f32x4(u[k], u[4 + k], 0xdd);
    const __m512 low23 = _mm512_shuffle_f32x4(u[8 + k], u[12 + k], 0x88);
    const __m512 high23 = _mm512_shuffle_f32x4(u[8 + k], u[12 + k], 0xdd);
    rows[k] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    rows[4 + k] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    rows[8 + k] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    rows[12 + k] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

/** 16 filters of a tile on their way out. */
struct Block {
  const OutputTile& tile;
  int64_t first;
  /** How many of them there are, and their windows */
  int64_t filters;
  __mmask16 windows;
};

/** Calls `body(f)` for the filters of a block, with constants. */
template <typename Body>
void forEachFilter(const Block& block, Body body) {
#pragma GCC unroll 16
  for (int64_t f = 0; f < 16; ++f) {
    if (f < block.filters) body(f);
  }
}

/** Adds what `tensor` holds at the block's place. */
void addRows(const Block& block, const float* tensor, __m512 (&rows)[16]) {
  tensor += block.first * block.tile.rowStride;
  forEachFilter(block, [&](int64_t f) {
    rows[f] = _mm512_add_ps(rows[f], _mm512_maskz_loadu_ps(block.windows, tensor + f * block.tile.rowStride));
  });
}

template <ActivationKind kKind>
void activateRows(const Activation& activation, __m512 (&rows)[16]) {
#pragma GCC unroll 16
  for (__m512& row : rows) row = activate(row, {kKind, activation.first, activation.second});
}

void activateRows(const Activation& activation, __m512 (&rows)[16]) {
  switch (activation.kind) {
    case ActivationKind::relu: return activateRows<ActivationKind::relu>(activation, rows);
    case ActivationKind::leakyRelu: return activateRows<ActivationKind::leakyRelu>(activation, rows);
    case ActivationKind::clip: return activateRows<ActivationKind::clip>(activation, rows);
    default: return;
  }
}

/** Each decision is made once for 16 rows, which stay in registers. */
void storeBlock(const Block& block, const float* sums) {
  const OutputTile& tile = block.tile;
  const Finish* finish = tile.finish;
  const __m512 bias = finish == nullptr ? _mm512_setzero_ps()
                                        : _mm512_maskz_loadu_ps(firstLanes(block.filters), finish->bias + block.first);
  __m512 rows[16];
#pragma GCC unroll 16
  for (int64_t w = 0; w < 16; ++w) {
    rows[w] = w < tile.windows ? _mm512_add_ps(_mm512_loadu_ps(sums + w * kMostFilters + block.first), bias) : bias;
  }
  transpose(rows);
  if (tile.add) addRows(block, tile.output, rows);
  if (finish != nullptr && finish->residual != nullptr) addRows(block, finish->residual, rows);
  if (finish != nullptr) activateRows(finish->activation, rows);
  float* output = tile.output + block.first * tile.rowStride;
  forEachFilter(block, [&](int64_t f) { _mm512_mask_storeu_ps(output + f * tile.rowStride, block.windows, rows[f]); });
}

void store(const OutputTile& tile, const float* sums) {
  for (int64_t first = 0; first < tile.filters; first += 16) {
    storeBlock({tile, first, clamp(tile.filters - first, 0, 16), firstLanes(tile.windows)}, sums);
  }
  if (tile.finish == nullptr || isVectorised(tile.finish->activation.kind)) return;
  for (int64_t f = 0; f < tile.filters; ++f) {
    finishOutputs(tile.output + f * tile.rowStride, tile.windows, 0.0f, nullptr, tile.finish->activation);
  }
}

}  // namespace

// 110e6: 220 GFLOP/s in most pointwise layers of bench/layers/sconv-393.json on one Zen 5 core.
extern const Microkernel kF32_14x32Avx512;
const Microkernel kF32_14x32Avx512{"f32_14x32_avx512",          Isa::avx512, 14, 32, 16, 110e6, pack,
                                   outer::multiply<Avx512, 14>, store};

}  // namespace warpconv
