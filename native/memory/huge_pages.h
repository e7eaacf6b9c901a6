#pragma once

#include <cstddef>

namespace warpconv {

/** What a huge page of x86-64 and of most of AArch64 holds, and how it is aligned. */
constexpr size_t kHugePageBytes = size_t{2} << 20;
/** Beginning anywhere in a huge page, smaller blocks would hold few whole ones. */
constexpr size_t kLeastHugeBytes = 2 * kHugePageBytes;

/**
 * Asks the system to back the huge pages that lie wholly inside `data` as such when they are first touched. One fault
 * then brings 2 MB instead of 4 KB, and one entry of the TLB covers them. Without effect on what is there already,
 * and where the system has no such advice or does not take it: nothing depends on it.
 */
void adviseHugePages(void* data, size_t bytes);

}  // namespace warpconv
