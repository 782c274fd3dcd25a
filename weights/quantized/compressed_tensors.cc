// compressed-tensors, which llm-compressor writes and vLLM reads. config_groups of the configuration has schemes, each
// for the modules that its targets name; a layer MODULE with a weight [n, k] is one of
//
//   pack-quantized   weight_packed i32 [n, ceil(k * bits / 32)]: code + 2^(bits - 1), from the lowest bits on;
//                    weight_shape i64 or i32 [2]; weight_scale; asymmetric also weight_zero_point, packed in the same
//                    way along n, or (older) one in a byte; older with activation order weight_g_idx i32 [k]
//   int-quantized, float-quantized, naive-quantized
//                    weight i8 or f8e4m3fn [n, k], weight_scale; asymmetric also weight_zero_point
//   nvfp4-pack-quantized
//                    weight_packed u8 [n, k / 2]: two e2m1, the even column low; weight_scale f8e4m3fn [n, k / 16];
//                    weight_global_scale f32 [1]
//
// weight_scale is [1] (tensor), [n, 1] (channel), [n, k / group] (group) or [ceil(n / bn), ceil(k / bk)] (block). The
// library computes (code - zero point) * scale in the type of the scales, and the last form as
// code * (scale / global scale) in f32, rounded to bf16; whoever wants another type casts that.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "weights/names.h"
#include "weights/quantized/families.h"

namespace slipway::weights::quantized {
namespace {

namespace json_in = importers::json;
using ir::DType;

constexpr std::string_view kPacked = ".weight_packed", kPlainScale = ".weight_scale";
constexpr std::initializer_list<DType> kCompressedScaleTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// What a group of the configuration says of weights.
struct Scheme {
  int64_t bits = 8, group = -1, block_rows = 0, block_columns = 0;
  bool is_float = false, symmetric = true;
  std::string strategy;
  std::vector<std::string> names, classes;  // of modules
  std::vector<NameExpression> expressions;
};

absl::StatusOr<int64_t> IntOf(const json_in::Value& v, std::string_view key, int64_t otherwise) {
  const json_in::Value* m = v.Find(key);
  return m && !m->is_null() ? m->AsInt() : otherwise;
}
absl::StatusOr<std::string> TextOf(const json_in::Value& v, std::string_view key, std::string_view otherwise) {
  const json_in::Value* m = v.Find(key);
  if (!m || m->is_null()) return std::string(otherwise);
  ASSIGN_OR_RETURN(const std::string_view text, m->AsString());
  return std::string(text);
}

// nullopt for groups of activations alone.
absl::StatusOr<std::optional<Scheme>> ReadScheme(const json_in::Value& v) {
  const json_in::Value* weights = v.Find("weights");
  if (!v.is_object()) return absl::UnimplementedError("compressed-tensors with schemes that are names of presets");
  if (!weights || weights->is_null()) return std::nullopt;
  Scheme s;
  ASSIGN_OR_RETURN(s.bits, IntOf(*weights, "num_bits", 8));
  ASSIGN_OR_RETURN(s.group, IntOf(*weights, "group_size", -1));
  ASSIGN_OR_RETURN(const std::string type, TextOf(*weights, "type", "int"));
  if (type != "int" && type != "float")
    return absl::UnimplementedError(text::StrCat("compressed-tensors of type '", type, "'"));
  s.is_float = type == "float";
  if (const json_in::Value* symmetric = weights->Find("symmetric"); symmetric && !symmetric->is_null()) {
    ASSIGN_OR_RETURN(s.symmetric, symmetric->AsBool());
  }
  const json_in::Value* group = weights->Find("group_size");
  ASSIGN_OR_RETURN(s.strategy, TextOf(*weights, "strategy",
                                      !group || group->is_null() ? "tensor"
                                      : s.group > 0              ? "group"
                                                                 : "channel"));
  static constexpr std::string_view kStrategies[] = {"tensor", "channel", "group", "block", "tensor_group"};
  if (std::find(std::begin(kStrategies), std::end(kStrategies), s.strategy) == std::end(kStrategies))
    return absl::UnimplementedError(text::StrCat("compressed-tensors of strategy '", s.strategy, "'"));
  if (s.strategy == "block") {
    ASSIGN_OR_RETURN(const json_in::Value* block, weights->Get("block_structure"));
    ASSIGN_OR_RETURN(const auto sizes, block->AsArray());
    if (sizes.size() != 2) return block->Error("block_structure is not two numbers");
    ASSIGN_OR_RETURN(s.block_rows, sizes[0].AsInt());
    ASSIGN_OR_RETURN(s.block_columns, sizes[1].AsInt());
    if (s.block_rows < 1 || s.block_columns < 1) return block->Error("block_structure is not two positive numbers");
  }
  if (s.strategy.ends_with("group") && s.group < 1) return weights->Error("group_size is not positive");
  ASSIGN_OR_RETURN(const json_in::Value* targets, v.Get("targets"));
  ASSIGN_OR_RETURN(const auto list, targets->AsArray());
  for (const json_in::Value& target : list) {
    ASSIGN_OR_RETURN(std::string_view name, target.AsString());
    if (text::ConsumePrefix(&name, "re:")) {
      // Python's match(): from the beginning on.
      auto expression = NameExpression::Compile(text::StrCat("^(?:", name, ")"));
      if (!expression.ok())
        return absl::UnimplementedError(text::StrCat("compressed-tensors with the target 're:", name, "'"));
      s.expressions.push_back(*std::move(expression));
    } else if (text::Contains(name, ".")) {
      s.names.emplace_back(name);
    } else {  // "Linear", or a module of the outermost level
      s.names.emplace_back(name);
      s.classes.emplace_back(name);
    }
  }
  return s;
}

// The scheme of a module: by its name, by an expression, by its class, which can only be the one that there is.
absl::StatusOr<const Scheme*> SchemeOf(const std::vector<Scheme>& schemes, const std::string& module) {
  if (schemes.size() == 1) return &schemes[0];
  const Scheme* by_class = nullptr;
  for (const Scheme& s : schemes)
    if (std::find(s.names.begin(), s.names.end(), module) != s.names.end()) return &s;
  for (const Scheme& s : schemes)
    for (const NameExpression& e : s.expressions)
      if (e.FoundIn(module)) return &s;
  for (const Scheme& s : schemes) {
    if (s.classes.empty()) continue;
    if (by_class)
      return absl::UnimplementedError(
          text::StrCat("'", module, "': compressed-tensors with schemes for several classes of modules"));
    by_class = &s;
  }
  if (!by_class)
    return absl::InvalidArgumentError(text::StrCat("'", module, "': a quantized layer that no config group is for"));
  return by_class;
}

// Where the scale of an element is. Errors name `scale_name`.
absl::StatusOr<Grid> GridOf(const Scheme& s, int64_t n, int64_t k, const Values& scale, const std::string& scale_name,
                            const std::string& name) {
  const std::vector<int64_t>& sizes = scale.sizes();
  const std::vector<int64_t> weight = {n, k};
  const auto is = [&](int64_t down, int64_t across) {
    return sizes == std::vector<int64_t>{down, across} || (across == 1 && sizes == std::vector<int64_t>{down});
  };
  if (s.strategy == "tensor" && scale.tensor().numel() == 1) return Grid{n, k, 1};
  if (s.strategy == "channel" && is(n, 1)) return Grid{1, k, 1};
  if (s.strategy.ends_with("group") && k % s.group == 0 && is(n, k / s.group)) return Grid{1, s.group, k / s.group};
  if (s.strategy == "block") {
    const int64_t down = (n - 1) / s.block_rows + 1, across = (k - 1) / s.block_columns + 1;
    if (is(down, across)) return Grid{s.block_rows, s.block_columns, across};
  }
  return DoNotAgree(scale_name, sizes, name, weight);
}

std::string FormOf(const Scheme& s, std::string_view format) {
  std::string what = s.strategy == "group" || s.strategy == "tensor_group" ? text::StrCat("group ", s.group)
                     : s.strategy == "block"   ? text::StrCat("blocks of ", s.block_rows, "x", s.block_columns)
                     : s.strategy == "channel" ? "rows"
                                               : "one scale";
  return text::StrCat(format, ", ", s.bits, s.bits == 1 ? " bit, " : " bits, ", what);
}

// weight_zero_point as [down, across] of a grid: in a byte each, or packed along the rows. The data is null for none.
struct Zeros {
  Values values;
  int bits = 0;  // of packed ones; 0: a byte each
  float At(const Grid& grid, int64_t row, int64_t column) const {
    if (values.data() == nullptr) return 0;
    const int64_t i = grid.At(row, column);
    if (bits == 0) return values.At<int8_t>(i);
    const int64_t down = i / grid.across, across = i % grid.across;
    return static_cast<float>(BitsAt(values.data() + across * 4, grid.across, down * bits, bits)) -
           static_cast<float>(1 << (bits - 1));
  }
};

absl::StatusOr<Zeros> ReadZeros(const Finder& f, const std::string& module, const Scheme& s, const Values& scale,
                                int64_t n, std::vector<std::string>& parts) {
  const std::string name = module + ".weight_zero_point";
  Zeros out;
  if (!f.Has(name)) {
    if (s.symmetric) return out;
    return absl::InvalidArgumentError(text::StrCat("'", name, "' is missing: the scheme is not symmetric"));
  }
  parts.push_back(name);
  ASSIGN_OR_RETURN(const Values zeros, f.Need(name, {DType::kInt32, DType::kInt8, DType::kFloat8E4M3FN}));
  if (s.symmetric || s.is_float) {  // written by some versions: zeros, which are not looked at
    const int64_t bytes = zeros.tensor().nbytes();
    for (int64_t i = 0; i < bytes; ++i)
      if (zeros.data()[i] != 0)
        return absl::UnimplementedError(text::StrCat("'", name, "': zero points of a symmetric or float scheme"));
    return out;
  }
  out.values = zeros;
  const int64_t down = scale.sizes().empty() ? 1 : scale.sizes()[0],
                across = scale.tensor().numel() / std::max<int64_t>(down, 1);
  if (zeros.dtype() == DType::kInt8 && zeros.tensor().numel() == scale.tensor().numel()) return out;
  out.bits = static_cast<int>(s.bits);
  if (zeros.dtype() != DType::kInt32 || down != n ||
      zeros.sizes() != std::vector<int64_t>{(n * s.bits - 1) / 32 + 1, across})
    return DoNotAgree(name, zeros.sizes(), module + ".weight_scale", scale.sizes());
  return out;
}

// The groups of columns, where weight_g_idx has them in another order than theirs; empty otherwise.
absl::StatusOr<std::vector<int32_t>> ReadGroups(const Finder& f, const std::string& module, const Scheme& s, int64_t k,
                                                std::vector<std::string>& parts) {
  const std::string name = module + ".weight_g_idx";
  std::vector<int32_t> out;
  ASSIGN_OR_RETURN(const Values index, f.Want(name, {DType::kInt32}));
  if (!f.Has(name)) return out;
  parts.push_back(name);
  if (index.sizes() != std::vector<int64_t>{k} || s.strategy != "group")
    return DoNotAgree(name, index.sizes(), module + ".weight_shape", {k});
  std::vector<int64_t> counts(static_cast<size_t>(k / s.group), 0);
  for (int64_t c = 0; c < k; ++c) {
    const int32_t g = index.At<int32_t>(c);
    if (g == -1) return std::vector<int32_t>();  // not in use
    if (g < 0 || g >= k / s.group)
      return absl::InvalidArgumentError(
          text::StrCat("'", name, "': column ", c, " is of group ", g, " of ", k / s.group));
    ++counts[static_cast<size_t>(g)];
    out.push_back(g);
  }
  if (std::any_of(counts.begin(), counts.end(), [&](int64_t n) { return n != s.group; }))
    return absl::InvalidArgumentError(text::StrCat("'", name, "': its groups are not of ", s.group, " columns each"));
  return out;
}

absl::Status FindPacked(Finder& f, const std::string& module, const Scheme& s) {
  const std::string packed_name = module + ".weight_packed", scale_name = module + ".weight_scale",
                    shape_name = module + ".weight_shape";
  if (s.is_float || (s.bits != 2 && s.bits != 4 && s.bits != 8))
    return absl::UnimplementedError(text::StrCat("'", packed_name, "': pack-quantized ",
                                                 s.is_float ? "floats" : "integers", " of ", s.bits, " bits"));
  std::vector<std::string> parts = {packed_name, scale_name, shape_name};
  ASSIGN_OR_RETURN(const Values codes, f.Need(packed_name, {DType::kInt32}));
  ASSIGN_OR_RETURN(const Values scale, f.Need(scale_name, kCompressedScaleTypes));
  ASSIGN_OR_RETURN(const Values shape, f.Need(shape_name, {DType::kInt64, DType::kInt32}));
  if (!IsMatrix(codes.sizes()))
    return absl::UnimplementedError(text::StrCat("'", packed_name, "': a weight of ", Shape(codes.sizes())));
  if (shape.sizes() != std::vector<int64_t>{2})
    return DoNotAgree(shape_name, shape.sizes(), packed_name, codes.sizes());
  const auto size = [&](int64_t i) {
    return shape.dtype() == DType::kInt64 ? shape.At<int64_t>(i) : int64_t{shape.At<int32_t>(i)};
  };
  const int64_t n = size(0), k = size(1), words = codes.sizes()[1], a_word = 32 / s.bits;
  if (n != codes.sizes()[0] || k < 1 || (k - 1) / a_word + 1 != words)
    return absl::InvalidArgumentError(
        text::StrCat("'", shape_name, "' says ", Shape({n, k}), ", and '", packed_name, "' is ", Shape(codes.sizes())));
  ASSIGN_OR_RETURN(const Grid grid, GridOf(s, n, k, scale, scale_name, packed_name));
  ASSIGN_OR_RETURN(const Zeros zeros, ReadZeros(f, module, s, scale, n, parts));
  ASSIGN_OR_RETURN(std::vector<int32_t> groups, ReadGroups(f, module, s, k, parts));

  Weight w;
  w.name = module + ".weight";
  w.sizes = {n, k};
  w.dtype = scale.dtype();
  w.form = text::StrCat(FormOf(s, "pack-quantized"), groups.empty() ? "" : ", activation order");
  const int bits = static_cast<int>(s.bits);
  w.numbers = [codes, scale, zeros, grid, groups = std::move(groups), words, bits](const Block& b, DType, float* out) {
    const float offset = static_cast<float>(1 << (bits - 1));
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const int64_t row = b.row + r;
      const uint8_t* q = codes.data() + row * words * 4;
      float by = 0, zero = 0;
      int64_t at = -1;
      for (int64_t c = 0; c < b.columns; ++c) {
        const int64_t column = b.column + c;
        const int64_t in_group = groups.empty() ? column : groups[static_cast<size_t>(column)] * grid.columns;
        if (const int64_t g = in_group / grid.columns; g != at) {
          at = g;
          by = scale.Float(grid.At(row, in_group));
          zero = zeros.At(grid, row, in_group);
        }
        out[c] = (static_cast<float>(BitsAt(q, 1, column * bits, bits)) - offset - zero) * by;
      }
    }
    RoundTo(scale.dtype(), b, out - b.rows * b.stride);
  };
  return f.Add(std::move(w), parts);
}

absl::Status FindBytes(Finder& f, const std::string& module, const Scheme& s) {
  const std::string name = module + ".weight", scale_name = module + ".weight_scale";
  std::vector<std::string> parts = {name, scale_name};
  ASSIGN_OR_RETURN(const Values codes, f.Need(name, {s.is_float ? DType::kFloat8E4M3FN : DType::kInt8}));
  if (s.bits > 8 || (s.is_float && s.bits != 8))
    return absl::UnimplementedError(text::StrCat("'", name, "': ", s.bits, " bits in a byte"));
  if (const ir::TensorRef* t = f.Look(scale_name); t && t->dtype == DType::kUInt8)
    return absl::UnimplementedError(text::StrCat("'", scale_name, "': mxfp8-quantized"));
  ASSIGN_OR_RETURN(const Values scale, f.Need(scale_name, kCompressedScaleTypes));
  if (!IsMatrix(codes.sizes()))
    return absl::UnimplementedError(text::StrCat("'", name, "': a quantized weight of ", Shape(codes.sizes())));
  const int64_t n = codes.sizes()[0], k = codes.sizes()[1];
  ASSIGN_OR_RETURN(const Grid grid, GridOf(s, n, k, scale, scale_name, name));
  ASSIGN_OR_RETURN(const Zeros zeros, ReadZeros(f, module, s, scale, n, parts));
  ASSIGN_OR_RETURN(std::vector<int32_t> groups, ReadGroups(f, module, s, k, parts));
  if (!groups.empty())
    return absl::UnimplementedError(text::StrCat("'", name, "': activation order of codes in bytes"));

  Weight w;
  w.name = name;
  w.sizes = {n, k};
  w.dtype = scale.dtype();
  w.form = FormOf(s, s.is_float ? "float-quantized" : "int-quantized");
  w.numbers = [codes, scale, zeros, grid, k, is_float = s.is_float](const Block& b, DType, float* out) {
    const float* e4m3 = NumbersOfE4M3();
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const int64_t row = b.row + r;
      const uint8_t* q = codes.data() + row * k;
      for (int64_t c = b.column, end = b.column + b.columns; c < end;) {
        const float by = scale.Float(grid.At(row, c)), zero = zeros.At(grid, row, c);
        const int64_t stop = std::min(end, (c / grid.columns + 1) * grid.columns);
        if (is_float)
          for (; c < stop; ++c) out[c - b.column] = e4m3[q[c]] * by;
        else
          for (; c < stop; ++c) out[c - b.column] = (static_cast<float>(static_cast<int8_t>(q[c])) - zero) * by;
      }
    }
    RoundTo(scale.dtype(), b, out - b.rows * b.stride);
  };
  return f.Add(std::move(w), parts);
}

absl::Status FindNvfp4(Finder& f, const std::string& module, const Scheme& s) {
  const std::string packed_name = module + ".weight_packed", scale_name = module + ".weight_scale",
                    global_name = module + ".weight_global_scale";
  if (!s.is_float || s.bits != 4 || s.group != 16 || !s.symmetric)
    return absl::UnimplementedError(
        text::StrCat("'", packed_name, "': codes of ", s.bits, " bits in bytes that are no nvfp4-pack-quantized ones"));
  ASSIGN_OR_RETURN(const Values codes, f.Need(packed_name, {DType::kUInt8}));
  ASSIGN_OR_RETURN(const Values scale, f.Need(scale_name, {DType::kFloat8E4M3FN}));
  ASSIGN_OR_RETURN(const Values global, f.Need(global_name, {DType::kFloat32}));
  if (!IsMatrix(codes.sizes()))
    return absl::UnimplementedError(text::StrCat("'", packed_name, "': a weight of ", Shape(codes.sizes())));
  const int64_t n = codes.sizes()[0], bytes = codes.sizes()[1], k = bytes * 2;
  if (k % 16 != 0 || scale.sizes() != std::vector<int64_t>{n, k / 16})
    return DoNotAgree(scale_name, scale.sizes(), packed_name, codes.sizes());
  if (global.sizes() != std::vector<int64_t>{1})
    return DoNotAgree(global_name, global.sizes(), packed_name, codes.sizes());

  Weight w;
  w.name = module + ".weight";
  w.sizes = {n, k};
  w.dtype = DType::kBFloat16;
  w.form = FormOf(s, "nvfp4-pack-quantized");
  w.numbers = [codes, scale, global, bytes](const Block& b, DType, float* out) {
    const float *e2m1 = NumbersOfE2M1(), *e4m3 = NumbersOfE4M3();
    const float whole = global.Float(0);
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const uint8_t* q = codes.data() + (b.row + r) * bytes;
      const uint8_t* of = scale.data() + (b.row + r) * (bytes / 8);
      for (int64_t c = 0; c < b.columns; ++c) {
        const int64_t column = b.column + c;
        out[c] = e2m1[q[column / 2] >> (column % 2 * 4) & 15] * (e4m3[of[column / 16]] / whole);
      }
    }
    RoundTo(DType::kBFloat16, b, out - b.rows * b.stride);
  };
  return f.Add(std::move(w), {packed_name, scale_name, global_name});
}

}  // namespace

absl::Status FindCompressedTensors(Finder& f) {
  const ModelConfig& config = f.config();
  ASSIGN_OR_RETURN(const std::string status, config.Text("quantization_status", "compressed"));
  if (status != "compressed")
    return absl::UnimplementedError(text::StrCat("compressed-tensors with quantization_status '", status, "'"));
  if (const auto* sparsity = config.Find("sparsity_config"); sparsity && sparsity->is_object()) {
    ASSIGN_OR_RETURN(const std::string format, TextOf(*sparsity, "format", "dense"));
    if (format != "dense")
      return absl::UnimplementedError(text::StrCat("compressed-tensors of sparsity '", format, "'"));
  }
  if (const auto* transforms = config.Find("transform_config"); transforms && transforms->is_object())
    if (const json_in::Value* groups = transforms->Find("config_groups");
        groups && groups->is_object() && !groups->AsObject()->empty())
      return absl::UnimplementedError("compressed-tensors with transforms of weights and activations");
  std::vector<Scheme> schemes;
  if (const auto* groups = config.Find("config_groups")) {
    ASSIGN_OR_RETURN(const auto members, groups->AsObject());
    for (const json_in::Member& m : members) {
      ASSIGN_OR_RETURN(std::optional<Scheme> scheme, ReadScheme(m.value));
      if (scheme) schemes.push_back(*std::move(scheme));
    }
  }
  if (schemes.empty()) return config.quantization.Error("no config group says how weights are quantized");
  for (const std::string& module : f.EndingIn(kPacked)) {
    ASSIGN_OR_RETURN(const Scheme* s, SchemeOf(schemes, module));
    const ir::TensorRef* t = f.Look(module + ".weight_packed");
    RETURN_IF_ERROR(t && t->dtype == DType::kUInt8 ? FindNvfp4(f, module, *s) : FindPacked(f, module, *s));
  }
  for (const std::string& module : f.EndingIn(kPlainScale)) {
    if (f.Has(module + ".weight_packed")) continue;
    ASSIGN_OR_RETURN(const Scheme* s, SchemeOf(schemes, module));
    RETURN_IF_ERROR(FindBytes(f, module, *s));
  }
  return absl::OkStatus();
}

}  // namespace slipway::weights::quantized
