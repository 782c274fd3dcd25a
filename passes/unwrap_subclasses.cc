// Each export.access_subclass_inner_tensor names an attribute of a parameter; the importer has put the tensor there, so
// a node becomes an input of its own and the wrapper, which nothing reads any more, goes.
#include "base/status_macros.h"
#include "base/text.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

// What a node says of an inner tensor is what the archive holds under its name, where it holds it.
absl::Status CheckDeclared(const ir::Type& declared, const ir::Type& held, std::string_view name) {
  bool same = declared.is_tensor() && declared.dtype == held.dtype && declared.rank() == held.rank();
  for (int d = 0; same && d < held.rank(); ++d) same = !ir::ProvablyDifferent(declared.sizes[d], held.sizes[d]);
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(text::StrCat("export.access_subclass_inner_tensor.default: '", name,
                                                 "' is declared as ", declared.ToString(), ", it is ",
                                                 held.ToString()));
}

}  // namespace

absl::Status UnwrapSubclasses(ir::Program& p) {
  ir::Graph& g = *p.graph;
  text::Map<ir::Value*> inner;                             // by FQN of the inner tensor
  absl::flat_hash_map<const ir::Value*, std::string> fqn;  // of values that are weights or parts of them
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (p.input_specs[i].kind == ir::InputSpec::kParameter || p.input_specs[i].kind == ir::InputSpec::kBuffer)
      fqn[g.inputs()[i]] = p.input_specs[i].target;
  for (ir::Node *n = g.first(), *next; n; n = next) {
    next = n->next();
    if (n->op_name() != "export.access_subclass_inner_tensor.default") continue;
    ir::Value* source = n->Get("src_subclass_tensor").value();
    const std::string* attribute = n->Get("attr").get<std::string>();
    auto it = source ? fqn.find(source) : fqn.end();
    if (it == fqn.end() || !attribute || !n->output())
      return absl::UnimplementedError("export.access_subclass_inner_tensor.default: of a value that is no weight");
    std::string name = text::StrCat(it->second, ".", *attribute);
    ir::Value*& v = inner[name];
    const ir::Type& declared = n->output()->type();
    if (v) {
      RETURN_IF_ERROR(CheckDeclared(declared, v->type(), name));
    } else {
      if (const auto held = p.weights.find(name); held != p.weights.end())
        RETURN_IF_ERROR(CheckDeclared(
            declared,
            ir::Type::Tensor(held->second.dtype, ir::Sizes(held->second.sizes.begin(), held->second.sizes.end())),
            name));
      v = g.AddInput(text::StrCat(source->name(), "_", *attribute), declared);
      ir::InputSpec spec;
      spec.kind = ir::InputSpec::kParameter;
      spec.target = name;
      p.input_specs.push_back(std::move(spec));
      fqn[v] = name;
    }
    g.ReplaceAllUses(n->output(), v);
    g.Erase(n);
  }
  return absl::OkStatus();
}

}  // namespace slipway::passes
