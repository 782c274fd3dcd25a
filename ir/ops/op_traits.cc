// Parsing of traits, and the two questions about nodes that follow from them. Words of the data map to fields by
// tables, so a new trait is a field, a row here and its line of explanation in schemas/op_traits.txt.
#include "ir/ops/op_traits.h"

#include <iterator>
#include <vector>

#include "base/text.h"
#include "ir/graph.h"
#include "ir/ops/op_table.h"

namespace slipway::ir {
namespace {

template <typename T>
struct Word {
  std::string_view word;
  T value;
};
constexpr Word<bool OpTraits::*> kFlags[] = {
    {"elementwise", &OpTraits::elementwise},
    {"assertion", &OpTraits::assertion},
    {"misdeclared", &OpTraits::misdeclared},
    {"in-place-view", &OpTraits::in_place_view},
    {"random", &OpTraits::random},
    {"product", &OpTraits::product},
    {"fill", &OpTraits::fill},
    {"bounded", &OpTraits::bounded},
    {"clamp", &OpTraits::clamp},
    {"propagates-layout", &OpTraits::propagates_layout},
    {"chooses-elements", &OpTraits::chooses_elements},
};
constexpr Word<std::string_view OpTraits::*> kArguments[] = {
    {"cast", &OpTraits::cast},
    {"identity", &OpTraits::identity},
    {"identity-when-idle", &OpTraits::identity_when_idle},
    {"updates-statistics", &OpTraits::updates_statistics},
};
constexpr Word<AutocastClass> kAutocast[] = {
    {"lower", AutocastClass::kLower},
    {"float32", AutocastClass::kFloat32},
    {"widest", AutocastClass::kWidest},
};
constexpr Word<NarrowClass> kNarrow[] = {{"rounded", NarrowClass::kRounded}, {"sum", NarrowClass::kSum}};
constexpr Word<ComplexClass> kComplex[] = {{"parts", ComplexClass::kParts},
                                           {"decomposition", ComplexClass::kDecomposition}};
constexpr Word<ViewCondition> kConditions[] = {
    {"if-viewable", ViewCondition::kIfViewable},
    {"if-contiguous", ViewCondition::kIfContiguous},
    {"if-same-sizes", ViewCondition::kIfSameSizes},
    {"if-unchanged", ViewCondition::kIfUnchanged},
    {"if-idle", ViewCondition::kIfIdle},
    {"if-single", ViewCondition::kIfSingle},
};
// clang-format off
constexpr Word<ViewInverse> kInverses[] = {
    {"same", ViewInverse::kSame},         {"reshape", ViewInverse::kReshape},
    {"reinterpret", ViewInverse::kReinterpret},
    {"unexpand", ViewInverse::kUnexpand}, {"itself", ViewInverse::kItself},     {"permute", ViewInverse::kPermute},
    {"movedim", ViewInverse::kMovedim},   {"slice", ViewInverse::kSlice},       {"select", ViewInverse::kSelect},
    {"narrow", ViewInverse::kNarrow},     {"diagonal", ViewInverse::kDiagonal}, {"strided", ViewInverse::kStrided},
    {"stack", ViewInverse::kStack},       {"concatenate", ViewInverse::kConcatenate},
    {"hsplit", ViewInverse::kHsplit},     {"vsplit", ViewInverse::kVsplit},     {"dsplit", ViewInverse::kDsplit},
};
// clang-format on

template <typename T, size_t n>
const T* Find(const Word<T> (&table)[n], std::string_view word) {
  for (const Word<T>& w : table)
    if (w.word == word) return &w.value;
  return nullptr;
}
template <typename T, size_t n>
bool Set(const Word<T> (&table)[n], std::string_view word, T* field) {
  const T* found = Find(table, word);
  if (found) *field = *found;
  return found != nullptr;
}

// One trait: WORD or WORD(A) or WORD(A,B).
bool Parse(std::string_view trait, OpTraits& t) {
  std::string_view word = trait;
  std::vector<std::string_view> in;
  if (const size_t open = trait.find('('); open != std::string_view::npos) {
    if (!trait.ends_with(')')) return false;
    word = trait.substr(0, open);
    in = text::Split(trait.substr(open + 1, trait.size() - open - 2), ',');
    for (std::string_view a : in)
      if (a.empty()) return false;
  }
  if (const auto* flag = Find(kFlags, word)) {
    t.*(*flag) = true;
    if (word == "random" && in.size() <= 2) {
      if (!in.empty()) t.random_probability = in[0];
      if (in.size() == 2) t.random_training = in[1];
      return true;
    }
    if (word == "in-place-view" && in.size() == 1) t.in_place_view_op = in[0];
    return in.size() <= (word == "in-place-view" ? 1u : 0u);
  }
  if (const auto* argument = Find(kArguments, word)) {
    if (in.size() == 1) t.*(*argument) = in[0];
    return in.size() == 1;
  }
  if (word == "view") {
    if (in.empty() || in.size() > 2) return false;
    t.view_of = in[0];
    t.view = ViewCondition::kAlways;
    return in.size() == 1 || Set(kConditions, in[1], &t.view);
  }
  if (in.size() != 1) return word == "none" && in.empty();
  if (word == "autocast") return Set(kAutocast, in[0], &t.autocast);
  if (word == "narrow") return Set(kNarrow, in[0], &t.narrow);
  if (word == "complex") return Set(kComplex, in[0], &t.complex);
  if (word == "inverse") return Set(kInverses, in[0], &t.inverse);
  return word == "body" && text::ParseNumber(in[0], &t.body) && t.body >= 0;
}

// Whether an argument is surely 0 or false.
bool IsZero(const Node& n, std::string_view name) {
  if (name.empty()) return false;
  const Arg& a = n.Get(name);
  if (auto d = a.get<double>()) return *d == 0;
  if (auto i = a.get<int64_t>()) return *i == 0;
  if (auto b = a.get<bool>()) return !*b;
  return false;
}

}  // namespace

std::optional<OpTraits> ParseOpTraits(std::string_view words) {
  OpTraits t{.words = text::Strip(words)};
  for (std::string_view trait : text::Split(words, ' ', true))
    if (!Parse(trait, t)) return std::nullopt;
  return t;
}

bool IsRandom(const Node& n) {
  for (const ArgDef& a : n.op().args)
    if (a.type == "Generator") return true;
  const OpTraits& t = n.op().traits;
  return t.random && !IsZero(n, t.random_probability) && !IsZero(n, t.random_training);
}

bool IsPure(const Node& n) {
  if (!n.op().known || n.op().variadic || n.op().mutates() || n.outputs().empty()) return false;
  for (const NamedArg& a : n.args())
    if (a.arg.is<SubGraph>()) return false;
  return !IsRandom(n);
}

}  // namespace slipway::ir
