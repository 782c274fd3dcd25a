// Source lines are read as text: a number as a token of its own, words that ask for sizes.
#include "shapes/evidence.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::shapes {
namespace {

using ir::Node;
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

// Whether a line names what is a size by its name: x.shape, seq_len, batch_size, n.
bool NamesSize(std::string_view line) {
  for (size_t i = 0; i < line.size();) {
    if (!InWord(line[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < line.size() && InWord(line[end])) ++end;
    const std::string_view word = line.substr(i, end - i);
    i = end;
    if (std::isdigit(static_cast<unsigned char>(word[0]))) continue;
    if (word.size() <= 2 && word != "x" && word != "in" && word != "if" && word != "is" && word != "or" && word != "F") return true;
    for (std::string_view part : {"shape", "size", "len", "seq", "batch", "bsz", "height", "width", "numel", "count", "num_", "dim"})
      if (word.find(part) != std::string_view::npos) return true;
  }
  return false;
}

struct Number {
  double value;
  bool integer;
};
std::optional<Number> NumberOf(const ir::Arg& a) {
  if (auto i = a.get<int64_t>()) return Number{static_cast<double>(*i), true};
  if (auto d = a.get<double>()) return Number{*d, false};
  return std::nullopt;
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
    if (base == "select" || base == "slice" || (!products && (base == "matmul" || base == "bmm" || base == "mm"))) return false;
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

bool Near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

constexpr std::string_view kDivisions[] = {"div", "div_", "divide", "true_divide", "floor_divide", "remainder", "fmod"};
constexpr std::string_view kArithmetic[] = {"mul", "mul_", "multiply", "add", "add_", "sub", "sub_", "rsub", "full", "fill", "fill_",
                                            "clamp", "clamp_", "clamp_max", "full_like", "new_full", "scalar_tensor"};

class Finder {
 public:
  Finder(const std::vector<Sym>& symbols, const std::function<bool(Sym)>& leading,
         const std::function<std::optional<int64_t>(Sym)>& value, std::vector<ScalarDoubt>* doubts)
      : symbols_(symbols), leading_(leading), value_(value), doubts_(doubts) {}

  void Visit(const ir::Graph& g) {
    for (const Node* n : g) {
      for (const ir::NamedArg& a : n->args()) {
        if (auto sub = a.arg.get<ir::SubGraph>()) Visit(**sub);
        else if (auto number = NumberOf(a.arg)) Look(*n, a.name, *number);
      }
    }
  }
  // A 0-d constant of the trace.
  void Constant(const Value& v, const ir::TensorRef& t) {
    auto number = Read(t);
    if (!number || *number < 3 || v.users().empty()) return;
    for (Sym s : symbols_)
      if (auto k = value_(s); k && static_cast<double>(*k) == *number) Doubt(*v.users()[0], s, *number);
  }

 private:
  const std::vector<Sym>& symbols_;
  const std::function<bool(Sym)>& leading_;
  const std::function<std::optional<int64_t>(Sym)>& value_;
  std::vector<ScalarDoubt>* doubts_;

  void Doubt(const Node& n, Sym s, double number) {
    doubts_->push_back({&n, s, number == std::floor(number) ? std::to_string(static_cast<int64_t>(number)) : std::to_string(number)});
  }
  static std::optional<double> Read(const ir::TensorRef& t) {
    auto bytes = ir::ReadDense(t, 16);
    if (!bytes.ok()) return std::nullopt;
    auto as = [&](auto x) -> std::optional<double> {
      if (bytes->size() != sizeof(x)) return std::nullopt;
      std::memcpy(&x, bytes->data(), sizeof(x));
      return static_cast<double>(x);
    };
    if (t.dtype == ir::DType::kInt64) return as(int64_t{});
    if (t.dtype == ir::DType::kInt32) return as(int32_t{});
    if (t.dtype == ir::DType::kFloat32) return as(float{});
    if (t.dtype == ir::DType::kFloat64) return as(double{});
    return std::nullopt;
  }

  void Look(const Node& n, std::string_view arg, Number number) {
    if (n.op().ns != "aten" || arg == "dim" || arg == "alpha") return;
    const std::string_view base = n.op().base;
    const bool division = std::find(std::begin(kDivisions), std::end(kDivisions), base) != std::end(kDivisions);
    const bool arithmetic = std::find(std::begin(kArithmetic), std::end(kArithmetic), base) != std::end(kArithmetic);
    if (!division && !arithmetic) return;
    const Value* x = nullptr;
    for (const ir::NamedArg& a : n.args())
      if (Value* v = a.arg.value(); v && v->type().is_tensor() && !x) x = v;
    const Value* result = n.output();
    if (!result || !result->type().is_tensor()) return;
    const ir::DType dtype = x ? x->dtype() : result->dtype();
    const bool floats = ir::IsFloating(dtype) || ir::IsComplex(dtype);
    for (Sym s : symbols_) {
      auto k = value_(s);
      if (!k) continue;
      const double size = static_cast<double>(*k);
      bool doubt = false;
      if (!floats) {
        // Integers: indices, positions, numbers of things.
        // (Doubling is what a 2 is for, where the size is that of a batch.)
        doubt = number.value == 2 ? number.value == size && !leading_(s) : number.value > 2 && (number.value == size || number.value == size - 1);
      } else if (number.value == size) {
        doubt = (division || base == "mul") && (WasReduced(x, s, true) || (division && number.integer && x && Has(*x, s) && !leading_(s)));
      } else if (size > 2 && number.value == size - 1) {
        doubt = division && x && Has(*x, s) && !leading_(s);
      } else if (Near(number.value, 1 / size)) {
        doubt = WasReduced(x, s, true) && !FixedSizeExplains(x, size);
      } else if (Near(number.value, std::sqrt(size)) || Near(number.value, 1 / std::sqrt(size))) {
        doubt = WasReduced(x, s, false) && !FixedSizeExplains(x, size);
      }
      if (doubt && MayBeSize(n, number.value)) Doubt(n, s, number.value);
    }
  }
  // A line that names no size and has no short name, which may be one, computes with something else.
  static bool MayBeSize(const Node& n, double value) {
    if (value == std::floor(value) && std::abs(value) < 1e15 && IsWrittenOut(n, static_cast<int64_t>(value))) return false;
    const std::string_view line = LineOf(n);
    return line.empty() || NamesSize(line);
  }
};

}  // namespace

bool IsWrittenOut(const Node& n, int64_t number) {
  const std::string_view line = LineOf(n);
  const std::string digits = std::to_string(number);
  return HasToken(line, digits) || HasToken(line, text::StrCat(digits, ".0"));
}

void FindScalarDoubts(const ir::Program& p, const std::vector<Sym>& symbols, const std::function<bool(Sym)>& leading,
                      const std::function<std::optional<int64_t>(Sym)>& value, std::vector<ScalarDoubt>* doubts) {
  Finder finder(symbols, leading, value, doubts);
  finder.Visit(*p.graph);
  for (size_t i = 0; i < p.input_specs.size() && i < p.graph->inputs().size(); ++i) {
    if (p.input_specs[i].kind != ir::InputSpec::kTensorConstant) continue;
    const Value& v = *p.graph->inputs()[i];
    auto it = p.weights.find(p.input_specs[i].target);
    if (v.type().is_tensor() && v.rank() == 0 && it != p.weights.end()) finder.Constant(v, it->second);
  }
}

}  // namespace slipway::shapes
