#include "problem/activation.h"

#include <array>
#include <string>

namespace warpconv {
namespace {

struct NamedActivation {
  std::string_view name;
  size_t parameters;
  Activation value;
};

constexpr std::array<NamedActivation, 9> kActivations{{
    {"none", 0, {ActivationKind::none}},
    {"relu", 0, {ActivationKind::relu}},
    {"relu6", 0, {ActivationKind::clip, 0.0f, 6.0f}},
    {"leakyRelu", 1, {ActivationKind::leakyRelu}},
    {"clip", 2, {ActivationKind::clip}},
    {"sigmoid", 0, {ActivationKind::sigmoid}},
    {"silu", 0, {ActivationKind::silu}},
    {"hardSwish", 0, {ActivationKind::hardSwish}},
    {"gelu", 0, {ActivationKind::gelu}},
}};

}  // namespace

Result<Activation> makeActivation(std::string_view name, std::span<const double> parameters) {
  for (const NamedActivation& entry : kActivations) {
    if (entry.name != name) continue;
    if (parameters.size() != entry.parameters) {
      return invalidArgument("options.activation '" + std::string(name) + "' takes " +
                             std::to_string(entry.parameters) + " parameters, got " +
                             std::to_string(parameters.size()));
    }
    Activation activation = entry.value;
    if (parameters.size() > 0) activation.first = static_cast<float>(parameters[0]);
    if (parameters.size() > 1) activation.second = static_cast<float>(parameters[1]);
    return activation;
  }
  return invalidArgument("options.activation '" + std::string(name) + "' does not exist");
}

}  // namespace warpconv
