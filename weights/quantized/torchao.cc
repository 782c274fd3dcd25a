// torchao's tensor subclasses in safetensors, as slipway's quantizer and transformers write them: the weight
// `a.b.weight` lies as `a.b._weight_qdata`, `a.b._weight_scale`, …, and the metadata has for `a.b.weight` its class and
// attributes (quantizer/torchao_layout.h). With T the type of the weight, or the one that is asked for where torchao's
// dequantize() takes one (all but IntxUnpackedToInt8Tensor and Int4Tensor):
//
//   Int8Tensor, IntxUnpackedToInt8Tensor   T((q - zero point) * scale), a scale for each block of block_size
//   Float8Tensor                           T(q * scale)
//   Int4Tensor                             T(T(q * scale) + zero point): two q in a byte, the even column low; scale
//   and
//                                          zero point as [k / group, n]
//   MXTensor                               T(T(q) * T(2^(scale - 127))), blocks of 32, scales swizzled or not
//   NVFP4Tensor                            T(q * (per_tensor_scale * scale)), blocks of 16, scales swizzled or not
//
// A weight that activations are scaled for (act_pre_scale) is no plain one, and refused.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "io/io_error.h"
#include "weights/quantized/families.h"
#include "weights/quantized/quantized.h"

namespace slipway::weights::quantized {
namespace {

namespace json_in = importers::json;
using ir::DType;

constexpr std::initializer_list<DType> kTorchaoScaleTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// One entry of the metadata, and the names of its parts.
struct Entry {
  std::string name;  // of the weight
  std::string type;  // "Int8Tensor"
  const json_in::Value* data = nullptr;
  std::vector<std::string> parts;

  std::string PartName(std::string_view part) const {
    const size_t dot = name.rfind('.'), at = dot == std::string::npos ? 0 : dot + 1;
    return text::StrCat(std::string_view(name).substr(0, at), "_", std::string_view(name).substr(at), "_", part);
  }
  absl::Status Bad(const absl::Status& s) const {
    return absl::Status(s.code(), text::StrCat("metadata of '", name, "': ", text::FromAbsl(s.message())));
  }
  absl::StatusOr<DType> Type(std::string_view key) const {
    const json_in::Value* v = data->Find(key);
    const json_in::Value* name_of = v && v->is_object() ? v->Find("_data") : v;
    if (!name_of || !name_of->is_string()) return absl::InvalidArgumentError(text::StrCat("no ", key));
    const std::string_view torch = name_of->AsString().value();
    return ir::DTypeFromTorchName(torch).value_or(DType::kUnknown);
  }
  absl::StatusOr<int64_t> Int(std::string_view key) const {
    ASSIGN_OR_RETURN(const json_in::Value* v, data->Get(key));
    return v->AsInt();
  }
  absl::StatusOr<bool> Bool(std::string_view key) const {
    ASSIGN_OR_RETURN(const json_in::Value* v, data->Get(key));
    return v->AsBool();
  }
};

absl::StatusOr<DType> FloatType(const Entry& e, std::string_view key) {
  ASSIGN_OR_RETURN(const DType t, e.Type(key));
  if (t != DType::kFloat32 && !ir::IsLowPrecision(t))
    return absl::InvalidArgumentError(text::StrCat(key, " is no type of weights"));
  return t;
}

// Where a swizzled scale of [rows, columns] stands: tiles of 128 x 4, row by row.
int64_t Swizzled(int64_t row, int64_t column, int64_t columns) {
  const int64_t tile = row / 128 * ((columns + 3) / 4) + column / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
}
int64_t SwizzledCount(int64_t rows, int64_t columns) { return (rows + 127) / 128 * ((columns + 3) / 4) * 512; }

absl::StatusOr<Grid> GridOf(const Entry& e, const Values& codes, const Values& scale) {
  ASSIGN_OR_RETURN(const json_in::Value* v, e.data->Get("block_size"));
  ASSIGN_OR_RETURN(const auto block, v->AsArray());
  if (block.size() != 2) return v->Error("block_size is not two numbers");
  ASSIGN_OR_RETURN(const int64_t bn, block[0].AsInt());
  ASSIGN_OR_RETURN(const int64_t bk, block[1].AsInt());
  const int64_t n = codes.sizes()[0], k = codes.sizes()[1];
  if (bn < 1 || bk < 1 || n % bn != 0 || k % bk != 0) return v->Error("block_size does not divide the weight");
  if (scale.tensor().numel() != n / bn * (k / bk))
    return DoNotAgree(e.PartName("scale"), scale.sizes(), e.PartName("qdata"), codes.sizes());
  return Grid{bn, bk, k / bk};
}

// Codes of a byte each, with a scale and perhaps a zero point for each block.
absl::Status FindBytes(Finder& f, const Entry& e, bool is_float) {
  std::vector<std::string> parts = {e.PartName("qdata"), e.PartName("scale")};
  const bool own = e.type == "IntxUnpackedToInt8Tensor";
  const auto dtype = FloatType(e, "dtype");
  if (!dtype.ok()) return e.Bad(dtype.status());
  ASSIGN_OR_RETURN(const Values codes, is_float ? f.Need(parts[0], {DType::kFloat8E4M3FN, DType::kFloat8E5M2})
                                                : f.Need(parts[0], {DType::kInt8}));
  ASSIGN_OR_RETURN(const Values scale, f.Need(parts[1], kTorchaoScaleTypes));
  if (!IsMatrix(codes.sizes()))
    return absl::UnimplementedError(text::StrCat("'", parts[0], "': a quantized weight of ", Shape(codes.sizes())));
  const auto grid = GridOf(e, codes, scale);
  if (!grid.ok()) return e.Bad(grid.status());
  const std::string zero_name = e.PartName("zero_point");
  Values zero;
  if (!is_float && f.Has(zero_name)) {
    parts.push_back(zero_name);
    ASSIGN_OR_RETURN(zero, f.Need(zero_name, {DType::kInt8}));
    if (zero.tensor().numel() != scale.tensor().numel())
      return DoNotAgree(zero_name, zero.sizes(), parts[1], scale.sizes());
  }
  const int64_t n = codes.sizes()[0], k = codes.sizes()[1];
  Weight w;
  w.name = e.name;
  w.sizes = {n, k};
  w.dtype = *dtype;
  w.form = text::StrCat(e.type, ", ",
                        grid->rows == n && grid->columns == k && n > 1 ? "one scale"
                        : grid->columns == k                           ? std::string("rows")
                                                                       : text::StrCat("group ", grid->columns));
  const float* table = !is_float ? nullptr : codes.dtype() == DType::kFloat8E5M2 ? NumbersOfE5M2() : NumbersOfE4M3();
  w.numbers = [codes, scale, zero, grid = *grid, k, table, own, type = *dtype](const Block& b, DType to, float* out) {
    const DType t = own ? type : to;
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const int64_t row = b.row + r;
      const uint8_t* q = codes.data() + row * k;
      for (int64_t c = b.column, end = b.column + b.columns; c < end;) {
        const int64_t at = grid.At(row, c);
        const float by = scale.Float(at), less = zero.data() ? zero.At<int8_t>(at) : 0;
        const int64_t stop = std::min(end, (c / grid.columns + 1) * grid.columns);
        if (table)
          for (; c < stop; ++c) out[c - b.column] = table[q[c]] * by;
        else
          for (; c < stop; ++c) out[c - b.column] = (static_cast<float>(static_cast<int8_t>(q[c])) - less) * by;
      }
      RoundTo(t, out, b.columns);
    }
  };
  return f.Add(std::move(w), parts);
}

absl::Status FindInt4(Finder& f, const Entry& e) {
  const std::vector<std::string> parts = {e.PartName("qdata"), e.PartName("scale"), e.PartName("zero_point")};
  ASSIGN_OR_RETURN(const Values codes, f.Need(parts[0], {DType::kInt8, DType::kUInt8}));
  ASSIGN_OR_RETURN(const Values scale, f.Need(parts[1], kTorchaoScaleTypes));
  ASSIGN_OR_RETURN(const Values zero, f.Need(parts[2], kTorchaoScaleTypes));
  if (!IsMatrix(codes.sizes()) || !IsMatrix(scale.sizes()))
    return absl::UnimplementedError(text::StrCat("'", parts[0], "': a quantized weight of ", Shape(codes.sizes())));
  const int64_t n = codes.sizes()[0], bytes = codes.sizes()[1], k = bytes * 2, groups = scale.sizes()[0];
  if (scale.sizes()[1] != n || k % groups != 0) return DoNotAgree(parts[1], scale.sizes(), parts[0], codes.sizes());
  if (zero.sizes() != scale.sizes() || zero.dtype() != scale.dtype())
    return DoNotAgree(parts[2], zero.sizes(), parts[1], scale.sizes());
  const int64_t group = k / groups;
  Weight w;
  w.name = e.name;
  w.sizes = {n, k};
  w.dtype = scale.dtype();
  w.form = text::StrCat(e.type, ", group ", group);
  w.numbers = [codes, scale, zero, n, bytes, group](const Block& b, DType, float* out) {
    const DType t = scale.dtype();
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const int64_t row = b.row + r;
      const uint8_t* q = codes.data() + row * bytes;
      // Twice, so that each rounding is a loop of its own.
      for (int64_t c = 0; c < b.columns; ++c) {
        const int64_t column = b.column + c;
        const int code = static_cast<int8_t>(q[column / 2] << (column % 2 == 0 ? 4 : 0)) >> 4;
        out[c] = static_cast<float>(code) * scale.Float(column / group * n + row);
      }
      RoundTo(t, out, b.columns);
      for (int64_t c = 0; c < b.columns; ++c) out[c] += zero.Float((b.column + c) / group * n + row);
      RoundTo(t, out, b.columns);
    }
  };
  return f.Add(std::move(w), parts);
}

// MXTensor and NVFP4Tensor.
absl::Status FindMx(Finder& f, const Entry& e, bool nvfp4) {
  std::vector<std::string> parts = {e.PartName("qdata"), e.PartName("scale")};
  const auto dtype = FloatType(e, "orig_dtype");
  if (!dtype.ok()) return e.Bad(dtype.status());
  const auto block_size = e.Int("block_size");
  if (!block_size.ok()) return e.Bad(block_size.status());
  const auto swizzled = e.Bool("is_swizzled_scales");
  if (!swizzled.ok()) return e.Bad(swizzled.status());
  DType element = DType::kFloat4E2M1;
  if (!nvfp4) {
    const auto read = e.Type("elem_dtype");
    if (!read.ok()) return e.Bad(read.status());
    element = *read;
  }
  const bool four = element == DType::kFloat4E2M1;
  if (!four && element != DType::kFloat8E4M3FN && element != DType::kFloat8E5M2)
    return e.Bad(absl::UnimplementedError("an MXTensor of 6 bits, or of no float type"));
  ASSIGN_OR_RETURN(const Values codes, four ? f.Need(parts[0], {DType::kUInt8}) : f.Need(parts[0], {element}));
  ASSIGN_OR_RETURN(const Values scale, nvfp4 ? f.Need(parts[1], {DType::kFloat8E4M3FN})
                                             : f.Need(parts[1], {DType::kFloat8E8M0FNU, DType::kUInt8}));
  if (!IsMatrix(codes.sizes()))
    return absl::UnimplementedError(text::StrCat("'", parts[0], "': a quantized weight of ", Shape(codes.sizes())));
  const int64_t block = *block_size;
  const int64_t n = codes.sizes()[0], bytes = codes.sizes()[1], k = four ? bytes * 2 : bytes;
  if (block < 1 || k % block != 0) return e.Bad(absl::InvalidArgumentError("block_size does not divide the weight"));
  const int64_t across = k / block;
  if (scale.tensor().numel() != (*swizzled ? SwizzledCount(n, across) : n * across))
    return DoNotAgree(parts[1], scale.sizes(), parts[0], codes.sizes());
  float whole = 1;
  const std::string whole_name = e.PartName("per_tensor_scale");
  if (nvfp4 && f.Has(whole_name)) {
    parts.push_back(whole_name);
    ASSIGN_OR_RETURN(const Values value, f.Need(whole_name, {DType::kFloat32}));
    if (value.tensor().numel() != 1) return DoNotAgree(whole_name, value.sizes(), parts[0], codes.sizes());
    whole = value.At<float>(0);
  }
  Weight w;
  w.name = e.name;
  w.sizes = {n, k};
  w.dtype = *dtype;
  w.form = text::StrCat(e.type,
                        nvfp4                           ? ""
                        : four                          ? " of e2m1"
                        : element == DType::kFloat8E5M2 ? " of e5m2"
                                                        : " of e4m3",
                        ", blocks of ", block);
  const float* table = four ? NumbersOfE2M1() : element == DType::kFloat8E5M2 ? NumbersOfE5M2() : NumbersOfE4M3();
  w.numbers = [codes, scale, bytes, block, across, whole, nvfp4, four, table, swizzled = *swizzled](
                  const Block& b, DType to, float* out) {
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const int64_t row = b.row + r;
      const uint8_t* q = codes.data() + row * bytes;
      for (int64_t c = b.column, end = b.column + b.columns; c < end;) {
        const int64_t at = swizzled ? Swizzled(row, c / block, across) : row * across + c / block;
        float by = nvfp4 ? whole * NumbersOfE4M3()[scale.data()[at]] : NumberOfE8M0(scale.data()[at]);
        if (!nvfp4) RoundTo(to, &by, 1);
        for (const int64_t stop = std::min(end, (c / block + 1) * block); c < stop; ++c)
          out[c - b.column] = table[four ? q[c / 2] >> (c % 2 * 4) & 15 : q[c]] * by;
      }
    }
  };
  return f.Add(std::move(w), parts);
}

absl::Status FindTorchaoWeight(Finder& f, const std::string& name, std::string_view metadata) {
  Entry e;
  e.name = name;
  auto document = json_in::Document::Parse(metadata);
  if (!document.ok()) return e.Bad(document.status());
  const json_in::Value* type = document->root().Find("_type");
  if (!type || !type->is_string()) return absl::OkStatus();  // another tool's
  e.type = type->AsString().value();
  if (e.type == "Tensor") return absl::OkStatus();
  e.data = document->root().Find("_data");
  const json_in::Value* names = document->root().Find("_tensor_data_names");
  if (!e.data || !e.data->is_object() || !names || !names->is_array())
    return e.Bad(absl::InvalidArgumentError("no _data and _tensor_data_names"));
  const auto parts = names->AsArray().value();
  bool any = f.whole();
  for (const json_in::Value& part : parts) {
    const auto part_name = part.AsString();
    if (!part_name.ok()) return e.Bad(part_name.status());
    any |= f.Has(e.PartName(*part_name));
  }
  if (!any) return absl::OkStatus();  // of another file of the checkpoint
  for (const json_in::Value& part : parts) {
    const auto part_name = part.AsString();
    if (*part_name == "act_pre_scale")
      return absl::UnimplementedError(
          text::StrCat("'", name, "' is scaled for activations that are scaled, too (act_pre_scale)"));
    if (*part_name == "act_quant_scale" || *part_name == "act_quant_zero_point" || *part_name == "act_per_tensor_scale")
      f.LeaveOut(e.PartName(*part_name));
  }
  if (e.type == "Int8Tensor" || e.type == "IntxUnpackedToInt8Tensor") return FindBytes(f, e, false);
  if (e.type == "Float8Tensor") return FindBytes(f, e, true);
  if (e.type == "Int4Tensor") return FindInt4(f, e);
  if (e.type == "MXTensor") return FindMx(f, e, false);
  if (e.type == "NVFP4Tensor") return FindMx(f, e, true);
  return absl::UnimplementedError(text::StrCat("'", name, "': torchao's ", e.type));
}

}  // namespace

absl::Status FindTorchao(Finder& f) {
  std::set<std::string> aliases;
  if (const auto it = f.metadata().find(kModelNames); it != f.metadata().end()) {
    const auto named = [](const absl::Status& s) { return io::Prefixed(text::StrCat(kModelNames, ": "), s); };
    auto document = json_in::Document::Parse(it->second);
    if (!document.ok()) return named(document.status());
    auto members = document->root().AsObject();
    if (!members.ok()) return named(members.status());
    for (const json_in::Member& m : *members) aliases.emplace(m.key);
  }
  for (const auto& [name, metadata] : f.metadata())
    if (name != "tensor_names" && name != kModelNames && metadata.starts_with("{") && !aliases.contains(name))
      RETURN_IF_ERROR(FindTorchaoWeight(f, name, metadata));
  return absl::OkStatus();
}

}  // namespace slipway::weights::quantized
