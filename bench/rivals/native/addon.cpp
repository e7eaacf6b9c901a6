#include <napi.h>

#include <stdexcept>

#include "rival.h"

namespace rivals {
namespace {

Layer toLayer(const Napi::Array& row) {
  int64_t v[13];
  for (uint32_t i = 0; i < 13; ++i) v[i] = row.Get(i).ToNumber().Int64Value();
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12]};
}

float* floats(const Napi::Value& value) { return value.As<Napi::Float32Array>().Data(); }

/** new Prepared(name, layer row, weight, threads); run(input, output) */
class Prepared : public Napi::ObjectWrap<Prepared> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "Prepared", {InstanceMethod<&Prepared::run>("run")});
  }

  explicit Prepared(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Prepared>(info) {
    const std::string name = info[0].As<Napi::String>();
    const Layer layer = toLayer(info[1].As<Napi::Array>());
    const int threads = info[3].ToNumber().Int32Value();
    weight_ = Napi::Persistent(info[2].As<Napi::Object>());
    try {
      rival_ = make(name, layer, floats(info[2]), threads);
    } catch (const std::exception& error) {
      throw Napi::Error::New(info.Env(), error.what());
    }
  }

 private:
  static std::unique_ptr<Rival> make(const std::string& name, const Layer& layer, const float* weight, int threads) {
    if (name == "im2col+OpenBLAS") return makeIm2colSgemm(layer, weight, threads);
#if defined(HAVE_ONEDNN)
    if (name == "oneDNN") return makeOneDnn(layer, weight, threads);
#endif
    throw std::runtime_error(name + " is not installed: apt-get install libdnnl-dev, then build the rivals again");
  }

  void run(const Napi::CallbackInfo& info) { rival_->run(floats(info[0]), floats(info[1])); }

  std::unique_ptr<Rival> rival_;
  Napi::ObjectReference weight_;
};

/** By the names that the report gives to the libraries. */
Napi::Value versions(const Napi::CallbackInfo& info) {
  Napi::Object all = Napi::Object::New(info.Env());
#if defined(HAVE_ONEDNN)
  all.Set("oneDNN", oneDnnVersion());
#endif
  try {
    all.Set("OpenBLAS", openBlasConfiguration());
  } catch (const std::runtime_error&) {
    // Preparing a product says what is missing.
  }
  return all;
}

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports.Set("Prepared", Prepared::define(env));
  exports.Set("fmaPeak", Napi::Function::New(env, [](const Napi::CallbackInfo& info) {
                return Napi::Number::New(info.Env(), fmaPeak());
              }));
  exports.Set("versions", Napi::Function::New(env, versions));
  return exports;
}

NODE_API_MODULE(rivals, initialise)

}  // namespace
}  // namespace rivals
