#include "memory/pages.h"

#include <cstdint>
#include <limits>
#include <new>

#include "memory/huge_pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace warpconv {
namespace {

#if defined(__linux__)
size_t pageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
#else
size_t pageBytes() { return 4096; }
#endif

}  // namespace

size_t inPages(size_t bytes) {
  static const size_t page = pageBytes();
  if (bytes > std::numeric_limits<size_t>::max() - page) throw std::bad_alloc();
  return (bytes + page - 1) / page * page;
}

#if defined(__linux__)

namespace {

Span map(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<char*>(data), bytes};
}

Span mapHugePages(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() - kHugePageBytes) throw std::bad_alloc();
  const Span mapped = map(bytes + kHugePageBytes);
  const size_t before = (kHugePageBytes - reinterpret_cast<uintptr_t>(mapped.begin) % kHugePageBytes) % kHugePageBytes;
  const Span span{mapped.begin + before, bytes};
  unmapPages({mapped.begin, before});
  unmapPages({span.begin + bytes, kHugePageBytes - before});
  adviseHugePages(span.begin, bytes);
  return span;
}

}  // namespace

Span mapPages(size_t bytes) { return bytes < kLeastHugeBytes ? map(bytes) : mapHugePages(bytes); }

void unmapPages(Span span) noexcept {
  if (span.bytes == 0 || munmap(span.begin, span.bytes) == 0) return;
  // The process has as many mappings as it may, and this would have made one more. Addresses are lost, memory is not.
  madvise(span.begin, span.bytes, MADV_DONTNEED);
}

#else

Span mapPages(size_t) { throw std::bad_alloc(); }

void unmapPages(Span) noexcept {}

#endif

}  // namespace warpconv
