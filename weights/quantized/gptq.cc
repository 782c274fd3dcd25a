// GPTQ as AutoGPTQ, GPTQModel and optimum write it, for a layer MODULE of `in` and `out` features with groups along
// `in`:
//
//   MODULE.qweight  i32 [in * bits / 32, out]: the codes of a column, one after the other from the lowest bit on (3
//   bits
//                   run across words)
//   MODULE.qzeros   i32 [groups, out * bits / 32]: the same along a row; in the format "gptq" one less than the zero
//                   point, modulo 2^bits, in "gptq_v2" the zero point
//   MODULE.scales   f16, bf16 or f32 [groups, out]
//   MODULE.g_idx    i32 [in]: the group of each input feature (with desc_act in any order); where there is none, the
//                   features of a group are neighbours
//
// They stand for MODULE.weight, [out, in], of (code - zero point) * scale. The layers that read this compute it in the
// type of the scales and cast the result where activations have another.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "weights/quantized/families.h"

namespace slipway::weights::quantized {
namespace {

using ir::DType;

constexpr std::string_view kWeight = ".qweight";

uint32_t WordAt(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

struct Format {
  int64_t bits = 0, group = 0;
  bool zero_less_one = false;
  bool varies = false;     // from layer to layer
  bool any_order = false;  // desc_act
};

absl::StatusOr<Format> ReadFormat(const ModelConfig& config) {
  Format out;
  ASSIGN_OR_RETURN(out.bits, config.Int("bits", 0));
  ASSIGN_OR_RETURN(out.group, config.Int("group_size", -1));
  ASSIGN_OR_RETURN(std::string format, config.Text("checkpoint_format", ""));
  if (format.empty()) {
    ASSIGN_OR_RETURN(format, config.Text("format", "gptq"));
  }
  ASSIGN_OR_RETURN(const bool marlin, config.Bool("is_marlin_format", false));
  if (marlin) format = "marlin";
  if (format != "gptq" && format != "gptq_v2")
    return absl::UnimplementedError(text::StrCat("GPTQ of checkpoint_format '", format, "'"));
  if (out.bits != 2 && out.bits != 3 && out.bits != 4 && out.bits != 8)
    return absl::UnimplementedError(text::StrCat("GPTQ of ", out.bits, " bits"));
  if (out.group == 0 || out.group < -1) return config.quantization.Error("group_size is neither positive nor -1");
  out.zero_less_one = format == "gptq";
  ASSIGN_OR_RETURN(out.any_order, config.Bool("desc_act", false));
  const auto* dynamic = config.Find("dynamic");
  out.varies = dynamic && dynamic->is_object() && !dynamic->AsObject()->empty();
  return out;
}

absl::Status FindGptqWeight(Finder& f, const std::string& module, const Format& format) {
  const std::string weight_name = module + ".qweight", zeros_name = module + ".qzeros",
                    scales_name = module + ".scales", index_name = module + ".g_idx";
  ASSIGN_OR_RETURN(const Values codes, f.Need(weight_name, {DType::kInt32}));
  ASSIGN_OR_RETURN(const Values zeros, f.Need(zeros_name, {DType::kInt32}));
  ASSIGN_OR_RETURN(const Values scales, f.Need(scales_name, {DType::kFloat16, DType::kBFloat16, DType::kFloat32}));
  ASSIGN_OR_RETURN(const Values index, f.Want(index_name, {DType::kInt32, DType::kInt64}));
  if (!IsMatrix(codes.sizes()))
    return absl::InvalidArgumentError(text::StrCat("'", weight_name, "': codes of ", Shape(codes.sizes())));
  if (!IsMatrix(scales.sizes())) return DoNotAgree(scales_name, scales.sizes(), weight_name, codes.sizes());

  const int64_t words = codes.sizes()[0], out = codes.sizes()[1], groups = scales.sizes()[0];
  const bool indexed = index.data() != nullptr && index.tensor().numel() > 0;
  if (indexed && index.sizes().size() != 1) return DoNotAgree(index_name, index.sizes(), weight_name, codes.sizes());
  if (format.any_order && !indexed)
    return absl::InvalidArgumentError(text::StrCat("'", index_name, "' is missing: desc_act says that there is one"));
  int64_t bits = format.bits;
  if (format.varies && !indexed)
    return absl::UnimplementedError(
        text::StrCat("'", weight_name, "': bits that vary from layer to layer, without a g_idx"));
  if (format.varies) {
    const int64_t in = index.sizes()[0];
    bits = words * 32 / std::max<int64_t>(in, 1);
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
      return DoNotAgree(weight_name, codes.sizes(), index_name, index.sizes());
  }
  const int64_t in = words * 32 / bits;
  if (in * bits != words * 32 || out * bits % 32 != 0)
    return absl::InvalidArgumentError(
        text::StrCat("'", weight_name, "': ", Shape(codes.sizes()), " is no matrix of codes of ", bits, " bits"));
  if (groups > std::numeric_limits<int32_t>::max()) return absl::UnimplementedError("GPTQ of more than 2^31 groups");
  const int64_t group = format.varies ? (in - 1) / groups + 1 : format.group == -1 ? in : format.group;
  if (scales.sizes()[1] != out || (!format.varies && groups != (in - 1) / group + 1))
    return DoNotAgree(scales_name, scales.sizes(), weight_name, codes.sizes());
  const std::vector<int64_t> zeros_wanted = {groups, out * bits / 32};
  if (zeros.sizes() != zeros_wanted) return DoNotAgree(zeros_name, zeros.sizes(), weight_name, codes.sizes());

  // The groups are kept: what was checked must not change under a reader.
  std::vector<int32_t> group_of;
  bool in_order = true;
  if (indexed) {
    if (index.sizes() != std::vector<int64_t>{in})
      return DoNotAgree(index_name, index.sizes(), weight_name, codes.sizes());
    group_of.resize(static_cast<size_t>(in));
    bool zeros_only = groups > 1;
    for (int64_t i = 0; i < in; ++i) {
      const int64_t g = index.dtype() == DType::kInt32 ? index.At<int32_t>(i) : index.At<int64_t>(i);
      if (g < 0 || g >= groups)
        return absl::InvalidArgumentError(
            text::StrCat("'", index_name, "': feature ", i, " is of group ", g, " of ", groups));
      group_of[static_cast<size_t>(i)] = static_cast<int32_t>(g);
      in_order &= g == i / group;
      zeros_only &= g == 0;
    }
    // What some tools wrote for features in their order; others take it for what it says.
    if (zeros_only)
      return absl::UnimplementedError(
          text::StrCat("'", index_name, "': all of ", groups, " groups' features in the first"));
  }
  if (in_order) group_of.clear();

  Weight w;
  w.name = module + ".weight";
  w.sizes = {out, in};
  w.dtype = scales.dtype();
  w.scattered = true;
  w.form = text::StrCat(bits, " bits, group ", group, in_order ? "" : ", activation order");
  const int less_one = format.zero_less_one ? 1 : 0;
  const int width = static_cast<int>(bits);
  w.numbers = [codes, zeros, scales, group_of = std::move(group_of), width, out, group, less_one](const Block& b, DType,
                                                                                                  float* to) {
    const uint32_t mask = (1u << width) - 1;
    const DType type = scales.dtype();
    const int a_word = 32 % width == 0 ? 32 / width : 0;  // columns of a word; 0 where some lie in two
    // Zero points and scales of the block's rows, of the group at hand: groups change seldom, but for activation order.
    std::vector<float> scale(static_cast<size_t>(b.rows)), zero(static_cast<size_t>(b.rows));
    int64_t at = -1;
    for (int64_t c = 0; c < b.columns; ++c) {
      const int64_t column = b.column + c;
      const int64_t g = group_of.empty() ? column / group : group_of[static_cast<size_t>(column)];
      if (g != at) {
        at = g;
        const uint8_t* row = zeros.data() + g * zeros.sizes()[1] * 4;
        for (int64_t r = 0; r < b.rows; ++r) {
          const uint32_t stored = BitsAt(row, 1, (b.row + r) * width, width);
          zero[static_cast<size_t>(r)] = static_cast<float>((stored + static_cast<uint32_t>(less_one)) & mask);
          scale[static_cast<size_t>(r)] = scales.Float(g * out + b.row + r);
        }
      }
      const int shift = static_cast<int>(column * width % 32);
      const uint8_t* low = codes.data() + (column * width / 32 * out + b.row) * 4;
      float* first = to + c;
      // All columns of a word at once, where they are of one group.
      if (shift == 0 && a_word > 0 && c + a_word <= b.columns && group_of.empty() && group % a_word == 0) {
        for (int64_t r = 0; r < b.rows; ++r, first += b.stride) {
          const uint32_t word = WordAt(low + r * 4);
          const float less = zero[static_cast<size_t>(r)], by = scale[static_cast<size_t>(r)];
          for (int i = 0; i < a_word; ++i) first[i] = (static_cast<float>(word >> (i * width) & mask) - less) * by;
        }
        c += a_word - 1;
        continue;
      }
      for (int64_t r = 0; r < b.rows; ++r, first += b.stride) {
        const uint32_t code =
            shift + width > 32 ? BitsAt(low + r * 4, out, shift, width) : WordAt(low + r * 4) >> shift & mask;
        *first = (static_cast<float>(code) - zero[static_cast<size_t>(r)]) * scale[static_cast<size_t>(r)];
      }
    }
    RoundTo(type, b, to);
  };
  std::vector<std::string> parts = {weight_name, zeros_name, scales_name};
  if (f.Has(index_name)) parts.push_back(index_name);
  return f.Add(std::move(w), parts);
}

}  // namespace

absl::Status FindGptq(Finder& f) {
  ASSIGN_OR_RETURN(const Format format, ReadFormat(f.config()));
  RETURN_IF_ERROR(CheckNoConv1d(f));
  for (const std::string& module : f.EndingIn(kWeight)) RETURN_IF_ERROR(FindGptqWeight(f, module, format));
  return absl::OkStatus();
}

}  // namespace slipway::weights::quantized
