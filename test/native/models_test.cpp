#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>

#include "cuda/halo/model.h"
#include "cuda/im2win/model.h"
#include "cuda/pointwise/families.h"
#include "cuda/stem/model.h"

namespace warpconv::cuda {
namespace {

/** Whether each constant of a model is named once, so that all of them are fitted. */
template <typename Model>
void checkConstants(Model model) {
  std::set<std::string> names;
  std::set<double*> values;
  for (const auto& [name, value] : constantsOf(model)) {
    names.insert(name);
    values.insert(value);
    const auto offset = reinterpret_cast<const char*>(value) - reinterpret_cast<const char*>(&model);
    CHECK(offset >= 0);
    CHECK(offset < static_cast<std::ptrdiff_t>(sizeof(model)));
  }
  CHECK(names.size() * sizeof(double) == sizeof(model));
  CHECK(values.size() == names.size());
}

TEST_CASE("models of time name all of their constants") {
  pointwise::Families::forEach([]<typename Tile>() { checkConstants(Tile::defaultModel()); });
  checkConstants(im2win::kModels.fma);
  checkConstants(halo::kModel);
  checkConstants(stem::kModel);
}

}  // namespace
}  // namespace warpconv::cuda
