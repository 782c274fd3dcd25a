// Source lines are read as text: a number as a token of its own, words that ask for sizes.
#include "dynamic_shapes/evidence.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "base/text.h"
#include "dynamic_shapes/size_args.h"
#include "ir/ops/op_numbers.h"
#include "ir/ops/op_table.h"

namespace slipway::dynamic_shapes {
namespace {

using ir::Node;
using ir::NumberRole;
using ir::Sym;
using ir::Value;

// The innermost line of code, "" without one.
std::string_view LineOf(const Node& n) {
  if (!n.source()) return "";
  std::string_view found;
  for (std::string_view line : text::Split(n.source()->stack_trace, '\n')) {
    line = text::Strip(line);
    if (!line.empty() && !line.starts_with("File \"")) found = line;
  }
  return found;
}

bool InWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool HasToken(std::string_view line, std::string_view token) {
  for (size_t at = line.find(token); at != std::string_view::npos; at = line.find(token, at + 1)) {
    const bool begins = at == 0 || (!InWord(line[at - 1]) && line[at - 1] != '.');
    const size_t end = at + token.size();
    if (begins && (end == line.size() || !InWord(line[end]))) return true;
  }
  return false;
}

// Words of Python and names that stand for no number.
constexpr std::string_view kNoNumbers[] = {"x",    "in",     "if",   "is",     "or",   "and",   "not",   "for",
                                           "else", "return", "self", "None",   "True", "False", "torch", "nn",
                                           "F",    "math",   "np",   "lambda", "def",  "float", "int",   "len"};

struct Word {
  std::string_view text;
  bool attribute = false;  // of self, which holds what the layer was made with
  bool called = false;     // the name of a function, or of an argument: dim=1
  bool opens = false;      // of a function that is called by its own name, or as an attribute of self
};
std::vector<Word> WordsOf(std::string_view line) {
  std::vector<Word> out;
  for (size_t i = 0; i < line.size();) {
    if (!InWord(line[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < line.size() && InWord(line[end])) ++end;
    Word w{line.substr(i, end - i)};
    const bool member = i > 0 && line[i - 1] == '.';
    w.attribute = member && !out.empty() && (out.back().text == "self" || out.back().attribute);
    std::string_view rest = text::StripLeft(line.substr(end));
    w.opens = rest.starts_with('(') && w.text != "return";
    w.called = rest.starts_with('(') || (rest.starts_with('=') && !rest.starts_with("=="));
    // Of a member of something else the whole is what matters: x.T
    if (!std::isdigit(static_cast<unsigned char>(w.text[0])) && (w.attribute || !member)) out.push_back(w);
    i = end;
  }
  return out;
}

// What is assigned, returned or passed on, without what it is assigned to.
std::string_view RightSide(std::string_view line) {
  int depth = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c != '=' || depth > 0) continue;
    const bool relation = (i + 1 < line.size() && line[i + 1] == '=') ||
                          (i > 0 && std::string_view("=<>!").find(line[i - 1]) != std::string_view::npos);
    if (!relation) return line.substr(i + 1);
  }
  return line;
}

// Whether a line asks a tensor for its size.
bool AsksForSize(std::string_view line) {
  for (std::string_view part : {".shape", ".size(", "len(", ".numel(", ".nelement("})
    if (text::Contains(line, part)) return true;
  return false;
}
// Whether a line has a name of something that is a size: seq_len, batch_size, n.
bool NamesSize(const std::vector<Word>& words) {
  for (const Word& w : words) {
    if (w.called) continue;
    if (w.text.size() <= 2 && !w.attribute &&
        std::find(std::begin(kNoNumbers), std::end(kNoNumbers), w.text) == std::end(kNoNumbers))
      return true;
    for (std::string_view part :
         {"shape", "size", "len", "seq", "batch", "bsz", "height", "width", "numel", "count", "num_", "dim"})
      if (text::Contains(w.text, part)) return true;
  }
  return false;
}
// How many tensors a line is about: those of the node, and of nodes of the same line those that these are made of.
size_t TensorsOf(const Node& n, std::string_view line) {
  constexpr size_t kMany = 32;  // more than a line names
  absl::flat_hash_set<const Value*> seen;
  std::vector<const Node*> open = {&n};
  size_t count = 0;
  while (!open.empty() && seen.size() < kMany) {
    const Node& at = *open.back();
    open.pop_back();
    for (const ir::NamedArg& a : at.args())
      a.arg.ForEachValue([&](Value* v) {
        if (!v->type().is_tensor() || !seen.insert(v).second) return;
        if (v->producer() && LineOf(*v->producer()) == line)
          open.push_back(v->producer());
        else
          ++count;
      });
  }
  return open.empty() ? count : seen.size();
}
// Local names of a line that are more than its tensors: one of them may be the number.
bool NamesMoreThan(const std::vector<Word>& words, size_t tensors) {
  absl::flat_hash_set<std::string_view> names;
  for (const Word& w : words)
    if (!w.attribute && !w.called &&
        std::find(std::begin(kNoNumbers) + 1, std::end(kNoNumbers), w.text) == std::end(kNoNumbers))
      names.insert(w.text);
  return names.size() > tensors;
}
// A line that calls a function of the program's own, of which files keep no lines: any number may come from there.
bool CallsOwn(const std::vector<Word>& words) {
  constexpr std::string_view kBuiltIn[] = {"float", "int",   "len",  "range", "max",   "min",        "abs",
                                           "slice", "tuple", "list", "zip",   "super", "isinstance", "print"};
  return std::any_of(words.begin(), words.end(), [&](const Word& w) {
    return w.opens && std::find(std::begin(kBuiltIn), std::end(kBuiltIn), w.text) == std::end(kBuiltIn);
  });
}
// Whether a line has the operation itself: its name, or what Python writes for it.
bool Shows(const Node& n, std::string_view line) {
  std::string_view base = n.op().base;
  while (base.ends_with('_')) base.remove_suffix(1);
  if (text::Contains(line, text::StrCat(base, "("))) return true;
  constexpr std::pair<std::string_view, std::string_view> kWritten[] = {
      {"mul", "*"},           {"div", "/"},       {"add", "+"},   {"sub", "-"},    {"rsub", "-"}, {"pow", "**"},
      {"floor_divide", "//"}, {"remainder", "%"}, {"lt", "<"},    {"gt", ">"},     {"le", "<="},  {"ge", ">="},
      {"eq", "=="},           {"ne", "!="},       {"slice", "["}, {"select", "["},
  };
  for (const auto& [name, sign] : kWritten) {
    if (name != base) continue;
    for (size_t at = line.find(sign); at != std::string_view::npos; at = line.find(sign, at + 1)) {
      // Arguments that are unpacked are no product: f(*x).
      const std::string_view before = text::Strip(line.substr(0, at));
      if (!before.empty() && before.back() != '(' && before.back() != ',' && before.back() != '*') return true;
    }
  }
  return false;
}
// A line that is the beginning of a call of the operator only: the number stands on one of the next lines.
bool BeginsCallOf(const Node& n, std::string_view line) {
  std::string_view base = n.op().base;
  while (base.ends_with('_')) base.remove_suffix(1);
  return std::count(line.begin(), line.end(), '(') > std::count(line.begin(), line.end(), ')') &&
         text::Contains(line, text::StrCat(base, "("));
}

bool Has(const Value& v, Sym symbol) {
  for (Sym s : v.sizes())
    for (Sym x : s.Symbols())
      if (x == symbol) return true;
  return false;
}

// Walks up to `steps` nodes back along tensors, over at most `left` nodes in all.
template <typename F>
bool Before(const Value* v, int steps, const F& f, int& left) {
  if (!v || !v->producer() || steps == 0 || left-- <= 0) return false;
  const Node& n = *v->producer();
  if (f(n, *v)) return true;
  bool found = false;
  for (const ir::NamedArg& a : n.args())
    a.arg.ForEachValue([&](Value* x) {
      if (!found && x->type().is_tensor()) found = Before(x, steps - 1, f, left);
    });
  return found;
}
template <typename F>
bool Before(const Value* v, int steps, const F& f) {
  int left = 300;
  return Before(v, steps, f, left);
}

int Occurrences(const Value& v, Sym symbol) {
  int n = 0;
  for (Sym s : v.sizes())
    for (Sym x : s.Symbols()) n += x == symbol;
  return n;
}
// Whether a node took away a dimension of that size; products of matrices count where `products` says so.
bool WasReduced(const Value* v, Sym symbol, bool products) {
  return Before(v, 4, [&](const Node& n, const Value& result) {
    const std::string_view base = n.op().base;
    if (base == "select" || base == "slice" || (!products && (base == "matmul" || base == "bmm" || base == "mm")))
      return false;
    const int left = Occurrences(result, symbol);
    bool fewer = false;
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue([&](Value* x) { fewer |= x->type().is_tensor() && Occurrences(*x, symbol) > left; });
    return fewer;
  });
}
bool FixedSizeExplains(const Value* v, double size) {
  return Before(v, 5, [&](const Node& n, const Value&) {
    bool found = false;
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue([&](Value* x) {
        if (!x->type().is_tensor()) return;
        for (Sym s : x->sizes()) found |= s.is_constant() && static_cast<double>(*s.constant()) == size;
      });
    return found;
  });
}

bool Occurs(Sym e, Sym symbol) {
  for (Sym x : e.Symbols())
    if (x == symbol) return true;
  return false;
}

bool Near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

// What programs compute from sizes. `usual` numbers are met everywhere: only a line that asks for a size makes them
// one.
bool IsUsual(double v) {
  v = std::abs(v);
  return v <= 2 && v * 4 == std::floor(v * 4);
}
// Whether a fixed size near by is that number, or makes it as sizes of layers do: 1 / sqrt(64).
bool FixedSizeMakes(const Value* v, double number) {
  const auto makes = [&](const Value* x) {
    for (Sym s : x->sizes()) {
      if (!s.is_constant() || *s.constant() < 2) continue;
      const double d = static_cast<double>(*s.constant());
      for (double made : {d, 1 / d, std::sqrt(d), 1 / std::sqrt(d), 1 / std::sqrt(std::sqrt(d))})
        if (Near(std::abs(number), made)) return true;
    }
    return false;
  };
  if (v && makes(v)) return true;
  return Before(v, 5, [&](const Node& n, const Value&) {
    bool found = false;
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue([&](Value* x) { found |= x->type().is_tensor() && makes(x); });
    return found;
  });
}

constexpr size_t kMaxPaired = 16;  // sizes whose pairs are tried
constexpr int64_t kMaxRead = 64;   // elements of a constant that are looked at

class Finder {
 public:
  Finder(const std::vector<Sym>& symbols, const std::function<bool(Sym)>& leading,
         const std::function<std::optional<int64_t>(Sym)>& value, std::vector<AmbiguousScalar>* ambiguous)
      : symbols_(symbols), leading_(leading), value_(value), ambiguous_(ambiguous) {}

  void Visit(const ir::Graph& g) {
    for (Node* n : g) {
      for (const ir::NamedArg& a : n->args())
        if (auto sub = a.arg.get<ir::SubGraph>()) Visit(**sub);
      for (const SizeArg& a : SizeArgsOf(*n)) {
        if (a.role == NumberRole::kWindow) {
          const Value* x = FirstTensor(*n);
          const auto windows = n->Find(a.arg)->get<ir::Ints>();
          if (!x || !windows) continue;
          // One number stands for all dimensions.
          const int last = static_cast<int>(windows->size()) == 1 ? -1 : a.element - static_cast<int>(windows->size());
          for (int axis = last == -1 && windows->size() == 1 ? 2 : x->rank() + last; axis < x->rank(); ++axis) {
            Look(*n, a.role, {static_cast<double>(a.value), true}, x, axis);
            if (windows->size() > 1) break;
          }
        } else if (ir::IsElementary(a.role) || a.frozen) {
          Look(*n, a.role, {static_cast<double>(a.value), true});
        }
      }
      for (const ir::ArgDef& def : n->op().args) {
        const NumberRole role = ir::RoleOfNumber(n->op(), def);
        const ir::Arg* a = ir::IsElementary(role) || role == NumberRole::kSize ? n->Find(def.name) : nullptr;
        if (auto d = a ? a->get<double>() : nullptr)
          Look(*n, ir::IsElementary(role) ? role : NumberRole::kOperand, {*d, false});
      }
    }
  }
  // A constant that the trace lifted out of the program: its elements, and how many they are.
  void Constant(const Value& v, const ir::TensorRef& t) {
    if (v.users().empty()) return;
    const Node& n = *v.users()[0];
    for (Sym size : v.sizes()) {
      const double k = static_cast<double>(size.constant().value_or(0));
      if (k < 3 || Evident(n, k) == Evidence::kWritten || Evident(n, k) == Evidence::kUnlikely)
        continue;  // a list has as many elements as it has
      for (Sym s : symbols_)
        if (value_(s) == size.constant()) AddAmbiguous(n, s, k);
    }
    std::optional<std::vector<double>> numbers = Read(t);
    if (!numbers) return;
    const bool floats = ir::IsFloating(t.dtype);
    for (double number : *numbers) {
      const Evidence evidence = Evident(n, number);
      if (number < 3 || evidence == Evidence::kWritten) continue;
      for (Sym s : symbols_) {
        auto k = value_(s);
        if (!k) continue;
        if (static_cast<double>(*k) == number)
          AddAmbiguous(n, s, number);
        else if (evidence != Evidence::kUnlikely && *k > 2 && (numbers->size() == 1 || !floats) &&
                 IsDerivedFrom(number, static_cast<double>(*k)))
          AddAmbiguous(n, s, number);
      }
      if (numbers->size() == 1) Pairs(n, evidence, number);
    }
  }

 private:
  struct Number {
    double value;
    bool integer;
  };
  const std::vector<Sym>& symbols_;
  const std::function<bool(Sym)>& leading_;
  const std::function<std::optional<int64_t>(Sym)>& value_;
  std::vector<AmbiguousScalar>* ambiguous_;

  void AddAmbiguous(const Node& n, Sym s, double number) {
    ambiguous_->push_back(
        {&n, s, number == std::floor(number) ? std::to_string(static_cast<int64_t>(number)) : std::to_string(number)});
  }
  static Evidence Evident(const Node& n, double v) {
    return v == std::floor(v) && std::abs(v) < 1e15 ? EvidenceOf(n, static_cast<int64_t>(v))
                                                    : EvidenceOf(n, std::nullopt);
  }
  static std::optional<std::vector<double>> Read(const ir::TensorRef& t) {
    int64_t count = 1;
    for (int64_t s : t.sizes)
      if (s > kMaxRead || (count *= s) > kMaxRead) return std::nullopt;
    auto bytes = ir::ReadDense(t, static_cast<uint64_t>(kMaxRead) * 8);
    if (!bytes.ok()) return std::nullopt;
    std::vector<double> out;
    const auto as = [&](auto x) -> std::optional<std::vector<double>> {
      if (bytes->size() != sizeof(x) * static_cast<size_t>(count)) return std::nullopt;
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(&x, bytes->data() + sizeof(x) * static_cast<size_t>(i), sizeof(x));
        out.push_back(static_cast<double>(x));
      }
      return out;
    };
    if (t.dtype == ir::DType::kInt64) return as(int64_t{});
    if (t.dtype == ir::DType::kInt32) return as(int32_t{});
    if (t.dtype == ir::DType::kFloat32) return as(float{});
    if (t.dtype == ir::DType::kFloat64) return as(double{});
    return std::nullopt;
  }

  // Numbers made of two sizes.
  void Pairs(const Node& n, Evidence evidence, double number) {
    if (evidence < Evidence::kUnseen || IsUsual(number)) return;
    for (double power : {1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 10.0, 100.0, 1000.0})
      if (Near(std::abs(number), power)) return;
    for (size_t i = 0; i < symbols_.size() && i < kMaxPaired; ++i)
      for (size_t j = 0; j < i; ++j) {
        auto a = value_(symbols_[i]), b = value_(symbols_[j]);
        if (!a || !b || !IsDerivedFrom(number, static_cast<double>(*a), static_cast<double>(*b))) continue;
        AddAmbiguous(n, symbols_[i], number);
        AddAmbiguous(n, symbols_[j], number);
      }
  }

  void Look(const Node& n, NumberRole role, Number number, const Value* within = nullptr, int axis = 0) {
    const Value* x = FirstTensor(n);
    const Value* result = n.output();
    if (!result || !result->type().is_tensor()) return;
    const Evidence evidence = Evident(n, number.value);
    if (evidence < Evidence::kPossible) return;
    const bool any_form = evidence >= Evidence::kUnseen;
    const ir::DType dtype = x ? x->dtype() : result->dtype();
    const bool floats = ir::IsFloating(dtype) || ir::IsComplex(dtype);
    const bool division = role == NumberRole::kDivisor;
    const double v = number.value;
    for (Sym s : symbols_) {
      auto k = value_(s);
      if (!k) continue;
      const double size = static_cast<double>(*k);
      bool ambiguous = false;
      if (role == NumberRole::kWindow) {
        // As large as what it slides over.
        const auto extent = within && Occurs(within->sizes()[axis], s) ? value_(within->sizes()[axis]) : std::nullopt;
        const auto window = static_cast<int64_t>(v);
        ambiguous = extent && window > 2 &&
                    (*extent == window || (any_form && window > 3 && *extent % window == 0 && *extent / window <= 4));
      } else if (!ir::IsElementary(role)) {
        // How many elements there are, or a setting.
        ambiguous = v >= 2 && (v == size || (any_form && v > 2 && size > 2 && IsDerivedFrom(v, size)));
        if (role == NumberRole::kBound || role == NumberRole::kSetting) ambiguous &= v > 2;
      } else if (std::abs(v) == size) {
        // (Doubling and halving is what a 2 is for, where the size is that of a batch.)
        ambiguous =
            size > 2 || evidence == Evidence::kLikely || !leading_(s) || (floats && Reduces(role, number, x, s));
        if (size == 2 && role == NumberRole::kExponent)
          ambiguous = evidence == Evidence::kLikely;  // squares are met everywhere
      } else if (!floats) {
        // Integers: indices, positions, numbers of things.
        ambiguous = size > 2 && ((v > 2 && v == size - 1) || (any_form && !IsUsual(v) && IsDerivedFrom(v, size)));
      } else if (any_form && size > 2 && !IsUsual(v) && IsDerivedFrom(v, size) && !FixedSizeMakes(x, v)) {
        ambiguous = true;
      } else if (size > 2 && v == size - 1) {
        ambiguous = division && x && Has(*x, s) && !leading_(s);
      } else if (Near(v, 1 / size)) {
        ambiguous = WasReduced(x, s, true) && !FixedSizeExplains(x, size);
      } else if (Near(v, std::sqrt(size)) || Near(v, 1 / std::sqrt(size))) {
        ambiguous = WasReduced(x, s, false) && !FixedSizeExplains(x, size);
      }
      if (ambiguous) AddAmbiguous(n, s, v);
    }
    if (!FixedSizeMakes(x, v)) Pairs(n, evidence, v);
  }
  // Divided by a size that is still there or was reduced a few nodes before.
  bool Reduces(NumberRole role, Number number, const Value* x, Sym s) const {
    const bool division = role == NumberRole::kDivisor;
    return (division || role == NumberRole::kFactor) &&
           (WasReduced(x, s, true) || (division && number.integer && x && Has(*x, s) && !leading_(s)));
  }
};

}  // namespace

bool IsDerivedFrom(double v, double k) {
  v = std::abs(v);
  const double sums[] = {k - 1, k + 1, k - 2, k + 2, 2 * k - 1, 2 * k + 1};
  const double multiples[] = {2 * k, 3 * k, 4 * k, k * k, k * (k - 1) / 2, k * (k + 1) / 2};
  const double parts[] = {k / 2, std::floor(k / 2), std::floor(k / 3), std::floor(k / 4),
                          1 / k, 1 / (k - 1),       1 / (k + 1)};
  // (Attention that is written out multiplies queries and keys by the root of the root.)
  const double others[] = {std::sqrt(k), 1 / std::sqrt(k), 1 / std::sqrt(std::sqrt(k)), std::log(k)};
  const auto has = [&](absl::Span<const double> list) {
    return std::any_of(list.begin(), list.end(),
                       [&](double made) { return made > 0 && std::isfinite(made) && Near(v, made); });
  };
  return has(sums) || has(multiples) || has(parts) || has(others);
}

bool IsDerivedFrom(double v, double k, double m) {
  v = std::abs(v);
  for (double made : {k * m, k + m, 1 / (k * m), std::sqrt(k * m), 1 / std::sqrt(k * m), k / m, m / k, std::abs(k - m)})
    if (made > 0 && Near(v, made)) return true;
  return false;
}

Evidence EvidenceOf(const Node& n, std::optional<int64_t> number) {
  const std::string_view line = LineOf(n);
  if (line.empty()) return Evidence::kUnseen;
  if (AsksForSize(line)) return Evidence::kLikely;  // of which a number that is written may be a part: x.shape[1] // 4
  if (number) {
    const std::string digits = std::to_string(std::abs(*number));
    if (HasToken(line, digits) || HasToken(line, text::StrCat(digits, ".0"))) return Evidence::kWritten;
  }
  const std::vector<Word> words = WordsOf(RightSide(line));
  if ((CallsOwn(words) && !Shows(n, line)) || NamesMoreThan(words, TensorsOf(n, line))) return Evidence::kUnseen;
  return BeginsCallOf(n, line) || NamesSize(words) ? Evidence::kPossible : Evidence::kUnlikely;
}

bool HasLine(const Node& n) { return !LineOf(n).empty(); }

void FindAmbiguousScalars(const ir::Program& p, const std::vector<Sym>& symbols,
                          const std::function<bool(Sym)>& leading,
                          const std::function<std::optional<int64_t>(Sym)>& value,
                          std::vector<AmbiguousScalar>* ambiguous) {
  Finder finder(symbols, leading, value, ambiguous);
  finder.Visit(*p.graph);
  for (size_t i = 0; i < p.input_specs.size() && i < p.graph->inputs().size(); ++i) {
    if (p.input_specs[i].kind != ir::InputSpec::kTensorConstant) continue;
    const Value& v = *p.graph->inputs()[i];
    auto it = p.weights.find(p.input_specs[i].target);
    if (v.type().is_tensor() && it != p.weights.end()) finder.Constant(v, it->second);
  }
}

}  // namespace slipway::dynamic_shapes
