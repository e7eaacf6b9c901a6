#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace warpconv {

/** Data cache sizes in bytes as one core sees them; 0 where the machine does not tell. */
struct CpuCaches {
  int64_t l1d = 0;
  int64_t l2 = 0;
  int64_t l3 = 0;
};

struct CpuInfo {
  std::string name;
  /** The widest of `features` that stands for a vector width, or the ABI's floor: `sse2`, `neon`, `scalar` */
  std::string isa;
  std::vector<std::string> features;
  /** Logical processors this process may run on */
  unsigned cores = 1;
  CpuCaches caches;
};

/** Asks the machine once per process. */
const CpuInfo& cpuInfo();

}  // namespace warpconv
