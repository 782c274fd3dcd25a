// Argument getters: each accepts the spellings that exported programs use for one declared type (an integer for a
// float, a single number for a list) and nothing else.
#include "ir/ops/args.h"

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "ir/ops/rule.h"

namespace slipway::ir {

DTypeClass Scalar::cls() const {
  switch (kind) {
    case kInt: return DTypeClass::kIntegral;
    case kFloat: return DTypeClass::kFloating;
    case kBool: return DTypeClass::kBool;
    case kComplex: return DTypeClass::kComplex;
    case kValue:
      switch (value->type().kind) {
        case Type::kSymInt: return DTypeClass::kIntegral;
        case Type::kSymBool: return DTypeClass::kBool;
        case Type::kTensor: return Info(value->dtype()).cls;
        default: return DTypeClass::kFloating;
      }
  }
  return DTypeClass::kUnknown;
}

void ArgReader::Unsupported(std::string_view why) {
  SetStatus(absl::UnimplementedError(text::StrCat(node_.op_name(), ": ", why)));
  LeaveRuleFor(node_, status_);
}
void ArgReader::Fail(std::string_view why) {
  SetStatus(absl::InvalidArgumentError(text::StrCat(node_.op_name(), ": ", why)));
  LeaveRuleFor(node_, status_);
}
void ArgReader::Bug(std::string_view why) {
  SetStatus(absl::InternalError(text::StrCat(node_.op_name(), ": ", why)));
  LeaveRuleFor(node_, status_);
}

Value* ArgReader::Poison() {
  // A private f32 scalar that absorbs what is computed after an error.
  // Users are noted at it: one for each thread.
  static thread_local Graph graph(nullptr);
  static thread_local Value* value = graph.AddInput("poison", Type::Tensor(DType::kFloat32, {}));
  return value;
}

bool ArgReader::has(std::string_view name) const { return !node_.Get(name).is_none(); }

Value* ArgReader::opt_tensor(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (a.is_none()) return nullptr;
  Value* v = a.value();
  if (!v || !v->type().is_tensor()) {
    Fail(text::StrCat("argument '", name, "' is not a tensor"));
    return Poison();
  }
  return v;
}
Value* ArgReader::tensor(std::string_view name) {
  if (Value* v = opt_tensor(name)) return v;
  Fail(text::StrCat("argument '", name, "' is missing"));
  return Poison();
}
Values ArgReader::tensors(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (auto v = a.get<Values>()) return *v;
  if (a.is_none()) return {};
  if (auto ints = a.get<Ints>(); ints && ints->empty()) return {};
  if (Value* v = a.value(); v && v->type().is_tensor()) return {v};
  Fail(text::StrCat("argument '", name, "' is not a list of tensors"));
  return {};
}

std::optional<IntOrValue> ArgReader::opt_sym(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (a.is_none()) return std::nullopt;
  if (auto p = a.get<int64_t>()) return IntOrValue(*p);
  if (auto p = a.get<bool>()) return IntOrValue(int64_t{*p});
  if (Value* v = a.value(); v && v->type().kind == Type::kSymInt) {
    if (auto c = v->type().expr.constant()) return IntOrValue(*c);
    return IntOrValue(v);
  }
  if (auto p = a.get<Ints>(); p && p->size() == 1) return IntOrValue((*p)[0]);
  Fail(text::StrCat("argument '", name, "' is not an integer"));
  return std::nullopt;
}
IntOrValue ArgReader::sym(std::string_view name) {
  if (auto v = opt_sym(name)) return *v;
  Fail(text::StrCat("integer argument '", name, "' is missing"));
  return 0;
}
std::optional<int64_t> ArgReader::opt_i(std::string_view name) {
  auto v = opt_sym(name);
  if (!v) return std::nullopt;
  if (v->value) {
    Unsupported(text::StrCat("argument '", name, "' is symbolic (", ExprOf(*v).ToString(), ")"));
    return std::nullopt;
  }
  return v->constant;
}
int64_t ArgReader::i(std::string_view name) {
  if (auto v = opt_i(name)) return *v;
  Fail(text::StrCat("integer argument '", name, "' is missing"));
  return 0;
}

std::optional<double> ArgReader::opt_f(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (a.is_none()) return std::nullopt;
  if (auto p = a.get<double>()) return *p;
  if (auto p = a.get<int64_t>()) return static_cast<double>(*p);
  if (auto p = a.get<bool>()) return *p ? 1.0 : 0.0;
  if (Value* v = a.value(); v && v->type().is_sym()) {
    if (auto c = v->type().expr.constant()) return static_cast<double>(*c);
    if (v->type().expr.kind() == SymKind::kFloat) return v->type().expr.float_value();
    Unsupported(text::StrCat("argument '", name, "' is symbolic (", v->type().expr.ToString(), ")"));
    return std::nullopt;
  }
  Fail(text::StrCat("argument '", name, "' is not a number"));
  return std::nullopt;
}
double ArgReader::f(std::string_view name) {
  if (auto v = opt_f(name)) return *v;
  Fail(text::StrCat("number argument '", name, "' is missing"));
  return 0;
}
bool ArgReader::b(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (auto p = a.get<bool>()) return *p;
  if (auto p = a.get<int64_t>()) return *p != 0;
  if (a.is_none()) return false;
  if (Value* v = a.value(); v && v->type().kind == Type::kSymBool && v->type().expr.kind() == SymKind::kBool)
    return v->type().expr.bool_value();
  Fail(text::StrCat("argument '", name, "' is not a bool"));
  return false;
}
std::optional<std::string> ArgReader::opt_str(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (a.is_none()) return std::nullopt;
  if (auto p = a.get<std::string>()) return *p;
  Fail(text::StrCat("argument '", name, "' is not a string"));
  return std::nullopt;
}
std::string ArgReader::str(std::string_view name) {
  if (auto s = opt_str(name)) return *s;
  Fail(text::StrCat("string argument '", name, "' is missing"));
  return "";
}
std::optional<DType> ArgReader::dtype(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (auto p = a.get<DType>()) return *p;
  if (!a.is_none()) Fail(text::StrCat("argument '", name, "' is not a dtype"));
  return std::nullopt;
}

std::optional<Scalar> ArgReader::opt_scalar(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (a.is_none()) return std::nullopt;
  Scalar s;
  if (auto p = a.get<int64_t>()) {
    s.kind = Scalar::kInt, s.i = *p, s.d = static_cast<double>(*p);
  } else if (auto p = a.get<double>()) {
    s.kind = Scalar::kFloat, s.d = *p;
  } else if (auto p = a.get<bool>()) {
    s.kind = Scalar::kBool, s.i = *p, s.d = *p;
  } else if (auto p = a.get<std::complex<double>>()) {
    s.kind = Scalar::kComplex, s.c = *p;
  } else if (Value* v = a.value()) {
    if (v->type().kind == Type::kSymInt && v->type().expr.is_constant()) {
      s.kind = Scalar::kInt, s.i = *v->type().expr.constant(), s.d = static_cast<double>(s.i);
    } else {
      s.kind = Scalar::kValue, s.value = v;
    }
  } else {
    Fail(text::StrCat("argument '", name, "' is not a number"));
  }
  if (s.kind != Scalar::kComplex) s.c = s.d;
  return s;
}
Scalar ArgReader::scalar(std::string_view name) {
  if (auto s = opt_scalar(name)) return *s;
  Fail(text::StrCat("number argument '", name, "' is missing"));
  return {};
}

std::optional<SymInts> ArgReader::opt_sym_ints(std::string_view name, int n) {
  const Arg& a = node_.Get(name);
  if (a.is_none()) return std::nullopt;
  SymInts out;
  if (auto p = a.get<Ints>()) {
    out.assign(p->begin(), p->end());
  } else if (auto p = a.get<SymInts>()) {
    out = *p;
    for (IntOrValue& x : out)
      if (x.value)
        if (auto c = x.value->type().expr.constant(); c && x.value->type().kind == Type::kSymInt) x = *c;
  } else if (auto p = a.get<int64_t>()) {
    out.push_back(*p);
  } else if (Value* v = a.value(); v && v->type().kind == Type::kSymInt) {
    out.push_back(v);
  } else if (auto p = a.get<Values>()) {
    for (Value* x : *p) {
      if (!x || x->type().kind != Type::kSymInt)
        Fail(text::StrCat("argument '", name, "' is not a list of integers"));
      else
        out.push_back(x);
    }
  } else {
    Fail(text::StrCat("argument '", name, "' is not a list of integers"));
    return std::nullopt;
  }
  int want = n;
  if (want == 0)
    if (int k = node_.op().ArgIndex(name); k >= 0) want = node_.op().args[k].list_size;
  if (out.size() == 1 && want > 1) out.resize(want, out[0]);
  return out;
}
SymInts ArgReader::sym_ints(std::string_view name, int n) { return opt_sym_ints(name, n).value_or(SymInts{}); }
std::optional<Ints> ArgReader::opt_ints(std::string_view name, int n) {
  auto s = opt_sym_ints(name, n);
  if (!s) return std::nullopt;
  Ints out;
  for (const IntOrValue& x : *s) {
    if (x.value) {
      Unsupported(text::StrCat("argument '", name, "' is symbolic (", ExprOf(x).ToString(), ")"));
      return std::nullopt;
    }
    out.push_back(x.constant);
  }
  return out;
}
Ints ArgReader::ints(std::string_view name, int n) { return opt_ints(name, n).value_or(Ints{}); }
std::optional<std::vector<double>> ArgReader::opt_floats(std::string_view name) {
  const Arg& a = node_.Get(name);
  if (a.is_none()) return std::nullopt;
  if (auto p = a.get<std::vector<double>>()) return *p;
  if (auto p = a.get<Ints>()) return std::vector<double>(p->begin(), p->end());
  if (auto p = a.get<double>()) return std::vector<double>{*p};
  Fail(text::StrCat("argument '", name, "' is not a list of numbers"));
  return std::nullopt;
}
std::vector<double> ArgReader::floats(std::string_view name) {
  return opt_floats(name).value_or(std::vector<double>{});
}

int ArgReader::WrapDim(int64_t dim, int rank) {
  int n = rank == 0 ? 1 : rank;
  if (dim < -n || dim >= n) {
    Fail(text::StrCat("dim ", dim, " is outside a tensor of rank ", rank));
    return 0;
  }
  return static_cast<int>(dim < 0 ? dim + n : dim);
}
int ArgReader::dim(std::string_view name, int rank) { return WrapDim(i(name), rank); }
std::vector<int> ArgReader::dims(std::string_view name, int rank, bool empty_is_all) {
  std::vector<int> out;
  auto given = opt_ints(name);
  if (!given || (given->empty() && empty_is_all)) {
    for (int d = 0; d < rank; ++d) out.push_back(d);
    return out;
  }
  for (int64_t d : *given) out.push_back(WrapDim(d, rank));
  return out;
}

}  // namespace slipway::ir
