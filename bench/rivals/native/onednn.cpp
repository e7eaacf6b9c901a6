#include <cstdlib>
#include <dnnl.hpp>
#include <string>
#include <unordered_map>

#include "rival.h"

namespace rivals {
namespace {

using dnnl::memory;

class OneDnn final : public Rival {
 public:
  OneDnn(const Layer& x, const float* weight) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const memory::dims inputDims{1, x.c, x.h, x.w}, outputDims{1, x.k, x.p(), x.q()};
    const bool grouped = x.groups > 1;
    const memory::dims weightDims =
        grouped ? memory::dims{x.groups, x.k / x.groups, x.c / x.groups, x.r, x.s} : memory::dims{x.k, x.c, x.r, x.s};
    const auto f32 = memory::data_type::f32;
    const auto any = memory::format_tag::any;
    const dnnl::convolution_forward::desc description(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_auto, {inputDims, f32, any},
        {weightDims, f32, any}, {outputDims, f32, any}, {x.strideH, x.strideW}, {x.dilationH - 1, x.dilationW - 1},
        {x.padH, x.padW}, {x.padH, x.padW});
    const dnnl::convolution_forward::primitive_desc primitive(description, engine_);
    input_ = memory({inputDims, f32, memory::format_tag::nchw}, engine_, DNNL_MEMORY_NONE);
    output_ = memory({outputDims, f32, memory::format_tag::nchw}, engine_, DNNL_MEMORY_NONE);
    inside_ = memory(primitive.src_desc(), engine_);
    result_ = memory(primitive.dst_desc(), engine_);
    weights_ = memory(primitive.weights_desc(), engine_);
    memory given({weightDims, f32, grouped ? memory::format_tag::goihw : memory::format_tag::oihw}, engine_,
                 const_cast<float*>(weight));
    dnnl::reorder(given, weights_).execute(stream_, given, weights_);
    stream_.wait();
    reordersInput_ = primitive.src_desc() != input_.get_desc();
    reordersOutput_ = primitive.dst_desc() != output_.get_desc();
    if (reordersInput_) toInside_ = dnnl::reorder(input_, inside_);
    if (reordersOutput_) toOutput_ = dnnl::reorder(result_, output_);
    convolution_ = dnnl::convolution_forward(primitive);
  }

  void run(const float* input, float* output) override {
    input_.set_data_handle(const_cast<float*>(input));
    output_.set_data_handle(output);
    if (reordersInput_) toInside_.execute(stream_, input_, inside_);
    convolution_.execute(stream_, {{DNNL_ARG_SRC, reordersInput_ ? inside_ : input_},
                                   {DNNL_ARG_WEIGHTS, weights_},
                                   {DNNL_ARG_DST, reordersOutput_ ? result_ : output_}});
    if (reordersOutput_) toOutput_.execute(stream_, result_, output_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  memory input_, output_, inside_, result_, weights_;
  dnnl::reorder toInside_, toOutput_;
  dnnl::convolution_forward convolution_;
  bool reordersInput_ = false;
  bool reordersOutput_ = false;
};

}  // namespace

std::string oneDnnVersion() {
  const dnnl_version_t& version = *dnnl_version();
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
}

std::unique_ptr<Rival> makeOneDnn(const Layer& layer, const float* weight, int) {
  return std::make_unique<OneDnn>(layer, weight);
}

}  // namespace rivals
