#include "binding/descriptor.h"

#if !defined(_WIN32)
#include <fcntl.h>
#endif

#include <limits>

#include "binding/checked_arguments.h"

namespace warpconv::binding {
namespace {

/** Negative where there is none. */
int duplicate([[maybe_unused]] int descriptor) {
#if defined(_WIN32)
  return -1;
#else
  return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
#endif
}

}  // namespace

Napi::Value duplicateDescriptor(const Napi::CallbackInfo& info) {
  const int64_t given = toInteger(info[0], "descriptor", 0, std::numeric_limits<int>::max());
  const int copy = duplicate(static_cast<int>(given));
  return copy < 0 ? info.Env().Null() : Napi::Number::New(info.Env(), copy);
}

}  // namespace warpconv::binding
