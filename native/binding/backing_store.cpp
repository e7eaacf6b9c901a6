#include "binding/backing_store.h"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include <cstdlib>
#include <new>
#include <string>

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

/** Returned as a unique pointer is, which has nothing but the address, and let go of as V8's own is. */
union OwnedStore {
  OwnedStore() {}
  ~OwnedStore() {}
  void* address;
};

/** `v8::BackingStore::~BackingStore()` */
using DestroyStore = void (*)(void* store);

/**
 * `static std::unique_ptr<BackingStore> ArrayBuffer::NewBackingStore(void* data, size_t byte_length,
 * BackingStore::DeleterCallback deleter, void* deleter_data)`
 */
using NewStore = OwnedStore (*)(void* data, size_t bytes, ReleaseMemory release, void* hint);
/** `static Local<ArrayBuffer> ArrayBuffer::New(Isolate* isolate, std::shared_ptr<BackingStore> backing_store)` */
using NewBuffer = napi_value (*)(void* isolate, std::shared_ptr<void> store);
/** `static Isolate* Isolate::GetCurrent()` */
using GetIsolate = void* (*)();

/** What V8 makes buffers over foreign memory with. All null, or none. */
struct BufferMaker {
  NewStore newStore = nullptr;
  DestroyStore destroyStore = nullptr;
  NewBuffer newBuffer = nullptr;
  GetIsolate getIsolate = nullptr;

  bool isComplete() const { return newStore && destroyStore && newBuffer && getIsolate; }

  napi_value make(void* data, size_t bytes, ReleaseMemory release, void* hint) const {
    const OwnedStore owned = newStore(data, bytes, release, hint);
    const auto destroy = [destroyStore = destroyStore](void* store) {
      destroyStore(store);
      ::operator delete(store);
    };
    return newBuffer(getIsolate(), std::shared_ptr<void>(owned.address, destroy));
  }
};

template <typename Function>
Function find([[maybe_unused]] const char* name) {
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

/** The first number of process.versions.v8. */
int majorOfV8(Napi::Env env) {
  const Napi::Object versions = env.Global().Get("process").As<Napi::Object>().Get("versions").As<Napi::Object>();
  return std::atoi(versions.Get("v8").ToString().Utf8Value().c_str());
}

/** Whether V8 takes memory that is not from a cage of its own: Node-API knows how it was built. */
bool takesForeignMemory(Napi::Env env) {
  static char memory[64];
  napi_value buffer = nullptr;
  const auto finalise = [](napi_env, void*, void*) {};
  return napi_create_external_arraybuffer(env, memory, sizeof memory, finalise, nullptr, &buffer) == napi_ok;
}

/** Whether a buffer has the memory that it is made over, and gives it back once, when it lets go of it. */
bool doesWhatItShould(Napi::Env env, const BufferMaker& maker) {
  static char memory[64];
  static int releases = 0;
  const auto release = [](void* released, size_t bytes, void* hint) {
    releases += released == memory && bytes == sizeof memory && hint == &releases ? 1 : 2;
  };
  const napi_value buffer = maker.make(memory, sizeof memory, release, &releases);
  void* data = nullptr;
  size_t bytes = 0;
  if (napi_get_arraybuffer_info(env, buffer, &data, &bytes) != napi_ok) return false;
  if (data != memory || bytes != sizeof memory || releases != 0) return false;
  return napi_detach_arraybuffer(env, buffer) == napi_ok && releases == 1;
}

BufferMaker findBufferMaker(Napi::Env env) {
  // Of later ones it is not known how they pass what these functions take and return, which their names do not tell.
  constexpr int kNewestTried = 14;
  if (!isNode(env) || majorOfV8(env) > kNewestTried || !takesForeignMemory(env)) return {};
  const BufferMaker maker{
      .newStore = find<NewStore>("_ZN2v811ArrayBuffer15NewBackingStoreEPvmPFvS1_mS1_ES1_"),
      .destroyStore = find<DestroyStore>("_ZN2v812BackingStoreD1Ev"),
      .newBuffer = find<NewBuffer>("_ZN2v811ArrayBuffer3NewEPNS_7IsolateESt10shared_ptrINS_12BackingStoreEE"),
      .getIsolate = find<GetIsolate>("_ZN2v87Isolate10GetCurrentEv"),
  };
  return maker.isComplete() && doesWhatItShould(env, maker) ? maker : BufferMaker{};
}

const BufferMaker& bufferMaker(Napi::Env env) {
  // One process has one runtime.
  static const BufferMaker maker = findBufferMaker(env);
  return maker;
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

bool canMakeBuffers(Napi::Env env) { return bufferMaker(env).isComplete(); }

Napi::Value bufferOver(Napi::Env env, void* data, size_t bytes, ReleaseMemory release, void* hint) {
  return {env, bufferMaker(env).make(data, bytes, release, hint)};
}

}  // namespace warpconv::binding
