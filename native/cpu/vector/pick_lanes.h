#pragma once

namespace warpconv {
namespace {

/**
 * Lanes of a (0, 1, …) and of b (those behind a's) of the compiler's own vectors, of elements of four bytes. Local to
 * the file that includes it, as elementary.h explains.
 */
template <int... kLanes, class Vector>
Vector pickLanes(Vector a, Vector b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, kLanes...);
#else
  // GCC before 12
  typedef int Lanes __attribute__((vector_size(sizeof(Vector))));
  return __builtin_shuffle(a, b, Lanes{kLanes...});
#endif
}

}  // namespace
}  // namespace warpconv
