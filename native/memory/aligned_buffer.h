#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace warpconv {

/**
 * Uninitialised float32 storage on a 64-byte boundary (one cache line, one AVX-512 register), or, where it is large, in
 * huge pages; null where there are no elements. Throws std::bad_alloc, which callToStatus turns into a status. Every
 * byte is counted: see bytesInUse.
 */
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t elements);
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), elements_(std::exchange(other.elements_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(elements_, other.elements_);
    return *this;
  }
  ~AlignedBuffer();

  float* data() { return data_; }
  const float* data() const { return data_; }
  int64_t elements() const { return elements_; }
  int64_t bytes() const { return elements_ * static_cast<int64_t>(sizeof(float)); }

  /** Bytes held by all buffers of this process. */
  static int64_t bytesInUse();

 private:
  float* data_ = nullptr;
  int64_t elements_ = 0;
};

}  // namespace warpconv
