#include "support/failing_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

/** Allocations until the one that fails, that one included; below 1 once it has */
std::atomic<int64_t> remaining{0};
std::atomic<bool> armed{false};
thread_local int spared = 0;

bool mustFail() {
  return armed.load(std::memory_order_relaxed) && spared == 0 && remaining.fetch_sub(1, std::memory_order_relaxed) == 1;
}

void* allocateOrNull(std::size_t bytes, std::size_t alignment) noexcept {
  if (mustFail()) return nullptr;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? std::malloc(bytes == 0 ? 1 : bytes)
                                                       : std::aligned_alloc(alignment, rounded);
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* memory = allocateOrNull(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Sanitizers have all of them, and complain where memory comes from one's and goes to another's.
void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocateOrNull(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocateOrNull(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocateOrNull(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocateOrNull(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }

namespace warpconv {

FailingAllocation::FailingAllocation(int64_t nth) {
  remaining.store(nth);
  armed.store(true);
}

FailingAllocation::~FailingAllocation() { armed.store(false); }

bool FailingAllocation::happened() const { return remaining.load() < 1; }

FailingAllocation::Spared::Spared() { ++spared; }

FailingAllocation::Spared::~Spared() { --spared; }

}  // namespace warpconv
