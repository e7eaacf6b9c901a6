#include "cuda/traits.h"

namespace warpconv::cuda {
namespace {

std::string but(const GpuTraits& traits) {
  const int capability = traits.computeCapability;
  return "; this device has " + std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace

std::optional<std::string> refuseTensorCores(const GpuTraits& traits) {
  if (hasTensorCores(traits)) return std::nullopt;
  return "multiplies on tensor cores from compute capability 8.0 on" + but(traits);
}

std::optional<std::string> refuseWarpgroupProducts(const GpuTraits& traits) {
  if (hasWarpgroupProducts(traits)) return std::nullopt;
  return "multiplies by warpgroups, which devices of compute capability 9.0 alone have" + but(traits);
}

}  // namespace warpconv::cuda
