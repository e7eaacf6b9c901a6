#include "cpu/cpu_store.h"

#include <new>
#include <utility>

namespace warpconv {

AlignedBuffer Arenas::take(int64_t elements) {
  AlignedBuffer tooSmall;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      AlignedBuffer arena = std::move(spare_.back());
      spare_.pop_back();
      if (arena.elements() >= elements) return arena;
      bytes_ -= arena.bytes();
      tooSmall = std::move(arena);
    }
  }
  // Before the larger one comes.
  tooSmall = AlignedBuffer();
  AlignedBuffer arena(elements);
  const std::lock_guard lock(mutex_);
  bytes_ += arena.bytes();
  return arena;
}

void Arenas::giveBack(AlignedBuffer arena) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    spare_.push_back(std::move(arena));
  } catch (const std::bad_alloc&) {
    // The run has succeeded all the same; the next one takes a new arena.
    bytes_ -= arena.bytes();
  }
}

void Arenas::trim() {
  std::vector<AlignedBuffer> freed;
  const std::lock_guard lock(mutex_);
  freed.swap(spare_);
  for (const AlignedBuffer& arena : freed) bytes_ -= arena.bytes();
}

int64_t Arenas::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace warpconv
