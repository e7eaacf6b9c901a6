#include "gpu/gpu.h"
#include "gpu/gpu_probe.h"

namespace warpconv {
namespace {

constexpr const char* kReason =
    "this binary has no code for GPUs: npx warpconv build --cuda compiles one, and in a clone WARPCONV_CUDA=ON npm run "
    "build";

}  // namespace

Result<std::shared_ptr<Gpu>> openGpu(int) { return unsupported(kReason); }

int64_t gpuBytesInUse(int) { return 0; }

std::shared_ptr<const PinnedMemory> pinnedMemoryAt(const void*) { return nullptr; }

int64_t pinnedBytesInUse() { return 0; }

GpuProbe probeGpus() { return {.missing = GpuMissing::build, .reason = kReason, .driver = "", .gpus = {}}; }

}  // namespace warpconv
