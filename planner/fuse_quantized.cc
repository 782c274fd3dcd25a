// Products with a weight of small integers, which programs write out: the integers become floats, minus a zero point,
// times a scale, in another shape, rounded, and what comes of it is the right matrix. One step does it all, and the
// floats are never in memory. See fuse.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "kernels/plan.h"
#include "kernels/quant_linear.h"
#include "planner/fuse.h"
#include "planner/plan_uses.h"

namespace slipway::planner {
namespace {

using kernels::Buffer;
using kernels::DType;
using kernels::Expr;
using kernels::Plan;
using kernels::Step;
using kernels::View;

// Groups of fewer rows than these gain nothing.
constexpr int64_t kLeastGroup = 8;

// An index that runs over `size` places which are `stride` apart; several of them, the outermost first, are one index
// in parts.
struct Part {
  int64_t size = 1, stride = 0;
};
using Parts = std::vector<Part>;

// The elements that rows and columns of a matrix are found at.
struct Place {
  int32_t buffer = 0;
  DType dtype = DType::kF32;
  int64_t offset = 0;  // bytes
  Parts rows, columns;
  std::optional<double> number;  // all elements are this number of the dtype; there is no buffer
};

// One index for parts that follow each other in memory.
Parts Joined(const Parts& parts) {
  Parts out;
  for (const Part& p : parts) {
    if (p.size == 1) continue;
    if (!out.empty() && out.back().stride == p.stride * p.size)
      out.back() = {out.back().size * p.size, p.stride};
    else
      out.push_back(p);
  }
  return out;
}
// The stride of an index that has one.
std::optional<int64_t> OnlyStride(const Parts& parts) {
  if (parts.size() > 1) return std::nullopt;
  return parts.empty() ? 0 : parts[0].stride;
}
// Of an index that moves once in `group` places: the stride of these moves.
struct Grouped {
  int64_t groups = 1, stride = 0;
};
std::optional<Grouped> OfGroups(const Parts& parts) {
  if (parts.empty()) return Grouped{};
  if (parts.size() == 1) return parts[0].stride == 0 ? Grouped{} : Grouped{parts[0].size, parts[0].stride};
  if (parts.size() == 2 && parts[1].stride == 0) return Grouped{parts[0].size, parts[0].stride};
  return std::nullopt;
}

// A weight as the kernel takes it.
struct Weight {
  Place integers;
  std::optional<Place> scale, zero;
  DType rounded = DType::kF32, scale_rounded = DType::kF32;
};

bool IsByte(DType t) { return t == DType::kI8 || t == DType::kU8; }
bool IsNarrow(DType t) { return t == DType::kBF16 || t == DType::kF16; }
// Types that have all integers of 8 bits and differences of two.
bool HoldsBytes(DType t) {
  return t == DType::kI16 || t == DType::kI32 || t == DType::kI64 || (t >= DType::kF16 && t <= DType::kF64);
}

class Finder {
 public:
  explicit Finder(PlannedProgram& p) : p_(p), plan_(p.plan) {}

  void Run() {
    bool any = false;
    for (int i = 0; i < static_cast<int>(plan_.steps.size()); ++i) any |= IsProduct(i) && Match(i);
    if (any) Sweep();
  }

 private:
  const View& In(int step, int k) const { return plan_.views[plan_.steps[step].first_view + k]; }
  const View& Out(int step) const { return plan_.views[plan_.steps[step].first_view + plan_.steps[step].inputs]; }
  std::optional<int64_t> Known(int32_t expr) const {
    const Expr& e = plan_.exprs[expr];
    return e.op == Expr::kInt ? std::optional<int64_t>(e.value) : std::nullopt;
  }
  std::optional<int64_t> Size(const View& v, int d) const { return Known(plan_.dims[v.first_dim + d]); }
  std::optional<int64_t> Stride(const View& v, int d) const { return Known(plan_.dims[v.first_dim + v.rank + d]); }
  bool IsProduct(int i) const {
    const Step& s = plan_.steps[i];
    return s.kind == Step::kKernel && s.kernel->name == "matmul" && s.outputs == 1 && s.inputs <= 3 &&
           (s.compute == DType::kF32 || IsNarrow(s.compute));
  }

  // The step that alone makes what is at a place; -1: not one step, or no temporary.
  int Maker(const Place& at) const {
    if (plan_.buffers[at.buffer].kind != Buffer::kTemporary || uses_.writers[at.buffer].size() != 1) return -1;
    const int i = uses_.writers[at.buffer][0];
    const Step& s = plan_.steps[i];
    return s.kind == Step::kKernel && s.outputs == 1 && Out(i).dtype == at.dtype ? i : -1;
  }

  // Where operand k of an elementwise step has what its result has at a place.
  std::optional<Place> Through(const Place& at, int step, int k) const {
    const View &out = Out(step), &in = In(step, k);
    const auto begin = Known(out.offset), offset = Known(in.offset);
    if (!begin || !offset || *begin != at.offset || in.rank != out.rank) return std::nullopt;
    // Dims of the result, as they follow each other in memory, innermost first.
    struct Dim {
      int64_t size, stride, in, used = 0;
    };
    std::vector<Dim> dims;
    for (int d = 0; d < out.rank; ++d) {
      const auto size = Size(out, d), stride = Stride(out, d), same = Size(in, d), step_in = Stride(in, d);
      if (!size || !stride || !same || !step_in || *size != *same || *size < 1) return std::nullopt;
      if (*size > 1) dims.push_back({*size, *stride, *step_in});
    }
    std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
    int64_t dense = 1;
    for (const Dim& d : dims) {
      if (d.stride != dense || __builtin_mul_overflow(dense, d.size, &dense)) return std::nullopt;
    }
    Place to;
    to.buffer = in.buffer, to.dtype = in.dtype, to.offset = *offset;
    for (auto [from, parts] : {std::pair{&at.rows, &to.rows}, {&at.columns, &to.columns}}) {
      for (size_t k = from->size(); k-- > 0;) {  // innermost first, turned in the end
        Part rest = (*from)[k];
        if (rest.stride == 0) {
          parts->push_back(rest);
          continue;
        }
        for (Dim& d : dims) {
          if (rest.size == 1) break;
          if (rest.stride >= d.stride * d.size) continue;
          if (rest.stride < d.stride || rest.stride % d.stride != 0) return std::nullopt;
          const int64_t by = rest.stride / d.stride;
          int64_t size = rest.size;
          if ((size - 1) * by >= d.size) {  // goes on in the next dim
            if (d.size % by != 0 || rest.size % (d.size / by) != 0) return std::nullopt;
            size = d.size / by;
          }
          // Places of both indices together stay in the dim.
          d.used += (size - 1) * by;
          if (d.used >= d.size) return std::nullopt;
          parts->push_back({size, by * d.in});
          rest = {rest.size / size, d.stride * d.size};
        }
        if (rest.size != 1) return std::nullopt;
      }
      std::reverse(parts->begin(), parts->end());
      *parts = Joined(*parts);
    }
    return to;
  }

  // What a step fills a place with: an integer of 8 bits, or a number of f32.
  std::optional<Place> Filled(const Place& at, const Step& s) const {
    if (s.kernel->name != "fill" || s.inputs != 0 || s.ints + s.floats != 1) return std::nullopt;
    const Expr& e = plan_.exprs[plan_.numbers[s.first_number]];
    if (e.op != Expr::kInt && e.op != Expr::kReal) return std::nullopt;
    const double value = e.op == Expr::kInt ? static_cast<double>(e.value) : std::bit_cast<double>(e.value);
    Place out;
    if (value >= -128 && value <= 127 && value == std::floor(value) &&
        (HoldsBytes(at.dtype) || (at.dtype == DType::kI8)))
      out.dtype = DType::kI8, out.number = value;
    else if (at.dtype == DType::kF32)
      out.number = static_cast<double>(static_cast<float>(value));
    else
      return std::nullopt;
    return out;
  }
  // Back through conversions to a constant, which `casts` gets in the order of the program.
  std::optional<Place> Constant(Place at, std::vector<DType>* casts) const {
    while (plan_.buffers[at.buffer].kind != Buffer::kConstant) {
      const int maker = Maker(at);
      if (maker < 0) return std::nullopt;
      if (auto filled = Filled(at, plan_.steps[maker])) return filled;
      if (plan_.steps[maker].kernel->name != "copy") return std::nullopt;
      casts->insert(casts->begin(), at.dtype);
      auto next = Through(at, maker, 0);
      if (!next) return std::nullopt;
      at = *std::move(next);
    }
    return at;
  }
  // Integers of 8 bits that nothing changes on the way.
  std::optional<Place> Bytes(const Place& at) const {
    std::vector<DType> casts;
    auto found = Constant(at, &casts);
    if (!found || found->number || !IsByte(found->dtype)) return std::nullopt;
    for (DType t : casts)
      if (!HoldsBytes(t) && t != found->dtype) return std::nullopt;
    return found;
  }

  // The last rounding: none after another, but for the same.
  static bool Round(DType t, DType* rounded) {
    if (t == DType::kF32 || t == *rounded) return true;
    if (!IsNarrow(t) || *rounded != DType::kF32) return false;
    *rounded = t;
    return true;
  }

  // q, or q - zero.
  bool Difference(const Place& at, Weight* w) const {
    if (auto q = Bytes(at)) {
      w->integers = *std::move(q);
      return true;
    }
    const int maker = Maker(at);
    if (maker < 0 || !HoldsBytes(at.dtype)) return false;
    const Step& s = plan_.steps[maker];
    if (s.kernel->name == "copy") {
      auto next = Through(at, maker, 0);
      // Of a difference that is exact before.
      return next && Difference(*next, w) && (!w->zero || IsByte(w->zero->dtype));
    }
    if (s.kernel->name != "sub" || s.inputs != 2 || s.ints != 0 || s.floats != 0 || !HoldsBytes(s.compute))
      return false;
    const auto left = Through(at, maker, 0), right = Through(at, maker, 1);
    if (!left || !right) return false;
    auto q = Bytes(*left);
    if (!q) return false;
    std::vector<DType> casts;
    auto zero = Constant(*right, &casts);
    if (!zero) return false;
    if (IsByte(zero->dtype)) {
      for (DType t : casts)
        if (!HoldsBytes(t) && t != zero->dtype) return false;
    } else {
      // Whatever it is, as f32 once.
      if (s.compute != DType::kF32 || at.dtype != DType::kF32 || zero->dtype == DType::kBool ||
          kernels::IsStoredOnly(zero->dtype))
        return false;
      for (DType t : casts)
        if (t != DType::kF32 && t != zero->dtype) return false;
    }
    w->integers = *std::move(q);
    if (zero->number != 0.0) w->zero = *std::move(zero);
    return true;
  }

  // (q - zero) · scale, or the integers alone.
  bool Scaled(const Place& at, Weight* w) const {
    if (Difference(at, w)) return !w->zero;  // a kernel for these has a scale
    const int maker = Maker(at);
    if (maker < 0) return false;
    const Step& s = plan_.steps[maker];
    if (s.kernel->name == "copy") {
      auto next = Through(at, maker, 0);
      return kernels::IsFloating(at.dtype) && Round(at.dtype, &w->rounded) && next && Scaled(*next, w);
    }
    if (s.kernel->name != "mul" || s.inputs != 2 || (s.compute != DType::kF32 && !IsNarrow(s.compute))) return false;
    if (!kernels::IsFloating(at.dtype) || !Round(at.dtype, &w->rounded)) return false;
    for (int k = 0; k < 2; ++k) {
      Weight found = *w;
      const auto numbers = Through(at, maker, k), factor = Through(at, maker, 1 - k);
      if (!numbers || !factor || !Difference(*numbers, &found)) continue;
      std::vector<DType> casts;
      auto scale = Constant(*factor, &casts);
      if (scale && scale->number) scale->dtype = DType::kF32;
      if (!scale || !kernels::IsFloating(scale->dtype) || kernels::IsStoredOnly(scale->dtype)) continue;
      bool fits = scale->dtype != DType::kF64 || s.compute == DType::kF32;
      DType now = scale->dtype;
      casts.push_back(s.compute);
      for (DType t : casts) {
        if (now != t && now == DType::kF64) fits = fits && t == DType::kF32;  // one rounding
        if (now != t && t != DType::kF64 && now != DType::kF64) fits = fits && Round(t, &found.scale_rounded);
        if (now != t && t == DType::kF64) fits = false;
        now = t;
      }
      // Differences are exact in all of these.
      if (!fits || (IsNarrow(s.compute) && found.zero && !IsByte(found.zero->dtype))) continue;
      if (scale->dtype == found.scale_rounded) found.scale_rounded = DType::kF32;
      found.scale = *std::move(scale);
      *w = std::move(found);
      return true;
    }
    return false;
  }

  bool Match(int i) {
    const Step s = plan_.steps[i];
    const View x = In(i, 0), y = In(i, 1), out = Out(i);
    const int r = y.rank;
    if (r < 2 || x.rank != r || out.rank != r || (!IsNarrow(x.dtype) && x.dtype != DType::kF32) ||
        (x.dtype != s.compute && s.compute != DType::kF32))
      return false;
    const auto offset = Known(y.offset), k = Size(y, r - 2), n = Size(y, r - 1), row = Stride(y, r - 2),
               column = Stride(y, r - 1);
    if (!offset || !k || !n || !row || !column || *k < 1 || *n < 1) return false;
    for (int d = 0; d + 2 < r; ++d)
      if (Size(y, d) != 1 && Stride(y, d) != 0) return false;
    // A bias that is the same for all rows.
    if (s.inputs == 3) {
      const View& bias = In(i, 2);
      if (bias.rank != r || !kernels::IsFloating(bias.dtype) || kernels::IsStoredOnly(bias.dtype) ||
          bias.dtype == DType::kF64)
        return false;
      for (int d = 0; d + 1 < r; ++d)
        if (Size(bias, d) != 1 && Stride(bias, d) != 0) return false;
    }
    Weight w;
    Place at{y.buffer, y.dtype, *offset, Joined({{*k, *row}}), Joined({{*n, *column}})};
    if (!Round(s.compute, &w.rounded) || !kernels::IsFloating(y.dtype) || !Scaled(at, &w)) return false;
    // Integers of 8 bits are exact in all of these.
    if (!w.scale) w.rounded = DType::kF32;
    const auto q_row = OnlyStride(w.integers.rows), q_column = OnlyStride(w.integers.columns);
    if (!q_row || !q_column) return false;
    std::vector<View> views = {x, Matrix(w.integers, *k, *n, *q_row, *q_column)};
    if (w.scale) {
      auto scale = OfGroups(w.scale->rows), zero = w.zero ? OfGroups(w.zero->rows) : Grouped{};
      const auto scale_column = OnlyStride(w.scale->columns), zero_column = w.zero ? OnlyStride(w.zero->columns) : 0;
      if (!scale || !zero || !scale_column || !zero_column) return false;
      const int64_t groups = std::max(scale->groups, zero->groups);
      for (Grouped* g : {&*scale, &*zero}) {
        if (g->groups != 1 && g->groups != groups) return false;
        if (g->groups == 1) g->stride = groups == 1 ? 1 : 0;
      }
      if (*k % groups != 0 || (groups > 1 && *k / groups < kLeastGroup)) return false;
      views.push_back(Matrix(*w.scale, groups, *n, scale->stride, *scale_column));
      if (w.zero) views.push_back(Matrix(*w.zero, groups, *n, zero->stride, *zero_column));
    }
    if (s.inputs == 3) {
      const View& bias = In(i, 2);
      View v = bias;
      v.rank = 1;
      v.first_dim = static_cast<int>(plan_.dims.size());
      plan_.dims.insert(plan_.dims.end(), {plan_.dims[bias.first_dim + r - 1], plan_.dims[bias.first_dim + 2 * r - 1]});
      views.push_back(v);
    }
    views.push_back(out);

    Step& step = plan_.steps[i];
    step.kernel = kernels::FindKernel("quant_linear");
    step.compute = DType::kF32;
    step.first_view = static_cast<int>(plan_.views.size());
    step.inputs = static_cast<int>(views.size()) - 1;
    plan_.views.insert(plan_.views.end(), views.begin(), views.end());
    step.first_number = static_cast<int>(plan_.numbers.size());
    step.ints = kernels::kQuantNumbers, step.floats = 0;
    const int64_t parts = (w.scale ? kernels::kQuantScale : 0) | (w.zero ? kernels::kQuantZero : 0) |
                          (s.inputs == 3 ? kernels::kQuantBias : 0);
    for (int64_t v : {parts, static_cast<int64_t>(w.rounded), static_cast<int64_t>(w.scale_rounded)})
      plan_.numbers.push_back(Number(v));
    p_.places.push_back(p_.places[s.origin]);
    p_.origins.push_back(text::StrCat(p_.origins[s.origin], w.scale ? " of scaled integers" : " of integers"));
    step.origin = static_cast<int>(p_.origins.size()) - 1;
    return true;
  }

  View Matrix(const Place& at, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    View v;
    v.buffer = at.number ? Scalar(*at.number) : at.buffer;
    v.dtype = at.number ? DType::kF32 : at.dtype;
    v.rank = 2;
    v.offset = Number(at.offset);
    v.first_dim = static_cast<int>(plan_.dims.size());
    for (int64_t x : {rows, columns, row, column}) {
      const int32_t e = Number(x);
      plan_.dims.push_back(e);
    }
    return v;
  }
  // A constant of one f32.
  int32_t Scalar(double value) {
    const float f = static_cast<float>(value);
    std::memcpy(p_.scalars.emplace_back().data(), &f, sizeof f);
    Buffer b;
    b.kind = Buffer::kConstant;
    b.bytes = Number(static_cast<int64_t>(p_.scalars.back().size()));
    b.constant = p_.scalars.back().data();
    plan_.buffers.push_back(b);
    return static_cast<int32_t>(plan_.buffers.size()) - 1;
  }
  int32_t Number(int64_t value) {
    plan_.exprs.push_back({.op = Expr::kInt, .value = value});
    return static_cast<int32_t>(plan_.exprs.size()) - 1;
  }

  // Steps that only made what nobody reads any more go, one after the other.
  void Sweep() {
    const int n = static_cast<int>(plan_.steps.size());
    std::vector<char> gone(n, 0);
    for (bool more = true; more;) {
      more = false;
      std::vector<int> readers(plan_.buffers.size(), 0);
      for (int i = 0; i < n; ++i)
        for (int k = 0; !gone[i] && k < plan_.steps[i].inputs; ++k) ++readers[In(i, k).buffer];
      for (int i = 0; i < n; ++i) {
        const Step& s = plan_.steps[i];
        if (gone[i] || s.kind != Step::kKernel || s.outputs != 1 || !IsPart(s)) continue;
        const int32_t b = Out(i).buffer;
        if (plan_.buffers[b].kind != Buffer::kTemporary || readers[b] != 0) continue;
        gone[i] = more = true;
      }
    }
    std::vector<Step> steps;
    std::vector<int> place;
    for (int i = 0; i < n; ++i) {
      place.push_back(static_cast<int>(steps.size()));
      if (!gone[i]) steps.push_back(plan_.steps[i]);
    }
    place.push_back(static_cast<int>(steps.size()));
    ReplaceSteps(plan_, std::move(steps), place);
  }
  static bool IsPart(const Step& s) {
    const std::string_view name = s.kernel->name;
    return name == "copy" || name == "sub" || name == "mul" || name == "fill";
  }

  PlannedProgram& p_;
  Plan& plan_;
  const PlanUses uses_{plan_};
};

}  // namespace

void FuseQuantized(PlannedProgram& p) { Finder(p).Run(); }

}  // namespace slipway::planner
