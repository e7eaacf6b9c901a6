#pragma once

#include <napi.h>

#include <cstdint>

namespace warpconv::binding {

/** Tells V8's collector of memory that goes with an object. Only a hint: where it fails, it collects at other times. */
inline void countExternalMemory(napi_env env, int64_t change) noexcept {
  int64_t total = 0;
  napi_adjust_external_memory(env, change, &total);
}

}  // namespace warpconv::binding
