// A beginning that fits is searched for from one name: what stands before it in the program, cut at each dot, against
// what stands before the rest of it in each name given. All other names then say whether it fits them too.
#include "weights/sources.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "weights/cast.h"

namespace slipway::weights {
namespace {

// Modules that torch puts around others, anywhere in a name.
constexpr std::string_view kWrappers[] = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"};

std::string WithoutWrappers(std::string_view name) {
  std::string out;
  for (std::string_view part : text::Split(name, '.')) {
    if (std::find(std::begin(kWrappers), std::end(kWrappers), part) != std::end(kWrappers)) continue;
    text::StrAppend(&out, out.empty() ? "" : ".", part);
  }
  return out;
}

// A name in the files begins with `from` where the program's begins with `to`. Both are empty or end in a dot.
struct Beginning {
  std::string from, to;
  auto operator<=>(const Beginning&) const = default;

  std::string Text() const { return text::StrCat("'", from, "NAME' there is '", to, "NAME' of the program"); }
};

// The same exchange in as few parts as say it: "model.layers." for "layers." is "model." for "".
Beginning Shortest(std::string_view from, std::string_view to) {
  const auto cut = [](std::string_view s) { return s.size() < 2 ? 0 : s.rfind('.', s.size() - 2) + 1; };
  while (!from.empty() && !to.empty() && from.substr(cut(from)) == to.substr(cut(to))) {
    from = from.substr(0, cut(from));
    to = to.substr(0, cut(to));
  }
  return {std::string(from), std::string(to)};
}

// Tensors given by their names, or by what is left of these.
using NameMap = std::map<std::string, std::string, std::less<>>;

// All that make one of the names given of the program's.
std::set<Beginning> BeginningsFor(std::string_view name, const NameMap& given) {
  constexpr int kMostCuts = 32;
  std::set<Beginning> found;
  size_t cut = 0;
  for (int cuts = 0; cuts < kMostCuts && cut != name.npos; ++cuts) {
    const std::string_view to = name.substr(0, cut), rest = name.substr(cut);
    for (const auto& [key, original] : given) {
      std::string_view from = key;
      if (text::ConsumeSuffix(&from, rest) && (from.empty() || from.ends_with('.'))) found.insert(Shortest(from, to));
    }
    const size_t dot = name.find('.', cut);
    cut = dot == name.npos ? dot : dot + 1;
  }
  return found;
}

class Finder {
 public:
  Finder(const ir::Program& p, const GivenTensors& given, const SourceOptions& options)
      : p_(p), given_(given), options_(options) {
    Collect();
  }

  absl::StatusOr<Sources> Find() {
    Sources exact;
    for (const Weight& w : weights_)
      if (Wants(w) && given_.contains(w.name)) exact.given[w.name] = w.name;
    Complete(exact);
    if (!LacksKept(exact)) return exact;
    Plain();
    std::vector<std::pair<Beginning, Sources>> fitting, others;
    for (const Beginning& b : BeginningsFor(Anchor(), plain_given_)) {
      auto sources = Under(b);
      if (!sources) continue;
      auto& list = AllFit(*sources) ? fitting : others;
      list.emplace_back(b, *std::move(sources));
    }
    const auto& found = fitting.empty() ? others : fitting;
    if (found.empty()) return exact;
    if (found.size() > 1) {
      std::vector<std::string> ways;
      for (const auto& [b, sources] : found) ways.push_back(b.Text());
      constexpr size_t kShown = 4;
      const bool more = ways.size() > kShown;
      if (more) ways.resize(kShown);
      return absl::InvalidArgumentError(
          text::StrCat("the names fit in several ways: ", text::Join(ways, "; "), more ? "; …" : ""));
    }
    const auto& [b, sources] = found[0];
    Sources out = sources;
    std::string note = b.from.empty() && b.to.empty() ? "" : b.Text();
    if (wrapped_) text::StrAppend(&note, note.empty() ? "" : ", ", "wrappers as '", *wrapped_, ".' left out");
    if (!note.empty()) out.notes.insert(out.notes.begin(), note);
    return out;
  }

 private:
  struct Weight {
    std::string name, plain;
    size_t input = 0;
    size_t readers = 0;           // nodes
    bool embedding = false;       // a reader looks rows up in it
    bool like_embedding = false;  // of the type of one in which a reader does
    bool returned = false;        // an output is the weight
    bool has_values = false;      // in the program
    bool kept = false;            // checkpoints hold it: a parameter or persistent buffer
    int values = -1;              // the same number where weights share their values in the program
  };

  const ir::Program& p_;
  const GivenTensors& given_;
  const SourceOptions& options_;
  std::vector<Weight> weights_;
  std::vector<int> shared_;  // by Weight::values, how many have them
  NameMap plain_given_;
  std::optional<std::string> wrapped_;  // a wrapper that names given or the program's have

  void Collect() {
    std::map<std::string_view, size_t> places;
    std::map<std::tuple<const ir::Storage*, int64_t, ir::DType, std::vector<int64_t>, std::vector<int64_t>>, int>
        values;
    std::set<std::pair<ir::DType, std::vector<int64_t>>> embeddings;
    for (size_t i = 0; i < p_.input_specs.size(); ++i) {
      const ir::InputSpec& s = p_.input_specs[i];
      if (s.kind != ir::InputSpec::kParameter && s.kind != ir::InputSpec::kBuffer &&
          s.kind != ir::InputSpec::kTensorConstant)
        continue;
      const auto [at, fresh] = places.emplace(s.target, weights_.size());
      if (fresh) weights_.emplace_back();
      Weight& w = weights_[at->second];
      if (fresh) {
        w.name = w.plain = s.target;
        w.input = i;
        w.kept = s.kind == ir::InputSpec::kParameter || (s.kind == ir::InputSpec::kBuffer && s.persistent);
        w.has_values = p_.objects.contains(s.target);
        if (const auto t = p_.weights.find(s.target); t != p_.weights.end()) {
          const ir::TensorRef& v = t->second;
          w.has_values = true;
          w.values =
              values.try_emplace({v.storage.get(), v.offset, v.dtype, v.sizes, v.strides}, values.size()).first->second;
          shared_.resize(values.size());
          ++shared_[w.values];
        }
      }
      const ir::Value* v = p_.graph->inputs()[i];
      for (const ir::Node* n : absl::flat_hash_set<const ir::Node*>(v->users().begin(), v->users().end())) {
        ++w.readers;
        w.embedding |= n->op_name() == "aten.embedding.default";
      }
      w.returned |= p_.graph->IsOutput(v);
      if (auto sizes = v->type().StaticSizes(); sizes && w.embedding) embeddings.emplace(v->dtype(), *std::move(sizes));
    }
    for (Weight& w : weights_)
      if (const auto sizes = TypeOf(w).StaticSizes(); sizes && !w.embedding)
        w.like_embedding = embeddings.contains({TypeOf(w).dtype, *sizes});
  }

  static bool Read(const Weight& w) { return w.readers > 0 || w.returned; }
  bool Required(const Weight& w) const { return w.has_values ? w.kept && !options_.allow_missing : Read(w); }
  // Constants have names of torch's making, which mean another one in another program.
  bool Wants(const Weight& w) const {
    return p_.input_specs[w.input].kind != ir::InputSpec::kTensorConstant || !w.has_values;
  }
  const ir::Type& TypeOf(const Weight& w) const { return p_.graph->inputs()[w.input]->type(); }
  bool SameType(const Weight& a, const Weight& b) const {
    const auto sizes = TypeOf(a).StaticSizes();
    return sizes && TypeOf(a).dtype == TypeOf(b).dtype && sizes == TypeOf(b).StaticSizes();
  }
  bool Fits(const Weight& w, const ir::ShardedTensor& t) const {
    const ir::Type& wanted = TypeOf(w);
    return !p_.objects.contains(w.name) && wanted.StaticSizes() == t.sizes &&
           (wanted.dtype == t.dtype || FindCast(t.dtype, wanted.dtype));
  }
  bool AllFit(const Sources& s) const {
    return std::all_of(weights_.begin(), weights_.end(), [&](const Weight& w) {
      const auto it = s.given.find(w.name);
      return it == s.given.end() || Fits(w, given_.at(it->second));
    });
  }

  // Names without wrappers, where these tell them apart as well.
  void Plain() {
    std::set<std::string> program;
    std::optional<std::string> wrapper;
    const auto strip = [&](const std::string& name) {
      std::string plain = WithoutWrappers(name);
      for (std::string_view part : text::Split(name, '.'))
        if (!wrapper && plain != name &&
            std::find(std::begin(kWrappers), std::end(kWrappers), part) != std::end(kWrappers))
          wrapper = part;
      return plain;
    };
    bool apart = true;
    for (const auto& [name, t] : given_) apart &= plain_given_.emplace(strip(name), name).second;
    for (const Weight& w : weights_) apart &= program.insert(strip(w.name)).second;
    if (!apart) {
      plain_given_.clear();
      for (const auto& [name, t] : given_) plain_given_.emplace(name, name);
      return;
    }
    for (Weight& w : weights_) w.plain = WithoutWrappers(w.name);
    wrapped_ = wrapper;
  }

  // Whether a weight may get the values of another one: such a name need not be among those given.
  bool MayBeTied(const Weight& w) const {
    if (w.has_values) return w.values >= 0 && shared_[w.values] > 1;
    return TypeOf(w).sizes.size() >= 2 && (w.readers > 1 || (options_.tied_embeddings && w.like_embedding));
  }

  bool LacksKept(const Sources& s) const {
    return std::any_of(weights_.begin(), weights_.end(), [&](const Weight& w) {
      return w.kept && std::binary_search(s.missing.begin(), s.missing.end(), w.name);
    });
  }

  // A name that the files must hold.
  std::string_view Anchor() const {
    const Weight* any = nullptr;
    for (const Weight& w : weights_) {
      if (!Required(w) || !w.kept) continue;
      if (!any) any = &w;
      if (!MayBeTied(w)) return w.plain;
    }
    return any ? std::string_view(any->plain) : std::string_view();
  }

  // What the program's weights take where names begin so; none where one that a checkpoint holds gets nothing.
  std::optional<Sources> Under(const Beginning& b) const {
    Sources s;
    for (const Weight& w : weights_) {
      const auto it = w.plain.starts_with(b.to)
                          ? plain_given_.find(text::StrCat(b.from, std::string_view(w.plain).substr(b.to.size())))
                          : plain_given_.end();
      if (it != plain_given_.end() && Wants(w))
        s.given[w.name] = it->second;
      else if (Required(w) && w.kept && !MayBeTied(w))
        return std::nullopt;
    }
    Complete(s);
    if (LacksKept(s)) return std::nullopt;
    return s;
  }

  // The one weight with a tensor that `choose` takes; null where those differ, or where there is none.
  template <typename F>
  const Weight* One(const Sources& s, F choose) const {
    const Weight* found = nullptr;
    for (const Weight& v : weights_) {
      if (!s.given.contains(v.name) || !choose(v)) continue;
      if (found && !SameTensor(s.given.at(found->name), s.given.at(v.name))) return nullptr;
      if (!found) found = &v;
    }
    return found;
  }
  bool SameTensor(const std::string& a, const std::string& b) const {
    const ir::TensorRef *x = given_.at(a).whole(), *y = given_.at(b).whole();
    return a == b || (x && y && x->storage == y->storage && x->offset == y->offset && x->dtype == y->dtype &&
                      x->sizes == y->sizes && x->strides == y->strides);
  }

  const Weight* TiedTo(const Weight& w, const Sources& s) const {
    if (!MayBeTied(w) && (w.has_values || Read(w))) return nullptr;
    if (w.has_values) return One(s, [&](const Weight& v) { return v.values == w.values; });
    // Of a weight with two names, torch.export reads one everywhere, and keeps the other as an input that nothing
    // reads.
    const Weight* found = nullptr;
    if (w.readers > 1) found = One(s, [&](const Weight& v) { return !v.has_values && !Read(v) && SameType(v, w); });
    if (!Read(w) && TypeOf(w).sizes.size() >= 2)
      found = One(s, [&](const Weight& v) { return !v.has_values && v.readers > 1 && SameType(v, w); });
    if (!found && options_.tied_embeddings && w.like_embedding)
      found = One(s, [&](const Weight& v) { return v.embedding && SameType(v, w); });
    return found;
  }

  // Tied weights, and what is missing then.
  void Complete(Sources& s) const {
    std::map<std::string, std::string> tied;
    for (const Weight& w : weights_)
      if (!s.given.contains(w.name) && (Required(w) || (!w.has_values && w.kept)))
        if (const Weight* v = TiedTo(w, s)) {
          tied[w.name] = s.given.at(v->name);
          s.notes.push_back(text::StrCat("'", w.name, "' is tied to '", v->name, "' and has its values"));
        }
    s.given.merge(tied);
    for (const Weight& w : weights_)
      if (Required(w) && !s.given.contains(w.name)) s.missing.push_back(w.name);
    std::sort(s.missing.begin(), s.missing.end());
  }
};

}  // namespace

absl::StatusOr<Sources> FindSources(const ir::Program& p, const GivenTensors& given, const SourceOptions& options) {
  return Finder(p, given, options).Find();
}

std::string RenameThatFits(const ir::Program& p, const GivenTensors& given, const std::vector<std::string>& missing) {
  if (missing.empty()) return "";
  std::map<std::string_view, const ir::Type*> types;
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (p.input_specs[i].is_weight()) types[p.input_specs[i].target] = &p.graph->inputs()[i]->type();
  NameMap free;
  for (const auto& [name, t] : given)
    if (!types.contains(name)) free.emplace(name, name);
  const auto fits = [&](const Beginning& b) {
    return std::all_of(missing.begin(), missing.end(), [&](std::string_view m) {
      const auto t = m.starts_with(b.to) ? free.find(text::StrCat(b.from, m.substr(b.to.size()))) : free.end();
      return t != free.end() && types[m]->StaticSizes() == given.at(t->second).sizes;
    });
  };
  std::optional<Beginning> found;
  for (const Beginning& b : BeginningsFor(missing[0], free)) {
    if (!fits(b)) continue;
    if (found) return "";
    found = b;
  }
  if (!found) return "";
  std::string out = "^";
  for (char c : found->from) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') out += '\\';
    out += c;
  }
  return text::StrCat(out, "=>", found->to);
}

}  // namespace slipway::weights
