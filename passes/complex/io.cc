// A view_as_complex follows each such input, a view_as_real precedes each such output; lower-complex, which runs later,
// then finds complex numbers inside the program only.
#include "passes/complex/io.h"

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "ir/builder.h"
#include "passes/keep_state.h"

namespace slipway::passes {
namespace {

bool IsComplex(const ir::Value* v) { return v && v->type().is_tensor() && ir::IsComplex(v->dtype()); }
bool IsComplexInput(const ir::Program& p, size_t i) {
  return p.input_specs[i].kind == ir::InputSpec::kUser && IsComplex(p.graph->inputs()[i]);
}

}  // namespace

std::vector<std::string> ComplexSignature(const ir::Program& p) {
  std::vector<std::string> names;
  for (size_t i = 0; i < p.graph->inputs().size(); ++i)
    if (IsComplexInput(p, i)) names.push_back(text::StrCat("input '", p.graph->inputs()[i]->name(), "'"));
  for (size_t i : UserOutputs(p))
    if (const ir::Value* v = p.graph->outputs[i].value(); IsComplex(v))
      names.push_back(text::StrCat("output '", v->name(), "'"));
  return names;
}

absl::Status TakeComplexAsReal(ir::Program& p) {
  ir::Graph& g = *p.graph;
  ir::Builder front(g, g.first(), nullptr), back(g, nullptr, nullptr);
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (!IsComplexInput(p, i)) continue;
    ir::Value* v = g.inputs()[i];
    for (const ir::OutputSpec& s : p.output_specs)
      if (s.kind == ir::OutputSpec::kUserInputMutation && s.target == v->name())
        return absl::UnimplementedError(text::StrCat("complex input '", v->name(), "' is written to"));
    ir::Type& type = v->mutable_type();
    type.dtype = ir::ToReal(type.dtype);
    type.sizes.push_back(2);
    for (ir::Sym& stride : type.strides) stride = stride * 2;
    if (type.strides_known) type.strides.push_back(1);
    type.storage_offset = type.storage_offset * 2;
    ir::Value* complex = front.Call("aten.view_as_complex.default", {v});
    if (!front.ok()) return front.status();
    g.ReplaceAllUses(v, complex);
    complex->producer()->SetArgAt(0, v);
  }
  absl::flat_hash_map<ir::Value*, ir::Value*> real;  // of outputs so far
  for (size_t i : UserOutputs(p)) {
    ir::Value* v = g.outputs[i].value();
    if (!IsComplex(v)) continue;
    ir::Value*& r = real[v];
    if (!r) {
      r = back.Call("aten.view_as_real.default", {v});
      if (!back.ok()) return back.status();
      const std::string name(v->name());
      g.Rename(v, g.UniqueName(text::StrCat(name, "_complex")));
      g.Rename(r, name);
    }
    g.outputs[i] = r;
  }
  return absl::OkStatus();
}

}  // namespace slipway::passes
