#include "cpu/vector/vector4.h"
#include "cpu/winograd/transform_loops.h"

namespace warpconv::winograd {
namespace {

struct Transforms4 : Vector4 {
  static void storeFirst(float* to, int64_t, Register value) { store(to, value); }
  static Register next(Register a) { return Register{a[1], a[2], a[3], a[3]}; }
};

}  // namespace

extern constinit const Transforms kTransformsPortable;
constinit const Transforms kTransformsPortable = makeTransforms<Transforms4>(Isa::portable);

}  // namespace warpconv::winograd
