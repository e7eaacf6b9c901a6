#pragma once

namespace warpconv::test {

/**
 * How many of so many rounds at random are played: a tenth under the thread sanitizer, which looks at who touches what
 * and not at values, and takes five to ten times as long.
 */
constexpr int played(int rounds) {
#ifdef __SANITIZE_THREAD__
  return (rounds + 9) / 10;
#else
  return rounds;
#endif
}

}  // namespace warpconv::test
