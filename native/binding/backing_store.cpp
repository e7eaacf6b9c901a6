#include "binding/backing_store.h"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include <new>

namespace warpconv::binding {
namespace {

/** Returned as a shared pointer is, and let go of only where it turns out to be one. */
union Share {
  Share() {}
  ~Share() {}
  std::shared_ptr<const void> pointer;
};

/**
 * `std::shared_ptr<v8::BackingStore> v8::ArrayBuffer::GetBackingStore()`: a member function's object comes as the first
 * argument, and that of a handle is the place that the handle points to, which is what a napi_value is.
 */
using GetBackingStore = Share (*)(napi_value buffer);
/** `void* v8::BackingStore::Data() const` */
using GetData = void* (*)(const void* store);

template <typename Function>
Function find(const char* name) {
#if defined(_WIN32)
  return nullptr;
#else
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
#endif
}

/** Others have V8 of another make, or the names of its functions without V8. */
bool isNode(Napi::Env env) {
  const Napi::Value process = env.Global().Get("process");
  if (!process.IsObject()) return false;
  const Napi::Value versions = process.As<Napi::Object>().Get("versions");
  if (!versions.IsObject()) return false;
  const auto names = [&](const char* runtime) { return versions.As<Napi::Object>().Get(runtime).IsString(); };
  return names("node") && names("v8") && !names("electron") && !names("bun") && !names("deno");
}

/**
 * Whether both functions do what they are taken for: the memory is the buffer's, and of its shared pointer, read by this
 * addon's own C++ library, there are as many as were made.
 */
bool doWhatTheyShould(Napi::Env env, GetBackingStore getBackingStore, GetData getData) {
  const Napi::ArrayBuffer buffer = Napi::ArrayBuffer::New(env, 64);
  void* data = nullptr;
  size_t bytes = 0;
  if (napi_get_arraybuffer_info(env, buffer, &data, &bytes) != napi_ok) return false;
  Share first = getBackingStore(buffer);
  if (first.pointer.use_count() != 2 || getData(first.pointer.get()) != data) return false;
  Share second = getBackingStore(buffer);
  if (first.pointer.use_count() != 3) return false;
  second.pointer.~shared_ptr();
  if (first.pointer.use_count() != 2) return false;
  first.pointer.~shared_ptr();
  return true;
}

GetBackingStore findGetBackingStore(Napi::Env env) {
  if (!isNode(env)) return nullptr;
  const auto getBackingStore = find<GetBackingStore>("_ZN2v811ArrayBuffer15GetBackingStoreEv");
  const auto getData = find<GetData>("_ZNK2v812BackingStore4DataEv");
  if (getBackingStore == nullptr || getData == nullptr) return nullptr;
  return doWhatTheyShould(env, getBackingStore, getData) ? getBackingStore : nullptr;
}

}  // namespace

std::shared_ptr<const void> backingStoreUnder(const Napi::Value& value) {
  const Napi::Env env = value.Env();
  // One process has one runtime.
  static const GetBackingStore getBackingStore = findGetBackingStore(env);
  if (getBackingStore == nullptr) return nullptr;
  napi_value buffer = nullptr;
  // Fails on what is no typed array. For V8 a shared buffer is of the same class.
  if (napi_get_typedarray_info(env, value, nullptr, nullptr, nullptr, &buffer, nullptr) != napi_ok) return nullptr;
  Share share = getBackingStore(buffer);
  std::shared_ptr<const void> held = std::move(share.pointer);
  share.pointer.~shared_ptr();
  return held;
}

}  // namespace warpconv::binding
