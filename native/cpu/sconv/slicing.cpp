#include "cpu/sconv/slicing.h"

namespace warpconv::sconv {
namespace {

/** For machines that do not tell: the smallest L1 data cache of current x86-64 and arm64 server cores. */
constexpr int64_t kAssumedL1 = 32 * 1024;

/** alpha of Equation 2, as in the paper's evaluation (section 7.1). */
constexpr double kL1Share = 0.9;

}  // namespace

Slicing sliceConvolution(const ConvProblem& problem, const CpuCaches& caches) {
  const double available = kL1Share * static_cast<double>(caches.l1d > 0 ? caches.l1d : kAssumedL1);
  const int64_t bytesPerChannel =
      (kTileWindows + kTileFilters) * problem.r * problem.s * static_cast<int64_t>(sizeof(float));
  const int64_t outputTile = kTileWindows * kTileFilters * static_cast<int64_t>(sizeof(float));
  int64_t channels = problem.groupInputs();
  while (channels > 1 && static_cast<double>(channels * bytesPerChannel + outputTile) > available) {
    channels = (channels + 1) / 2;
  }
  return {channels};
}

}  // namespace warpconv::sconv
