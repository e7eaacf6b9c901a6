#pragma once

#include <string_view>

namespace warpconv::test {

/** The argument with which the test program does that, in place of tests. */
inline constexpr std::string_view kLoseContext = "--lose-context";

/**
 * Makes a kernel write where nothing is, with calls in flight before and behind it, and looks at what every kind of
 * call then says. Not to be done in a process that is still to be of use.
 *
 * @returns the exit code: 0, or 1 after printing what was wrong
 */
int loseContext();

}  // namespace warpconv::test
