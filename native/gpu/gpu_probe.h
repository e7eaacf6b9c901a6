#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace warpconv {

struct GpuInfo {
  int index = 0;
  std::string name;
  int computeCapabilityMajor = 0;
  int computeCapabilityMinor = 0;
  int64_t memoryBytes = 0;
  int multiprocessors = 0;
};

/** What stands between this process and a GPU. */
enum class GpuMissing { nothing, build, driver, device };

struct GpuProbe {
  GpuMissing missing = GpuMissing::nothing;
  /** One sentence on what is missing and what to do; empty when GPUs were found */
  std::string reason;
  /** The newest CUDA version the driver supports, as in `13.0`; empty without a driver */
  std::string driver;
  std::vector<GpuInfo> gpus;
};

/** Looks for GPUs. Never throws, and works where there is no driver. */
GpuProbe probeGpus();

/** What the first look of this process found: GPUs neither come nor go as long as it runs. */
const GpuProbe& probedGpus();
/** Whether there has been a look, which takes long where there is a driver to start. */
bool areGpusProbed();

}  // namespace warpconv
