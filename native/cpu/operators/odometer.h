#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace warpconv::operators {

/** Positions of a box in row-major order, and where each lies in several tensors. */
template <size_t kTensors>
class Odometer {
 public:
  /** @param strides of each tensor one for each axis */
  Odometer(std::span<const int64_t> extents, const std::array<std::span<const int64_t>, kTensors>& strides,
           int64_t begin)
      : extents_(extents), strides_(strides), position_(extents.size()) {
    for (size_t axis = extents.size(); axis-- > 0; begin /= extents[axis]) {
      position_[axis] = begin % extents[axis];
      for (size_t i = 0; i < kTensors; ++i) offsets_[i] += position_[axis] * strides[i][axis];
    }
  }

  /** In elements */
  int64_t offset(size_t tensor) const { return offsets_[tensor]; }

  void next() {
    for (size_t axis = extents_.size(); axis-- > 0;) {
      const bool isLast = ++position_[axis] == extents_[axis];
      const int64_t back = isLast ? position_[axis] - 1 : -1;
      for (size_t i = 0; i < kTensors; ++i) offsets_[i] -= back * strides_[i][axis];
      if (!isLast) return;
      position_[axis] = 0;
    }
  }

 private:
  std::span<const int64_t> extents_;
  std::array<std::span<const int64_t>, kTensors> strides_;
  std::vector<int64_t> position_;
  std::array<int64_t, kTensors> offsets_{};
};

inline int64_t elementsOf(std::span<const int64_t> extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

}  // namespace warpconv::operators
