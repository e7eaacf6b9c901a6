#include "im2col.h"

#include <algorithm>
#include <cstring>

namespace rivals {

bool isMatrix(const Layer& x) { return x.r * x.s * x.strideH * x.strideW == 1 && x.padH + x.padW == 0; }

void writeColumns(const Layer& x, const float* maps, int64_t channels, float* columns) {
  const int64_t p = x.p(), q = x.q();
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t r = 0; r < x.r; ++r) {
      for (int64_t s = 0; s < x.s; ++s) {
        const int64_t shift = s * x.dilationW - x.padW;
        for (int64_t row = 0; row < p; ++row, columns += q) {
          const int64_t h = row * x.strideH + r * x.dilationH - x.padH;
          if (h < 0 || h >= x.h) {
            std::fill_n(columns, q, 0.0f);
            continue;
          }
          const float* from = maps + (c * x.h + h) * x.w;
          if (x.strideW == 1) {
            const int64_t begin = std::clamp<int64_t>(-shift, 0, q), end = std::clamp<int64_t>(x.w - shift, begin, q);
            std::fill_n(columns, begin, 0.0f);
            std::memcpy(columns + begin, from + begin + shift, sizeof(float) * static_cast<size_t>(end - begin));
            std::fill_n(columns + end, q - end, 0.0f);
            continue;
          }
          for (int64_t i = 0; i < q; ++i) {
            const int64_t w = i * x.strideW + shift;
            columns[i] = w >= 0 && w < x.w ? from[w] : 0.0f;
          }
        }
      }
    }
  }
}

}  // namespace rivals
