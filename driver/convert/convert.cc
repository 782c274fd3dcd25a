// The way of every conversion: find the target, check the flags, read, join weights, run the target's passes, write.
#include "driver/convert/convert.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <set>

#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/caches.h"
#include "driver/convert/half_precision.h"
#include "driver/convert/output_names.h"
#include "driver/edge/format.h"
#include "driver/edge/paths.h"
#include "driver/edge/processor.h"
#include "driver/edge/quantized_input.h"
#include "driver/edge/target.h"
#include "driver/inspect/shapes.h"
#include "driver/quantize/pt2e.h"
#include "driver/quantize/quantize.h"
#include "dynamic_shapes/rewrite.h"
#include "importers/checkpoint/state_dict.h"
#include "io/atomic_writer.h"
#include "io/inflated.h"
#include "passes/complex/io.h"
#include "passes/quantization/quantize_linears.h"

namespace slipway::driver {
namespace {

struct Input {
  std::string name;  // "" = not given
  std::string path;
};

// NAME=FILE, unless a file has that whole name.
Input ParseInput(const std::string& text) {
  struct stat info;
  const size_t eq = text.find('=');
  if (eq == std::string::npos || eq == 0 || text.find('/') < eq || stat(text.c_str(), &info) == 0) return {"", text};
  return {text.substr(0, eq), text.substr(eq + 1)};
}

std::string StemOf(const std::string& path) {
  std::string stem = path.substr(path.rfind('/') + 1);
  if (const size_t dot = stem.rfind('.'); dot != std::string::npos && dot > 0) stem.resize(dot);
  return stem;
}

absl::Status Add(ir::Archive from, const Input& input, bool several, ir::Archive& into) {
  if (!input.name.empty() && from.programs.size() != 1)
    return absl::InvalidArgumentError(text::StrCat(input.path, " holds ", from.programs.size(),
                                                   " programs, which cannot all be named '", input.name, "'"));
  for (auto& p : from.programs) {
    if (!input.name.empty())
      p->name = input.name;
    else if (several && from.programs.size() == 1)
      p->name = StemOf(input.path);
    into.programs.push_back(std::move(p));
  }
  if (into.producer.empty()) into.producer = std::move(from.producer);
  for (auto& [name, content] : from.extra_files) {
    auto [it, fresh] = into.extra_files.emplace(name, content);
    if (!fresh && it->second != content)
      return absl::InvalidArgumentError(
          text::StrCat(input.path, ": its extra file '", name, "' differs from that of another input"));
  }
  return absl::OkStatus();
}

// Programs exported elsewhere convert as for cpu; the summary says so.
void NoteDevices(const ir::Program& p, ConvertSummary& summary) {
  std::set<std::string> devices;
  for (const ir::Value* v : p.graph->inputs())
    if (v->type().is_tensor() && v->type().device) devices.insert(v->type().device->type);
  devices.erase("cpu");
  for (const std::string& d : devices)
    summary.lines.push_back(text::StrCat("exported on ", d, ", converted as for cpu"));
}

// The dims of the program's inputs and outputs with their ranges; those of values in between are nobody's to give.
void ReportDims(const ir::Program& p, ConvertSummary& summary) {
  const auto bound = [](int64_t v) {
    return v == std::numeric_limits<int64_t>::min()   ? std::string("-inf")
           : v == std::numeric_limits<int64_t>::max() ? std::string("inf")
                                                      : std::to_string(v);
  };
  std::set<std::string> seen;
  const auto see = [&](const ir::Value* v) {
    if (v == nullptr) return;
    ir::Sizes numbers = v->type().sizes;
    if (v->type().is_sym()) numbers.push_back(v->type().expr);
    for (ir::Sym number : numbers)
      for (ir::Sym symbol : number.Symbols()) seen.insert(symbol.ToString());
  };
  for (const ir::Value* v : p.graph->inputs()) see(v);
  for (const ir::Arg& a : p.graph->outputs) see(a.value());
  for (const ir::SymbolInfo& s : p.syms->symbols()) {
    if (!seen.contains(s.name)) continue;
    summary.dims.push_back(text::StrCat(s.name, " = ", bound(s.range.min), "..", bound(s.range.max)));
  }
}

// The most memory this process has had resident, in bytes; 0 where the system does not say. (getrusage would also count
// what the process that started this one had.)
uint64_t PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    uint64_t kib = 0;
    std::string_view rest = line;
    if (text::ConsumePrefix(&rest, "VmHWM:") && text::ConsumeSuffix(&rest, "kB") &&
        text::ParseNumber(text::Strip(rest), &kib))
      return kib * 1024;
  }
  return 0;
}

// What the flags turn off.
std::vector<std::string_view> DisabledPasses(const ConvertOptions& o) {
  std::vector<std::string_view> skip;
  if (o.state != "drop") skip.push_back("drop-mutations");
  if (!o.functions) skip.push_back("outline-blocks");
  if (o.onnx_form == "exact") skip.insert(skip.end(), {"relax-activations", "quantize-sums"});
  if (o.no_algebra)
    for (const passes::Pipeline& algebra :
         {passes::kAlgebra, passes::kNormAlgebra, passes::kSumAlgebra, passes::kLinearAlgebra})
      skip.insert(skip.end(), algebra.begin(), algebra.end());
  if (!o.allow_int8_activations) skip.push_back("quantize-activations");
  return skip;
}

absl::Status RunPasses(const Target& target, Conversion& c) {
  if (target.passes.empty()) return absl::OkStatus();
  NoteDevices(c.program(), c.summary);
  c.output_names = OutputNames(c.program());
  c.context.skip = DisabledPasses(c.options);
  c.context.verify_each = c.options.verify_each;
  c.context.fold = target.fold;
  c.context.exact_casts = c.options.exact_casts;
  if (!c.options.dtype.empty())
    c.context.narrow = c.options.dtype == "f16" ? ir::DType::kFloat16 : ir::DType::kBFloat16;
  for (const passes::Pipeline* pipeline : target.passes) {
    const bool onnx = pipeline == &passes::kLegalization, library = pipeline == &passes::kSumAlgebra;
    if (onnx || library) RETURN_IF_ERROR(NarrowFloats(target, c));
    if (onnx) RETURN_IF_ERROR(QuantizeCaches(c, nullptr));
    if (absl::Status s = passes::RunPasses(*pipeline, c.program(), c.context); !s.ok()) return s;
  }
  NameOutputs(c.program(), c.output_names);
  if (c.context.merged > 0)
    c.summary.lines.push_back(text::StrCat(
        c.context.merged, " branches of convolutions and norms are merged into their sums; --no-algebra keeps them"));
  if (c.context.scaled > 0)
    c.summary.lines.push_back(text::StrCat(
        c.context.scaled,
        " factors, summands and norms of channels are folded into the layers before them; --no-algebra keeps them"));
  if (c.context.folded > 0)
    c.summary.lines.push_back(
        text::StrCat(c.context.folded, " batch norms are folded into the layers before them; --no-algebra keeps them"));
  if (c.context.shortened > 0)
    c.summary.lines.push_back(text::StrCat(
        c.context.shortened, " linear layers compute the rows that are read of them only; --no-algebra keeps all"));
  if (c.context.split > 0)
    c.summary.lines.push_back(
        text::StrCat(c.context.split,
                     " linear layers are several, one for each part that is read of them; --no-algebra keeps them"));
  if (c.context.sums > 0)
    c.summary.lines.push_back(text::StrCat("results of ", c.context.sums,
                                           " convolutions are rounded to 8 bits before they are added, which the "
                                           "program does not do; --onnx-form exact keeps them"));
  if (c.options.allow_int8_activations)
    c.summary.lines.push_back(
        text::StrCat("activations of ", c.context.rounded,
                     " linear layers with quantized weights are rounded to 8 bits, which the program does not do"));
  return absl::OkStatus();
}

// Targets with passes have no complex numbers.
absl::Status LowerComplexSignature(Conversion& c) {
  const std::vector<std::string> complex = passes::ComplexSignature(c.program());
  if (complex.empty()) return absl::OkStatus();
  const std::string names = text::Join(complex, ", ");
  if (c.options.complex != "real")
    return WithHelp(absl::UnimplementedError(text::StrCat(names, complex.size() == 1 ? " is complex" : " are complex")),
                    "--complex real takes and gives them as torch.view_as_real does");
  c.extra_metadata.emplace_back("slipway.complex", text::StrCat(names, ": pairs of reals, as torch.view_as_real"));
  c.summary.lines.push_back(text::StrCat(names, ": pairs of reals in the last dim"));
  return passes::TakeComplexAsReal(c.program());
}

int CountNodes(const ir::Archive& archive) {
  size_t nodes = 0;
  for (const auto& p : archive.programs) nodes += p->graph->node_count();
  return static_cast<int>(nodes);
}

absl::Status Quantize(const Target& target, Conversion& c) {
  const ConvertOptions& o = c.options;
  if (o.quantize.empty()) return absl::OkStatus();
  if (c.archive.programs.size() != 1)
    return WithHelp(absl::UnimplementedError("quantizing an archive of several programs"), kHowToDivide);
  const std::string folder = o.output.empty() ? "." : FolderOf(o.output);
  if (IsFromOnnx(c.archive)) RETURN_IF_ERROR(passes::TurnMatrices(c.program()));
  if (QuantizesByRecipe(o)) {
    ASSIGN_OR_RETURN(c.summary.quantized, QuantizeByRecipe(c.program(), o, folder, &c.summary.lines));
    return CheckRequired(o, *c.summary.quantized);
  }
  const bool aten = target.passes.empty();  // nothing legalizes the program: it is spelled in torch's operators
  ASSIGN_OR_RETURN(c.summary.quantized, QuantizeProgram(c.program(), o, aten, folder));
  return CheckRequired(o, *c.summary.quantized);
}

// What is asked of dimensions, and what came of it.
absl::Status ApplyDynamicShapes(Conversion& c) {
  ASSIGN_OR_RETURN(const auto ledgers, ApplyShapes(c.archive, c.options, c.reader, c.context));
  for (const dynamic_shapes::Ledger& ledger : ledgers) {
    for (const dynamic_shapes::DimFact& f : ledger.dims)
      if (std::string lost = LostDim(f); !lost.empty()) c.summary.lines.push_back(std::move(lost));
    for (const std::string& note : ledger.notes) c.summary.lines.push_back(note);
  }
  return absl::OkStatus();
}

absl::Status WriteTarget(Conversion& c) {
  auto target = TargetOf(c.options);
  if (!target.ok()) return target.status();
  const Target& t = **target;
  RETURN_IF_ERROR(CheckFlags(c.options, t));
  RETURN_IF_ERROR(CheckDtype(t, c.options));
  if (!c.options.embeddings.empty() && c.options.quantize.empty())
    return UsageError("--embeddings without --quantize", "--quantize says what becomes of the linear layers");
  RETURN_IF_ERROR(CheckDistinct(PathsOf(c.options)));
  if (t.legal) {
    auto legal = t.legal(c.options);
    if (!legal.ok()) return legal.status();
    c.context.legal = *std::move(legal);
  }
  if (t.takes == Target::kTensors) return t.write(c);
  auto archive = ReadPrograms(c.options, c.reader, t, c.summary);
  if (!archive.ok()) return archive.status();
  c.archive = *std::move(archive);
  // Sizes, axes and switches of ONNX models are arguments now; what becomes an ONNX model again has their names there.
  if (t.name != "onnx" && c.options.inputs.size() == 1 && IsFromOnnx(c.archive))
    for (auto& p : c.archive.programs) ir::RemoveUnreadWeights(*p);
  const std::string place = c.options.inputs.size() == 1 ? c.options.inputs[0] : "";
  Storages storages;
  storages.Add(c.archive);
  if (absl::Status s = c.CheckInputs(storages); !s.ok()) return WithPlace(s, place);
  if (absl::Status s = ApplyDynamicShapes(c); !s.ok()) return WithPlace(s, place);
  if (absl::Status s = Quantize(t, c); !s.ok()) return WithPlace(s, place);
  if (!t.passes.empty())  // an archive keeps torch's names
    for (auto& p : c.archive.programs)
      if (absl::Status s = dynamic_shapes::CanonicalizeDimNames(*p); !s.ok()) return WithPlace(s, place);
  c.summary.nodes_before = CountNodes(c.archive);
  if (!t.passes.empty())
    if (absl::Status s = LowerComplexSignature(c); !s.ok()) return WithPlace(s, place);
  if (absl::Status s = RunPasses(t, c); !s.ok()) return WithPlace(s, place);
  c.summary.nodes_after = CountNodes(c.archive);
  if (absl::Status s = t.write(c); !s.ok()) return WithPlace(s, place);
  for (const auto& p : c.archive.programs) ReportDims(*p, c.summary);
  return absl::OkStatus();
}

// What tells about the output comes after it, so that no report is of an output that there is not.
absl::Status Run(Conversion& c) {
  RETURN_IF_ERROR(WriteTarget(c));
  return c.summary.quantized ? FinalizeReport(c.options, *c.summary.quantized) : absl::OkStatus();
}

}  // namespace

SummaryClock::~SummaryClock() {
  summary_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  summary_->peak_rss = PeakMemory();
}

std::string ToJson(const ConvertOptions& o, const ConvertSummary& s) {
  json::Writer w;
  w.BeginObject().Key("version").Int(1).Key("output").String(o.output).Key("dry_run").Bool(o.dry_run);
  if (s.tensors > 0)
    w.Key("tensors").Int(s.tensors);
  else
    w.Key("nodes_before").Int(s.nodes_before).Key("nodes").Int(s.nodes_after);
  w.Key("dims").BeginArray();
  for (const std::string& dim : s.dims) w.String(dim);
  w.EndArray().Key("weight_bytes").Int(s.weight_bytes).Key("bytes_written").Int(s.bytes_written);
  w.Key("seconds").Double(s.seconds).Key("peak_bytes").Int(s.peak_rss).Key("notes").BeginArray();
  for (const std::string& line : s.lines) w.String(line);
  return w.EndArray().EndObject().Take() + "\n";
}

absl::Status Conversion::CheckInputs(const Storages& storages) {
  max_output = options.max_output > 0 ? options.max_output : io::MostMadeOf(storages.bytes());
  return storages.Verify(options.check_crc);
}

std::vector<std::pair<std::string, std::string>> Conversion::Metadata() const {
  auto metadata = options.metadata;
  // What an ONNX model says of itself stays, unless it is said anew.
  const auto given = [&](const std::string& key, const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& m) { return m.first == key; });
  };
  if (IsFromOnnx(archive))
    for (const auto& [key, value] : archive.extra_files)
      if (!given(key, options.metadata) && !given(key, extra_metadata)) metadata.emplace_back(key, value);
  metadata.emplace_back("slipway.version", SLIPWAY_VERSION);
  metadata.emplace_back("slipway.source", archive.producer);
  if (std::string digest = reader.Digest(options.inputs[0]); !digest.empty())
    metadata.emplace_back("slipway.source_digest", std::move(digest));
  metadata.insert(metadata.end(), extra_metadata.begin(), extra_metadata.end());
  return metadata;
}

// The opset at which nodes of ONNX models may stay as they are: where no flag changes what they compute with.
static int WrittenAgain(const ConvertOptions& o, const Target& target) {
  const bool changed = !o.dtype.empty() || !o.quantize.empty() || !o.cache_dtype.empty() || !o.dynamic.empty() ||
                       !o.unify.empty() || o.functions;
  return target.name == "onnx" && !changed ? o.opset : 0;
}

// An ONNX model some of whose inputs are constants.
static absl::StatusOr<ir::Archive> WithConstants(const std::string& path, const ConvertOptions& o, const Reader& reader,
                                                 int written) {
  auto constants = reader.Tensors(o.constant_inputs, "");
  if (!constants.ok()) return WithPlace(constants.status(), o.constant_inputs);
  ASSIGN_OR_RETURN(const Source source, OpenSource(path));
  return OpenOnnxArchive(source, *constants, written);
}

absl::StatusOr<ir::Archive> ReadPrograms(const ConvertOptions& o, const Reader& reader, const Target& target,
                                         ConvertSummary& summary) {
  const bool one = target.takes == Target::kOneProgram;
  if (one && o.inputs.size() != 1)
    return UsageError(text::StrCat(target.title, " takes one program"),
                      "convert each to an output of its own, or all into one .pt2");
  const int written = WrittenAgain(o, target);
  ir::Archive archive;
  for (const std::string& text : o.inputs) {
    const Input input = one ? Input{"", text} : ParseInput(text);
    auto read = o.constant_inputs.empty() ? reader.Programs(input.path, written)
                                          : WithConstants(input.path, o, reader, written);
    if (!read.ok()) return WithPlace(read.status(), input.path);
    if (absl::Status s = Add(*std::move(read), input, o.inputs.size() > 1, archive); !s.ok())
      return WithPlace(s, input.path);
  }
  if (one && archive.programs.size() != 1) {
    std::vector<std::string> names;
    for (const auto& p : archive.programs) names.push_back(p->name);
    return WithPlace(WithHelp(absl::UnimplementedError(text::StrCat("an archive of ", names.size(), " programs (",
                                                                    text::Join(names, ", "), ")")),
                              kHowToDivide),
                     o.inputs[0]);
  }
  if (o.weights.empty())
    return o.rename.empty()
               ? std::move(archive)
               : absl::StatusOr<ir::Archive>(UsageError("--rename goes with --weights, where programs are converted"));
  if (archive.programs.size() != 1) return UsageError("--weights goes with one program");
  if (absl::Status s = JoinWeightFiles(*archive.programs[0], o, summary); !s.ok()) return WithPlace(s, o.inputs[0]);
  return archive;
}

void DropUnsafeSampleInputs(ir::Program& p, ConvertSummary& summary) {
  if (!p.sample_inputs) return;
  const auto* bytes = std::get_if<io::Bytes>(&p.sample_inputs->bytes);
  const absl::Status s = bytes ? importers::CheckPickle(*bytes) : absl::OkStatus();
  if (s.ok()) return;
  p.sample_inputs = nullptr;
  summary.lines.push_back(text::StrCat("the sample inputs of '", p.name, "' are left out: ", s.message()));
}

Outcome Convert(const ConvertOptions& options, ConvertSummary* summary, const Reader& reader) {
  const SummaryClock clock(summary);
  ConvertOptions named = options;
  named.output = OutputOf(options);
  Conversion c{named, reader, *summary, {}, {}, 0};
  Outcome out;
  absl::Status done = CheckProcessor();
  if (done.ok()) done = Run(c);
  if (!done.ok()) out = Fail(done);
  // Not after a usage error, which may be of the file's name.
  if (!options.junit.empty() && out.code != kUsage) {
    const absl::Status s = io::WriteFile(options.junit, ToJunit(summary->quantized.get(), options.require_all, out));
    if (!s.ok() && out.code <= kNo) out = Fail(s);
  }
  if (out.code != kDone) return out;
  for (const std::string& name : c.context.dropped) out.diagnostics.push_back(DroppedState(name));
  if (const auto narrow = c.archive.extra_files.find(std::string(kNarrowTypes));
      IsFromOnnx(c.archive) && narrow != c.archive.extra_files.end())
    out.diagnostics.push_back(NarrowElements(narrow->second));
  return out;
}

}  // namespace slipway::driver
