#include "cuda/host/expected_time.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace warpconv::cuda;
using std::chrono::microseconds;

TEST_CASE("the time that is expected is what work took lately, with longer ones by half") {
  ExpectedTime time;
  CHECK(time.get() == microseconds(0));
  time.note(microseconds(800), false);
  CHECK(time.get() == microseconds(800));
  time.note(microseconds(100), false);
  CHECK(time.get() == microseconds(100));
  time.note(microseconds(900), false);
  CHECK(time.get() == microseconds(500));
}

TEST_CASE("who sleeps past the end once expects little less, and soon the same again") {
  ExpectedTime time;
  time.note(microseconds(2000), false);
  time.note(microseconds(2100), true);
  CHECK(time.get() == microseconds(1950));
  time.note(microseconds(2000), false);
  time.note(microseconds(2000), false);
  CHECK(time.get() > microseconds(1980));
}

TEST_CASE("who sleeps past the end of each finds out within a few how long they take") {
  ExpectedTime time;
  time.note(microseconds(100'000), false);
  const ExpectedTime::Duration real = microseconds(90);
  int runs = 0;
  for (; time.get() > real; ++runs) time.note(time.get(), true);
  CHECK(runs < 13);
  time.note(real, false);
  CHECK(time.get() <= real);
}
