#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "status.h"

namespace warpconv {

/** Data cache sizes in bytes as one core sees them; 0 where the machine does not tell. */
struct CpuCaches {
  int64_t l1d = 0;
  int64_t l2 = 0;
  int64_t l3 = 0;
};

/** Instruction sets that the engine has code for: those of one architecture narrowest first. */
enum class Isa { portable, neon, avx2, avx512 };

struct CpuInfo {
  std::string name;
  /** The widest one that this machine has */
  Isa isaLevel = Isa::portable;
  /** The widest of `features` that stands for a vector width, or the ABI's floor: `sse2`, `neon`, `scalar` */
  std::string isa;
  std::vector<std::string> features;
  /** Logical processors this process may run on */
  unsigned cores = 1;
  CpuCaches caches;
};

/** Asks the machine once per process. */
const CpuInfo& cpuInfo();

/**
 * Processors that this process may keep busy, at least 1: those that it may run on, and on Linux no more than whole ones of
 * the time that its control groups allow it. A container that is allowed two of 64 processors stands still for most of each
 * tenth of a second when 64 threads use them up. `root` stands for /, for tests.
 */
unsigned usableProcessors(const std::string& root = {});

/**
 * The machine with its instruction sets capped by `limit`, the value of WARPCONV_ISA, or null for no cap. One machine
 * tests every narrower path that way. Fails with invalidArgument for a name that this architecture does not have.
 */
Result<CpuInfo> capIsa(CpuInfo machine, const char* limit);

/** As WARPCONV_ISA has it. */
std::string isaName(Isa isa);

/** The machine as the environment variable WARPCONV_ISA, read at each call, lets it be used. */
Result<CpuInfo> usableCpu();

}  // namespace warpconv
