#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "gpu/gpu_probe.h"

namespace warpconv {
namespace {

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

GpuProbe missing(GpuMissing what, std::string driver, std::string reason) {
  return {what, std::move(reason), std::move(driver), {}};
}

/** The runtime's word for an error, in our sentence. */
std::string because(const char* what, cudaError_t error) {
  return std::string(what) + " (" + cudaGetErrorName(error) + ": " + cudaGetErrorString(error) + ")";
}

}  // namespace

GpuProbe probeGpus() {
  int driver = 0;
  if (cudaError_t error = cudaDriverGetVersion(&driver); error != cudaSuccess) {
    return missing(GpuMissing::driver, "", because("the NVIDIA driver did not tell its version", error));
  }
  if (driver == 0)
    return missing(GpuMissing::driver, "", "no NVIDIA driver is installed; install one from your distribution");
  if (driver < CUDART_VERSION / 1000 * 1000) {
    return missing(GpuMissing::driver, versionText(driver),
                   "the NVIDIA driver supports CUDA " + versionText(driver) + " and this binary needs CUDA " +
                       versionText(CUDART_VERSION / 1000 * 1000) + "; install a newer driver");
  }
  // The count stays untouched when the call fails.
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver) {
    return missing(GpuMissing::driver, versionText(driver), because("the NVIDIA driver cannot be used", counted));
  }
  if (counted != cudaSuccess || count == 0) {
    const std::string reason =
        counted == cudaSuccess ? "the NVIDIA driver reports no device" : because("no GPU can be used", counted);
    return missing(GpuMissing::device, versionText(driver), reason + "; check nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  GpuProbe probe;
  probe.driver = versionText(driver);
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    probe.gpus.push_back({index, properties.name, properties.major, properties.minor,
                          static_cast<int64_t>(properties.totalGlobalMem), properties.multiProcessorCount});
  }
  if (probe.gpus.empty()) {
    return missing(GpuMissing::device, versionText(driver),
                   "no GPU answered when asked for its properties; check nvidia-smi");
  }
  return probe;
}

}  // namespace warpconv
