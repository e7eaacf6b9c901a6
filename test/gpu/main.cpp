#define DOCTEST_CONFIG_IMPLEMENT
#include "doctest/doctest.h"
#include "support/lost_context.h"

int main(int count, char** arguments) {
  if (count == 2 && arguments[1] == warpconv::test::kLoseContext) return warpconv::test::loseContext();
  return doctest::Context(count, arguments).run();
}
