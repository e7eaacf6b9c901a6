#pragma once

#include <cstdint>
#include <memory>

#include "cuda/host/device.h"
#include "gpu/gpu.h"

namespace warpconv::cuda {

/** Page-locked for every GPU of the process. */
class Pinned final : public PinnedMemory {
 public:
  /** All zeros. Fails with `outOfMemory` where so much cannot be locked. */
  static Result<std::shared_ptr<const PinnedMemory>> allocate(Device& device, int64_t bytes);
  /** Somebody else's memory, which outlives this. */
  static Result<std::shared_ptr<const PinnedMemory>> pin(Device& device, void* data, int64_t bytes);
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() override;

  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  Pinned(void* data, int64_t bytes, bool isOwn) : data_(data), bytes_(bytes), isOwn_(isOwn) {}
  static std::shared_ptr<const PinnedMemory> registered(void* data, int64_t bytes, bool isOwn);

  void* const data_;
  const int64_t bytes_;
  const bool isOwn_;
};

/** Whether all of it is memory of one `Pinned`, so that the copy engine takes it as it is. */
bool isPinned(const void* data, int64_t bytes);

}  // namespace warpconv::cuda
