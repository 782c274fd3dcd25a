// The way of a comparison: open both, find inputs, run both, compare outputs, say how far each is from the program in
// f64, and look for the first node that differs.
#include "driver/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/convert.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/format.h"
#include "driver/edge/paths.h"
#include "driver/run/run.h"
#include "driver/verify/layers.h"
#include "driver/verify/model.h"
#include "io/inputs.h"
#include "io/temp_folder.h"
#include "ir/clone.h"

namespace slipway::driver {
namespace {

constexpr char kHowInputs[] = "--inputs FILE gives inputs: .safetensors with input.0, input.1, …";

using Results = std::vector<absl::StatusOr<Tensors>>;

// Sets of inputs that both are run on.
struct Inputs {
  std::vector<Tensors> tensors;
  std::vector<VerifySet> sets;                // their sources and sizes
  std::unique_ptr<InputGenerator> generator;  // of those that were made
  std::vector<text::Map<int64_t>> sizes;
};

absl::StatusOr<Inputs> FilesOf(const VerifyOptions& o) {
  Inputs in;
  for (const std::string& path : o.inputs) {
    auto tensors = ReadInputs(path, o.a);
    if (!tensors.ok()) return WithPlace(tensors.status(), path);
    in.tensors.push_back(*std::move(tensors));
    in.sets.emplace_back().source = path;
  }
  return in;
}

absl::StatusOr<Inputs> Made(const ir::Program& p, const VerifyOptions& o) {
  Inputs in;
  InputGenerator::Options options;
  options.seed = o.seed.value_or(0);
  options.adversarial = o.adversarial;
  in.generator = std::make_unique<InputGenerator>(p, options);
  for (int i = 0; i < std::max(1, o.sweep); ++i) {
    auto sizes = in.generator->Sizes(i, o.sweep > 0);
    auto tensors = sizes.ok() ? in.generator->Values(*sizes, i) : absl::StatusOr<Tensors>(sizes.status());
    if (!tensors.ok()) return WithHelp(tensors.status(), kHowInputs);
    in.tensors.push_back(*std::move(tensors));
    VerifySet& set = in.sets.emplace_back();
    set.source = text::StrCat("seed ", options.seed, o.adversarial ? ", edge values" : "");
    set.sizes.assign(sizes->begin(), sizes->end());
    std::sort(set.sizes.begin(), set.sizes.end());
    in.sizes.push_back(*std::move(sizes));
  }
  return in;
}

std::string TypeOf(const ir::TensorRef& t) {
  return text::StrCat(ir::Name(t.dtype), "[", text::Join(t.sizes, ","), "]");
}

// What is made for the first ONNX model of both, which states its inputs; nothing where neither is one. The program
// that it was read as says more of them, unless no sizes were found for all that it says.
absl::StatusOr<std::optional<Inputs>> MadeForOnnx(const ir::Program* read, const VerifyOptions& o) {
  if (read)
    if (auto made = Made(*read, o); made.ok()) return *std::move(made);
  for (const std::string* path : {&o.a, &o.b}) {
    ASSIGN_OR_RETURN(const Source source, OpenSource(*path));
    if (!source.file) continue;
    ASSIGN_OR_RETURN(const std::unique_ptr<ir::Program> model, OpenOnnxGraph(source));
    if (!model) continue;
    ASSIGN_OR_RETURN(Inputs in, Made(*model, o));
    return in;
  }
  return std::nullopt;
}

// Files, samples, or what is made; in this order of preference. `read`: of an ONNX model, where neither is a program.
absl::StatusOr<Inputs> FindInputs(const ir::Program* a, const ir::Program* b, const ir::Program* read,
                                  const VerifyOptions& o, std::vector<std::string>* notes) {
  if (!o.inputs.empty()) return FilesOf(o);
  const ir::Program* p = a ? a : b;
  if (!p) {
    ASSIGN_OR_RETURN(std::optional<Inputs> in, MadeForOnnx(read, o));
    if (in) return *std::move(in);
    return UsageError("neither is a program or an ONNX model, of which inputs could be made", kHowInputs);
  }
  if (o.seed || o.adversarial || o.sweep > 0) return Made(*p, o);
  auto samples = SampleInputs(*p);
  if (!samples.ok() && b && b != p) samples = SampleInputs(*b);
  if (!samples.ok()) {
    if (p->sample_inputs)
      notes->push_back(text::StrCat("the sample inputs are not used: ", text::FromAbsl(samples.status().message())));
    return Made(*p, o);
  }
  Inputs in;
  in.tensors.push_back(*std::move(samples));
  in.sets.emplace_back().source = "samples";
  return in;
}

// Runs the first of both. Values that are made may be such as an operator refuses: an index out of range that was not
// seen as one. Then smaller integers are tried.
absl::StatusOr<Results> RunFirst(VerifyModel& model, Inputs& in) {
  ASSIGN_OR_RETURN(Results results, model.Run(in.tensors));
  for (size_t i = 0; in.generator && i < results.size(); ++i)
    for (int64_t most = 1; most >= 0 && !results[i].ok(); --most) {
      ASSIGN_OR_RETURN(Tensors smaller, in.generator->Values(in.sizes[i], static_cast<int>(i), most));
      ASSIGN_OR_RETURN(Results again, model.Run(absl::MakeConstSpan(&smaller, 1)));
      if (!again[0].ok()) continue;
      in.tensors[i] = std::move(smaller);
      results[i] = std::move(again[0]);
    }
  return results;
}

std::vector<int64_t> ElementPlace(int64_t index, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> place(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) place[d] = index % sizes[d], index /= sizes[d];
  return place;
}

// `narrowed`: what f32 of the program became in one of both; kFloat32 where it stayed in both.
absl::Status CompareOutputs(const Tensors& a, const Tensors& b, const std::vector<std::string>& names,
                            ir::DType narrowed, const VerifyOptions& o, VerifySet& set) {
  if (a.size() != b.size()) {
    set.agree = false;
    set.reason = text::StrCat("A gives ", a.size(), " outputs, B ", b.size());
    return absl::OkStatus();
  }
  for (size_t i = 0; i < a.size(); ++i) {
    VerifyOutput& row = set.outputs.emplace_back();
    row.name = i < names.size() ? names[i] : text::StrCat("output.", i);
    row.a_type = TypeOf(a[i]);
    row.b_type = TypeOf(b[i]);
    const auto may_be = [&](const ir::TensorRef& t) { return t.dtype == ir::DType::kFloat32 || t.dtype == narrowed; };
    row.agree = row.a_type == row.b_type || (may_be(a[i]) && may_be(b[i]) && a[i].sizes == b[i].sizes);
    if (row.agree) {
      ASSIGN_OR_RETURN(row.tolerance, ToleranceFor(a[i], o, narrowed));
      ir::TensorRef x = a[i], y = b[i];
      if (x.dtype != y.dtype) {
        ASSIGN_OR_RETURN(x, CastTo(x, ir::DType::kFloat32));
        ASSIGN_OR_RETURN(y, CastTo(y, ir::DType::kFloat32));
      }
      ASSIGN_OR_RETURN(row.difference, weights::Compare(x, y, row.tolerance));
      row.difference->has_ulp &= narrowed == ir::DType::kFloat32 || x.dtype != ir::DType::kFloat32;
      row.agree = row.difference->unequal == 0;
      if (!row.agree) row.first = ElementPlace(row.difference->first, a[i].sizes);
    }
    set.agree = set.agree && row.agree;
  }
  return absl::OkStatus();
}

absl::Status CompareSet(const absl::StatusOr<Tensors>& a, const absl::StatusOr<Tensors>& b,
                        const std::vector<std::string>& names, ir::DType narrowed, const VerifyOptions& o,
                        VerifySet& set) {
  if (a.ok() && b.ok()) return CompareOutputs(*a, *b, names, narrowed, o, set);
  const auto said = [](const absl::StatusOr<Tensors>& x) { return std::string(x.status().message()); };
  if (!a.ok() && !b.ok()) {
    set.reason = text::StrCat("both refuse the inputs: ", said(a));
    return absl::OkStatus();
  }
  set.agree = false;
  set.reason = a.ok() ? text::StrCat("B refuses inputs that A takes: ", said(b))
                      : text::StrCat("A refuses inputs that B takes: ", said(a));
  return absl::OkStatus();
}

// ---- The reference

absl::StatusOr<Results> RunReference(const ir::Program& p, const Inputs& in, const VerifyOptions& o) {
  ASSIGN_OR_RETURN(const Plugins plugins, Plugins::Open(o.plugins));
  ASSIGN_OR_RETURN(std::unique_ptr<ir::Program> wide, Unchanged(p));
  RETURN_IF_ERROR(passes::WidenFloats(*wide));
  ASSIGN_OR_RETURN(const auto prepared, planner::PlanEvaluator(PlanOptionsOf(o, plugins)).Prepare(std::move(wide)));
  return RunAll(*prepared, in.tensors);
}

// The largest distance from the reference of what is finite in it; null for what is no floating-point tensor of its
// sizes.
absl::StatusOr<std::optional<double>> ErrorOf(const ir::TensorRef& t, const ir::TensorRef& reference) {
  if (!ir::IsFloating(t.dtype) || t.sizes != reference.sizes || reference.dtype != ir::DType::kFloat64)
    return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<double> x, weights::ToDoubles(t));
  ASSIGN_OR_RETURN(const std::vector<double> wanted, weights::ToDoubles(reference));
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(wanted[i])) continue;
    const double error = std::fabs(x[i] - wanted[i]);
    most = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(most, error);
  }
  return most;
}

absl::Status AddReference(const ir::Program& p, const Inputs& in, const Results& a, const Results& b,
                          const VerifyOptions& o, VerifyReport& report) {
  auto reference = RunReference(p, in, o);
  if (!reference.ok()) {
    report.reference_note = text::StrCat("no f64 reference: ", text::FromAbsl(reference.status().message()));
    return absl::OkStatus();
  }
  for (size_t s = 0; s < report.sets.size(); ++s) {
    const auto& wanted = (*reference)[s];
    if (!wanted.ok() || !a[s].ok() || !b[s].ok()) {
      if (!wanted.ok() && a[s].ok())
        report.reference_note = text::StrCat("no f64 reference: ", text::FromAbsl(wanted.status().message()));
      continue;
    }
    for (size_t i = 0; i < report.sets[s].outputs.size() && i < wanted->size(); ++i) {
      ASSIGN_OR_RETURN(report.sets[s].outputs[i].a_error, ErrorOf((*a[s])[i], (*wanted)[i]));
      ASSIGN_OR_RETURN(report.sets[s].outputs[i].b_error, ErrorOf((*b[s])[i], (*wanted)[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

weights::Tolerance DefaultTolerance(ir::DType dtype) {
  switch (ir::IsComplex(dtype) ? ir::ToReal(dtype) : dtype) {
    case ir::DType::kFloat64: return {1e-7, 1e-7};
    case ir::DType::kFloat32: return {1e-4, 3e-5};
    case ir::DType::kFloat16: return {1e-2, 5e-3};
    case ir::DType::kBFloat16: return {4e-2, 2e-2};
    default: return ir::IsFloating(dtype) ? weights::Tolerance{0.15, 0.1} : weights::Tolerance{};
  }
}

absl::StatusOr<weights::Tolerance> ToleranceFor(const ir::TensorRef& a, const VerifyOptions& o, ir::DType narrowed) {
  weights::Tolerance t = DefaultTolerance(a.dtype == ir::DType::kFloat32 ? narrowed : a.dtype);
  if (!ir::IsFloating(a.dtype) && !ir::IsComplex(a.dtype)) return t;
  // One that is given stands for both, as in torch.testing.assert_close.
  if (o.rtol || o.atol) return weights::Tolerance{o.rtol.value_or(0), o.atol.value_or(0)};
  if (ir::IsFloating(a.dtype)) {
    ASSIGN_OR_RETURN(const std::vector<double> values, weights::ToDoubles(a));
    t.atol *= weights::RootMeanSquare(values);
  }
  return t;
}

// The first of both that is an ONNX model, in ATen's operators; empty where it is not understood.
static absl::StatusOr<ir::Archive> ReadOnnxModel(const VerifyOptions& o) {
  for (const std::string* path : {&o.a, &o.b}) {
    ASSIGN_OR_RETURN(const Source source, OpenSource(*path));
    ASSIGN_OR_RETURN(const Format* format, FormatOf(source));
    if (format->name != "onnx") continue;
    auto archive = OpenArchive(source);
    return archive.ok() ? std::move(archive) : ir::Archive();
  }
  return ir::Archive();
}

// What `slipway convert A -o B.so` makes.
static absl::Status MakeLibrary(const VerifyOptions& o, const std::string& path) {
  ConvertOptions options;
  options.inputs = {o.a};
  options.output = path;
  options.plugins = o.plugins;
  ConvertSummary summary;
  return StatusOf(Convert(options, &summary));
}

absl::StatusOr<std::unique_ptr<ir::Program>> Unchanged(const ir::Program& p) {
  std::unique_ptr<ir::Program> copy = ir::Clone(p);
  ConversionContext context;
  context.skip = {"remove-no-ops",   "eliminate-dead-code", "merge-common-subexpressions",
                  "recognize-norms", "fold-constants",      "fuse-quantized-linears"};
  RETURN_IF_ERROR(passes::RunPasses(passes::kPreparation, *copy, context));
  return copy;
}

absl::StatusOr<VerifyReport> Verify(const VerifyOptions& options) {
  VerifyOptions o = options;
  std::vector<NamedPath> paths = {{"A", o.a}, {"--junit", o.junit, NamedPath::kReport}};
  if (!o.b.empty()) paths.push_back({"B", o.b});
  for (const std::string& path : o.inputs) paths.push_back({"--inputs", path});
  for (const std::string& path : o.plugins) paths.push_back({"--plugin", path});
  RETURN_IF_ERROR(CheckDistinct(paths));
  VerifyReport report;
  auto a = VerifyModel::Open(o.a, o, o.unoptimized);
  if (!a.ok()) return WithPlace(a.status(), o.a);
  std::unique_ptr<io::TempFolder> folder;
  if (o.b.empty()) {
    if ((*a)->kind() == "native library")
      return UsageError("one library alone has nothing to be compared with", "B is the program that A was made of");
    ASSIGN_OR_RETURN(folder, io::TempFolder::Make());
    RETURN_IF_ERROR(MakeLibrary(o, o.b = folder->path() + "/model.so"));
  }
  auto b = VerifyModel::Open(o.b, o);
  if (!b.ok()) return WithPlace(b.status(), o.b);
  const ir::Program *pa = (*a)->program(), *pb = (*b)->program();
  ir::Archive read;  // of an ONNX model where neither is a program
  if (!pa && !pb) {
    ASSIGN_OR_RETURN(read, ReadOnnxModel(o));
  }
  const ir::Program* model = read.programs.empty() ? nullptr : read.programs[0].get();
  ASSIGN_OR_RETURN(Inputs in, FindInputs(pa, pb, model, o, &report.notes));

  auto first = RunFirst(**a, in);
  if (!first.ok()) return WithPlace(first.status(), o.a);
  auto second = (*b)->Run(in.tensors);
  if (!second.ok()) return WithPlace(second.status(), o.b);
  std::vector<std::string> names = (*a)->output_names();
  if (names.empty()) names = (*b)->output_names();
  bool compared = false;
  const ir::DType narrowed = (*a)->narrowed() == ir::DType::kFloat32 ? (*b)->narrowed() : (*a)->narrowed();
  for (size_t s = 0; s < in.sets.size(); ++s) {
    for (const ir::TensorRef& t : in.tensors[s]) in.sets[s].inputs.push_back(TypeOf(t));
    RETURN_IF_ERROR(CompareSet((*first)[s], (*second)[s], names, narrowed, o, in.sets[s]));
    compared = compared || (*first)[s].ok() || (*second)[s].ok();
    report.agree = report.agree && in.sets[s].agree;
  }
  if (!compared) return WithPlace(WithHelp((*first)[0].status(), o.inputs.empty() ? kHowInputs : ""), o.a);
  report.sets = std::move(in.sets);
  for (const auto* model : {a->get(), b->get()})
    if (const std::string note = model->note(); !note.empty()) report.notes.push_back(note);

  if (const ir::Program* p = pa ? pa : pb ? pb : model; o.reference && p)
    RETURN_IF_ERROR(AddReference(*p, in, *first, *second, o, report));
  for (const auto* model : {a->get(), b->get()})
    if (model->narrowed() != ir::DType::kFloat32)
      report.notes.push_back(text::StrCat("the ", model->kind(), " computes in ", ir::Name(model->narrowed()),
                                          " what the program does in f32, and so is the tolerance"));
  const bool layers = o.layers || (o.all_layers && (pa || pb));
  if (layers && narrowed != ir::DType::kFloat32) {
    report.layers.emplace().note = text::StrCat("not found: a model that computes in ", ir::Name(narrowed),
                                                " differs from the program everywhere");
  } else if (layers) {
    const auto differs =
        std::find_if(report.sets.begin(), report.sets.end(), [](const VerifySet& s) { return !s.agree; });
    const size_t s = differs == report.sets.end() ? 0 : static_cast<size_t>(differs - report.sets.begin());
    if (!pa && !pb) return UsageError("--layers needs a program as A or B");
    auto layers = CompareLayers(**a, **b, in.tensors[s], report.agree, o);
    if (layers.ok())
      report.layers = *std::move(layers);
    else
      report.layers.emplace().note = text::StrCat("not found: ",
                                                  text::FromAbsl(layers.status().message()));  // the answer stands
  }
  RETURN_IF_ERROR(io::InputsUnchanged());
  return report;
}

}  // namespace slipway::driver
