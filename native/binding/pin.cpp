#include "binding/pin.h"

#include <array>
#include <utility>

#include "binding/boundary.h"
#include "binding/checked_arguments.h"
#include "binding/environment.h"
#include "binding/failure.h"

namespace warpconv::binding {
namespace {

using PinClass = Class<Pin>;

}  // namespace

Napi::Function Pin::define(Napi::Env env) {
  return PinClass::define(env, "Pin", {PinClass::method<&Pin::open>("open"), PinClass::method<&Pin::release>("release")});
}

/** Arguments: a GPU's index, a typed array whose memory nobody moves. */
Pin::Pin(const Napi::CallbackInfo& info) : env_(info.Env()), device_(toDevice(info[0])) {
  (void)Environment::of(env_).gpu(device_);
  (void)toBytes(info[1], "array");
  array_ = Napi::Persistent(info[1].As<Napi::Object>());
}

/** Argument: done. To pin a page takes a microsecond, so that this happens on another thread. */
Napi::Value Pin::open(const Napi::CallbackInfo& info) {
  Environment& environment = Environment::of(env_);
  const Napi::Value array = array_.Value();
  const auto [data, bytes] = toBytes(array, "array");
  auto slot = std::make_shared<std::shared_ptr<const PinnedMemory>>();
  const uint32_t id = environment.start(
      toFunction(info[0], "done"), std::array{Napi::Value(info.This()), array},
      [gpu = &environment.gpu(device_), slot, start = data, size = bytes](const Cancellation&) {
        auto pinned = gpu->pin(start, size);
        if (pinned.isOk()) *slot = std::move(pinned.value());
        return pinned.isOk() ? Status{} : pinned.status();
      },
      [this, slot] { memory_ = std::move(*slot); });
  return Napi::Number::New(env_, id);
}

void Pin::release(const Napi::CallbackInfo&) { memory_.reset(); }

}  // namespace warpconv::binding
