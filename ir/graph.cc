// Graph surgery: nodes, values and the use lists that tie them.
#include "ir/graph.h"

#include <algorithm>
#include <cassert>

#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::ir {

// ---- Type

Type Type::Tensor(DType dtype, Sizes sizes) {
  Type t;
  t.kind = kTensor;
  t.dtype = dtype;
  t.sizes = std::move(sizes);
  return t;
}
namespace {
Type SymbolicType(Type::Kind kind, Sym expr) {
  Type t;
  t.kind = kind;
  t.expr = expr;
  return t;
}
}  // namespace
Type Type::SymInt(Sym expr) { return SymbolicType(kSymInt, expr); }
Type Type::SymFloat(Sym expr) { return SymbolicType(kSymFloat, expr); }
Type Type::SymBool(Sym expr) { return SymbolicType(kSymBool, expr); }

std::optional<std::vector<int64_t>> Type::StaticSizes() const {
  std::vector<int64_t> out;
  out.reserve(sizes.size());
  for (const Sym& s : sizes) {
    if (!s.is_constant()) return std::nullopt;
    out.push_back(*s.constant());
  }
  return out;
}

std::optional<int64_t> Type::StaticNumel() const {
  int64_t n = 1;
  for (const Sym& s : sizes) {
    if (!s.is_constant()) return std::nullopt;
    if (__builtin_mul_overflow(n, *s.constant(), &n)) return std::nullopt;
  }
  return n;
}

std::string Type::ToString() const {
  switch (kind) {
    case kNone: return "none";
    case kTensor: {
      std::string out = text::StrCat(Name(dtype), "[");
      for (size_t i = 0; i < sizes.size(); ++i) text::StrAppend(&out, i ? "," : "", sizes[i].ToString());
      return text::StrCat(out, "]");
    }
    case kSymInt: return text::StrCat("i64(", expr.ToString(), ")");
    case kSymFloat: return text::StrCat("f64(", expr.ToString(), ")");
    case kSymBool: return text::StrCat("bool(", expr.ToString(), ")");
    case kToken: return "token";
    case kObject: return text::StrCat("object(", class_name, ")");
    case kConstant: return "constant";
  }
  return "?";
}

Sym ExprOf(const IntOrValue& v) { return v.value ? v.value->type().expr : Sym(v.constant); }

// ---- Arg

Arg::Arg(SymInts x) {
  if (std::none_of(x.begin(), x.end(), [](const IntOrValue& i) { return i.value != nullptr; })) {
    Ints ints;
    for (const IntOrValue& i : x) ints.push_back(i.constant);
    v = std::move(ints);
  } else {
    v = std::move(x);
  }
}

void Arg::ForEachValue(const std::function<void(Value*)>& f) const {
  if (auto p = get<Value*>()) return f(*p);
  if (auto p = get<Values>()) {
    for (Value* x : *p)
      if (x) f(x);
  } else if (auto s = get<SymInts>()) {
    for (const IntOrValue& x : *s)
      if (x.value) f(x.value);
  } else if (auto n = get<std::vector<Values>>()) {
    for (const Values& vs : *n)
      for (Value* x : vs)
        if (x) f(x);
  }
}

void Arg::ReplaceValues(const std::function<Value*(Value*)>& f) {
  if (auto p = std::get_if<Value*>(&v)) {
    *p = f(*p);
  } else if (auto p = std::get_if<Values>(&v)) {
    for (Value*& x : *p)
      if (x) x = f(x);
  } else if (auto s = std::get_if<SymInts>(&v)) {
    for (IntOrValue& x : *s)
      if (x.value) x.value = f(x.value);
  } else if (auto n = std::get_if<std::vector<Values>>(&v)) {
    for (Values& vs : *n)
      for (Value*& x : vs)
        if (x) x = f(x);
  }
}

// ---- Source

std::string Source::ModulePath() const {
  // The innermost entry: "key,path,type".
  size_t begin = nn_module_stack.rfind(';');
  std::string_view last = std::string_view(nn_module_stack).substr(begin == std::string::npos ? 0 : begin + 1);
  std::vector<std::string_view> parts = text::Split(last, ',');
  if (parts.size() < 2) return "";
  std::string_view path = parts[1];
  if (path.starts_with("L['self'].")) path.remove_prefix(10);
  if (path == "L['self']") return "";
  return std::string(path);
}

std::string Source::CodeLine() const {
  size_t at = stack_trace.rfind("File \"");
  if (at == std::string::npos) return "";
  size_t begin = at + 6, end = stack_trace.find('"', begin);
  if (end == std::string::npos) return "";
  std::string_view file = std::string_view(stack_trace).substr(begin, end - begin);
  if (size_t slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  size_t line = stack_trace.find(", line ", end);
  if (line == std::string::npos) return std::string(file);
  line += 7;
  size_t stop = stack_trace.find_first_not_of("0123456789", line);
  return text::StrCat(file, ":", stack_trace.substr(line, stop == std::string::npos ? stop : stop - line));
}

std::string Source::Describe() const {
  std::string module = ModulePath(), line = CodeLine();
  if (module.empty()) return line;
  return line.empty() ? module : text::StrCat(module, " (", line, ")");
}

// ---- Node

std::string_view Node::op_name() const { return op_->name; }

const Arg* Node::Find(std::string_view name) const {
  for (const NamedArg& a : args_)
    if (a.name == name) return &a.arg;
  return nullptr;
}

const Arg& Node::Get(std::string_view name) const {
  static const Arg& none = *new Arg();
  if (const Arg* a = Find(name)) return *a;
  int i = op_->ArgIndex(name);
  return i >= 0 && op_->args[i].has_default ? op_->args[i].default_value : none;
}

void Node::Use(const Arg& a) {
  a.ForEachValue([&](Value* v) { v->users_.push_back(this); });
}
void Node::Unuse(const Arg& a) {
  a.ForEachValue([&](Value* v) {
    auto it = std::find(v->users_.rbegin(), v->users_.rend(), this);
    assert(it != v->users_.rend());
    std::swap(*it, v->users_.back());
    v->users_.pop_back();
  });
}

void Node::SetArgAt(size_t i, Arg a) {
  Unuse(args_[i].arg);
  args_[i].arg = std::move(a);
  Use(args_[i].arg);
}
void Node::SetArg(std::string_view name, Arg a) {
  for (size_t i = 0; i < args_.size(); ++i)
    if (args_[i].name == name) return SetArgAt(i, std::move(a));
  AppendArg({std::string(name), std::move(a), 0});
}
void Node::AppendArg(NamedArg a) {
  args_.push_back(std::move(a));
  Use(args_.back().arg);
}
void Node::RemoveArg(std::string_view name) {
  for (size_t i = 0; i < args_.size(); ++i) {
    if (args_[i].name != name) continue;
    Unuse(args_[i].arg);
    args_.erase(args_.begin() + i);
    return;
  }
}
void Node::ReplaceUses(Value* from, Value* to) {
  for (NamedArg& a : args_) {
    Unuse(a.arg);
    a.arg.ReplaceValues([&](Value* v) { return v == from ? to : v; });
    Use(a.arg);
  }
}

// ---- Graph

Value* Graph::NewValue(std::string name, Type type) {
  if (name.empty() || by_name_.contains(name)) name = UniqueName(name.empty() ? "v" : name);
  Value* v = &values_.emplace_back();
  v->name_ = std::move(name);
  v->type_ = std::move(type);
  v->graph_ = this;
  by_name_[v->name_] = v;
  return v;
}

std::string Graph::UniqueName(std::string_view base) {
  if (!by_name_.contains(base)) return std::string(base);
  int& n = next_suffix_[base];
  std::string name;
  do name = text::StrCat(base, "_", ++n);
  while (by_name_.contains(name));
  return name;
}

void Graph::Rename(Value* v, std::string name) {
  if (v->name_ == name) return;
  by_name_.erase(v->name_);
  v->name_ = UniqueName(name);
  by_name_[v->name_] = v;
}

void Graph::TakeName(Value* to, Value* from) {
  std::string name = from->name_;
  Rename(from, UniqueName(name));
  Rename(to, std::move(name));
}

Value* Graph::FindValue(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

Node* Graph::Insert(const OpDef& op, std::vector<NamedArg> args, Node* before) {
  Node* n = &nodes_.emplace_back();
  n->op_ = &op;
  n->graph_ = this;
  n->args_ = std::move(args);
  for (const NamedArg& a : n->args_) n->Use(a.arg);
  n->next_ = before;
  n->prev_ = before ? before->prev_ : last_;
  (n->prev_ ? n->prev_->next_ : first_) = n;
  (before ? before->prev_ : last_) = n;
  ++count_;
  return n;
}

Value* Graph::AddOutput(Node* n, std::string name, Type type) {
  Value* v = NewValue(std::move(name), std::move(type));
  v->producer_ = n;
  v->index_ = static_cast<int>(n->outputs_.size());
  n->outputs_.push_back(v);
  return v;
}

void Graph::Erase(Node* n) {
  assert(!n->erased_);
  for (const NamedArg& a : n->args_) n->Unuse(a.arg);
  n->args_.clear();
  for (Value* v : n->outputs_) {
    if (!v) continue;
    assert(v->users_.empty());
    auto it = by_name_.find(v->name_);
    if (it != by_name_.end() && it->second == v) by_name_.erase(it);
  }
  (n->prev_ ? n->prev_->next_ : first_) = n->next_;
  (n->next_ ? n->next_->prev_ : last_) = n->prev_;
  n->erased_ = true;
  --count_;
}

void Graph::MoveBefore(Node* n, Node* before) {
  if (n == before || n->next_ == before) return;
  (n->prev_ ? n->prev_->next_ : first_) = n->next_;
  (n->next_ ? n->next_->prev_ : last_) = n->prev_;
  n->next_ = before;
  n->prev_ = before ? before->prev_ : last_;
  (n->prev_ ? n->prev_->next_ : first_) = n;
  (before ? before->prev_ : last_) = n;
}

Value* Graph::AddInput(std::string name, Type type) {
  Value* v = NewValue(std::move(name), std::move(type));
  v->index_ = static_cast<int>(inputs_.size());
  inputs_.push_back(v);
  return v;
}

Value* AddWeight(Program& p, InputSpec::Kind kind, std::string_view fqn, TensorRef t, std::string value_name) {
  std::string unique(fqn);
  for (int k = 1; p.weights.contains(unique); ++k) unique = text::StrCat(fqn, "_", k);
  Type type = Type::Tensor(t.dtype, Sizes(t.sizes.begin(), t.sizes.end()));
  type.strides_known = true;
  type.strides.assign(t.strides.begin(), t.strides.end());
  p.input_specs.push_back({kind, unique});
  p.weights.emplace(std::move(unique), std::move(t));
  return p.graph->AddInput(std::move(value_name), std::move(type));
}

void RemoveInput(Program& p, size_t i) {
  p.graph->RemoveInput(i);
  p.input_specs.erase(p.input_specs.begin() + static_cast<std::ptrdiff_t>(i));
}

void RemoveUnreadWeights(Program& p) {
  const text::Set updated = UpdatedWeights(p);
  text::Map<int> inputs_of;
  for (const InputSpec& s : p.input_specs) ++inputs_of[s.target];
  std::vector<std::string> unread;
  for (size_t i = p.input_specs.size(); i-- > 0;) {
    const InputSpec& spec = p.input_specs[i];
    const Value* v = p.graph->inputs()[i];
    if (!spec.is_weight() || !v->users().empty() || p.graph->IsOutput(v) || updated.contains(spec.target)) continue;
    if (--inputs_of[spec.target] == 0) unread.push_back(spec.target);
    RemoveInput(p, i);
  }
  for (const std::string& name : unread) p.weights.erase(name);
}

std::vector<std::string> AbsentWeights(const Program& p) {
  std::vector<std::string> names;
  for (const InputSpec& s : p.input_specs)
    if ((s.kind == InputSpec::kParameter || (s.kind == InputSpec::kBuffer && s.persistent)) &&
        !p.weights.contains(s.target) && !p.objects.contains(s.target))
      names.push_back(s.target);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

text::Set UpdatedWeights(const Program& p) {
  text::Set names;
  for (const OutputSpec& s : p.output_specs)
    if (s.updates_weight()) names.insert(s.target);
  return names;
}

void Graph::RemoveInput(size_t i) {
  assert(inputs_[i]->users_.empty());
  by_name_.erase(inputs_[i]->name_);
  inputs_.erase(inputs_.begin() + i);
  for (size_t k = i; k < inputs_.size(); ++k) inputs_[k]->index_ = static_cast<int>(k);
}

void Graph::ReplaceAllUses(Value* from, Value* to) {
  if (from == to) return;
  while (!from->users_.empty()) from->users_.back()->ReplaceUses(from, to);
  for (Arg& a : outputs) a.ReplaceValues([&](Value* v) { return v == from ? to : v; });
}

bool Graph::IsOutput(const Value* v) const {
  bool found = false;
  for (const Arg& a : outputs) a.ForEachValue([&](Value* x) { found |= x == v; });
  return found;
}

// ---- Cloning

}  // namespace slipway::ir
