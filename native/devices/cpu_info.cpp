#include "devices/cpu_info.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(_WIN32)
#include <windows.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace warpconv {
namespace {

/** What WARPCONV_ISA takes on this architecture, narrowest first: every one that CpuInfo::isaLevel can be. */
constexpr std::pair<std::string_view, Isa> kIsaNames[] = {
    {"portable", Isa::portable},
#if defined(__x86_64__)
    {"avx2", Isa::avx2},
    {"avx512", Isa::avx512},
#elif defined(__aarch64__)
    {"neon", Isa::neon},
#endif
};

std::optional<Isa> findIsa(std::string_view wanted) {
  for (const auto& [name, isa] : kIsaNames) {
    if (name == wanted) return isa;
  }
  return std::nullopt;
}

/** "'a', 'b' or 'c'" */
std::string isaNames() {
  std::string names;
  const size_t count = std::size(kIsaNames);
  for (size_t i = 0; i < count; ++i) {
    const char* separator = i == 0 ? "" : i + 1 < count ? ", " : " or ";
    names.append(separator).append("'").append(kIsaNames[i].first).append("'");
  }
  return names;
}

#if defined(__x86_64__)

std::string cpuName() {
  unsigned words[12] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned* w = words + 4 * leaf;
    if (__get_cpuid(0x80000002u + leaf, &w[0], &w[1], &w[2], &w[3]) == 0) return "x86-64";
  }
  char text[sizeof(words) + 1] = {};
  std::memcpy(text, words, sizeof(words));
  std::string name(text);
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "x86-64" : name;
}

/** The parts of registers that the operating system saves: a bit each, as in XCR0. */
unsigned savedRegisters() {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/** Vector extensions that the processor has and the operating system saves, narrowest first. */
std::vector<std::string> cpuFeatures() {
  std::vector<std::string> features{"sse2"};
  // By hand, because the compilers' own function is not linked everywhere.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return features;
  constexpr unsigned kAvxRegisters = 0x06;
  constexpr unsigned kAvx512Registers = 0xE6;
  const unsigned saved = savedRegisters();
  if ((saved & kAvxRegisters) != kAvxRegisters || (c & bit_AVX) == 0) return features;
  features.emplace_back("avx");
  if ((c & bit_FMA) != 0) features.emplace_back("fma");
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return features;
  if ((b & bit_AVX2) != 0) features.emplace_back("avx2");
  if ((saved & kAvx512Registers) == kAvx512Registers && (b & bit_AVX512F) != 0) features.emplace_back("avx512f");
  return features;
}

std::string widestIsa(const std::vector<std::string>& features) {
  const auto has = [&](std::string_view name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  if (has("avx512f")) return "avx512";
  if (has("avx2") && has("fma")) return "avx2";
  return "sse2";
}

#else

std::string cpuName() {
#if defined(__APPLE__)
  char text[256] = {};
  size_t size = sizeof(text) - 1;
  if (sysctlbyname("machdep.cpu.brand_string", text, &size, nullptr, 0) == 0) return text;
#endif
  return "unknown processor";
}

std::vector<std::string> cpuFeatures() {
#if defined(__aarch64__)
  return {"neon"};
#else
  return {};
#endif
}

std::string widestIsa(const std::vector<std::string>& features) {
  return features.empty() ? "scalar" : features.back();
}

#endif

#if defined(__linux__)

std::string readWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/** "48K" or "32M" in bytes. */
int64_t parseSize(const std::string& word) {
  int64_t value = 0;
  size_t i = 0;
  for (; i < word.size() && word[i] >= '0' && word[i] <= '9'; ++i) value = 10 * value + (word[i] - '0');
  if (i < word.size() && word[i] == 'K') value <<= 10;
  if (i < word.size() && word[i] == 'M') value <<= 20;
  return value;
}

CpuCaches cpuCaches() {
  CpuCaches caches;
  constexpr int kMostCaches = 8;
  for (int i = 0; i < kMostCaches; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    const std::string type = readWord(folder + "type");
    if (type != "Data" && type != "Unified") continue;
    const std::string level = readWord(folder + "level");
    const int64_t bytes = parseSize(readWord(folder + "size"));
    if (level == "1") caches.l1d = bytes;
    if (level == "2") caches.l2 = bytes;
    if (level == "3") caches.l3 = bytes;
  }
  return caches;
}

#elif defined(__APPLE__)

int64_t readSize(const char* name) {
  int64_t value = 0;
  size_t size = sizeof(value);
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

CpuCaches cpuCaches() { return {readSize("hw.l1dcachesize"), readSize("hw.l2cachesize"), readSize("hw.l3cachesize")}; }

#elif defined(_WIN32)

CpuCaches cpuCaches() {
  DWORD bytes = 0;
  GetLogicalProcessorInformation(nullptr, &bytes);
  std::vector<SYSTEM_LOGICAL_PROCESSOR_INFORMATION> entries(bytes / sizeof(SYSTEM_LOGICAL_PROCESSOR_INFORMATION));
  CpuCaches caches;
  if (entries.empty() || GetLogicalProcessorInformation(entries.data(), &bytes) == 0) return caches;
  for (const SYSTEM_LOGICAL_PROCESSOR_INFORMATION& entry : entries) {
    if (entry.Relationship != RelationCache || entry.Cache.Type == CacheInstruction) continue;
    if (entry.Cache.Level == 1) caches.l1d = entry.Cache.Size;
    if (entry.Cache.Level == 2) caches.l2 = entry.Cache.Size;
    if (entry.Cache.Level == 3) caches.l3 = entry.Cache.Size;
  }
  return caches;
}

#else

CpuCaches cpuCaches() { return {}; }

#endif

/** Of one control group of version 2, or what `otherwise` is where it sets no limit. */
double allowedProcessors(const std::string& folder, double otherwise) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return otherwise;
  return std::min(otherwise, std::strtod(quota.c_str(), nullptr) / period);
}

/** The process's own group and all above it; of version 1, whose mount has the container's own limit at its root. */
double allowedProcessors(const std::string& root) {
  double allowed = std::numeric_limits<double>::infinity();
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::/", 0) != 0) continue;
    for (std::string group = line.substr(3); !group.empty(); group.resize(group.rfind('/'))) {
      allowed = allowedProcessors(mount + group, allowed);
    }
  }
  allowed = allowedProcessors(mount, allowed);
  double quota = -1, period = 0;
  if (std::ifstream(mount + "/cpu/cpu.cfs_quota_us") >> quota && quota > 0 &&
      std::ifstream(mount + "/cpu/cpu.cfs_period_us") >> period && period > 0) {
    allowed = std::min(allowed, quota / period);
  }
  return allowed;
}

CpuInfo readCpuInfo() {
  CpuInfo info;
  info.name = cpuName();
  info.features = cpuFeatures();
  info.isa = widestIsa(info.features);
  info.isaLevel = findIsa(info.isa).value_or(Isa::portable);
  info.cores = std::max(1u, std::thread::hardware_concurrency());
  info.caches = cpuCaches();
  return info;
}

}  // namespace

const CpuInfo& cpuInfo() {
  static const CpuInfo info = readCpuInfo();
  return info;
}

unsigned usableProcessors(const std::string& root) {
  const double most = cpuInfo().cores;
  return static_cast<unsigned>(std::max(1.0, std::floor(std::min(most, allowedProcessors(root)))));
}

Result<CpuInfo> capIsa(CpuInfo machine, const char* limit) {
  if (limit == nullptr || *limit == '\0') return machine;
  if (const std::optional<Isa> isa = findIsa(limit)) {
    machine.isaLevel = std::min(machine.isaLevel, *isa);
    return machine;
  }
  return invalidArgument(std::string("the environment variable WARPCONV_ISA is '") + limit +
                         "'; on this processor it takes " + isaNames() +
                         ", or nothing for the widest that the machine has");
}

std::string isaName(Isa isa) {
  const auto* const place =
      std::find_if(std::begin(kIsaNames), std::end(kIsaNames), [&](const auto& named) { return named.second == isa; });
  return std::string(place->first);
}

Result<CpuInfo> usableCpu() { return capIsa(cpuInfo(), std::getenv("WARPCONV_ISA")); }

}  // namespace warpconv
