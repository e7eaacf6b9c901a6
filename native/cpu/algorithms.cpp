#include "cpu/convolution.h"
#include "cpu/direct/direct.h"
#include "cpu/sconv/sconv.h"

namespace warpconv {

std::span<const CpuAlgorithm> cpuAlgorithms() {
  static const CpuAlgorithm kAlgorithms[] = {kSconv, kDirect};
  return kAlgorithms;
}

}  // namespace warpconv
