#include "cuda/halo/grid.h"

#include <algorithm>

namespace warpconv::cuda::halo {

GridAxis gridAxis(int64_t input, int64_t output, int64_t taps, int64_t stride, int64_t dilation, int64_t padBefore) {
  int64_t phases = 1;
  for (int64_t tap = 0; tap < taps; ++tap) phases = std::max(phases, tap * dilation % stride + 1);
  const int64_t read = output + (taps - 1) * dilation / stride;
  const int64_t filled = (input + padBefore + stride - 1) / stride;
  const int64_t zerosBehind = std::max<int64_t>(read - filled, 0);
  const int64_t zerosBefore = padBefore / stride;
  const int64_t pitch = std::max(output, read - std::min(zerosBehind, zerosBefore));
  return {phases, pitch};
}

Grid makeGrid(const ConvProblem& x) {
  Grid grid;
  grid.rows = gridAxis(x.h, x.p, x.r, x.stride.h, x.dilation.h, x.padding.top);
  grid.columns = gridAxis(x.w, x.q, x.s, x.stride.w, x.dilation.w, x.padding.left);
  grid.positions = x.n * grid.rows.pitch * grid.columns.pitch;
  for (int64_t r = 0; r < x.r; ++r) {
    const int64_t h = r * x.dilation.h;
    for (int64_t s = 0; s < x.s; ++s) {
      const int64_t w = s * x.dilation.w;
      grid.taps.push_back({h % x.stride.h * grid.columns.phases + w % x.stride.w,
                           h / x.stride.h * grid.columns.pitch + w / x.stride.w});
      grid.reach = std::max(grid.reach, grid.taps.back().shift);
    }
  }
  return grid;
}

}  // namespace warpconv::cuda::halo
