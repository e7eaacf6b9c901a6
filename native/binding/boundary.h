#pragma once

#include <napi.h>

#include <initializer_list>
#include <memory>
#include <type_traits>

#include "binding/failure.h"

/**
 * The only ways in which JavaScript calls this addon. Everything that is thrown ends here and goes on as a JavaScript
 * error: memory that cannot be had, failures, and what JavaScript itself has thrown. node-addon-api has wrappers of its
 * own, which let anything but a Napi::Error end the process.
 */
namespace warpconv::binding {

template <typename Body>
napi_value atBoundary(napi_env env, const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    rethrowInJavaScript(env);
    return nullptr;
  }
}

/** What `body` returns, as JavaScript takes it: nothing is undefined. */
template <typename Body>
napi_value returned(const Body& body) {
  if constexpr (std::is_void_v<decltype(body())>) {
    body();
    return nullptr;
  } else {
    return body();
  }
}

/** Of type `void(const Napi::CallbackInfo&)` or `Napi::Value(const Napi::CallbackInfo&)` */
template <auto kFunction>
napi_value callFunction(napi_env env, napi_callback_info given) noexcept {
  return atBoundary(env, [=] {
    const Napi::CallbackInfo info(env, given);
    return returned([&] { return kFunction(info); });
  });
}

template <auto kFunction>
void exportFunction(Napi::Object exports, const char* name) {
  const Napi::Env env = exports.Env();
  napi_value function = nullptr;
  check(env, napi_create_function(env, name, NAPI_AUTO_LENGTH, callFunction<kFunction>, nullptr, &function));
  exports.Set(name, function);
}

/**
 * A JavaScript class of `T`s, which has a constructor `T(const Napi::CallbackInfo&)`, a destructor that does not throw
 * and a `static constexpr napi_type_tag kTag` of its own. The collector destroys them.
 */
template <typename T>
class Class {
 public:
  static Napi::Function define(Napi::Env env, const char* name,
                               std::initializer_list<napi_property_descriptor> properties) {
    napi_value constructor = nullptr;
    check(env, napi_define_class(env, name, NAPI_AUTO_LENGTH, construct, nullptr, properties.size(),
                                 properties.begin(), &constructor));
    return {env, constructor};
  }

  /** `Napi::Value (T::*)(const Napi::CallbackInfo&)`, or one that returns nothing */
  template <auto kMethod>
  static napi_property_descriptor method(const char* name) {
    return {name, nullptr, callMethod<kMethod>, nullptr, nullptr, nullptr, napi_default, nullptr};
  }
  template <auto kMethod>
  static napi_property_descriptor getter(const char* name) {
    return {name, nullptr, nullptr, callMethod<kMethod>, nullptr, nullptr, napi_default, nullptr};
  }

  /** Null for a value that is no `T`. Any value may be given. */
  static T* unwrap(napi_env env, napi_value value) {
    // V8 would throw at the conversion of null or undefined, and Node.js lose what is thrown here after that.
    napi_valuetype type = napi_undefined;
    if (napi_typeof(env, value, &type) != napi_ok || type == napi_undefined || type == napi_null) return nullptr;
    bool ours = false;
    void* instance = nullptr;
    if (napi_check_object_type_tag(env, value, &T::kTag, &ours) != napi_ok || !ours) return nullptr;
    return napi_unwrap(env, value, &instance) == napi_ok ? static_cast<T*>(instance) : nullptr;
  }

 private:
  static napi_value construct(napi_env env, napi_callback_info given) noexcept {
    return atBoundary(env, [=]() -> napi_value {
      const Napi::CallbackInfo info(env, given);
      if (!info.IsConstructCall()) throwFailure(invalidArgument("a class is called with new"));
      auto instance = std::make_unique<T>(info);
      check(env, napi_wrap(env, info.This(), instance.get(), finalise, nullptr, nullptr));
      instance.release();
      // Last, so that whatever has the tag wraps a T.
      check(env, napi_type_tag_object(env, info.This(), &T::kTag));
      return info.This();
    });
  }

  static void finalise(napi_env, void* instance, void*) noexcept { delete static_cast<T*>(instance); }

  template <auto kMethod>
  static napi_value callMethod(napi_env env, napi_callback_info given) noexcept {
    return atBoundary(env, [=] {
      const Napi::CallbackInfo info(env, given);
      T* const instance = unwrap(env, info.This());
      if (instance == nullptr) throwFailure(invalidArgument("a method is called on an object of its class"));
      return returned([&] { return (instance->*kMethod)(info); });
    });
  }
};

}  // namespace warpconv::binding
