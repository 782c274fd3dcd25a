// Names of the layers of a stack as one: lists of weights are as long as a model is deep otherwise.
#ifndef SLIPWAY_BASE_NAME_PATTERN_H_
#define SLIPWAY_BASE_NAME_PATTERN_H_

#include <string>
#include <string_view>

namespace slipway::text {

// "model.layers.*.mlp.up_proj.weight" of "model.layers.17.mlp.up_proj.weight": numbers between dots as a star.
std::string NamePattern(std::string_view name);

}  // namespace slipway::text

#endif  // SLIPWAY_BASE_NAME_PATTERN_H_
