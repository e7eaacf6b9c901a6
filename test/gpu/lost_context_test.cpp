#include "support/lost_context.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

struct Ending {
  int status;
  std::string output;
};

/** Runs this program with an argument in a process of its own, for a minute at most. */
Ending runSelf(std::string_view argument) {
  std::array<char, 4096> text{};
  const ssize_t length = readlink("/proc/self/exe", text.data(), text.size());
  REQUIRE(length > 0);
  const std::string self(text.data(), static_cast<size_t>(length));
  FILE* const child = popen(("timeout 60 '" + self + "' " + std::string(argument) + " 2>&1").c_str(), "r");
  REQUIRE(child != nullptr);
  std::string output;
  while (std::fgets(text.data(), text.size(), child) != nullptr) output += text.data();
  return {pclose(child), output};
}

}  // namespace

TEST_CASE("after a fault every call fails and says what to do, none hangs, and the process ends in order") {
  const Ending ending = runSelf(warpconv::test::kLoseContext);
  INFO(ending.output);
  REQUIRE(WIFEXITED(ending.status));
  CHECK(WEXITSTATUS(ending.status) == 0);
  CHECK(ending.output == "");
}
