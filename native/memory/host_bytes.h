#pragma once

#include <cstdint>

namespace warpconv {

/** Some of the CPU's memory. */
struct HostBytes {
  const void* data = nullptr;
  int64_t bytes = 0;
};

}  // namespace warpconv
