// Both ways of running, by plan and by library, time the same parts and write the same report.
#include "driver/run/run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "base/json.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/format.h"
#include "driver/edge/paths.h"
#include "driver/edge/plugins.h"
#include "driver/inspect/inspect.h"
#include "driver/run/emulated.h"
#include "driver/run/library.h"
#include "driver/verify/onnx_runtime.h"
#include "exporters/safetensors/safetensors.h"
#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"
#include "planner/planner.h"
#include "planner/runner.h"
#include "re2/re2.h"

namespace slipway::driver {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

absl::Status WriteOutputs(const std::vector<ir::TensorRef>& outputs, const std::string& path) {
  std::vector<weights::NamedTensor> out;
  for (size_t i = 0; i < outputs.size(); ++i) out.push_back({text::StrCat("output.", i), outputs[i], outputs[i].dtype});
  return exporters::ExportSafetensors(out, path, {}).status();
}

// Rows by operator and shapes; each is given once or more.
class ProfileRows {
 public:
  void Add(const RunReport::Row& row) { Sum(row, rows_[{row.op, row.shapes}]).shapes = row.shapes; }
  void MoveTo(RunReport& report) {
    std::map<std::string, RunReport::Row> by_op;
    for (auto& [key, row] : rows_) {
      Sum(row, by_op[row.op]);
      report.by_shapes.push_back(std::move(row));
    }
    for (auto& [op, row] : by_op) report.profile.push_back(std::move(row));
    for (auto* rows : {&report.by_shapes, &report.profile})
      std::stable_sort(rows->begin(), rows->end(), [](auto& a, auto& b) { return a.seconds > b.seconds; });
  }

 private:
  static RunReport::Row& Sum(const RunReport::Row& row, RunReport::Row& sum) {
    sum.op = row.op;
    sum.steps += row.steps, sum.seconds += row.seconds;
    sum.operations += row.operations, sum.bytes += row.bytes;
    sum.most_rows = std::max(sum.most_rows, row.most_rows);
    return sum;
  }

  std::map<std::pair<std::string, std::string>, RunReport::Row> rows_;
};

int64_t TokensOf(const std::vector<ir::TensorRef>& inputs) {
  int64_t tokens = 1;
  if (inputs.empty()) return 0;
  for (size_t d = 0; d < std::min<size_t>(inputs[0].sizes.size(), 2); ++d) tokens *= inputs[0].sizes[d];
  return tokens;
}

// The prompt as the library's inputs ran before: once to bring the weights into memory, once timed from the states'
// beginning. The token's inputs stand behind it.
absl::Status Prefill(const RunOptions& options, NativeLibrary& library, RunReport& report) {
  if (!library.HasState())
    return WithHelp(absl::UnimplementedError(text::StrCat(options.model, " keeps no state between runs")),
                    "slipway convert --state auto makes a library that does");
  auto token = ReadInputs(options.decode, options.model);
  if (!token.ok()) return WithPlace(token.status(), options.decode);
  RETURN_IF_ERROR(library.Execute());
  RETURN_IF_ERROR(library.ResetState());
  const Clock::time_point begin = Clock::now();
  RETURN_IF_ERROR(library.Execute());
  report.generation->prefill_seconds = Since(begin);
  report.generation->tokens = TokensOf(*token);
  return library.SetInputs(*token);
}

absl::StatusOr<RunReport> RunLibrary(const RunOptions& options) {
  RunReport report;
  auto begin = Clock::now();
  auto inputs = ReadInputs(options.inputs, options.model);
  if (!inputs.ok()) return WithPlace(inputs.status(), options.inputs);
  auto library = NativeLibrary::Open(options.model, options.plugins);
  if (!library.ok()) return library.status();
  report.load_seconds = Since(begin);
  if (absl::Status s = (*library)->SetThreads(options.threads); !s.ok()) return s;
  if (absl::Status s = (*library)->SetInputs(*inputs); !s.ok()) return s;
  if (!options.decode.empty()) {
    report.generation = RunReport::Generation{.prompt_tokens = TokensOf(*inputs)};
    if (absl::Status s = Prefill(options, **library, report); !s.ok()) return s;
  }
  (*library)->Profile(options.profile);  // of the runs that are repeated
  for (int i = 0; i < options.repeat; ++i) {
    begin = Clock::now();
    if (absl::Status s = (*library)->Execute(); !s.ok()) return s;
    report.run_seconds.push_back(Since(begin));
  }
  const std::vector<ir::TensorRef> outputs = (*library)->Outputs();
  ProfileRows rows;
  (*library)->ProfileRows([&](const slipway_model_work& row) {
    const bool shapes = row.size >= offsetof(slipway_model_work, shapes) + sizeof row.shapes;
    rows.Add({row.op, shapes ? row.shapes : "", row.steps, row.seconds, row.operations, row.bytes, row.most_rows});
    report.steps += static_cast<int>(row.steps / std::max(options.repeat, 1));
  });
  (*library)->StepRows([&](const slipway_model_work& row) {
    report.all_steps.push_back({row.op, row.shapes, row.place, row.seconds, row.operations, row.memory});
  });
  RunReport::Memory memory;
  if ((*library)->Memory(&memory.temporaries, &memory.working)) report.memory = memory;
  rows.MoveTo(report);
  if (absl::Status s = WriteOutputs(outputs, options.outputs); !s.ok()) return s;
  return report;
}

// Of another machine: what is timed and counted inside the process is not what it takes there, and not given.
absl::StatusOr<RunReport> RunForeign(const RunOptions& options, const Machine& machine) {
  const std::string_view flag = options.profile            ? "--profile"
                                : !options.decode.empty()  ? "--decode"
                                : !options.plugins.empty() ? "--plugin"
                                                           : "";
  if (!flag.empty())
    return WithHelp(absl::UnimplementedError(text::StrCat(flag, ": the library is for ", machine.name,
                                                          " and runs under an emulator, which this is not for")),
                    text::StrCat("leave it out, or run on such a machine"));
  RunReport report;
  const Clock::time_point begin = Clock::now();
  auto inputs = ReadInputs(options.inputs, options.model);
  if (!inputs.ok()) return WithPlace(inputs.status(), options.inputs);
  report.load_seconds = Since(begin);
  const Tensors set = *std::move(inputs);
  ASSIGN_OR_RETURN(std::vector<EmulatedRun> runs,
                   RunEmulated(options.model, machine, {&set, 1},
                               {.emulator = options.emulator, .threads = options.threads, .repeat = options.repeat}));
  RETURN_IF_ERROR(runs[0].outputs.status());
  report.run_seconds = std::move(runs[0].seconds);
  RETURN_IF_ERROR(WriteOutputs(*runs[0].outputs, options.outputs));
  return report;
}

// An ONNX model by onnxruntime. Loading and the first run are one process; how long each takes is not known. Outputs
// that are no tensors of numbers are left out.
absl::StatusOr<RunReport> RunModel(const RunOptions& options) {
  RunReport report;
  auto inputs = ReadInputs(options.inputs, options.model);
  if (!inputs.ok()) return WithPlace(inputs.status(), options.inputs);
  const std::vector<Tensors> sets(static_cast<size_t>(options.repeat), *inputs);
  const Clock::time_point begin = Clock::now();
  auto runs = RunOnnx(options.model, sets, {.python = options.python, .threads = options.threads, .lenient = true});
  if (!runs.ok()) return runs.status();
  report.run_seconds.push_back(Since(begin) / options.repeat);
  for (const auto& result : runs->results)
    if (!result.ok()) return result.status();
  std::vector<ir::TensorRef> outputs;
  for (const ir::TensorRef& t : *runs->results.back())
    if (t.storage) outputs.push_back(t);
  if (absl::Status s = WriteOutputs(outputs, options.outputs); !s.ok()) return s;
  return report;
}

// The names of the model's inputs, in the order of input.0, input.1, …: tensors and symbolic numbers.
absl::StatusOr<std::vector<std::string>> InputNames(const std::string& model) {
  ASSIGN_OR_RETURN(const FileReport report, Inspect(model));
  std::vector<std::string> names;
  if (report.programs.size() != 1) return names;
  for (const TensorRow& row : report.programs[0].inputs)
    if (!row.dtype.empty()) names.push_back(row.name);
  return names;
}

}  // namespace

absl::StatusOr<std::vector<ir::TensorRef>> ReadInputs(const std::string& path, const std::string& model) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto set = importers::ReadSafetensors(*file);
  if (!set.ok()) return set.status();
  std::vector<std::string> names;
  for (size_t i = 0; i < set->tensors.size(); ++i) names.push_back(text::StrCat("input.", i));
  // Other inputs and the outputs of the same model may lie beside them: output.0, input2.0, sample1.input.0.
  static const RE2& kBeside = *new RE2(R"((sample\d+\.)?(inputs?|outputs?|expected|reference)\d*\.\d+)");
  const auto known = [&](const auto& tensor) {
    return std::find(names.begin(), names.end(), tensor.first) != names.end();
  };
  if (!std::all_of(set->tensors.begin(), set->tensors.end(), known)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> inputs, InputNames(model));
    const auto holds_all = [&](const std::vector<std::string>& wanted) {
      return std::all_of(wanted.begin(), wanted.end(),
                         [&](const std::string& name) { return set->tensors.contains(name); });
    };
    names.resize(std::min(names.size(), inputs.size()));  // the numbers that the model has
    const std::string numbers = names.empty() ? "" : names.front() + (names.size() > 1 ? " to " + names.back() : "");
    const bool numbered = names.size() == inputs.size() && !inputs.empty() && holds_all(names);
    const std::vector<std::string>& wanted = numbered ? names : inputs;
    for (const auto& [name, tensor] : set->tensors) {
      if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) continue;
      const bool input = name.starts_with("input.");
      if (!input && RE2::FullMatch(name, kBeside)) continue;
      // others are missing
      if (input && !numbered && std::find(names.begin(), names.end(), name) != names.end()) continue;
      return WithHelp(absl::InvalidArgumentError(text::StrCat("'", name, "' is no input: the model takes ",
                                                              text::Join(inputs, ", "),
                                                              numbers.empty() ? "" : text::StrCat(", or ", numbers))),
                      "name the tensors as the inputs, in any order, or input.0, input.1, … in theirs");
    }
    if (!numbered &&
        std::any_of(names.begin(), names.end(), [&](const std::string& name) { return set->tensors.contains(name); }) &&
        !holds_all(inputs))
      return absl::InvalidArgumentError(
          text::StrCat("the model takes ", inputs.size(), " inputs, ",
                       numbers.empty() ? text::Join(inputs, ", ") : numbers, "; there is no tensor '",
                       *std::find_if(names.begin(), names.end(),
                                     [&](const std::string& name) { return !set->tensors.contains(name); }),
                       "'"));
    names = wanted;
  }
  std::vector<ir::TensorRef> inputs;
  for (const std::string& name : names) {
    const auto tensor = set->tensors.find(name);
    if (tensor == set->tensors.end())
      return absl::InvalidArgumentError(text::StrCat("there is no tensor for the input '", name, "'"));
    inputs.push_back(tensor->second);
  }
  return inputs;
}

absl::StatusOr<RunReport> Run(const RunOptions& options) {
  std::vector<NamedPath> paths = {
      {"the model", options.model}, {"--inputs", options.inputs}, {"--outputs", options.outputs, NamedPath::kOutput}};
  if (!options.decode.empty()) paths.push_back({"--decode", options.decode});
  paths.push_back({"--html", options.html, NamedPath::kReport});
  for (const std::string& plugin : options.plugins) paths.push_back({"--plugin", plugin});
  RETURN_IF_ERROR(CheckDistinct(paths));
  RunReport report;
  auto begin = Clock::now();
  auto source = OpenSource(options.model);
  if (!source.ok()) return source.status();
  auto format = FormatOf(*source);
  if (!format.ok()) return format.status();
  if ((*format)->name == "native") {
    const Machine* foreign = ForeignMachine(*source);
    return foreign != nullptr ? RunForeign(options, *foreign) : RunLibrary(options);
  }
  if (!options.decode.empty())
    return WithHelp(absl::UnimplementedError("--decode: only a native library keeps state between runs"),
                    "slipway convert MODEL.pt2 --state auto -o MODEL.so makes one");
  const bool is_onnx = (*format)->name == "onnx";
  if (options.onnxruntime && !is_onnx) return UsageError("--onnxruntime is for ONNX models");
  if (is_onnx && (options.onnxruntime || !options.python.empty())) return RunModel(options);
  auto archive = OpenArchive(*source);
  if (!archive.ok()) return archive.status();
  if (archive->programs.size() != 1)
    return WithHelp(absl::UnimplementedError(text::StrCat("an archive of ", archive->programs.size(), " programs")),
                    kHowToDivide);
  ir::Program& p = *archive->programs[0];
  auto inputs = ReadInputs(options.inputs, options.model);
  if (!inputs.ok()) return WithPlace(inputs.status(), options.inputs);
  report.load_seconds = Since(begin);

  begin = Clock::now();
  ConversionContext context;
  if (absl::Status s = passes::RunPasses(passes::kPreparation, p, context); !s.ok()) return s;
  auto plugins = Plugins::Open(options.plugins);
  if (!plugins.ok()) return plugins.status();
  planner::PlanOptions plan_options{.memory_limit = options.memory_limit};
  if (!options.plugins.empty()) plan_options.plugins = [&](std::string_view name) { return plugins->Find(name); };
  std::vector<passes::Unsupported> lacking;
  auto planned = planner::PlanFor(p, *inputs, plan_options, &lacking);
  if (!planned.ok()) {
    const bool kernels = absl::IsUnimplemented(planned.status()) && !lacking.empty();
    return OrMissingWeights(p, WeightsWithoutValues(p),
                            kernels ? UnsupportedError(lacking, kByKernels, kHowKernels) : planned.status(),
                            kJoinWeights);
  }
  planner::Runner runner(*std::move(planned), plan_options, options.profile,
                         options.threads > 0 ? options.threads : kernels::DefaultThreads());
  report.plan_seconds = Since(begin);

  std::vector<ir::TensorRef> outputs;
  for (int i = 0; i < options.repeat; ++i) {
    auto made = runner.Run(*inputs);
    if (!made.ok()) return made.status();
    report.run_seconds.push_back(runner.seconds());
    outputs = *std::move(made);
  }
  const uint64_t temporaries = runner.tensor_memory();
  report.memory = {temporaries, runner.memory() - std::min(runner.memory(), temporaries)};
  report.steps = static_cast<int>(runner.plan().steps.size());
  ProfileRows rows;
  for (size_t i = 0; i < runner.profile().size(); ++i) {
    const kernels::Work& work = runner.work()[i];
    const int32_t origin = runner.plan().steps[i].origin;
    report.all_steps.push_back({runner.planned().origins[origin], runner.ShapesOf(static_cast<int32_t>(i)),
                                runner.planned().places[origin], static_cast<double>(runner.profile()[i]) * 1e-9,
                                work.operations, work.memory});
    rows.Add({runner.planned().origins[runner.plan().steps[i].origin], runner.ShapesOf(static_cast<int32_t>(i)), 1,
              static_cast<double>(runner.profile()[i]) * 1e-9, work.operations, work.bytes, work.most_rows});
  }
  rows.MoveTo(report);
  if (absl::Status s = WriteOutputs(outputs, options.outputs); !s.ok()) return s;
  return report;
}

void AppendRow(const RunReport::Row& row, double total_seconds, std::string* out) {
  // A product of one row reads each weight, of half a byte at least, once for two operations: memory is what bounds it.
  // Depthwise convolutions have one row, too, but many places.
  char rate[32] = "";
  if (row.operations > 0 && row.most_rows == 1 && row.operations <= 8 * row.bytes)
    std::snprintf(rate, sizeof(rate), "%.1f GB/s", row.bytes_per_second() * 1e-9);
  else if (row.operations > 0)
    std::snprintf(rate, sizeof(rate), "%.1f GFLOP/s", row.per_second() * 1e-9);
  char line[128];
  std::snprintf(line, sizeof(line), "%12.3f ms %5.1f %% %6lld %14s  ", row.seconds * 1e3,
                total_seconds > 0 ? 100 * row.seconds / total_seconds : 0.0, static_cast<long long>(row.steps), rate);
  text::StrAppend(out, std::string(line), text::Printable(text::Shortened(row.op, 400)));
  if (!row.shapes.empty()) text::StrAppend(out, "  ", text::Printable(text::Shortened(row.shapes, 400)));
  *out += '\n';
}

struct Rate {
  int64_t tokens = 0;
  double seconds = 0;
  double per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

// Of the prompt and of all that was repeated after it.
std::pair<Rate, Rate> RatesOf(const RunReport& r) {
  Rate decode{r.generation->tokens * static_cast<int64_t>(r.run_seconds.size()), 0};
  for (double s : r.run_seconds) decode.seconds += s;
  return {Rate{r.generation->prompt_tokens, r.generation->prefill_seconds}, decode};
}

std::string ToTable(const RunReport& r) {
  char line[256];
  std::string out;
  const auto [least, most] = std::minmax_element(r.run_seconds.begin(), r.run_seconds.end());
  std::snprintf(line, sizeof(line), "load %.3f s, plan %.3f s, run %.3f ms", r.load_seconds, r.plan_seconds,
                *least * 1e3);
  out += line;
  if (r.run_seconds.size() > 1) {
    std::snprintf(line, sizeof(line), " … %.3f ms (%zu runs)", *most * 1e3, r.run_seconds.size());
    out += line;
  }
  if (r.generation) {
    const auto [prefill, decode] = RatesOf(r);
    std::snprintf(line, sizeof(line), ", prefill %lld tokens at %.2f tokens/s, decode %lld at %.2f tokens/s",
                  static_cast<long long>(prefill.tokens), prefill.per_second(), static_cast<long long>(decode.tokens),
                  decode.per_second());
    out += line;
  }
  if (r.steps > 0) text::StrAppend(&out, ", ", r.steps, " steps");
  if (r.memory) {
    std::snprintf(line, sizeof(line), ", %.1f MiB of temporaries and %.1f for kernels",
                  static_cast<double>(r.memory->temporaries) / (1 << 20),
                  static_cast<double>(r.memory->working) / (1 << 20));
    out += line;
  }
  out += '\n';
  double total = 0;
  for (const RunReport::Row& row : r.profile) total += row.seconds;
  for (const RunReport::Row& row : r.profile) AppendRow(row, total, &out);
  if (r.by_shapes.size() == r.profile.size() && (r.by_shapes.empty() || r.by_shapes[0].shapes.empty())) return out;
  constexpr size_t kMostRows = 20;
  out += r.by_shapes.size() > kMostRows
             ? text::StrCat("the slowest ", kMostRows, " of ", r.by_shapes.size(), " by shapes:\n")
             : "by shapes:\n";
  for (const RunReport::Row& row : absl::MakeConstSpan(r.by_shapes).first(std::min(kMostRows, r.by_shapes.size())))
    AppendRow(row, total, &out);
  return out;
}

std::string ToJson(const RunReport& r) {
  json::Writer w;
  w.BeginObject()
      .Key("version")
      .Int(1)
      .Key("load_s")
      .Double(r.load_seconds)
      .Key("plan_s")
      .Double(r.plan_seconds)
      .Key("run_s")
      .BeginArray();
  for (double s : r.run_seconds) w.Double(s);
  w.EndArray();
  if (r.memory) w.Key("temporaries_bytes").Int(r.memory->temporaries).Key("working_bytes").Int(r.memory->working);
  if (r.generation) {
    const auto [prefill, decode] = RatesOf(r);
    for (const auto& [key, rate] : {std::pair("prefill", prefill), std::pair("decode", decode)}) {
      w.Key(key).BeginObject().Key("tokens").Int(rate.tokens).Key("s").Double(rate.seconds);
      w.Key("tokens_per_s").Double(rate.per_second()).EndObject();
    }
  }
  w.Key("steps").Int(r.steps);
  for (const auto& [key, rows] : {std::pair("profile", &r.profile), std::pair("by_shapes", &r.by_shapes)}) {
    if (rows->empty()) continue;
    w.Key(key).BeginArray();
    for (const RunReport::Row& row : *rows) {
      w.BeginObject().Key("op").String(row.op);
      if (!row.shapes.empty()) w.Key("shapes").String(row.shapes);
      w.Key("steps").Int(row.steps).Key("s").Double(row.seconds);
      if (row.operations > 0) {
        w.Key("operations")
            .Double(row.operations)
            .Key("weight_bytes")
            .Double(row.bytes)
            .Key("most_rows")
            .Int(row.most_rows);
        w.Key("gflops").Double(row.per_second() * 1e-9).Key("gbps").Double(row.bytes_per_second() * 1e-9);
      }
      w.EndObject();
    }
    w.EndArray();
  }
  w.EndObject();
  return w.Take() + "\n";
}

}  // namespace slipway::driver
