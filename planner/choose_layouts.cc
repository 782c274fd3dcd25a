// Chooses NCHW or NHWC for the images (2-D) and signals (1-D) of convolutions. Convolutions that pass images to each
// other, directly or through operators that propagate either layout, form a region with one layout: NHWC where the
// benefit of its convolutions exceeds the cost of reordering the images that enter and leave it.
//
// With NHWC, convolutions of small groups gain most (vectors of channels), depthwise ones the reorder of their panels,
// pointwise ones, Winograd and signals a little.
#include "planner/choose_layouts.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"
#include "kernels/conv/filters.h"

namespace slipway::planner {
namespace {

constexpr int64_t kUnknownSide = 14;      // of an image of unknown size
constexpr double kReorderCost = 16;       // of an element, in multiplications
constexpr double kCachedReorderCost = 5;  // the same, cache-resident
constexpr int64_t kMaxNchwChannels = 4;   // up to this many channels, convolutions read NCHW planes in place

bool IsImage(const ir::Value* v) {
  return v != nullptr && v->type().is_tensor() && (v->rank() == 3 || v->rank() == 4) &&
         (v->dtype() == ir::DType::kFloat32 || v->dtype() == ir::DType::kBFloat16 ||
          v->dtype() == ir::DType::kFloat16 || v->dtype() == ir::DType::kUInt8);
}
// Whether the outputs have the layout of the operands.
bool PropagatesLayout(const ir::Node& n) {
  if (n.op().traits.elementwise) return true;
  return n.op().traits.propagates_layout || PadsByConstant(n);
}
bool IsConvolution(const ir::Node& n) {
  const std::string_view name = n.op().base;
  return name == "conv1d" || name == "conv2d" || name == "convolution" || name == "conv_transpose2d" ||
         name == "integer_conv";
}

class LayoutRegions {
 public:
  // The region of an image; a new one if it has none.
  int Of(const ir::Value* v) {
    auto [it, fresh] = of_.try_emplace(v, static_cast<int>(parent_.size()));
    if (fresh) parent_.push_back(it->second), benefit_.push_back(0), images_.push_back(v);
    return Root(it->second);
  }
  void Join(const ir::Value* a, const ir::Value* b) {
    const int x = Of(a), y = Of(b);
    if (x == y) return;
    parent_[y] = x;
    benefit_[x] += benefit_[y];
  }
  void AddBenefit(const ir::Value* v, double by) { benefit_[Of(v)] += by; }
  const std::vector<const ir::Value*>& images() const { return images_; }  // in the order in which they came
  double benefit(const ir::Value* v) { return benefit_[Of(v)]; }

 private:
  int Root(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  absl::flat_hash_map<const ir::Value*, int> of_;
  std::vector<const ir::Value*> images_;
  std::vector<int> parent_;
  std::vector<double> benefit_;
};

double Pixels(const ir::Value* v) {
  double n = 1;
  for (int d = 2; d < v->rank(); ++d) n *= static_cast<double>(v->sizes()[d].constant().value_or(kUnknownSide));
  return n;
}
// Elements to reorder: an image of one pixel is the same in both layouts.
double Elements(const ir::Value* v) {
  const double places = Pixels(v);
  return places == 1 ? 0 : places * static_cast<double>(v->sizes()[1].constant().value_or(1));
}

// The time that NHWC saves, in multiplications; nullopt where the convolution has no NHWC algorithm.
std::optional<double> BenefitOf(const ir::Node& n) {
  // Convolutions of bytes have no other algorithms, and reorder what lies otherwise.
  if (n.op().base == "integer_conv") return kReorderCost * (Elements(n.Get("input").value()) + Elements(n.output(0)));
  ir::ArgReader c(n);
  const ir::Value *x = n.Get("input").value(), *w = n.Get("weight").value(), *out = n.output(0);
  if (!c.ok() || !IsImage(x) || !IsImage(w) || !IsImage(out)) return std::nullopt;
  const bool transposed =
      n.op().base == "conv_transpose2d" || (n.op().ArgIndex("transposed") >= 0 && c.b("transposed"));
  const int rank = w->rank();
  if (x->rank() != rank || out->rank() != rank) return std::nullopt;
  const ir::Ints stride = c.ints("stride", rank - 2), dilation = c.ints("dilation", rank - 2);
  const auto groups = ir::ExprOf(c.sym("groups")).constant();
  ir::Ints sizes;
  for (const ir::Sym& s : w->sizes()) {
    const auto size = s.constant();
    if (!size || *size < 1) return std::nullopt;
    sizes.push_back(*size);
  }
  if (!c.ok() || !groups || *groups < 1 || (transposed && (*groups > 1 || rank != 4))) return std::nullopt;
  // So do those of bf16 and f16, which go by way of f32 otherwise; single pixels cost nothing to reorder and gain all
  // the same.
  if (x->dtype() == ir::DType::kBFloat16 || x->dtype() == ir::DType::kFloat16)
    return transposed ? std::nullopt : std::optional(kReorderCost * (Elements(x) + Elements(out)) + 1);
  if (transposed && sizes[1] < kernels::MinTransposedOutputChannels(/*planes=*/false)) return std::nullopt;
  // From NCHW, row blocks are reordered and back, cache-resident.
  if (transposed) return kCachedReorderCost * (Elements(x) + Elements(out));
  double taps = 1;
  for (int d = 2; d < rank; ++d) taps *= static_cast<double>(sizes[d]);
  const double work = Pixels(out) * static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) * taps;
  const auto other = [](const ir::Ints& v) {
    return std::any_of(v.begin(), v.end(), [](int64_t by) { return by != 1; });
  };
  // Depthwise ones over NCHW reorder panels of channels and back, cache-resident.
  if (*groups > 1 && sizes[1] == 1) return kCachedReorderCost * (Elements(x) + Elements(out));
  if (*groups > 1 && (sizes[1] < 64 || taps > 1)) return work * (sizes[1] <= 16 ? 2 : sizes[1] < 64 ? 1 : 0);
  if (taps == 1) return work * 0.1;
  // Patches without overlap: their rows are read in place.
  if (sizes[1] <= kMaxNchwChannels && rank == 4 && sizes[2] == stride[0] && sizes[3] == stride[1]) return work * 0.1;
  if (rank == 3) return sizes[1] >= 16 ? work * 0.1 : 0;  // the kernel elements of an output are contiguous
  if (sizes[2] == 3 && sizes[3] == 3 && !other(stride) && !other(dilation) && sizes[1] >= 16) return work * 0.2;
  return sizes[1] >= 16 ? work * 0.35 : 0;
}

}  // namespace

bool PadsByConstant(const ir::Node& n) {
  return n.op_name() == "aten.constant_pad_nd.default" ||
         (n.op_name() == "aten.pad.default" && ir::ArgReader(n).str("mode") == "constant");
}

void ChooseLayouts(const ir::Graph& g, absl::flat_hash_set<const ir::Node*>* last) {
  LayoutRegions regions;
  std::vector<const ir::Node*> convolutions;
  for (const ir::Node* n : g) {
    const bool convolution = IsConvolution(*n);
    if (!convolution && !PropagatesLayout(*n)) continue;
    const ir::Value* out = n->output(0);
    if (!IsImage(out)) continue;
    if (convolution) {
      const std::optional<double> benefit = BenefitOf(*n);
      if (!benefit) continue;
      convolutions.push_back(n);
      regions.AddBenefit(out, *benefit);
      if (const ir::Value* x = n->Get("input").value(); IsImage(x)) regions.Join(x, out);
      continue;
    }
    for (const ir::Value* other : n->outputs())
      if (IsImage(other)) regions.Join(other, out);
    for (const ir::NamedArg& a : n->args())
      a.arg.ForEachValue([&](const ir::Value* v) {
        if (IsImage(v)) regions.Join(v, out);
      });
  }
  // Images that enter from other operators, and those that the caller or an NCHW operator reads.
  absl::flat_hash_set<const ir::Value*> made;
  for (const ir::Node* n : g)
    if ((IsConvolution(*n) || PropagatesLayout(*n)))
      for (const ir::Value* v : n->outputs()) made.insert(v);
  for (const ir::Value* v : regions.images()) {
    bool leaves = g.IsOutput(v);
    for (const ir::Node* user : v->users()) leaves = leaves || (IsConvolution(*user) && !BenefitOf(*user));
    const bool comes = !made.contains(v) && v->sizes()[1].constant().value_or(kMaxNchwChannels + 1) > kMaxNchwChannels;
    if (comes || leaves) regions.AddBenefit(v, -kReorderCost * Elements(v));
  }
  for (const ir::Node* n : convolutions)
    if (regions.benefit(n->output(0)) > 0) last->insert(n);
}

}  // namespace slipway::planner
