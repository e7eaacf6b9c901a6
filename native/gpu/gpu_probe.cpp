#include "gpu/gpu_probe.h"

#include <atomic>

namespace warpconv {
namespace {

std::atomic<bool> probed{false};

}  // namespace

const GpuProbe& probedGpus() {
  static const GpuProbe probe = probeGpus();
  probed = true;
  return probe;
}

bool areGpusProbed() { return probed; }

}  // namespace warpconv
