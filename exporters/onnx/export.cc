// The ONNX exporter's main line: bind inputs and weights, lower, describe, check, write.
#include "exporters/onnx/export.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "exporters/onnx/check.h"
#include "exporters/onnx/lowering.h"
#include "exporters/onnx/types.h"
#include "exporters/onnx/wire.h"
#include "ir/ops/op_table.h"

namespace slipway::exporters {

using ir::DType;
using ir::InputSpec;
using ir::OutputSpec;
using onnx_out::V;

int IrVersionFor(int opset) {
  // Opset -> IR version of the ONNX release that introduced it.
  switch (opset) {
    case 18: return 8;
    case 19: case 20: return 9;
    case 21: case 22: return 10;
    case 23: return 11;
    default: return 12;
  }
}

bool OnnxLegal(const ir::Node& n, int opset) { return onnx_out::FindRow(n.op_name(), opset, &n) != nullptr; }

namespace {

void Describe(onnx::ValueInfoProto* info, const std::string& name, const ir::Type& t) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  DType d = t.is_tensor() ? t.dtype
            : t.kind == ir::Type::kSymInt ? DType::kInt64
            : t.kind == ir::Type::kSymFloat ? DType::kFloat64 : DType::kBool;
  tensor->set_elem_type(onnx_out::OnnxType(d));
  auto* shape = tensor->mutable_shape();
  for (const ir::Sym& s : t.sizes) {
    auto* dim = shape->add_dim();
    if (auto c = s.constant()) dim->set_dim_value(*c);
    else dim->set_dim_param(s.ToString());
  }
}

std::string RangeText(const ir::SymbolInfo& s) {
  std::string max = s.range.max >= std::numeric_limits<int64_t>::max() - 1 ? "inf" : text::StrCat(s.range.max);
  return text::StrCat(s.name, " = ", std::max<int64_t>(s.range.min, 0), "..", max);
}

std::vector<Unsupported> Group(const std::vector<onnx_out::GraphLowering::Problem>& problems) {
  std::map<std::pair<std::string, std::string>, Unsupported> by;
  for (const auto& p : problems) {
    std::string op(p.node->op_name()), reason(p.status.message());
    Unsupported& u = by[{op, reason}];
    if (u.count++ == 0) {
      u.op = op;
      u.reason = reason;
      if (p.node->source()) u.first_place = p.node->source()->Describe();
    }
  }
  std::vector<Unsupported> out;
  for (auto& [key, u] : by) out.push_back(std::move(u));
  return out;
}

}  // namespace

std::thread PrepareOnnx(int opset) {
  return std::thread([opset] {
    if (opset >= kMinOpset && opset <= kMaxOpset) onnx_out::EnsureSchemas(opset);
  });
}

absl::StatusOr<OnnxReport> ExportOnnx(const ir::Program& p, const std::string& path, const OnnxOptions& options,
                                      bool dry_run, OnnxReport* on_failure) {
  if (options.opset < kMinOpset || options.opset > kMaxOpset)
    return absl::UnimplementedError(
        text::StrCat("opset ", options.opset, " (supported: ", kMinOpset, " … ", kMaxOpset, ")"));
  onnx_out::EnsureSchemas(options.opset);
  onnx::ModelProto model;
  model.set_ir_version(IrVersionFor(options.opset));
  model.set_producer_name("slipway");
  auto* opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(options.opset);
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name(p.name.empty() ? "model" : p.name);

  onnx_out::EmitterShared shared;
  shared.opset = options.opset;
  shared.strict_types = options.strict_types;
  onnx_out::Emitter emitter(graph, &shared);
  onnx_out::GraphLowering lowering(emitter, nullptr);
  OnnxReport report;
  report.nodes_in = static_cast<int>(p.graph->node_count());

  // Inputs: the user's in order, used or not; weights become initializers when first used.
  std::vector<onnx_out::WeightRef> weights;
  std::vector<std::string> missing;
  absl::flat_hash_map<const ir::Value*, size_t> spec_of;
  for (size_t i = 0; i < p.graph->inputs().size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    spec_of[v] = i;
    const InputSpec& s = p.input_specs[i];
    if (s.kind != InputSpec::kUser || v->type().kind == ir::Type::kConstant) continue;
    if (v->type().is_tensor() && !onnx_out::OnnxType(v->dtype())) {
      report.unsupported.push_back({"input " + v->name(), text::StrCat("ONNX has no type for ", ir::Name(v->dtype())), "", 1});
      continue;
    }
    std::string name = emitter.UniqueName(v->name());
    Describe(graph->add_input(), name, v->type());
    lowering.Bind(v, {name, v->type().is_tensor() ? v->dtype()
                            : v->type().kind == ir::Type::kSymInt ? DType::kInt64
                            : v->type().kind == ir::Type::kSymFloat ? DType::kFloat64 : DType::kBool,
                      v->type().is_tensor() ? v->rank() : 0});
  }
  lowering.resolve = [&](const ir::Value* v) -> V {
    auto it = spec_of.find(v);
    if (it == spec_of.end()) return {};
    const InputSpec& s = p.input_specs[it->second];
    auto w = p.weights.find(s.target);
    if (s.kind == InputSpec::kUser || s.kind == InputSpec::kConstant) return {};
    if (w == p.weights.end()) {
      missing.push_back(s.target);
      return {"?", v->dtype(), v->rank()};
    }
    if (!onnx_out::OnnxType(w->second.dtype)) {
      emitter.SetStatus(absl::UnimplementedError(
          text::StrCat("weight '", s.target, "': ONNX has no type for ", ir::Name(w->second.dtype))));
      return {"?", v->dtype(), v->rank()};
    }
    std::string name = emitter.UniqueName(s.target);
    weights.push_back({name, w->second});
    return {name, w->second.dtype, static_cast<int>(w->second.sizes.size())};
  };

  std::vector<onnx_out::GraphLowering::Problem> problems;
  lowering.refusals = options.refusals;
  lowering.Run(*p.graph, &problems);

  // Outputs: the user's in order; names are unique, and an input or weight returned as it is gets an Identity.
  text::Map<int> output_names;
  for (size_t i = 0; i < p.graph->outputs.size(); ++i) {
    const OutputSpec& s = p.output_specs[i];
    ir::Value* v = p.graph->outputs[i].value();
    if (s.kind != OutputSpec::kUser && s.kind != OutputSpec::kLoss) {
      if (s.kind == OutputSpec::kBufferMutation || s.kind == OutputSpec::kUserInputMutation ||
          s.kind == OutputSpec::kParameterMutation)
        report.dropped_mutations.push_back(s.target);
      continue;
    }
    if (!v) continue;  // a Python constant or None
    V x = lowering.Get(v);
    emitter.SetScope("", text::StrCat(v->name(), "_out"));
    bool produced = v->producer() != nullptr && !x.name.empty();
    // A lowering may hand an input or a constant through, so look at what the name is.
    bool is_node_output = false;
    if (produced)
      for (const auto& n : graph->node())
        for (const auto& o : n.output()) is_node_output |= o == x.name;
    if (!is_node_output || output_names.contains(x.name)) x = emitter.Op("Identity", {x});
    output_names[x.name] = 1;
    Describe(graph->add_output(), x.name, v->type());
  }
  if (!shared.status.ok()) {
    static const ir::OpDef& root = ir::GetOp("higher_order.root");
    (void)root;
    report.unsupported.push_back({"outputs", std::string(shared.status.message()), "", 1});
  }

  for (Unsupported& u : Group(problems)) report.unsupported.push_back(std::move(u));
  for (const ir::SymbolInfo& s : p.syms->symbols()) report.dynamic_dims.push_back(RangeText(s));
  report.nodes_out = graph->node_size();
  if (!report.unsupported.empty()) {
    if (on_failure) *on_failure = report;
    return absl::UnimplementedError(text::StrCat(report.unsupported.size(), " kinds of operators cannot be written"));
  }
  if (!missing.empty() && !dry_run) {
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    return absl::InvalidArgumentError(text::StrCat(missing.size(), " weights have no values (give them with --weights): ",
                                                   text::Join(missing, ", ")));
  }
  for (const std::string& key : shared.constant_order) *graph->add_initializer() = shared.constants[key].second;

  auto meta = [&](const std::string& key, const std::string& value) {
    auto* m = model.add_metadata_props();
    m->set_key(key);
    m->set_value(value);
  };
  for (const auto& [k, v] : options.metadata) meta(k, v);
  if (!report.dynamic_dims.empty()) meta("slipway.dims", text::Join(report.dynamic_dims, "; "));

  if (absl::Status s = onnx_out::CheckSkeleton(model, weights); !s.ok()) return s;
  for (const auto& w : weights) report.weight_bytes += w.tensor.nbytes();
  if (dry_run) return report;
  auto written = onnx_out::WriteModel(model, weights, path, options.external_data);
  if (!written.ok()) return written.status();
  report.file_bytes = *written;
  return report;
}

}  // namespace slipway::exporters
