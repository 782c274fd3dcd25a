// A table by operator; for operators that are not in it, SymInt arguments of the declaration are settings: torch declares an
// argument as SymInt where a traced size may arrive.
#include "shapes/size_args.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::shapes {
namespace {

struct Row {
  SizeRole role;
  std::string_view args;  // names, separated by spaces
  std::string_view ops;   // base names of ATen operators, any overload
};
constexpr Row kRows[] = {
    {SizeRole::kView, "size shape", "view reshape _unsafe_view view_copy _reshape_copy _reshape_alias"},
    {SizeRole::kView, "sizes", "unflatten"},
    {SizeRole::kExpand, "size", "expand expand_copy broadcast_to"},
    {SizeRole::kBound, "start end", "slice slice_copy slice_scatter"},
    {SizeRole::kBound, "start length", "narrow narrow_copy"},
    {SizeRole::kBound, "index", "select select_copy select_scatter"},
    {SizeRole::kBound, "split_size", "split split_copy unsafe_split"},
    {SizeRole::kBound, "split_sizes split_size", "split_with_sizes split_with_sizes_copy unsafe_split_with_sizes split"},
    {SizeRole::kBound, "indices", "tensor_split"},
    {SizeRole::kPad, "pad", "constant_pad_nd pad"},
    {SizeRole::kPad, "padding",
     "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d"},
    {SizeRole::kCreate, "size",
     "zeros ones empty full rand randn randint new_zeros new_ones new_empty new_full empty_strided new_empty_strided "
     "empty_permuted"},
    {SizeRole::kCreate, "start end step", "arange range"},
    {SizeRole::kCreate, "n m", "eye randperm"},
    {SizeRole::kCreate, "length", "iota"},
    {SizeRole::kCreate, "repeats", "repeat repeat_interleave"},
    {SizeRole::kCreate, "dims", "tile"},
    {SizeRole::kCreate, "output_size",
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d "
     "upsample_bicubic2d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
     "_upsample_bilinear2d_aa _upsample_bicubic2d_aa col2im"},
    {SizeRole::kCreate, "size", "affine_grid_generator"},
};

// Settings of layers, which no traced size arrives at.
constexpr std::string_view kSettings[] = {"stride",     "padding",          "dilation",   "output_padding", "groups",     "kernel_size",
                                          "padding_idx", "normalized_shape", "ignore_index", "block_size",   "group_size", "storage_offset"};

struct Key {
  std::string_view op, arg;
  bool operator==(const Key&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Key& k) {
    return H::combine(std::move(h), k.op, k.arg);
  }
};

const absl::flat_hash_map<Key, SizeRole>& Table() {
  static const auto& table = *[] {
    auto* t = new absl::flat_hash_map<Key, SizeRole>();
    for (const Row& row : kRows)
      for (std::string_view op : text::Split(row.ops, ' '))
        for (std::string_view arg : text::Split(row.args, ' ')) t->emplace(Key{op, arg}, row.role);
    return t;
  }();
  return table;
}

bool IsSetting(std::string_view arg) {
  return std::find(std::begin(kSettings), std::end(kSettings), arg) != std::end(kSettings);
}

}  // namespace

std::vector<SizeArg> SizeArgsOf(ir::Node& n) {
  std::vector<SizeArg> out;
  const ir::OpDef& op = n.op();
  if (!op.known || op.variadic || (op.ns != "aten" && op.ns != "prims")) return out;
  for (const ir::ArgDef& def : op.args) {
    auto row = Table().find(Key{op.base, def.name});
    const bool number = !def.is_list && (def.type == "Scalar" || def.type == "Tensor");
    if (row == Table().end() && ((def.type != "SymInt" && !number) || IsSetting(def.name))) continue;
    const SizeRole role = row != Table().end() ? row->second : number ? SizeRole::kNumber : SizeRole::kSetting;
    const ir::Arg* a = n.Find(def.name);
    if (!a) continue;
    if (auto i = a->get<int64_t>()) {
      out.push_back({&n, def.name, -1, role, *i});
    } else if (auto ints = a->get<ir::Ints>()) {
      for (size_t k = 0; k < ints->size(); ++k) out.push_back({&n, def.name, static_cast<int>(k), role, (*ints)[k]});
    } else if (auto some = a->get<ir::SymInts>()) {
      for (size_t k = 0; k < some->size(); ++k)
        if (!(*some)[k].value) out.push_back({&n, def.name, static_cast<int>(k), role, (*some)[k].constant});
    }
  }
  return out;
}

void SetSizeArg(const SizeArg& a, ir::IntOrValue to) {
  if (a.element < 0) {
    a.node->SetArg(a.arg, ir::Arg(to));
    return;
  }
  const ir::Arg& now = a.node->Get(a.arg);
  ir::SymInts all;
  if (auto ints = now.get<ir::Ints>())
    for (int64_t i : *ints) all.emplace_back(i);
  else if (auto some = now.get<ir::SymInts>())
    all = *some;
  if (static_cast<size_t>(a.element) < all.size()) all[a.element] = to;
  a.node->SetArg(a.arg, ir::Arg(std::move(all)));
}

ir::Value* FirstTensor(const ir::Node& n) {
  for (const ir::NamedArg& a : n.args())
    if (ir::Value* v = a.arg.value(); v && v->type().is_tensor()) return v;
  return nullptr;
}

Viewed ViewedSizes(const ir::Node& n) {
  const ir::Value* x = FirstTensor(n);
  if (n.op().ns != "aten" || !x) return {};
  for (std::string_view arg : {std::string_view("size"), std::string_view("shape"), std::string_view("sizes")}) {
    auto row = Table().find(Key{n.op().base, arg});
    if (row == Table().end() || row->second != SizeRole::kView || n.op().ArgIndex(arg) < 0) continue;
    if (n.op().base != "unflatten") return {arg, x->sizes()};
    auto dim = n.Get("dim").get<int64_t>();
    const int64_t d = dim ? (*dim < 0 ? *dim + x->rank() : *dim) : -1;
    if (d >= 0 && d < x->rank()) return {arg, {x->sizes()[d]}};
  }
  return {};
}

std::string_view ExpandSizesArg(const ir::Node& n) {
  auto row = Table().find(Key{n.op().base, "size"});
  return n.op().ns == "aten" && row != Table().end() && row->second == SizeRole::kExpand ? "size" : "";
}

}  // namespace slipway::shapes
