// What inspect finds in a file, by its format.
#include "driver/inspect/inspect.h"

#include <limits>
#include <set>

#include "base/byte_count.h"
#include "base/machine.h"
#include "base/text.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/output_names.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/format.h"
#include "driver/edge/quantized_input.h"
#include "driver/inspect/inspect_text.h"
#include "dynamic_shapes/rewrite.h"
#include "exporters/native/c_header.h"
#include "importers/native/native_file.h"
#include "importers/onnx/onnx.h"
#include "io/inputs.h"
#include "io/mapped_file.h"
#include "kernels/executor/execute.h"
#include "kernels/executor/plan_products.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/int8_gemm.h"
#include "onnx_model/onnx_graph.h"
#include "planner/lowering/rules.h"
#include "planner/planner.h"

namespace slipway::driver {

std::string Plural(uint64_t n, std::string_view what) { return text::StrCat(n, " ", what, n == 1 ? "" : "s"); }

namespace {

std::string ConstantInputText(const ir::Arg& a) {
  if (a.is_none()) return "None";
  if (auto x = a.get<int64_t>()) return text::StrCat(*x);
  if (auto x = a.get<double>()) return text::StrCat(*x);
  if (auto x = a.get<bool>()) return *x ? "true" : "false";
  if (auto x = a.get<std::string>()) return *x;
  return "…";
}

TensorRow Row(std::string name, std::string kind, const ir::Type& t) {
  TensorRow row;
  row.name = std::move(name);
  row.kind = std::move(kind);
  row.is_tensor = t.is_tensor();
  if (t.is_tensor()) {
    row.dtype = ir::Name(t.dtype);
    for (ir::Sym s : t.sizes) row.shape.push_back(s.ToString());
  } else if (t.is_sym()) {
    row.dtype = t.kind == ir::Type::kSymInt ? "i64" : t.kind == ir::Type::kSymFloat ? "f64" : "bool";
    row.value = t.expr.ToString();
  } else if (t.kind == ir::Type::kObject) {
    row.value = t.class_name;
  }
  return row;
}

TensorRow WeightRow(std::string name, std::string kind, const ir::TensorRef& t) {
  TensorRow row;
  row.name = std::move(name);
  row.kind = std::move(kind);
  row.dtype = ir::Name(t.dtype);
  for (int64_t s : t.sizes) row.shape.push_back(text::StrCat(s));
  row.bytes = static_cast<uint64_t>(t.nbytes());
  return row;
}

// What a tensor takes; the most that can be said where that is more. A graph may claim any sizes.
uint64_t DenseBytes(ir::DType dtype, const std::vector<int64_t>& sizes) {
  uint64_t bits = static_cast<uint64_t>(ir::BitSize(dtype));
  for (int64_t s : sizes)
    if (s == 0) return 0;
  for (int64_t s : sizes)
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(s), &bits)) return std::numeric_limits<uint64_t>::max() / 8;
  return bits / 8 + (bits % 8 != 0);
}

void Count(const ir::Graph& g, ProgramReport& r, std::set<const ir::Graph*>& seen) {
  for (const ir::Node* n : g) {
    ++r.nodes;
    ++r.ops[std::string(n->op_name())];
    for (const ir::NamedArg& a : n->args()) {
      auto sub = a.arg.get<ir::SubGraph>();
      if (!sub || !*sub || !seen.insert(sub->get()).second) continue;
      ++r.subgraphs;
      Count(**sub, r, seen);
    }
  }
}

}  // namespace

ProgramReport ReportOf(const ir::Program& p) {
  ProgramReport r;
  r.name = p.name;
  r.form = p.form == ir::Form::kFunctional ? "functional" : "as exported";
  r.torch_version = p.torch_version;
  r.dialect = p.verifier_dialect;
  r.schema_major = p.schema_major;
  r.schema_minor = p.schema_minor;
  r.guards = p.guards;
  r.dims = p.syms->symbols();
  std::set<const ir::Graph*> seen;
  Count(*p.graph, r, seen);

  static constexpr const char* kInputs[] = {"input",      "parameter", "buffer",  "tensor_constant",
                                            "custom_obj", "token",     "constant"};
  static constexpr const char* kOutputs[] = {"output",
                                             "loss",
                                             "buffer_mutation",
                                             "parameter_mutation",
                                             "gradient_to_parameter",
                                             "gradient_to_user_input",
                                             "user_input_mutation",
                                             "token"};
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    const ir::Value& v = *p.graph->inputs()[i];
    if (!s.is_weight()) {
      TensorRow row = Row(v.name(), kInputs[s.kind], v.type());
      if (s.kind == ir::InputSpec::kConstant) row.value = ConstantInputText(s.constant);
      r.inputs.push_back(std::move(row));
      continue;
    }
    auto it = p.weights.find(s.target);
    if (it != p.weights.end()) {
      r.weights.push_back(WeightRow(s.target, kInputs[s.kind], it->second));
    } else {
      r.weights.push_back(Row(s.target, kInputs[s.kind], v.type()));
      r.weights.back().stored = false;
      if (const auto sizes = v.type().StaticSizes()) r.weights.back().lacking = DenseBytes(v.type().dtype, *sizes);
    }
  }
  for (size_t i = 0; i < p.output_specs.size(); ++i) {
    const ir::OutputSpec& s = p.output_specs[i];
    const ir::Arg& a = p.graph->outputs[i];
    const bool update =
        s.kind != ir::OutputSpec::kUser && s.kind != ir::OutputSpec::kLoss && s.kind != ir::OutputSpec::kToken;
    TensorRow row;
    if (const ir::Value* v = a.value()) {
      row = Row(update ? s.target : v->name(), kOutputs[s.kind], v->type());
    } else {
      row.name = text::StrCat("output_", i);
      row.kind = kOutputs[s.kind];
      row.is_tensor = false;
      row.value = ConstantInputText(a);
    }
    (update ? r.updates : r.outputs).push_back(std::move(row));
  }
  return r;
}

void Describe(const ir::Archive& archive, FileReport* report) {
  report->producer = archive.producer;
  for (const auto& [name, content] : archive.extra_files) report->extra_files[name] = content.size();
  for (const auto& p : archive.programs) report->programs.push_back(ReportOf(*p));
}

void Describe(const ir::TensorSet& set, FileReport* report) {
  report->metadata = set.metadata;
  std::map<std::string_view, TensorRow> rows;
  for (const auto& [name, t] : set.tensors) rows.emplace(name, WeightRow(name, "tensor", t));
  for (const auto& [name, t] : set.sharded) {
    ir::TensorRef whole;
    whole.dtype = t.dtype;
    whole.sizes = t.sizes;
    rows.emplace(name, WeightRow(name, "tensor", whole));
  }
  for (auto& [name, row] : rows) report->tensors.push_back(std::move(row));
}

void Describe(const ir::TensorSet& set, const std::string& path, FileReport* report) {
  const auto found = FindQuantized(path, set);
  if (!found.ok()) {  // the tensors are shown as they lie
    report->quantization = std::string(text::FromAbsl(found.status().message()));
    return Describe(set, report);
  }
  if (!*found) return Describe(set, report);
  const weights::quantized::Checkpoint& quantized = **found;
  report->quantization = quantized.title;
  ir::TensorSet plain = set;
  weights::quantized::Replace(quantized, ir::DType::kUnknown, nullptr, &plain);
  std::map<std::string_view, const weights::quantized::Weight*> weights;
  for (const auto& w : quantized.weights) weights.emplace(w->name, w.get());
  Describe(plain, report);
  for (TensorRow& row : report->tensors) {
    const auto it = weights.find(row.name);
    if (it == weights.end()) continue;
    row.form = it->second->form;
    row.bytes = 0;
    for (const ir::TensorRef& part : it->second->stored) row.bytes += static_cast<uint64_t>(part.nbytes());
  }
}

// A native library: its interface, its weights, and the operators that its steps were made of.
void Describe(const kernels::NativeModel& m, FileReport* report) {
  report->metadata.insert(m.metadata.begin(), m.metadata.end());
  for (const kernels::EmbeddedPlugin& p : m.plugins) report->extra_files[p.name] = p.bytes.size();
  ProgramReport r;
  const exporters::NativeInterface face = exporters::InterfaceOf(m);
  r.name = face.name;
  r.form = "native plan";
  const auto rows = [](const std::vector<exporters::NativeInterface::Value>& values, const char* kind) {
    std::vector<TensorRow> out;
    for (const exporters::NativeInterface::Value& v : values)
      out.push_back({v.name, kind, std::string(ir::Name(planner::FromNative(v.dtype))), v.dims, true, "", 0, true});
    return out;
  };
  r.inputs = rows(face.inputs, "input");
  r.outputs = rows(face.outputs, "output");
  r.updates = rows(face.states, "state");
  for (const exporters::NativeInterface::Dim& d : face.dims) {
    ir::SymbolInfo s;
    s.name = d.name;
    s.range = {d.min, d.max};
    r.dims.push_back(std::move(s));
  }
  for (const kernels::Step& s : m.plan.steps) {
    ++r.nodes;
    ++r.ops[m.origins[s.origin].op];
  }
  for (const kernels::Constant& c : m.constants) {
    if (c.name.empty()) continue;
    TensorRow row{c.name, "constant", std::string(ir::Name(planner::FromNative(c.dtype))), {},
                  true,   "",         static_cast<uint64_t>(kernels::ByteSize(c.dtype)),   true};
    for (int64_t s : c.sizes) {
      row.shape.push_back(text::StrCat(s));
      row.bytes *= static_cast<uint64_t>(s);
    }
    r.weights.push_back(std::move(row));
  }
  report->programs.push_back(std::move(r));
}

// An ONNX model: its graph, and what it states beside it.
absl::Status Describe(const importers::OnnxModel& model, FileReport* report) {
  auto frame = onnx_model::FrameOf(*model.program);
  if (!frame.ok()) return frame.status();
  report->producer = frame->producer_name();
  if (!frame->producer_version().empty()) text::StrAppend(&report->producer, " ", frame->producer_version());
  for (const auto& m : frame->metadata_props()) report->metadata[m.key()] = m.value();
  OnnxReport& onnx = report->onnx.emplace();
  onnx.ir_version = frame->ir_version();
  for (const auto& o : frame->opset_import()) onnx.opsets[o.domain()] = o.version();
  for (const auto& f : frame->functions()) onnx.functions.push_back(text::StrCat(f.domain(), "::", f.name()));
  onnx.external_data = model.external;
  ProgramReport r = ReportOf(*model.program);
  r.form = "ONNX graph";
  // Inference has names for all that it does not know; those of the interface are what the model says.
  std::set<std::string_view> dims;
  const auto note = [&](const ir::Value* v) {
    for (ir::Sym s : v->type().sizes)
      for (ir::Sym x : s.Symbols()) dims.insert(x.name());
  };
  for (const ir::Value* v : model.program->graph->inputs()) note(v);
  for (const ir::Arg& a : model.program->graph->outputs)
    if (a.value()) note(a.value());
  std::erase_if(r.dims, [&](const ir::SymbolInfo& s) { return !dims.contains(s.name); });
  for (TensorRow& w : r.weights)
    w.kind = w.kind == "buffer" ? "input_default" : w.kind == "tensor_constant" ? "nested" : "parameter";
  report->programs.push_back(std::move(r));
  return absl::OkStatus();
}

namespace {

absl::StatusOr<KernelsReport> KernelsOf(const Source& source) {
  if (!source.file || !importers::LooksNative(source.file))
    return absl::UnimplementedError(
        text::StrCat(source.path, ": --kernels is for native libraries: convert the program to one first"));
  auto native = importers::ReadNative(source.file);
  if (!native.ok()) return native.status();
  if (const Machine* machine = FindMachine(native->machine); machine != nullptr && machine != &kThisMachine)
    return WithHelp(absl::UnimplementedError(text::StrCat(source.path,
                                                          ": --kernels says which loops this processor takes, and the ",
                                                          "library is for ", machine->name)),
                    "the same program, converted for this machine, has the same products");
  const kernels::NativeModel& model = native->model;
  std::string why;
  const auto checked = kernels::Executable::Make(model.plan, &why);
  if (!checked) return absl::InvalidArgumentError(text::StrCat(source.path, ": the plan is malformed: ", why));
  KernelsReport r;
  r.isa = kernels::BestIsa().name, r.integers = kernels::BestInt8Gemm().name;
  if (const kernels::Bf16GemmMicrokernels* bf16 = kernels::BestBf16Gemm()) r.bf16 = bf16->name;
  if (const char* cap = kernels::IsaCap()) r.cap = cap;
  static constexpr const char* kPackings[] = {"", "panels", "quads", "nibbles", "unsigned nibbles", "filters", "taps"};
  const auto name = [](kernels::DType t) { return std::string(ir::Name(planner::FromNative(t))); };
  for (kernels::PlanProduct& p : kernels::ProductsOf(checked->plan())) {
    const kernels::Step& step = checked->plan().steps[static_cast<size_t>(p.step)];
    const kernels::Origin& origin = model.origins[static_cast<size_t>(step.origin)];
    ProductRow row{origin.op,
                   origin.place,
                   std::string(step.kernel->name),
                   p.batch,
                   p.m,
                   p.k,
                   p.n,
                   name(p.left),
                   p.has_right ? name(p.right) : "",
                   name(p.result),
                   kPackings[static_cast<int>(p.packing)],
                   p.groups,
                   static_cast<uint64_t>(p.bytes),
                   {}};
    for (const kernels::PlanProduct::Rows& l : p.loops) row.loops.push_back({l.from, l.to, l.loop.isa, l.loop.way});
    r.products.push_back(std::move(row));
  }
  return r;
}

}  // namespace

absl::StatusOr<FileReport> Inspect(const std::string& path, bool verify, bool kernels) {
  auto source = OpenSource(path);
  if (!source.ok()) return source.status();
  FileReport r;
  if (verify) {
    auto verified = source->file ? VerifyPayloads(source->file) : Verified{};
    if (!verified.ok()) return verified.status();
    r.verified = *verified;
  }
  auto format = FormatOf(*source);
  if (!format.ok()) return format.status();
  r.file = path;
  r.bytes = source->file ? source->file->size() : 0;
  r.format = (*format)->name;
  if (kernels) {
    auto report = KernelsOf(*source);
    if (!report.ok()) return report.status();
    r.kernels = *std::move(report);
  }
  if ((*format)->describe) {
    if (absl::Status s = (*format)->describe(*source, &r); !s.ok()) return s;
  } else if ((*format)->tensors) {
    auto set = (*format)->tensors(*source, "");
    if (!set.ok()) return set.status();
    Describe(*set, path, &r);
  } else {
    auto archive = OpenArchive(*source);
    if (!archive.ok()) return archive.status();
    Describe(*archive, &r);
    for (const auto& p : archive->programs)
      if (absl::Status s = verify ? passes::InferShapes(*p, &r.verified->corrected) : absl::OkStatus(); !s.ok())
        return s;
  }
  if (absl::Status s = io::InputsUnchanged(); !s.ok()) return s;
  return r;
}

absl::StatusOr<std::string> InspectIr(const std::string& path, ir::PrintOptions::Sources sources) {
  ir::PrintOptions options;
  options.sources = sources;
  options.base = FolderOf(path);
  auto source = OpenSource(path);
  if (!source.ok()) return source.status();
  if (source->file) {
    auto onnx_graph = OpenOnnxGraph(*source);
    if (!onnx_graph.ok()) return onnx_graph.status();
    options.data = false;
    if (*onnx_graph) return ir::Print(**onnx_graph, options);
    options.data = true;
  }
  auto archive = source->file ? OpenArchive(*source) : OpenArchive(path);
  if (!archive.ok()) return archive.status();
  return ir::Print(*archive, options);
}

absl::StatusOr<std::string> InspectHeader(const std::string& path) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const Source source{path, *file};
  auto format = FormatOf(source);
  if (!format.ok()) return format.status();
  std::string stem = path.substr(path.rfind('/') + 1);
  stem = stem.substr(0, stem.find('.', 1));
  // A package may hold the program as well as the library.
  if ((*format)->name == "native" || importers::LooksNative(*file)) {
    auto native = importers::ReadNative(*file);
    if (!native.ok()) return native.status();
    return exporters::CHeader(exporters::InterfaceOf(native->model), stem);
  }
  auto archive = OpenArchive(source);
  if (!archive.ok()) return archive.status();
  if (archive->programs.size() != 1)
    return absl::UnimplementedError(text::StrCat("an archive of ", archive->programs.size(), " programs"));
  ir::Program& p = *archive->programs[0];
  // As a conversion to a library does it.
  if (absl::Status s = dynamic_shapes::CanonicalizeDimNames(p); !s.ok()) return s;
  const std::vector<std::string> names = OutputNames(p);
  ConversionContext context;
  if (absl::Status s = passes::RunPasses(passes::kPreparation, p, context); !s.ok()) return s;
  NameOutputs(p, names);
  auto planned = planner::LegalizeAndPlan(p);
  if (!planned.ok()) return OrMissingWeights(p, WeightsWithoutValues(p), planned.status(), kJoinWeights);
  return exporters::CHeader(exporters::InterfaceOf(p.name, *planned), stem);
}

}  // namespace slipway::driver
