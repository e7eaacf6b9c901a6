#pragma once

#include <cstddef>

namespace warpconv {

/** Memory by its place: whole pages of the system. */
struct Span {
  char* begin = nullptr;
  size_t bytes = 0;
};

/** `bytes` in whole pages. Throws std::bad_alloc where that is more than can be counted. */
size_t inPages(size_t bytes);

/**
 * Memory from the system itself, which has it back by unmapPages: what the C library is given back it may keep. All
 * zeros; in huge pages where it is large. Throws std::bad_alloc, on systems other than Linux always.
 *
 * @param bytes - in whole pages
 */
Span mapPages(size_t bytes);

/** A part of what mapPages gave, or adjacent parts of several such. */
void unmapPages(Span span) noexcept;

}  // namespace warpconv
