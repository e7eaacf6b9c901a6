#include "cuda/host/pinned.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "cuda/host/cuda_status.h"

namespace warpconv {
namespace cuda {
namespace {

/** What there is, by where it begins. Never destroyed: memory may be let go of after all else. */
struct PinnedBlocks {
  std::mutex mutex;
  std::map<uintptr_t, std::weak_ptr<const PinnedMemory>> memory;
  std::atomic<int64_t> bytes{0};
};

PinnedBlocks& pinnedBlocks() {
  static auto* const only = new PinnedBlocks;
  return *only;
}

uintptr_t addressOf(const void* data) { return reinterpret_cast<uintptr_t>(data); }

}  // namespace

Result<std::shared_ptr<const PinnedMemory>> Pinned::allocate(Device& device, int64_t bytes) {
  if (Status status = device.makeCurrent(); !status.isOk()) return status;
  void* data = nullptr;
  const std::string what = "allocating " + std::to_string(bytes) + " bytes of page-locked memory";
  const cudaError_t error = cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocPortable);
  Status status = toStatus(error, what.c_str());
  if (error == cudaErrorMemoryAllocation) {
    return Status{StatusCode::outOfMemory, what + " failed: dispose tensors of allocPinned, or allocate less at a time",
                  status.cudaError()};
  }
  if (!status.isOk()) return status;
  std::memset(data, 0, static_cast<size_t>(bytes));
  return registered(data, bytes, true);
}

Result<std::shared_ptr<const PinnedMemory>> Pinned::pin(Device& device, void* data, int64_t bytes) {
  if (Status status = device.makeCurrent(); !status.isOk()) return status;
  const std::string what = "pinning " + std::to_string(bytes) + " bytes of memory";
  const cudaError_t error = cudaHostRegister(data, static_cast<size_t>(bytes), cudaHostRegisterPortable);
  const Status status = toStatus(error, what.c_str());
  if (!status.isOk()) return status;
  return registered(data, bytes, false);
}

std::shared_ptr<const PinnedMemory> Pinned::registered(void* data, int64_t bytes, bool isOwn) {
  std::shared_ptr<const PinnedMemory> memory(new Pinned(data, bytes, isOwn));
  const std::lock_guard lock(pinnedBlocks().mutex);
  // Its end takes them away, also where there is no memory to note it.
  pinnedBlocks().bytes += bytes;
  pinnedBlocks().memory[addressOf(data)] = memory;
  return memory;
}

Pinned::~Pinned() {
  {
    const std::lock_guard lock(pinnedBlocks().mutex);
    pinnedBlocks().memory.erase(addressOf(data_));
    pinnedBlocks().bytes -= bytes_;
  }
  // It goes with a lost context.
  if (contextStatus().isOk()) (void)(isOwn_ ? cudaFreeHost(data_) : cudaHostUnregister(data_));
}

bool isPinned(const void* data, int64_t bytes) {
  const auto memory = pinnedMemoryAt(data);
  return memory != nullptr && addressOf(data) + static_cast<uint64_t>(bytes) <=
                                  addressOf(memory->data()) + static_cast<uint64_t>(memory->bytes());
}

}  // namespace cuda

std::shared_ptr<const PinnedMemory> pinnedMemoryAt(const void* data) {
  using namespace cuda;
  if (pinnedBytesInUse() == 0) return nullptr;
  // Outlives the lock, which the end of the memory takes, too.
  std::shared_ptr<const PinnedMemory> memory;
  {
    const std::lock_guard lock(pinnedBlocks().mutex);
    const auto after = pinnedBlocks().memory.upper_bound(addressOf(data));
    if (after != pinnedBlocks().memory.begin()) memory = std::prev(after)->second.lock();
  }
  const bool inside =
      memory != nullptr && addressOf(data) - addressOf(memory->data()) < static_cast<uint64_t>(memory->bytes());
  return inside ? memory : nullptr;
}

int64_t pinnedBytesInUse() { return cuda::pinnedBlocks().bytes; }

}  // namespace warpconv
