#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/host/queue.h"

namespace warpconv::cuda {

/**
 * Tables that kernels read, which convolutions of the same extents share. A table goes with the last of them. Any thread
 * may call it.
 */
class Tables {
 public:
  /** What a table's contents follow from, whose it is among it */
  using Key = std::vector<int64_t>;

  explicit Tables(Queue& queue) : queue_(queue) {}

  /** The table of that key, of what `make()` gives, a vector, unless it is there. Kernels enqueued later see it. */
  template <typename Make>
  Result<std::shared_ptr<const DeviceMemory>> of(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    if (auto known = find(key)) return known;
    const auto contents = make();
    return add(key, contents.data(), static_cast<int64_t>(contents.size() * sizeof(contents[0])));
  }

  /** Of all tables that there are */
  int64_t bytes() const;

 private:
  // With the mutex held
  std::shared_ptr<const DeviceMemory> find(const Key& key);
  Result<std::shared_ptr<const DeviceMemory>> add(const Key& key, const void* contents, int64_t bytes);

  Queue& queue_;
  mutable std::mutex mutex_;
  std::map<Key, std::weak_ptr<const DeviceMemory>> tables_;
};

}  // namespace warpconv::cuda
