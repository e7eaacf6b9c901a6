#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "devices/cpu_info.h"
#include "support/guarded_run.h"
#include "support/recurrent_reference.h"
#include "support/reference.h"

using namespace warpconv;
using namespace warpconv::program;

namespace {

class Random {
 public:
  Random() : engine_(chooseSeed()) {}
  int64_t from(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(engine_() % static_cast<uint64_t>(most - least + 1));
  }
  bool maybe() { return engine_() % 2 == 0; }
  std::vector<float> reals(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    test::fillWithReals(values, engine_);
    return values;
  }

 private:
  static unsigned chooseSeed() {
    const char* given = std::getenv("WARPCONV_FUZZ_SEED");
    const auto seed =
        static_cast<unsigned>(given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}());
    MESSAGE("WARPCONV_FUZZ_SEED=" << seed);
    return seed;
  }

  std::mt19937 engine_;
};

template <typename T>
const T* orNull(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

TEST_CASE("recurrent cells of any kind, fuzzed, as their formulas in double precision") {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const test::RecurrentCase given = test::anyRecurrent(random);
    const RecurrentStep& x = given.step;
    INFO("cell " << static_cast<int>(x.cell) << ", " << x.steps << " steps, batch " << x.batch << ", " << x.hidden);
    const auto work = [&](float* output, const RunContext& context) {
      operators::recurrent(
          x,
          {given.gates.data(), given.recurrent.data(), orNull(given.productBias), orNull(given.peepholes),
           orNull(given.initialHidden), orNull(given.initialCell), orNull(given.lengths), output},
          context);
    };
    const auto runs = test::runGuarded<float>(test::recurrentOutputs(x), cpuInfo().isaLevel, work);
    const std::vector<double> expected = test::recurrentInDouble(given);
    for (size_t i = 0; i < expected.size(); ++i) {
      // Cell states of other cells than LSTM's are nobody's.
      if (x.cell != RecurrentStep::Cell::lstm && i >= expected.size() - static_cast<size_t>(x.batch * x.hidden)) break;
      REQUIRE(std::abs(static_cast<double>(runs.onOneThread[i]) - expected[i]) <= 2e-5 * (1 + std::abs(expected[i])));
      REQUIRE(runs.onOneThread[i] == runs.onSeveral[i]);
    }
  }
}
