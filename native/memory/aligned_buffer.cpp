#include "memory/aligned_buffer.h"

#include <atomic>
#include <new>

#include "memory/huge_pages.h"

namespace warpconv {
namespace {

constexpr size_t kCacheLineBytes = 64;
/** More than any machine's addresses reach */
constexpr int64_t kMostElements = int64_t{1} << 60;
std::atomic<int64_t> totalBytes{0};

/**
 * Packed weights are read from end to end in every call. On one Zen 4 core with a map of 7 x 7, 512 filters of
 * 3 x 3 x 512 (9.4 MB) run 7 % faster in huge pages, and 4096 of 7 x 7 x 512 (411 MB) 14 %.
 */
bool isHuge(size_t bytes) { return bytes >= kLeastHugeBytes; }

std::align_val_t alignmentOf(size_t bytes) {
  return std::align_val_t{isHuge(bytes) ? kHugePageBytes : kCacheLineBytes};
}

float* allocate(int64_t elements) {
  if (elements == 0) return nullptr;
  // Rounded up to the alignment, more would begin again at zero.
  if (elements < 0 || elements > kMostElements) throw std::bad_alloc();
  const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  void* data = ::operator new(bytes, alignmentOf(bytes));
  if (isHuge(bytes)) adviseHugePages(data, bytes);
  return static_cast<float*>(data);
}

}  // namespace

AlignedBuffer::AlignedBuffer(int64_t elements)
    : data_(allocate(elements)), elements_(elements) {
  totalBytes.fetch_add(bytes(), std::memory_order_relaxed);
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ == nullptr) return;
  totalBytes.fetch_sub(bytes(), std::memory_order_relaxed);
  ::operator delete(data_, alignmentOf(static_cast<size_t>(bytes())));
}

int64_t AlignedBuffer::bytesInUse() { return totalBytes.load(std::memory_order_relaxed); }

}  // namespace warpconv
