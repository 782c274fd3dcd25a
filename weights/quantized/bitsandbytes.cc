// bitsandbytes. 4 bits, for a weight X (MODULE.weight) of `count` numbers:
//
//   X                                      u8 [ceil(count / 2), 1] or the same bytes as another type: two codes in a
//                                          byte, the first high
//   X.quant_state.bitsandbytes__nf4 (fp4)  u8: JSON with shape, dtype, blocksize, and of nested scales
//   nested_blocksize,
//                                          nested_offset
//   X.quant_map                            f32 [16]: the numbers that the codes stand for
//   X.absmax                               f32, a scale a block; nested: u8, codes into
//   X.nested_quant_map                     f32 [256], times
//   X.nested_absmax                        f32, a scale for each nested_blocksize of them, plus nested_offset
//
// A number is quant_map[code] * absmax in f32, rounded to the dtype that the state names; whoever wants another casts
// that. 8 bits (LLM.int8):
//
//   MODULE.weight  i8 [n, k], with MODULE.SCB, f32 [n]: code * scale * (1 / 127) in f32, then cast
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "weights/quantized/families.h"

namespace slipway::weights::quantized {
namespace {

namespace json_in = importers::json;
using ir::DType;

constexpr std::string_view kState = ".quant_state.bitsandbytes__";
constexpr float kOver127 = 7.874015718698502e-3f;
constexpr int64_t kLongestState = 1 << 16;

struct Kind {
  std::string_view name;
  std::array<float, 16> numbers;  // of the codes, to four digits: what quant_map must be
};
constexpr Kind kBitsandbytesKinds[] = {
    {"nf4",
     {-1, -.6962f, -.5251f, -.3949f, -.2844f, -.1848f, -.0911f, 0, .0796f, .1609f, .2461f, .3379f, .4407f, .5626f,
      .7230f, 1}},
    {"fp4", {0, .0052f, .6667f, 1, .3333f, .5f, .1667f, .25f, 0, -.0052f, -.6667f, -1, -.3333f, -.5f, -.1667f, -.25f}},
};

// Scales of blocks, nested or not.
struct Absmax {
  Values values, map, outer;  // of nested ones: codes, their numbers, and the scales of those
  int64_t block = 0;
  float offset = 0;
  float At(int64_t i) const {
    if (map.data() == nullptr) return values.At<float>(i);
    return map.At<float>(values.data()[i]) * outer.At<float>(i / block) + offset;
  }
};

absl::Status FindFour(Finder& f, const std::string& name, const Kind& kind) {
  const std::string state_name = text::StrCat(name, kState, kind.name), map_name = name + ".quant_map",
                    absmax_name = name + ".absmax";
  std::vector<std::string> parts = {name, state_name, map_name, absmax_name};
  ASSIGN_OR_RETURN(const Values state, f.Need(state_name, {DType::kUInt8}));
  ASSIGN_OR_RETURN(const Values map, f.Need(map_name, {DType::kFloat32}));
  ASSIGN_OR_RETURN(const Values codes,
                   f.Need(name, {DType::kUInt8, DType::kInt8, DType::kFloat16, DType::kBFloat16, DType::kFloat32}));
  const auto bad = [&](const absl::Status& s) {
    return absl::Status(s.code(), text::StrCat("'", state_name, "': ", text::FromAbsl(s.message())));
  };
  if (state.tensor().nbytes() > kLongestState) return bad(absl::InvalidArgumentError("longer than any state"));
  auto document = json_in::Document::Parse(
      {reinterpret_cast<const char*>(state.data()), static_cast<size_t>(state.tensor().nbytes())});
  if (!document.ok()) return bad(document.status());
  const json_in::Value& root = document->root();
  const auto number = [&](std::string_view key) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const json_in::Value* v, root.Get(key));
    ASSIGN_OR_RETURN(const int64_t n, v->AsInt());
    if (n < 1 || n > 1 << 20) return v->Error(text::StrCat(key, " is ", n));
    return n;
  };
  Weight w;
  w.name = name;
  int64_t count = 1;
  const auto read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const json_in::Value* shape, root.Get("shape"));
    ASSIGN_OR_RETURN(const auto sizes, shape->AsArray());
    for (const json_in::Value& v : sizes) {
      ASSIGN_OR_RETURN(const int64_t n, v.AsInt());
      if (n < 1 || __builtin_mul_overflow(count, n, &count)) return v.Error("a size that no tensor has");
      w.sizes.push_back(n);
    }
    if (sizes.empty()) return shape->Error("no sizes");
    ASSIGN_OR_RETURN(const json_in::Value* dtype, root.Get("dtype"));
    ASSIGN_OR_RETURN(const std::string_view dtype_name, dtype->AsString());
    w.dtype = ir::DTypeFromTorchName(dtype_name).value_or(DType::kUnknown);
    if (w.dtype != DType::kFloat32 && !ir::IsLowPrecision(w.dtype)) return dtype->Error("no type of weights");
    return absl::OkStatus();
  };
  if (absl::Status s = read(); !s.ok()) return bad(s);
  const auto block = number("blocksize");
  if (!block.ok()) return bad(block.status());
  if (codes.tensor().nbytes() != (count - 1) / 2 + 1) return DoNotAgree(name, codes.sizes(), state_name, w.sizes);
  if (map.sizes() != std::vector<int64_t>{16}) return DoNotAgree(map_name, map.sizes(), name, codes.sizes());
  for (int64_t i = 0; i < 16; ++i)
    if (!(std::abs(map.At<float>(i) - kind.numbers[static_cast<size_t>(i)]) < 2e-4f))
      return absl::UnimplementedError(text::StrCat("'", map_name, "' is not that of ", kind.name));

  Absmax absmax;
  const int64_t blocks = (count - 1) / *block + 1;
  const std::string nested_name = name + ".nested_absmax", nested_map_name = name + ".nested_quant_map";
  const bool nested = f.Has(nested_name);
  ASSIGN_OR_RETURN(absmax.values, f.Need(absmax_name, {nested ? DType::kUInt8 : DType::kFloat32}));
  if (absmax.values.tensor().numel() != blocks)
    return DoNotAgree(absmax_name, absmax.values.sizes(), state_name, w.sizes);
  if (nested) {
    parts.insert(parts.end(), {nested_name, nested_map_name});
    const auto nested_block = number("nested_blocksize");
    if (!nested_block.ok()) return bad(nested_block.status());
    absmax.block = *nested_block;
    auto offset = root.Get("nested_offset");
    if (!offset.ok()) return bad(offset.status());
    const auto value = (*offset)->AsDouble();
    if (!value.ok()) return bad(value.status());
    absmax.offset = static_cast<float>(*value);
    ASSIGN_OR_RETURN(absmax.map, f.Need(nested_map_name, {DType::kFloat32}));
    ASSIGN_OR_RETURN(absmax.outer, f.Need(nested_name, {DType::kFloat32}));
    if (absmax.map.sizes() != std::vector<int64_t>{256})
      return DoNotAgree(nested_map_name, absmax.map.sizes(), absmax_name, absmax.values.sizes());
    if (absmax.outer.tensor().numel() != (blocks - 1) / absmax.block + 1)
      return DoNotAgree(nested_name, absmax.outer.sizes(), absmax_name, absmax.values.sizes());
  }

  w.form = text::StrCat(kind.name, ", blocks of ", *block, nested ? ", nested scales" : "");
  w.numbers = [codes, map, absmax, block = *block, columns = w.columns(), type = w.dtype](const Block& b, DType,
                                                                                          float* out) {
    std::array<float, 16> numbers;
    for (int64_t i = 0; i < 16; ++i) numbers[static_cast<size_t>(i)] = map.At<float>(i);
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const int64_t first = (b.row + r) * columns + b.column;
      for (int64_t i = first, end = first + b.columns; i < end;) {
        const float by = absmax.At(i / block);
        for (const int64_t stop = std::min(end, (i / block + 1) * block); i < stop; ++i)
          out[i - first] = numbers[codes.data()[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15] * by;
      }
    }
    RoundTo(type, b, out - b.rows * b.stride);
  };
  return f.Add(std::move(w), parts);
}

absl::Status FindEight(Finder& f, const std::string& module) {
  const std::string name = module + ".weight", scale_name = module + ".SCB", format_name = module + ".weight_format";
  std::vector<std::string> parts = {name, scale_name};
  ASSIGN_OR_RETURN(const Values codes, f.Need(name, {DType::kInt8}));
  ASSIGN_OR_RETURN(const Values scales, f.Need(scale_name, {DType::kFloat32}));
  ASSIGN_OR_RETURN(const Values format, f.Want(format_name, {DType::kUInt8}));
  if (f.Has(format_name)) {
    parts.push_back(format_name);
    if (format.tensor().numel() != 1 || format.data()[0] != 0)
      return absl::UnimplementedError(text::StrCat("'", format_name, "': codes that do not lie row by row"));
  }
  if (!IsMatrix(codes.sizes()))
    return absl::InvalidArgumentError(text::StrCat("'", name, "': codes of ", Shape(codes.sizes())));
  const int64_t n = codes.sizes()[0], k = codes.sizes()[1];
  if (scales.tensor().numel() != n) return DoNotAgree(scale_name, scales.sizes(), name, codes.sizes());
  Weight w;
  w.name = name;
  w.sizes = {n, k};
  w.dtype = DType::kFloat32;
  w.form = "int8, rows";
  w.numbers = [codes, scales, k](const Block& b, DType, float* out) {
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const float by = scales.At<float>(b.row + r);
      const auto* q = reinterpret_cast<const int8_t*>(codes.data() + (b.row + r) * k + b.column);
      for (int64_t c = 0; c < b.columns; ++c) out[c] = static_cast<float>(q[c]) * by * kOver127;
    }
  };
  return f.Add(std::move(w), parts);
}

}  // namespace

absl::Status FindBitsandbytes(Finder& f) {
  RETURN_IF_ERROR(CheckNoConv1d(f));
  for (const Kind& kind : kBitsandbytesKinds) {
    const std::vector<std::string> names = f.EndingIn(text::StrCat(kState, kind.name));
    for (const std::string& name : names) RETURN_IF_ERROR(FindFour(f, name, kind));
  }
  for (const std::string& module : f.EndingIn(".SCB")) RETURN_IF_ERROR(FindEight(f, module));
  return absl::OkStatus();
}

}  // namespace slipway::weights::quantized
