#include "devices/gpu_probe.h"

namespace warpconv {

GpuProbe probeGpus() {
  return {.missing = GpuMissing::build,
          .reason = "this binary was built without CUDA; build it where nvcc is on PATH",
          .driver = "",
          .gpus = {}};
}

}  // namespace warpconv
