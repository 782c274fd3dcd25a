// How an operator becomes steps of a plan: one row per operator in the tables of this folder. A row's function reads
// its arguments through PlanContext (an ir::ArgReader); views are arithmetic on strides, the rest are kernel calls.
#ifndef SLIPWAY_PLANNER_LOWERING_RULES_H_
#define SLIPWAY_PLANNER_LOWERING_RULES_H_

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/ops/args.h"
#include "ir/ops/infer.h"
#include "kernels/attributes.h"
#include "planner/planner.h"

namespace slipway::planner {

using ir::DType;
using ir::Ints;
// A size, stride or offset: a number or an expression over symbols. Arithmetic is that of ir::Sym, and so is what can
// be known: where a rule branches on a Dim it asks what holds for every value that the symbols may have, and goes a way
// that is right for all where it cannot tell.
using Dim = ir::Sym;
using Dims = std::vector<Dim>;

inline bool KnownEqual(Dim a, Dim b) { return ir::ProvablyEqual(a, b); }
inline bool KnownLessEqual(Dim a, Dim b) { return ir::ProvablyLessEqual(a, b); }
inline bool KnownZero(const Dims& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](Dim s) { return s.is(0); });
}
Dim Product(absl::Span<const Dim> sizes);
Dims ContiguousStrides(absl::Span<const Dim> sizes);

// A tensor of the plan being made. Default: none.
struct Operand {
  int buffer = -1;
  Dim offset = 0;  // bytes
  DType dtype = DType::kUnknown;
  Dims sizes, strides;  // elements
  explicit operator bool() const { return buffer >= 0; }
  int rank() const { return static_cast<int>(sizes.size()); }
  Dim numel() const { return Product(sizes); }
  bool is_contiguous() const;  // for all values of the symbols
};

// The same numbers seen otherwise. All take dims that are in range.
Operand Permute(const Operand& x, const std::vector<int>& order);
Operand Swap(Operand x, int a, int b);
Operand MoveToLast(const Operand& x, const std::vector<int>& dims);  // in the order given
Operand MoveToFront(const Operand& x, const std::vector<int>& dims);
Operand Unsqueeze(Operand x, int dim);
Operand Drop(Operand x, int dim);  // a dim of size 1, or the first of it
Operand Narrow(Operand x, int dim, Dim start, Dim length, Dim step = 1);
Operand Select(Operand x, int dim, Dim index);
Operand Diagonal(Operand x, Dim offset, int a, int b);  // the diagonal becomes the last dim
Operand AtLeast1d(Operand x);
// Images [n, c, …] whose channels are last in memory: strides of [n, …, c]. A part of the channels of one counts, too.
bool ChannelsLast(const Operand& x);

// A real number of a step: a constant, or an expression.
struct Real {
  double value = 0;
  std::optional<Dim> expr;
  Real(double v) : value(v) {}  // NOLINT: a plain number is the commonest
  explicit Real(Dim e) : expr(e) {}
};
using Reals = std::vector<Real>;

// Attributes of kernels whose numbers may be expressions here.
using FillAttributes = kernels::FillAttributes<Dim, Real>;
using ArangeAttributes = kernels::ArangeAttributes<Dim, Real>;
using LinspaceAttributes = kernels::LinspaceAttributes<Real>;
using TriangleAttributes = kernels::TriangleAttributes<Dim>;
using EdgesAttributes = kernels::EdgesAttributes<Dim>;
using RankAttributes = kernels::RankAttributes<Dim>;
using RandomIntegersAttributes = kernels::RandomIntegersAttributes<Dim>;
using ConvAttributes = kernels::ConvAttributes<Dim>;
using AveragePoolAttributes = kernels::AveragePoolAttributes<Dim>;

// The plan being made.
class PlanBuilder {
 public:
  PlanBuilder(const ir::Program& p, PlannedProgram& out, const PlanOptions& options)
      : program_(p), out_(out), options_(options) {}

  absl::flat_hash_map<const ir::Value*, Operand> values;
  std::vector<Refusal> refusals;
  absl::flat_hash_set<const ir::Value*> unknown;  // tensors that are not there because of a refusal

  // An input of the program that kernels cannot take.
  void Refuse(const ir::Value& input, absl::Status s) {
    unknown.insert(&input);
    refusals.push_back({nullptr, std::move(s)});
  }
  const ir::Program& program() const { return program_; }
  ir::SymTable& syms() { return *program_.syms; }
  int AddBuffer(kernels::Buffer::Kind kind, Dim bytes, int slot = 0, const void* constant = nullptr);
  void AddView(const Operand& x);
  // Appends a step made from the present origin; returns its index.
  int AddStep(kernels::Step step);
  int origin = -1;  // that steps are made from
  // The expression's place in the plan. What kernels cannot evaluate is remembered: status().
  int Expr(Dim e);
  int Expr(const Real& r);
  // The symbol's place in the plan; `real` counts when it is first asked for.
  int Symbol(Dim symbol, bool real = false);
  // Whether every symbol inside is given a number: by an input or by a step so far.
  bool IsGiven(Dim e) const;
  void Give(Dim symbol) { given_.insert(symbol); }
  // In the order of the plan's table.
  std::vector<Dim> UsedSymbols() const { return used_; }
  // Buffers of images with channels last, and the convolutions that are to give some.
  absl::flat_hash_set<int> channels_last_buffers;
  absl::flat_hash_set<const ir::Node*> channels_last_nodes;
  // Results of constant padding that convolutions do themselves, and what they are made of (ChoosePaddings).
  struct Padding {
    const ir::Value* from = nullptr;
    std::vector<int64_t> before;  // by spatial dim
  };
  absl::flat_hash_map<const ir::Value*, Padding> paddings;
  // Concatenations of which several begin alike share the memory of the longest (plan_views.cc): what is there of that
  // so far.
  struct Joined {
    Operand out;
    size_t parts = 0;
    Dim end = 0;  // of these, along the dim
  };
  absl::flat_hash_map<const ir::Node*, Joined> joined;
  bool IsChannelsLast(const Operand& x) const { return channels_last_buffers.contains(x.buffer) && ChannelsLast(x); }
  // The same where rows of places may lie anywhere: of the inner part of an image, too.
  bool HasUnitChannelStride(const Operand& x) const {
    return channels_last_buffers.contains(x.buffer) && x.rank() >= 3 && x.strides[1].is(1);
  }
  // A new symbol.
  Dim NewSymbol(ir::SymRange range);
  // An error when the plan runs, where the condition does not hold.
  void Require(Dim condition, std::string_view otherwise);
  // symbol = the element of x, which is 0-d; = value.
  void Publish(Dim symbol, const Operand& x);
  void Set(Dim symbol, Dim value);
  // Steps that are not always run, or more than once, are between these.
  void Enter() { ++depth_; }
  void Leave() { --depth_; }

  // The kernel of a plugin for this operator, and the one for its results' sizes; null where there is none.
  const kernels::Kernel* PluginKernel(const ir::Node& n, bool sizes = false) const;

  PlannedProgram& out() { return out_; }
  uint64_t limit() const { return options_.memory_limit; }
  const PlanOptions& options() const { return options_; }
  const absl::Status& status() const { return status_; }

 private:
  int Intern(const kernels::Expr& e);
  int Compile(Dim e, bool* real);
  void SetStatus(absl::Status s) {
    if (status_.ok()) status_ = std::move(s);
  }

  const ir::Program& program_;
  PlannedProgram& out_;
  const PlanOptions& options_;
  absl::Status status_;
  int depth_ = 0;
  absl::flat_hash_map<Dim, int> symbols_;
  std::vector<Dim> used_;
  absl::flat_hash_set<Dim> given_;
  absl::flat_hash_map<Dim, std::pair<int, bool>> compiled_;
  absl::flat_hash_map<std::tuple<int, int, int, int, int64_t>, int> interned_;
};

class PlanContext : public ir::ArgReader {
 public:
  PlanContext(const ir::Node& n, PlanBuilder& b, std::string_view kernel) : ArgReader(n), b_(b), kernel_(kernel) {}

  // The row's kernel.
  std::string_view kernel() const { return kernel_; }
  PlanBuilder& builder() { return b_; }
  ir::SymTable& syms() { return b_.syms(); }

  // Arguments as tensors of the plan; in(i) is by position in the declaration.
  Operand in(std::string_view name);
  Operand in(size_t i);
  Operand opt_in(std::string_view name);
  Operand of(const ir::Value* v);
  // An argument that is a tensor or a number, which becomes a 0-d tensor of f64 or i64.
  Operand number(const ir::Scalar& s);
  // Integer arguments, symbolic ones too.
  Dim n(std::string_view name) { return ir::ExprOf(sym(name)); }
  std::optional<Dim> opt_n(std::string_view name);
  Dims ns(std::string_view name);
  // The expression of a number: SymInt, SymFloat; nullopt for tensors.
  std::optional<Dim> expr(const ir::Scalar& s);

  // Result i as declared.
  DType out_dtype(size_t i = 0);
  Dims out_sizes(size_t i = 0);
  bool used(size_t i);

  Operand Temp(DType dtype, Dims sizes);  // dense
  // An error where a kernel's own a × b numbers are known not to fit the memory limit.
  void Account(Dim a, Dim b);
  // A number by which places move (an offset, a padding): bounded, so that sums with sizes do not overflow.
  int64_t Shift(int64_t v) {
    constexpr int64_t kLimit = int64_t{1} << 48;
    if (v < -kLimit || v > kLimit) Fail("a number is out of range");
    return ok() ? v : 0;
  }
  // Of an elementwise operator it lies as the images do that it is made of (ChooseLayouts).
  Operand Result(size_t i = 0);
  Operand TempChannelsLast(DType dtype, Dims sizes);   // with channels last
  Operand ResultChannelsLast(size_t i = 0);            // with channels last
  Operand ResultLike(const Operand& x, size_t i = 0);  // as image x lies

  // a == b: nothing where it is known, a check when the plan runs where it is not; an error where it cannot be.
  void RequireEqual(Dim a, Dim b, std::string_view otherwise);
  void RequireLessEqual(Dim a, Dim b, std::string_view otherwise);
  // condition ? a : b
  Dim Choose(Dim condition, Dim a, Dim b);
  // An index that may count from the end.
  Dim FromEnd(Dim index, Dim size);
  // Within [0, size].
  Dim Clamp(Dim v, Dim size);

  // One kernel call, with the kernel's attributes (kernels/attributes.h).
  template <typename Attributes = kernels::NoAttributes>
  void Emit(std::string_view kernel, std::vector<Operand> in, std::vector<Operand> out, DType compute,
            Attributes attributes = {}) {
    Numbers n;
    auto add = [&n](auto&& x) { n.Add(x); };
    kernels::ForEachNumber(attributes, add);
    EmitNumbers(kernel, std::move(in), std::move(out), compute, std::move(n.ints), std::move(n.reals));
  }
  // Operands expanded to the result's sizes, then one call; gives the result.
  template <typename Attributes = kernels::NoAttributes>
  Operand Map(std::string_view kernel, std::vector<Operand> in, Operand out, DType compute,
              Attributes attributes = {}) {
    for (Operand& x : in) x = Expand(std::move(x), out.sizes);
    Operand to = out;
    // In the order in which the result lies, if only within its rows.
    if (b_.HasUnitChannelStride(out)) {
      for (Operand& x : in) x = MoveToLast(x, {1});
      to = MoveToLast(out, {1});
    }
    Emit(kernel, std::move(in), {to}, compute, std::move(attributes));
    return out;
  }
  // A call of a plugin's kernel, which takes its arguments in numbers of its own (kernels/executor/plugin.h).
  void EmitNumbers(const kernels::Kernel& kernel, std::vector<Operand> in, std::vector<Operand> out, DType compute,
                   Dims ints, Reals reals);

  Operand Expand(Operand x, const Dims& sizes);  // to broadcast sizes
  void Copy(const Operand& from, const Operand& to);
  // the same, to a part that no other of this node's copies overlaps
  void CopyPart(const Operand& from, const Operand& to);
  Operand Cast(Operand x, DType dtype);    // x itself when it already is
  Operand Dense(Operand x);                // x itself when it already is
  Operand Reshape(Operand x, Dims sizes);  // a view where strides allow, else of a copy
  Operand Full(Dims sizes, const ir::Scalar& value, DType dtype);
  void Fill(const Operand& x, const ir::Scalar& value);                          // all elements of x
  Operand Constant(DType dtype, std::vector<int64_t> sizes, std::string bytes);  // of exactly that size

  // The number that result i stands for is the element of x; the size of dim `dim` of result i is.
  void PublishNumber(size_t i, const Operand& x);
  void PublishSize(size_t i, int dim, const Operand& x);

  void Return(Operand x) { results_ = {std::move(x)}; }
  void Return(std::vector<Operand> xs) { results_ = std::move(xs); }
  std::vector<Operand>& results() { return results_; }

 private:
  struct Numbers {
    Dims ints;
    Reals reals;
    void Add(int64_t x) { ints.push_back(x); }
    void Add(const Dim& x) { ints.push_back(x); }
    void Add(double x) { reals.push_back(x); }
    void Add(const Real& x) { reals.push_back(x); }
  };
  void EmitNumbers(std::string_view kernel, std::vector<Operand> in, std::vector<Operand> out, DType compute, Dims ints,
                   Reals reals);

  // Whether a kernel that compares takes operands of u64: it gets them as i64 in the same order. Refuses what a kernel
  // would get wrong.
  bool NeedsOtherOrder(const kernels::Kernel& k, absl::Span<const Operand> in, absl::Span<const Operand> out,
                       DType compute);
  Operand WithHighestBitFlipped(const Operand& x, const Operand& to);  // of 64 bits, into `to`

  PlanBuilder& b_;
  std::string_view kernel_;
  std::vector<Operand> results_;
};

// Plans the nodes of a graph whose inputs are among b.values. Refused nodes are put into b.refusals, all of them; other
// errors are returned.
absl::Status PlanGraph(const ir::Graph& g, PlanBuilder& b);

// The kernels' name for a dtype; nullopt where they have none.
std::optional<kernels::DType> NativeType(DType t);
DType FromNative(kernels::DType t);

using PlanFn = void (*)(PlanContext& c);
struct PlanRow {
  std::string_view op;
  PlanFn fn;
  std::string_view kernel;
  bool rounds_on_the_way;
};

// A node that a plugin computes.
void PlanPlugin(PlanContext& c, const kernels::Kernel& kernel);
// "mylib::blend.default".
std::string PluginKernelName(const ir::Node& n);

// Operators that share a function and a kernel ("" : each the kernel of its own base name), as names separated by white
// space. A name is of ATen, or after a slash of the namespace it states; without an overload it is the default one.
struct PlanFamily {
  PlanFn fn;
  std::string_view kernel;
  std::string_view ops;
  bool rounds_on_the_way = false;  // of 16-bit floats: not once, at the end, but each sum of two, or a result between
};

const PlanRow* FindPlanRow(std::string_view op);

// Zeros around images that convolutions alone read: those take them for their own padding.
void ChoosePaddings(const ir::Graph& g, PlanBuilder& b);

absl::Span<const PlanFamily> ElementwisePlans();
absl::Span<const PlanFamily> ViewPlans();
absl::Span<const PlanFamily> ConcatPlans();
absl::Span<const PlanFamily> CreationPlans();
absl::Span<const PlanFamily> DataPlans();
absl::Span<const PlanFamily> ReductionPlans();
absl::Span<const PlanFamily> ProductPlans();
absl::Span<const PlanFamily> ControlPlans();
absl::Span<const PlanFamily> NnPlans();
absl::Span<const PlanFamily> RecurrentPlans();
absl::Span<const PlanFamily> OrderPlans();
absl::Span<const PlanFamily> QuantPlans();
absl::Span<const PlanFamily> RandomPlans();
absl::Span<const PlanFamily> DetectionPlans();

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_LOWERING_RULES_H_
