#include "cuda/planning/traits.h"

namespace warpconv::cuda {
namespace {

std::string but(const GpuTraits& traits) {
  const int capability = traits.computeCapability;
  return "; this device has " + std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace

GpuTraits withoutGaps(GpuTraits traits) {
  const auto fill = [](auto& value, auto guess) {
    if (value <= 0) value = guess;
  };
  fill(traits.multiprocessors, 1);
  fill(traits.registersPerMultiprocessor, 65536);
  // What every device has without being asked.
  fill(traits.sharedBytesPerBlock, 48 * 1024);
  fill(traits.sharedBytesPerMultiprocessor, traits.sharedBytesPerBlock);
  // 128 lanes at 1 GHz. Operations for each byte: 12 on an A100, 20 on an H100, 80 on an RTX 4090.
  fill(traits.flopsPerSecond, 256e9 * traits.multiprocessors);
  fill(traits.bytesPerSecond, traits.flopsPerSecond / 40);
  return traits;
}

std::optional<std::string> refuseTensorCores(const GpuTraits& traits) {
  if (hasTensorCores(traits)) return std::nullopt;
  return "multiplies on tensor cores from compute capability 8.0 on" + but(traits);
}

std::optional<std::string> refuseWarpgroupProducts(const GpuTraits& traits) {
  if (hasWarpgroupProducts(traits)) return std::nullopt;
  return "multiplies by warpgroups, which devices of compute capability 9.0 alone have" + but(traits);
}

}  // namespace warpconv::cuda
