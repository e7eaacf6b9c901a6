#include "memory/aligned_buffer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "memory/huge_pages.h"

namespace warpconv {
namespace {

constexpr int64_t kHugePageFloats = kHugePageBytes / sizeof(float);

bool isAligned(const float* data, size_t bytes) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; }

TEST_CASE("buffers begin on a cache line, and large ones on a huge page") {
  for (const int64_t elements : {int64_t{1}, int64_t{1000}, 2 * kHugePageFloats - 1}) {
    CAPTURE(elements);
    CHECK(isAligned(AlignedBuffer(elements).data(), 64));
  }
  for (const int64_t elements : {2 * kHugePageFloats, 5 * kHugePageFloats + 3}) {
    CAPTURE(elements);
    AlignedBuffer buffer(elements);
    CHECK(isAligned(buffer.data(), kHugePageBytes));
    buffer.data()[elements - 1] = 1;
  }
}

TEST_CASE("every byte of a buffer is counted until it is freed") {
  const int64_t before = AlignedBuffer::bytesInUse();
  {
    AlignedBuffer small(3);
    const AlignedBuffer large(2 * kHugePageFloats);
    const AlignedBuffer moved(std::move(small));
    CHECK(AlignedBuffer::bytesInUse() - before == 12 + 2 * static_cast<int64_t>(kHugePageBytes));
  }
  CHECK(AlignedBuffer::bytesInUse() == before);
}

TEST_CASE("advice on huge pages changes nothing that is there") {
  std::vector<float> values(3 * kHugePageFloats);
  std::iota(values.begin(), values.end(), 0.0f);
  const std::vector<float> before = values;
  adviseHugePages(values.data(), values.size() * sizeof(float));
  adviseHugePages(values.data() + 1, 10);
  adviseHugePages(values.data(), 0);
  CHECK(values == before);
}

}  // namespace
}  // namespace warpconv
