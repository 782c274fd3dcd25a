// Typed access to a node's arguments, so that shape functions, decompositions, lowerings and plans read like formulas.
// The first mistake leaves the rule (rule.h); elsewhere it is kept for status(), and getters return harmless values
// after it.
#ifndef SLIPWAY_IR_OPS_ARGS_H_
#define SLIPWAY_IR_OPS_ARGS_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::ir {

// A Scalar argument: a number known now, or a symbolic one.
struct Scalar {
  enum Kind : uint8_t { kInt, kFloat, kBool, kComplex, kValue } kind = kInt;
  int64_t i = 0;
  double d = 0;  // kFloat; also set for kInt and kBool
  std::complex<double> c;
  Value* value = nullptr;  // kValue: a SymInt/SymFloat/SymBool value, or a 0-d tensor
  bool is_constant() const { return kind != kValue; }
  // Category for type promotion.
  DTypeClass cls() const;
};

class ArgReader {
 public:
  explicit ArgReader(const Node& n) : node_(n) {}
  const Node& node() const { return node_; }

  // A tensor argument; it must be there.
  Value* tensor(std::string_view name);
  Value* opt_tensor(std::string_view name);  // null when None or absent
  Values tensors(std::string_view name);     // Tensor[]; entries null for None
  bool has(std::string_view name) const;     // given (or defaulted) and not None

  int64_t i(std::string_view name);  // an int known now; symbolic is an error naming the argument
  std::optional<int64_t> opt_i(std::string_view name);
  IntOrValue sym(std::string_view name);  // int or symbolic int
  std::optional<IntOrValue> opt_sym(std::string_view name);
  double f(std::string_view name);
  std::optional<double> opt_f(std::string_view name);
  bool b(std::string_view name);
  std::string str(std::string_view name);
  std::optional<std::string> opt_str(std::string_view name);
  std::optional<DType> dtype(std::string_view name);
  Scalar scalar(std::string_view name);
  std::optional<Scalar> opt_scalar(std::string_view name);

  // int[] known now. A single int stands for the declared list length: `n` overrides that length.
  Ints ints(std::string_view name, int n = 0);
  std::optional<Ints> opt_ints(std::string_view name, int n = 0);
  SymInts sym_ints(std::string_view name, int n = 0);
  std::optional<SymInts> opt_sym_ints(std::string_view name, int n = 0);
  std::vector<double> floats(std::string_view name);
  std::optional<std::vector<double>> opt_floats(std::string_view name);

  // A dimension argument wrapped into [0, rank) (a 0-d tensor counts as rank 1).
  int dim(std::string_view name, int rank);
  int WrapDim(int64_t dim, int rank);
  // A list of dims, wrapped, in the order given; None or empty means all dims unless `empty_is_all` is false.
  std::vector<int> dims(std::string_view name, int rank, bool empty_is_all = true);

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  // Records the first error. Unsupported() is exit 4 (the op is fine, we cannot do it), Fail() is exit 3 (bad program),
  // Bug() exit 70.
  void Unsupported(std::string_view why);
  void Fail(std::string_view why);
  void Bug(std::string_view why);
  void SetStatus(absl::Status s) {
    if (status_.ok()) status_ = std::move(s);
  }

 protected:
  const Node& node_;
  absl::Status status_;
  Value* Poison();
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_ARGS_H_
