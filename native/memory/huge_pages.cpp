#include "memory/huge_pages.h"

#if defined(__linux__)
#include <sys/mman.h>

#include <cstdint>
#endif

namespace warpconv {

void adviseHugePages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t end = (address + bytes) / kHugePageBytes * kHugePageBytes;
  // A refusal (a kernel without huge pages) leaves the pages small, as they would have been.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace warpconv
