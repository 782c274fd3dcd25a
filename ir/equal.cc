// Two programs walked side by side; the first difference ends the walk.
#include "ir/equal.h"

#include <bit>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "io/file_access.h"
#include "ir/ops/op_table.h"
#include "ir/sym/internal.h"

namespace slipway::ir {
namespace {

bool Same(double a, double b) { return (a != a && b != b) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
bool Same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!Same(a[i], b[i])) return false;
  return true;
}
bool Same(Sym a, Sym b) { return CompareSyms(a, b) == 0; }
bool Same(const Sizes& a, const Sizes& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!Same(a[i], b[i])) return false;
  return true;
}

class Comparer {
 public:
  explicit Comparer(std::string* why) : why_(why) {}

  bool Archives(const Archive& a, const Archive& b) {
    if (a.producer != b.producer) return Differ("producers");
    if (a.extra_files != b.extra_files) return Differ("extra files");
    if (a.programs.size() != b.programs.size()) return Differ("numbers of programs");
    for (size_t i = 0; i < a.programs.size(); ++i)
      if (!Programs(*a.programs[i], *b.programs[i])) return false;
    return true;
  }

  bool Programs(const Program& a, const Program& b) {
    where_ = text::StrCat("program ", a.name);
    if (a.name != b.name) return Differ("names");
    if (a.form != b.form) return Differ("forms");
    if (a.schema_major != b.schema_major || a.schema_minor != b.schema_minor) return Differ("schema versions");
    const std::tuple<const char*, const std::string&, const std::string&> fields[] = {
        {"torch versions", a.torch_version, b.torch_version},
        {"dialects", a.verifier_dialect, b.verifier_dialect},
        {"in_specs", a.in_spec, b.in_spec},
        {"out_specs", a.out_spec, b.out_spec},
        {"module calls", a.module_call_graph_json, b.module_call_graph_json},
        {"namedtuple fields", a.namedtuple_fields_json, b.namedtuple_fields_json}};
    for (const auto& [what, x, y] : fields)
      if (x != y) return Differ(what);
    if (a.forward_arg_names != b.forward_arg_names) return Differ("names of forward's arguments");
    if (a.guards != b.guards) return Differ("guards");
    if (!Ranges(a, b) || !Symbols(*a.syms, *b.syms) || !Weights(a, b) || !Specs(a, b)) return false;
    return Graphs(*a.graph, *b.graph);
  }

 private:
  std::string* why_;
  std::string where_;
  absl::flat_hash_map<const Value*, const Value*> values_;
  absl::flat_hash_map<const Graph*, const Graph*> graphs_;
  absl::flat_hash_map<const Storage*, const Storage*> storages_, storages_back_;

  bool Differ(std::string_view what) {
    if (why_) *why_ = text::StrCat(where_, ": ", what, " differ");
    return false;
  }

  bool Ranges(const Program& a, const Program& b) {
    bool same = a.range_constraints.size() == b.range_constraints.size();
    for (size_t i = 0; same && i < a.range_constraints.size(); ++i) {
      const auto &x = a.range_constraints[i], &y = b.range_constraints[i];
      same = x.first == y.first && x.second.min == y.second.min && x.second.max == y.second.max;
    }
    return same || Differ("range constraints");
  }

  bool Symbols(const SymTable& a, const SymTable& b) {
    std::vector<SymbolInfo> x = a.symbols(), y = b.symbols();
    if (x.size() != y.size()) return Differ("numbers of symbols");
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i].name != y[i].name || x[i].range != y[i].range || x[i].positive != y[i].positive ||
          x[i].hint != y[i].hint)
        return Differ(text::StrCat("symbols ", x[i].name, " and ", y[i].name));
    return true;
  }

  bool Storages(const std::shared_ptr<const Storage>& a, const std::shared_ptr<const Storage>& b) {
    auto [there, first] = storages_.try_emplace(a.get(), b.get());
    auto [back, first_back] = storages_back_.try_emplace(b.get(), a.get());
    if (there->second != b.get() || back->second != a.get()) return false;
    if (!first || !first_back) return true;
    if (a->size != b->size) return false;
    auto splat_a = std::get_if<Splat>(&a->bytes), splat_b = std::get_if<Splat>(&b->bytes);
    if (splat_a || splat_b) return splat_a && splat_b && Same(splat_a->value, splat_b->value);
    auto random_a = std::get_if<Random>(&a->bytes), random_b = std::get_if<Random>(&b->bytes);
    if (random_a || random_b) return random_a && random_b && random_a->seed == random_b->seed;
    auto bytes_a = std::get_if<io::Bytes>(&a->bytes), bytes_b = std::get_if<io::Bytes>(&b->bytes);
    const io::FileRange* file_a = bytes_a ? bytes_a->file_range() : nullptr;
    const io::FileRange* file_b = bytes_b ? bytes_b->file_range() : nullptr;
    if (file_a && file_b)
      return file_a->offset == file_b->offset && file_a->size == file_b->size &&
             io::IsSameFile(*file_a->file, *file_b->file);
    return MappedBytes(*a) == MappedBytes(*b);
  }

  bool Weights(const Program& a, const Program& b) {
    if (a.weights.size() != b.weights.size()) return Differ("numbers of weights");
    for (auto x = a.weights.begin(), y = b.weights.begin(); x != a.weights.end(); ++x, ++y) {
      const TensorRef &s = x->second, &t = y->second;
      if (x->first != y->first || s.dtype != t.dtype || s.sizes != t.sizes || s.strides != t.strides ||
          s.offset != t.offset || !Storages(s.storage, t.storage))
        return Differ(text::StrCat("weights ", x->first, " and ", y->first));
    }
    if (a.objects.size() != b.objects.size()) return Differ("numbers of objects");
    for (const auto& [name, object] : a.objects) {
      auto other = b.objects.find(name);
      if (other == b.objects.end() || object.second != other->second.second ||
          !Storages(object.first, other->second.first))
        return Differ(text::StrCat("objects ", name));
    }
    return true;
  }

  bool Specs(const Program& a, const Program& b) {
    if (a.input_specs.size() != b.input_specs.size()) return Differ("numbers of input_specs");
    for (size_t i = 0; i < a.input_specs.size(); ++i) {
      const InputSpec &x = a.input_specs[i], &y = b.input_specs[i];
      if (x.kind != y.kind || x.target != y.target || x.persistent != y.persistent || !Args(x.constant, y.constant))
        return Differ(text::StrCat("input_specs ", i));
    }
    if (a.output_specs.size() != b.output_specs.size()) return Differ("numbers of output_specs");
    for (size_t i = 0; i < a.output_specs.size(); ++i)
      if (a.output_specs[i].kind != b.output_specs[i].kind || a.output_specs[i].target != b.output_specs[i].target)
        return Differ(text::StrCat("output_specs ", i));
    return true;
  }

  bool Types(const Type& a, const Type& b) {
    static const Device cpu;
    const Device &x = a.device ? *a.device : cpu, &y = b.device ? *b.device : cpu;
    return a.kind == b.kind && a.dtype == b.dtype && a.strides_known == b.strides_known &&
           a.requires_grad == b.requires_grad && a.layout == b.layout && Same(a.sizes, b.sizes) &&
           Same(a.strides, b.strides) && Same(a.storage_offset, b.storage_offset) && x == y && Same(a.expr, b.expr) &&
           a.class_name == b.class_name;
  }

  bool Define(const Value* a, const Value* b) {
    if (!a != !b) return Differ("results");
    if (!a) return true;
    if (a->name() != b->name()) return Differ(text::StrCat("names %", a->name(), " and %", b->name()));
    if (!Types(a->type(), b->type()))
      return Differ(
          text::StrCat("types of %", a->name(), " (", a->type().ToString(), " and ", b->type().ToString(), ")"));
    values_[a] = b;
    return true;
  }

  bool Uses(const Value* a, const Value* b) {
    if (!a || !b) return a == b;
    auto it = values_.find(a);
    return it != values_.end() && it->second == b;
  }

  bool Args(const Arg& a, const Arg& b) {
    if (a.v.index() != b.v.index()) return false;
    if (a.is_none()) return true;
    auto lists = [](const auto& x, const auto& y, auto same) {
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (!same(x[i], y[i])) return false;
      return true;
    };
    auto uses = [&](const Value* x, const Value* y) { return Uses(x, y); };
    if (auto x = a.get<Value*>()) return Uses(*x, *b.get<Value*>());
    if (auto x = a.get<Values>()) return lists(*x, *b.get<Values>(), uses);
    if (auto x = a.get<SymInts>())
      return lists(*x, *b.get<SymInts>(), [&](const IntOrValue& s, const IntOrValue& t) {
        return Uses(s.value, t.value) && (s.value || s.constant == t.constant);
      });
    if (auto x = a.get<std::vector<Values>>())
      return lists(*x, *b.get<std::vector<Values>>(),
                   [&](const Values& s, const Values& t) { return lists(s, t, uses); });
    if (auto x = a.get<double>()) return Same(*x, *b.get<double>());
    if (auto x = a.get<std::complex<double>>()) {
      auto y = b.get<std::complex<double>>();
      return Same(x->real(), y->real()) && Same(x->imag(), y->imag());
    }
    if (auto x = a.get<std::vector<double>>()) return Same(*x, *b.get<std::vector<double>>());
    if (auto x = a.get<std::vector<std::vector<double>>>())
      return lists(*x, *b.get<std::vector<std::vector<double>>>(),
                   [](const auto& s, const auto& t) { return Same(s, t); });
    if (auto x = a.get<SubGraph>()) {
      const Graph *s = x->get(), *t = b.get<SubGraph>()->get();
      if (!s || !t) return s == t;
      auto [it, first] = graphs_.try_emplace(s, t);
      return first ? Graphs(*s, *t) : it->second == t;
    }
    return a.v == b.v;
  }

  bool Nodes(const Node& a, const Node& b) {
    const std::string outer = where_;
    where_ = text::StrCat(outer, ", ", a.op_name(), a.output() ? text::StrCat(" %", a.output()->name()) : "");
    if (a.op_name() != b.op_name()) return Differ(text::StrCat("operators (", b.op_name(), ")"));
    if (a.args().size() != b.args().size()) return Differ("numbers of arguments");
    for (size_t i = 0; i < a.args().size(); ++i) {
      const NamedArg &x = a.args()[i], &y = b.args()[i];
      const std::string name = x.name.empty() ? text::StrCat(i) : x.name;
      if (x.name != y.name || x.kind != y.kind) return Differ(text::StrCat("names or kinds of argument ", name));
      if (why_) why_->clear();
      if (!Args(x.arg, y.arg)) return why_ && !why_->empty() ? false : Differ(text::StrCat("arguments ", name));
    }
    if (a.groups() != b.groups()) return Differ("groups of results");
    if (a.hop_single_return != b.hop_single_return) return Differ("kinds of return");
    const Source *s = a.source().get(), *t = b.source().get();
    if (!s != !t || (s && (s->stack_trace != t->stack_trace || s->nn_module_stack != t->nn_module_stack ||
                           s->torch_fn != t->torch_fn || s->other != t->other)))
      return Differ("sources");
    if (a.outputs().size() != b.outputs().size()) return Differ("numbers of results");
    for (size_t i = 0; i < a.outputs().size(); ++i)
      if (!Define(a.outputs()[i], b.outputs()[i])) return false;
    where_ = outer;
    return true;
  }

  bool Graphs(const Graph& a, const Graph& b) {
    if (a.inputs().size() != b.inputs().size()) return Differ("numbers of inputs");
    for (size_t i = 0; i < a.inputs().size(); ++i)
      if (!Define(a.inputs()[i], b.inputs()[i])) return false;
    if (a.node_count() != b.node_count()) return Differ("numbers of nodes");
    for (const Node *x = a.first(), *y = b.first(); x && y; x = x->next(), y = y->next())
      if (!Nodes(*x, *y)) return false;
    if (a.outputs.size() != b.outputs.size()) return Differ("numbers of outputs");
    for (size_t i = 0; i < a.outputs.size(); ++i)
      if (!Args(a.outputs[i], b.outputs[i])) return Differ(text::StrCat("outputs ", i));
    return a.single_tensor_return == b.single_tensor_return || Differ("kinds of return");
  }
};

}  // namespace

bool Equal(const Program& a, const Program& b, std::string* why) { return Comparer(why).Programs(a, b); }
bool Equal(const Archive& a, const Archive& b, std::string* why) { return Comparer(why).Archives(a, b); }

}  // namespace slipway::ir
