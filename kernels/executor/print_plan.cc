// The text form of plans. Expressions are printed with as few parentheses as reads well; what is hard is only to leave
// out what the
// reader knows: sizes that a buffer had before, strides of dense views, the dtype that a kernel computes in by its
// result.
#include "kernels/executor/print_plan.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <limits>
#include <vector>

namespace slipway::kernels {
namespace {

std::string Real(double x) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, x).ptr);
}

// With at most `left` operands of operands: what a file names again and again would not end.
std::string ExpressionText(const Plan& p, int32_t i, bool inside, int* left) {
  static constexpr const char* kNames[Expr::kOps] = {
      "",      "",     "",      "+",  "*",   "//",  "ceildiv", "%",   "pow",  "max",   "min",  "&",   "|",
      "^",     "+",    "*",     "/",  "pow", "max", "min",     "mod", "sqrt", "trunc", "real", "/",   "trunc",
      "floor", "ceil", "round", "==", "<",   "<=",  "==",      "<",   "<=",   "and",   "or",   "not", "select"};
  if (--*left < 0) return "…";
  const Expr& e = p.exprs[i];
  if (e.op == Expr::kInt) return std::to_string(e.value);
  if (e.op == Expr::kReal) return Real(std::bit_cast<double>(e.value));
  if (e.op == Expr::kSymbol) return p.symbols[e.value].name;
  const std::string name = kNames[e.op];
  const int operands = Operands(e.op);
  const bool word = name[0] >= 'a' && name[0] <= 'z';
  if (operands == 2 && !word) {
    const std::string a = ExpressionText(p, e.a, true, left),
                      text = a + " " + name + " " + ExpressionText(p, e.b, true, left);
    return inside ? "(" + text + ")" : text;
  }
  const int32_t of[] = {e.a, e.b, e.c};
  std::string text = name + "(";
  for (int k = 0; k < operands; ++k) text += (k == 0 ? "" : ", ") + ExpressionText(p, of[k], false, left);
  return text + ")";
}

class Printer {
 public:
  explicit Printer(const Plan& plan) : p_(plan), seen_(plan.buffers.size(), nullptr) {
    int constants = 0, temporaries = 0;
    for (const Buffer& b : p_.buffers)
      names_.push_back(b.kind == Buffer::kInput || b.kind == Buffer::kState ? p_.inputs[b.slot].name
                       : b.kind == Buffer::kOutput                          ? "out" + std::to_string(b.slot)
                       : b.kind == Buffer::kConstant                        ? "c" + std::to_string(constants++)
                                                                            : "t" + std::to_string(temporaries++));
    std::vector<Scalar> symbols;
    for (const Symbol& s : p_.symbols) {
      const int64_t value = 1009 + 2 * static_cast<int64_t>(symbols.size() * symbols.size());
      symbols.push_back(s.real ? Scalar::Real(static_cast<double>(value)) : Scalar::Int(value));
    }
    for (const Expr& e : p_.exprs) values_.push_back(Evaluate(e, values_, symbols));
  }

  std::string Print() {
    std::string text = "plan(";
    for (const Input& in : p_.inputs)
      text += Comma(text) + in.name + ": " + std::string(Info(in.dtype).name) +
              (in.kind == Input::kTensor ? List('[', in.sizes, ']') : "");
    text += ") -> ";
    bool first = true;
    for (const Output& out : p_.outputs) {
      text += (first ? "" : ", ") + std::string(Info(out.dtype).name) + (out.number ? "" : List('[', out.sizes, ']'));
      first = false;
    }
    text += '\n';
    for (const Check& c : p_.checks) text += "  check " + Expression(c.expr) + "\n";
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      bool target = false;
      for (const Step& s : p_.steps)
        target = target || ((s.kind == Step::kJump || s.kind == Step::kUnless) && s.target == static_cast<int32_t>(i));
      if (target) text += " @" + std::to_string(i) + ":\n";
      text += "  " + StepText(p_.steps[i]) + "\n";
    }
    return text;
  }

 private:
  static std::string Comma(const std::string& text) { return text.back() == '(' || text.back() == '[' ? "" : ", "; }

  std::string List(char open, const int32_t* exprs, int count, char close) {
    std::string text(1, open);
    for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + Expression(exprs[i]);
    return text + close;
  }
  std::string List(char open, const std::vector<int32_t>& exprs, char close) {
    return List(open, exprs.data(), static_cast<int>(exprs.size()), close);
  }

  std::string Expression(int32_t i, bool inside = false) {
    int most = std::numeric_limits<int>::max();
    return ExpressionText(p_, i, inside, &most);
  }

  // By the values that sizes and strides have for arbitrary values of the symbols.
  bool IsDense(const View& v) {
    const int32_t *sizes = p_.dims.data() + v.first_dim, *strides = sizes + v.rank;
    int64_t step = 1;
    for (int d = v.rank - 1; d >= 0; --d) {
      const Scalar &size = values_[sizes[d]], &stride = values_[strides[d]];
      if (!size.known || !stride.known || (size.bits != 1 && stride.bits != step)) return false;
      step *= size.bits;
    }
    return true;
  }

  // A view; where its buffer comes up for the first time as a result, its sizes too.
  std::string ViewText(const View& v, bool result) {
    const View*& seen = seen_[v.buffer];
    const Buffer::Kind kind = p_.buffers[v.buffer].kind;
    const bool input = kind == Buffer::kInput || kind == Buffer::kOutput || kind == Buffer::kState;
    std::string text = names_[v.buffer];
    const bool defines = result && seen == nullptr && !input;
    if (defines) text += ": " + std::string(Info(v.dtype).name);
    const std::vector<int32_t>* known = nullptr;
    if (kind == Buffer::kInput || kind == Buffer::kState) known = &p_.inputs[p_.buffers[v.buffer].slot].sizes;
    if (p_.buffers[v.buffer].kind == Buffer::kOutput) known = &p_.outputs[p_.buffers[v.buffer].slot].sizes;
    const std::vector<int32_t> sizes(p_.dims.begin() + v.first_dim, p_.dims.begin() + v.first_dim + v.rank);
    const bool same =
        known != nullptr
            ? *known == sizes
            : seen != nullptr && std::vector<int32_t>(p_.dims.begin() + seen->first_dim,
                                                      p_.dims.begin() + seen->first_dim + seen->rank) == sizes;
    if (!same) text += List('[', sizes, ']');
    if (!IsDense(v)) text += List('{', p_.dims.data() + v.first_dim + v.rank, v.rank, '}');
    if (const Expr& offset = p_.exprs[v.offset]; offset.op != Expr::kInt || offset.value != 0)
      text += "+" + Expression(v.offset, true);
    if (!defines && seen != nullptr && seen->dtype != v.dtype) text += " as " + std::string(Info(v.dtype).name);
    if (seen == nullptr) seen = &v;
    return text;
  }

  std::string Numbers(int32_t first, int32_t ints, int32_t reals) {
    if (ints + reals == 0) return "";
    std::string text = " [";
    for (int32_t k = 0; k < ints + reals; ++k)
      text += (k == 0 ? "" : k == ints ? "; " : ", ") + Expression(p_.numbers[first + k]);
    return text + "]";
  }

  std::string StepText(const Step& s) {
    switch (s.kind) {
      case Step::kKernel: break;
      case Step::kPublish: return p_.symbols[s.symbol].name + " = " + ViewText(p_.views[s.first_view], false);
      case Step::kSet: return p_.symbols[s.symbol].name + " = " + Expression(s.expr);
      case Step::kJump: return "jump @" + std::to_string(s.target);
      case Step::kUnless: return "unless " + Expression(s.expr) + " jump @" + std::to_string(s.target);
      case Step::kCheck: return "check " + Expression(s.expr);
    }
    std::string in, out;
    std::vector<std::string> names;
    for (int32_t k = 0; k < s.inputs; ++k) {
      names.push_back(ViewText(p_.views[s.first_view + k], false));
      in += (k == 0 ? "" : ", ") + names.back();
    }
    for (int32_t k = 0; k < s.outputs; ++k)
      out += (k == 0 ? "" : ", ") + ViewText(p_.views[s.first_view + s.inputs + k], true);
    std::string text = out + (out.empty() ? "" : " = ") + std::string(s.kernel->name);
    if (s.ops == 0 && s.outputs > 0 && s.compute != p_.views[s.first_view + s.inputs].dtype)
      text += "." + std::string(Info(s.compute).name);
    text += "(" + in + ")";
    if (s.ops == 0) return text + Numbers(s.first_number, s.ints, s.floats);
    text += " {";
    int32_t at_int = s.first_number, at_real = s.first_number + s.ints;
    for (int32_t k = 0; k < s.ops; ++k) {
      const ChainOp& o = p_.ops[s.first_op + k];
      text += (k == 0 ? " ~" : ", ~") + std::to_string(k);
      if (o.output >= 0) text += " -> " + names_[p_.views[s.first_view + s.inputs + o.output].buffer];
      text += " = " + std::string(o.kernel->name) +
              (o.compute != o.result ? "." + std::string(Info(o.compute).name) : "") + "(";
      for (int i = 0; i < o.inputs; ++i)
        text += (i == 0 ? "" : ", ") + (o.in[i] >= 0 ? names[o.in[i]] : "~" + std::to_string(~o.in[i]));
      text += ")";
      std::string numbers;
      for (int32_t i = 0; i < o.ints; ++i) numbers += (numbers.empty() ? "" : ", ") + Expression(p_.numbers[at_int++]);
      for (int32_t i = 0; i < o.floats; ++i)
        numbers += (numbers.empty() ? "" : ", ") + Expression(p_.numbers[at_real++]);
      if (!numbers.empty()) text += " [" + numbers + "]";
    }
    return text + " }";
  }

  const Plan& p_;
  std::vector<std::string> names_;  // of buffers
  std::vector<const View*> seen_;   // of buffers: the first view
  std::vector<Scalar> values_;      // of expressions, for some values of the symbols
};

}  // namespace

std::string PrintPlan(const Plan& plan) { return Printer(plan).Print(); }

std::string PrintExpression(const Plan& plan, int32_t expression) {
  int most = 64;
  std::string text = ExpressionText(plan, expression, true, &most);
  std::erase(text, ' ');
  return text;
}

}  // namespace slipway::kernels
