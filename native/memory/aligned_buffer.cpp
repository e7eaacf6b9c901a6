#include "memory/aligned_buffer.h"

#include <atomic>
#include <new>

namespace warpconv {
namespace {

constexpr std::align_val_t kAlignment{64};
std::atomic<int64_t> totalBytes{0};

}  // namespace

AlignedBuffer::AlignedBuffer(int64_t elements)
    : data_(static_cast<float*>(::operator new(static_cast<size_t>(elements) * sizeof(float), kAlignment))),
      elements_(elements) {
  totalBytes.fetch_add(bytes(), std::memory_order_relaxed);
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ == nullptr) return;
  totalBytes.fetch_sub(bytes(), std::memory_order_relaxed);
  ::operator delete(data_, kAlignment);
}

int64_t AlignedBuffer::bytesInUse() { return totalBytes.load(std::memory_order_relaxed); }

}  // namespace warpconv
