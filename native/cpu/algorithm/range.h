#pragma once

#include <cstdint>

namespace warpconv {

/** A half-open range of tiles, or of whatever else is counted. */
struct Range {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
};

/** Part `index` of `parts` nearly equal ones of 0 to `count`. */
inline Range slice(int64_t count, int64_t index, int64_t parts) {
  return {count * index / parts, count * (index + 1) / parts};
}

}  // namespace warpconv
