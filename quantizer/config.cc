// What a configuration may say: the defaults of torchao's classes, and the rules that they check at construction or
// that hold whatever the weight is.
#include "quantizer/config.h"

#include <cmath>
#include <iterator>
#include <limits>

#include "base/text.h"

namespace slipway::quantizer {
namespace {

using SchemeKind = Config::Scheme;
using Method = Config::Method;

constexpr Granularity kTensor{Granularity::kTensor, 0};
constexpr Granularity Group(int64_t n) { return {Granularity::kGroup, n}; }

// Indexed by Scheme.
constexpr Config kDefaults[] = {
    {.scheme = SchemeKind::kInt8WeightOnly},
    {.scheme = SchemeKind::kInt8Dynamic},
    {.scheme = SchemeKind::kInt8Static},
    {.scheme = SchemeKind::kIntxWeightOnly},
    {.scheme = SchemeKind::kInt8DynamicIntx, .granularity = Group(32), .act_mapping = Mapping::kAsymmetric},
    {.scheme = SchemeKind::kInt4WeightOnly, .granularity = Group(128), .bits = 4, .mapping = Mapping::kAsymmetric},
    {.scheme = SchemeKind::kFloat8WeightOnly},
    {.scheme = SchemeKind::kFloat8Dynamic, .granularity = kTensor, .act_granularity = kTensor},
    {.scheme = SchemeKind::kMx},
    {.scheme = SchemeKind::kNvfp4WeightOnly, .element = ir::DType::kFloat4E2M1},
    {.scheme = SchemeKind::kNvfp4Dynamic, .element = ir::DType::kFloat4E2M1},
};
constexpr Config kMethodDefaults;

// Which granularities the weights of a scheme have, beside whether its fields may differ from the defaults at all.
struct Allowed {
  bool row, tensor, group;
  bool activations;  // rows or the tensor
  bool bits, mapping, act_mapping, reduce_range, scale_dtype, hqq, int4_cpu, bounds, mx, per_tensor_scale;
};
// Indexed by Scheme.
constexpr Allowed kAllowed[] = {
    {.row = true, .tensor = true, .group = true},
    {.row = true, .tensor = true, .activations = true, .act_mapping = true, .reduce_range = true},
    {.row = true, .tensor = true, .activations = true, .act_mapping = true, .reduce_range = true},
    {.row = true, .group = true, .bits = true, .mapping = true, .scale_dtype = true, .hqq = true},
    {.row = true, .group = true, .bits = true, .mapping = true, .act_mapping = true, .scale_dtype = true, .hqq = true},
    {.group = true, .hqq = true, .int4_cpu = true},
    {.row = true, .tensor = true, .group = true},
    {.row = true, .tensor = true, .activations = true, .bounds = true},
    {.row = true, .mx = true},
    {.row = true, .per_tensor_scale = true},
    {.row = true, .per_tensor_scale = true},
};
static_assert(std::size(kDefaults) == std::size(kAllowed));
static_assert(std::size(kDefaults) == static_cast<size_t>(SchemeKind::kNvfp4Dynamic) + 1);

bool IsFloat8(ir::DType t) { return t == ir::DType::kFloat8E4M3FN || t == ir::DType::kFloat8E5M2; }

// What a scheme alone says that it may not.
void CheckScheme(const Config& c, std::vector<std::string>* wrong) {
  const Allowed& allowed = kAllowed[static_cast<int>(c.scheme)];
  const Config& base = DefaultConfig(c.scheme);
  const Granularity& g = c.granularity;
  const bool known = g.kind == Granularity::kRow      ? allowed.row
                     : g.kind == Granularity::kTensor ? allowed.tensor
                                                      : allowed.group;
  if (!known) {
    std::vector<std::string_view> kinds;
    if (allowed.row) kinds.push_back("rows");
    if (allowed.tensor) kinds.push_back("the tensor");
    if (allowed.group) kinds.push_back("groups");
    wrong->push_back(text::StrCat("weights have scales by ", text::Join(kinds, " or ")));
  }
  if (g.kind == Granularity::kGroup ? g.group < 1 || g.group > std::numeric_limits<int32_t>::max() : g.group != 0)
    wrong->push_back(text::StrCat("a group cannot be of ", g.group, " weights"));
  if (c.act_granularity != base.act_granularity &&
      (!allowed.activations || c.act_granularity.kind == Granularity::kGroup || c.act_granularity.group != 0))
    wrong->push_back("activations have scales by rows or the tensor, where they have any");
  if (c.scheme == SchemeKind::kFloat8Dynamic && c.act_granularity != c.granularity)
    wrong->push_back("activations and weights need the same granularity, both rows or both tensors");
  if (c.bits < 1 || c.bits > 8 || (!allowed.bits && c.bits != base.bits))
    wrong->push_back(text::StrCat("there are no weights of ", c.bits, " bits"));
  if (!allowed.mapping && c.mapping != base.mapping) wrong->push_back("the weights' mapping cannot be chosen");
  if (c.act_mapping != base.act_mapping && (!allowed.act_mapping || c.act_mapping == Mapping::kSymmetricNoClippingErr))
    wrong->push_back("activations are mapped symmetrically or asymmetrically, where they are mapped");
  if (c.scale_dtype &&
      (!allowed.scale_dtype || (*c.scale_dtype != ir::DType::kFloat32 && !ir::IsLowPrecision(*c.scale_dtype))))
    wrong->push_back("scales are float32, bfloat16 or float16, where their type can be chosen");
  const bool fp4 = c.element == ir::DType::kFloat4E2M1;
  const bool element_fits = allowed.mx ? fp4 || IsFloat8(c.element)
                            : c.scheme == SchemeKind::kFloat8WeightOnly || c.scheme == SchemeKind::kFloat8Dynamic
                                ? IsFloat8(c.element)
                                : c.element == base.element;
  if (!element_fits) wrong->push_back(text::StrCat("elements cannot be ", ir::Name(c.element)));
  if (!allowed.mx && (c.mx_scaling != base.mx_scaling || c.mx_block != base.mx_block))
    wrong->push_back("only MX has a scaling mode and a block size");
  if (c.mx_block < 1 || c.mx_block > std::numeric_limits<int32_t>::max() || (fp4 && c.mx_block % 2 != 0))
    wrong->push_back(text::StrCat("a block cannot be of ", c.mx_block, " weights"));
  for (const std::optional<double>& bound : {c.activation_value_lb, c.activation_value_ub})
    if (bound && (!allowed.bounds || !std::isfinite(*bound) || *bound < 0))
      wrong->push_back("bounds of activations' magnitudes are finite, not negative, and float8-dynamic's only");
  if (c.activation_value_lb && c.activation_value_ub && *c.activation_value_lb > *c.activation_value_ub)
    wrong->push_back("the lower bound of activations lies above the upper one");
  if ((c.reduce_range && !allowed.reduce_range) || (c.hqq && !allowed.hqq) || (c.int4_cpu && !allowed.int4_cpu) ||
      (!c.per_tensor_scale && !allowed.per_tensor_scale))
    wrong->push_back("an option is set that the scheme has not");
}

// Which schemes a method goes around: AWQ and SmoothQuant need a weight that torchao can scale activations for, GPTQ is
// written for three.
void CheckMethod(const Config& c, std::vector<std::string>* wrong) {
  const bool int8 = c.scheme == SchemeKind::kInt8WeightOnly || c.scheme == SchemeKind::kInt8Dynamic ||
                    c.scheme == SchemeKind::kInt8Static;
  switch (c.method) {
    case Method::kRoundToNearest: break;
    case Method::kAwq:
    case Method::kSmoothQuant:
      if (!int8 && c.scheme != SchemeKind::kInt4WeightOnly)
        wrong->push_back(
            "it goes around int8-weight-only, int8-dynamic, int8-static or int4-weight-only: no other weights have "
            "their "
            "activations scaled before");
      break;
    case Method::kGptq:
      if (!(c.scheme == SchemeKind::kInt8WeightOnly && c.granularity.kind == Granularity::kRow) &&
          !(c.scheme == SchemeKind::kInt4WeightOnly && !c.int4_cpu) && c.scheme != SchemeKind::kNvfp4Dynamic)
        wrong->push_back("it goes around int4-weight-only, int8-weight-only by rows or nvfp4-dynamic");
      break;
  }
  const Config& base = kMethodDefaults;
  if (c.awq_search_space < 1 || (c.method != Method::kAwq && c.awq_search_space != base.awq_search_space))
    wrong->push_back("AWQ's search space has one scale or more");
  if (!std::isfinite(c.smooth_alpha) || c.smooth_alpha < 0 || c.smooth_alpha > 1 ||
      (c.method != Method::kSmoothQuant && c.smooth_alpha != base.smooth_alpha))
    wrong->push_back("SmoothQuant's alpha lies within 0 and 1");
  if (!std::isfinite(c.gptq_percdamp) || c.gptq_percdamp < 0 ||
      (c.method != Method::kGptq && c.gptq_percdamp != base.gptq_percdamp))
    wrong->push_back("GPTQ's percdamp is finite and not negative");
  if (c.gptq_block < 1 || (c.method != Method::kGptq && c.gptq_block != base.gptq_block))
    wrong->push_back("GPTQ's block has one column or more");
}

}  // namespace

const Config& DefaultConfig(SchemeKind scheme) { return kDefaults[static_cast<int>(scheme)]; }

absl::Status CheckConfig(const Config& c) {
  std::vector<std::string> wrong;
  CheckScheme(c, &wrong);
  CheckMethod(c, &wrong);
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(text::StrCat(ClassName(c), ": ", text::Join(wrong, "; ")));
}

bool TakesEmbeddings(const Config& c) {
  return c.method == Config::Method::kRoundToNearest &&
         (c.scheme == SchemeKind::kInt8WeightOnly || c.scheme == SchemeKind::kIntxWeightOnly ||
          c.scheme == SchemeKind::kFloat8WeightOnly);
}

}  // namespace slipway::quantizer
