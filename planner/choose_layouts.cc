// Convolutions that hand images (of two dims, or signals of one) to each other, directly or through what works on
// either layout, are one region, which has one layout: the one that its convolutions together gain by. Between regions,
// and where an image comes from or goes to something else, whoever reads it in another layout lays it out anew.
//
// With channels last, convolutions of small groups gain most (vectors are of channels, which every place has alike),
// depthwise ones what laying out their panels takes, pointwise ones, those by Winograd's transforms and those of
// signals a little. What is gained has to be more than laying out anew takes where images come into a region and leave
// it.
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

constexpr int64_t kSide = 14;            // of an image whose size is not known
constexpr double kLaying = 16;           // multiplications in whose time an element is laid out anew
constexpr double kLayingNear = 5;        // the same where it stays in the cache
constexpr int64_t kMaxNchwChannels = 4;  // convolutions read planes of so few as they are

bool IsImage(const ir::Value* v) {
  return v != nullptr && v->type().is_tensor() && (v->rank() == 3 || v->rank() == 4) &&
         v->dtype() == ir::DType::kFloat32;
}
// Whether the node gives images in the layout that it gets them in.
bool Carries(const ir::Node& n) {
  if (n.op().traits.elementwise) return true;
  const std::string_view name = n.op().base;
  if (PadsByConstant(n)) return true;
  for (std::string_view carrier :
       {"batch_norm", "max_pool2d", "avg_pool2d", "cat", "slice", "split", "split_with_sizes", "chunk", "narrow",
        "dropout", "_native_batch_norm_legit_no_training", "group_norm", "native_group_norm", "instance_norm"})
    if (name == carrier) return true;
  return name.find("upsample_") != std::string_view::npos;
}
bool IsConvolution(const ir::Node& n) {
  const std::string_view name = n.op().base;
  return name == "conv1d" || name == "conv2d" || name == "convolution" || name == "conv_transpose2d";
}

class Regions {
 public:
  // The region of an image; a fresh one where it has none.
  int Of(const ir::Value* v) {
    auto [it, fresh] = of_.try_emplace(v, static_cast<int>(parent_.size()));
    if (fresh) parent_.push_back(it->second), gain_.push_back(0), images_.push_back(v);
    return Root(it->second);
  }
  void Join(const ir::Value* a, const ir::Value* b) {
    const int x = Of(a), y = Of(b);
    if (x == y) return;
    parent_[y] = x;
    gain_[x] += gain_[y];
  }
  void Gain(const ir::Value* v, double by) { gain_[Of(v)] += by; }
  const std::vector<const ir::Value*>& images() const { return images_; }  // in the order in which they came
  double gain(const ir::Value* v) { return gain_[Of(v)]; }

 private:
  int Root(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  absl::flat_hash_map<const ir::Value*, int> of_;
  std::vector<const ir::Value*> images_;
  std::vector<int> parent_;
  std::vector<double> gain_;
};

double Places(const ir::Value* v) {
  double n = 1;
  for (int d = 2; d < v->rank(); ++d) n *= static_cast<double>(v->sizes()[d].constant().value_or(kSide));
  return n;
}
// Of what has to be laid out anew: an image of one place lies alike in both.
double Elements(const ir::Value* v) {
  const double places = Places(v);
  return places == 1 ? 0 : places * static_cast<double>(v->sizes()[1].constant().value_or(1));
}

// About how many multiplications' time the convolution saves with channels last; nullopt where it cannot be done so.
std::optional<double> GainOf(const ir::Node& n) {
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
  if (transposed && sizes[1] < kernels::MinTransposedOutputChannels(/*planes=*/false)) return std::nullopt;
  // Over planes, bands are laid out anew, near, and back.
  if (transposed) return kLayingNear * (Elements(x) + Elements(out));
  double taps = 1;
  for (int d = 2; d < rank; ++d) taps *= static_cast<double>(sizes[d]);
  const double work = Places(out) * static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) * taps;
  const auto other = [](const ir::Ints& v) {
    return std::any_of(v.begin(), v.end(), [](int64_t by) { return by != 1; });
  };
  // Depthwise ones over planes lay out panels of channels, near, and back.
  if (*groups > 1 && sizes[1] == 1) return kLayingNear * (Elements(x) + Elements(out));
  if (*groups > 1 && (sizes[1] < 64 || taps > 1)) return work * (sizes[1] <= 16 ? 2 : sizes[1] < 64 ? 1 : 0);
  if (taps == 1) return work * 0.1;
  // Patches beside each other have no neighbours in common: rows of them are read where they lie.
  if (sizes[1] <= kMaxNchwChannels && rank == 4 && sizes[2] == stride[0] && sizes[3] == stride[1]) return work * 0.1;
  if (rank == 3) return sizes[1] >= 16 ? work * 0.1 : 0;  // the taps of a result lie together
  if (sizes[2] == 3 && sizes[3] == 3 && !other(stride) && !other(dilation) && sizes[1] >= 16) return work * 0.2;
  return sizes[1] >= 16 ? work * 0.35 : 0;
}

}  // namespace

bool PadsByConstant(const ir::Node& n) {
  return n.op_name() == "aten.constant_pad_nd.default" ||
         (n.op_name() == "aten.pad.default" && ir::ArgReader(n).str("mode") == "constant");
}

void ChooseLayouts(const ir::Graph& g, absl::flat_hash_set<const ir::Node*>* last) {
  Regions regions;
  std::vector<const ir::Node*> convolutions;
  for (const ir::Node* n : g) {
    const bool convolution = IsConvolution(*n);
    if (!convolution && !Carries(*n)) continue;
    const ir::Value* out = n->output(0);
    if (!IsImage(out)) continue;
    if (convolution) {
      const std::optional<double> gain = GainOf(*n);
      if (!gain) continue;
      convolutions.push_back(n);
      regions.Gain(out, *gain);
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
  // What comes from elsewhere, and what the caller or an operator of planes takes.
  absl::flat_hash_set<const ir::Value*> made;
  for (const ir::Node* n : g)
    if ((IsConvolution(*n) || Carries(*n)))
      for (const ir::Value* v : n->outputs()) made.insert(v);
  for (const ir::Value* v : regions.images()) {
    bool leaves = g.IsOutput(v);
    for (const ir::Node* user : v->users()) leaves = leaves || (IsConvolution(*user) && !GainOf(*user));
    const bool comes = !made.contains(v) && v->sizes()[1].constant().value_or(kMaxNchwChannels + 1) > kMaxNchwChannels;
    if (comes || leaves) regions.Gain(v, -kLaying * Elements(v));
  }
  for (const ir::Node* n : convolutions)
    if (regions.gain(n->output(0)) > 0) last->insert(n);
}

}  // namespace slipway::planner
