#pragma once

#include <napi.h>

#include <memory>

namespace warpconv::binding {

/**
 * A share in the memory under a typed array, so that a call goes on with it though the array's buffer is transferred away
 * and what it became is collected. A reference to the array does not hold it, and Node-API has nothing that does: this
 * is V8's own ArrayBuffer::GetBackingStore(), found when the addon is loaded and tried once. Null where the runtime is
 * not Node.js or does not export it, and for values that are no typed arrays.
 */
std::shared_ptr<const void> backingStoreUnder(const Napi::Value& value);

}  // namespace warpconv::binding
