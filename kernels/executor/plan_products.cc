// Kernels are asked with tensors that have no memory, whose sizes are what the plan's expressions give for some values
// of its symbols, and for each number of rows up to one behind which no loop changes. No number of a plan may be
// believed: what a run would refuse is listed without sizes.
#include "kernels/executor/plan_products.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/executor/print_plan.h"
#include "kernels/executor/step_call.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kMaxRows = 256;  // above, no loop depends on them

class Reader {
 public:
  explicit Reader(const Plan& plan) : p_(plan) {
    for (const Expr& e : p_.exprs) {
      const int32_t of[] = {e.a, e.b, e.c};
      bool depends = e.op == Expr::kSymbol;
      for (int k = 0; k < Operands(e.op); ++k) depends = depends || symbolic_[of[k]];
      symbolic_.push_back(depends);
    }
    using Value = std::optional<int64_t>;
    some_ = With([](const Symbol& s, int64_t i) -> Value {
      return std::clamp(1009 + 2 * i * i, std::min(s.min, s.max), s.max);
    });
    least_ = With([](const Symbol& s, int64_t) -> Value { return std::min(std::max<int64_t>(s.min, 1), s.max); });
    most_ = With([](const Symbol& s, int64_t) {
      return s.max == std::numeric_limits<int64_t>::max() ? std::nullopt : std::optional(s.max);
    });
  }

  PlanProduct Read(int32_t step) const {
    const Step& s = p_.steps[step];
    PlanProduct out;
    out.step = step;
    out.batch = out.m = out.k = out.n = "?";
    out.left = p_.views[s.first_view].dtype;
    out.result = p_.views[s.first_view + s.inputs].dtype;
    Product p;
    StepCall operands;
    if (!operands.Bind(p_, s, some_) || !s.kernel->product(operands.call, 0, &p)) return out;
    out.batch = Text(s, p.batch), out.m = Text(s, p.m), out.k = Text(s, p.k);
    out.n = p.n.value == 0 ? "" : Text(s, p.n);
    out.groups = p.groups;
    if (p.matrix >= 0) {
      const Tensor& matrix = operands.tensors[static_cast<size_t>(p.matrix)];
      out.has_right = true, out.right = p_.views[s.first_view + p.matrix].dtype, out.packing = matrix.packed;
      if (p_.buffers[p_.views[s.first_view + p.matrix].buffer].kind == Buffer::kConstant) out.bytes = p.bytes;
    }
    Loops(s, operands.call, p, &out.loops);
    return out;
  }

 private:
  static bool Same(const Loop& a, const Loop& b) {
    return std::strcmp(a.isa, b.isa) == 0 && std::strcmp(a.way, b.way) == 0;
  }

  template <typename F>
  std::vector<Scalar> With(F value) const {
    std::vector<Scalar> symbols, values;
    for (const Symbol& s : p_.symbols) {
      const std::optional<int64_t> v = value(s, static_cast<int64_t>(symbols.size()));
      symbols.push_back(!v ? Scalar{} : s.real ? Scalar::Real(static_cast<double>(*v)) : Scalar::Int(*v));
    }
    values.reserve(p_.exprs.size());
    for (const Expr& e : p_.exprs) values.push_back(Evaluate(e, values, symbols));
    return values;
  }

  // A size as text: the number, or its dims.
  std::string Text(const Step& s, const ProductSize& size) const {
    std::string text;
    int64_t number = 1;
    for (int d = size.first; d < size.last; ++d) {
      const int32_t e = p_.dims[p_.views[s.first_view + size.tensor].first_dim + d];
      if (symbolic_[e])
        text += (text.empty() ? "" : "*") + PrintExpression(p_, e);
      else
        number *= some_[e].bits;
    }
    if (text.empty()) return std::to_string(size.value);
    number *= size.times;
    if (number != 1) text = std::to_string(number) + "*" + text;
    return size.over != 1 ? text + "/" + std::to_string(size.over) : text;
  }

  // The least and the largest number of rows; 0: not known.
  int64_t RowsWith(const std::vector<Scalar>& values, const Step& s, const ProductSize& m) const {
    int64_t rows = 1;
    for (int d = m.first; d < m.last; ++d) {
      const Scalar& n = values[p_.dims[p_.views[s.first_view + m.tensor].first_dim + d]];
      if (!n.known || n.bits < 1 || __builtin_mul_overflow(rows, n.bits, &rows)) return 0;
    }
    return rows;
  }

  void Loops(const Step& s, const Call& call, const Product& p, std::vector<PlanProduct::Rows>* out) const {
    bool fixed = true;
    for (int d = p.m.first; d < p.m.last; ++d)
      fixed = fixed && !symbolic_[p_.dims[p_.views[s.first_view + p.m.tensor].first_dim + d]];
    if (fixed) {
      for (const auto* values : {&least_, &some_, &most_}) {
        StepCall operands;
        Product at;
        if (!operands.Bind(p_, s, *values) || !s.kernel->product(operands.call, 0, &at)) continue;
        const bool known =
            std::any_of(out->begin(), out->end(), [&](const PlanProduct::Rows& r) { return Same(r.loop, at.loop); });
        if (!known) out->push_back({p.m.value, p.m.value, at.loop});
      }
      return;
    }
    int64_t from = RowsWith(least_, s, p.m), to = RowsWith(most_, s, p.m);
    if (from == 0 || from > StepCall::kMaxElements || (to != 0 && to < from)) from = 1, to = 0;
    const int64_t tried = to == 0 ? std::max(from, kMaxRows) : std::max(from, std::min(to, kMaxRows));
    for (int64_t rows = from; rows <= tried; ++rows) {
      Product at;
      if (!s.kernel->product(call, rows, &at)) return out->clear();
      if (out->empty() || !Same(out->back().loop, at.loop)) out->push_back({rows, rows, at.loop});
      out->back().to = rows;
    }
    out->back().to = to;
  }

  const Plan& p_;
  std::vector<bool> symbolic_;               // of expressions: whether they depend on a symbol
  std::vector<Scalar> some_, least_, most_;  // their values
};

}  // namespace

std::vector<PlanProduct> ProductsOf(const Plan& plan) {
  const Reader reader(plan);
  std::vector<PlanProduct> out;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& s = plan.steps[i];
    if (s.kind == Step::kKernel && s.kernel->product != nullptr && s.inputs > 0 && s.outputs > 0)
      out.push_back(reader.Read(static_cast<int32_t>(i)));
  }
  return out;
}

}  // namespace slipway::kernels
