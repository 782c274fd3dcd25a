// The oracle of the search (minifier/search.h): candidates become files, files are checked by processes, and what is
// known stays
// in a log, so that a run that was killed goes on where it was: the search is deterministic, and repeats itself from
// the log.
#include "driver/minify/minify.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "driver/convert/missing_weights.h"
#include "driver/edge/format.h"
#include "driver/edge/version.h"
#include "driver/minify/check.h"
#include "driver/minify/data.h"
#include "driver/minify/files.h"
#include "driver/minify/log.h"
#include "driver/minify/minify_html.h"
#include "io/atomic_writer.h"
#include "io/digest.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "ir/clone.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "minifier/search.h"
#include "onnx_model/onnx_graph.h"
#include "passes/pass.h"

namespace slipway::driver {
namespace {

using Clock = std::chrono::steady_clock;
using minifier::Edit;

int CountNodes(const ir::Graph& g) {
  int n = 0;
  for (const ir::Node* node : g) {
    ++n;
    for (const ir::NamedArg& a : node->args())
      if (auto sub = a.arg.get<ir::SubGraph>(); sub && *sub) n += CountNodes(**sub);
  }
  return n;
}

// ---- Candidates

struct Candidate {
  std::unique_ptr<ir::Program> program, other;  // `other` only where there is one to compare with
  std::string digest;
};

std::string DigestOf(const Candidate& c) {
  ir::PrintOptions print;
  print.inline_limit = UINT64_MAX;
  io::Sha256 digest;
  digest.Update(ir::Print(*c.program, print));
  if (c.other) digest.Update(ir::Print(*c.other, print));
  return io::ToHex(digest.Finish()).substr(0, 32);
}

class Prober : public minifier::Oracle {
 public:
  Prober(const MinifyOptions& options, const Check& check, MinifyReport& report)
      : options_(options), check_(check), report_(report) {}

  absl::Status Open(std::unique_ptr<ir::Program> program, std::unique_ptr<ir::Program> other, const std::string& key) {
    best_.program = std::move(program);
    best_.other = std::move(other);
    best_.digest = DigestOf(best_);
    names_ = std::make_unique<minifier::StandIns>(*best_.program);
    ASSIGN_OR_RETURN(data_, RecordedData());
    if (onnx()) {
      data_.StateTypes(*best_.program);
      if (best_.other) data_.StateTypes(*best_.other);
      best_.digest = DigestOf(best_);
    }
    infers_ = onnx() ? onnx_model::Check(*best_.program).ok() : passes::InferShapes(*ir::Clone(*best_.program)).ok();
    report_.reached.nodes_before = CountNodes(*best_.program->graph);
    RETURN_IF_ERROR(MakeFolder(options_.folder));
    RETURN_IF_ERROR(RemoveLinks(options_.folder));
    RemoveFolder(Scratch());
    RETURN_IF_ERROR(MakeFolder(Scratch()));
    RETURN_IF_ERROR(log_.Open(options_.folder + "/probes.log", key));
    Note();
    return absl::OkStatus();
  }
  ~Prober() override { RemoveFolder(Scratch()); }

  // What the original does: asked twice. False where it does not fail.
  absl::StatusOr<bool> Establish() {
    ASSIGN_OR_RETURN(const Verdict first, AskOfBest("original-first"));
    ASSIGN_OR_RETURN(const Verdict second, AskOfBest("original-second"));
    target_ = first.kind == Verdict::kFails ? first : second;
    if (target_.kind != Verdict::kFails) return false;
    flaky_ = first.kind != second.kind || first.failure != second.failure;
    messages_ = !flaky_ && first.message == second.message;
    if (!flaky_ && !messages_)
      report_.notes.push_back("the check's message differs from run to run: only how it ends is compared");
    if (flaky_)
      report_.notes.push_back(
          "the check is flaky: of two runs on the original only one fails so; candidates are asked up to three times");
    report_.failure = Describe(target_);
    return true;
  }
  const Verdict& target() const { return target_; }

  absl::StatusOr<std::optional<size_t>> FirstThatFails(const std::vector<Edit>& edits, std::string_view what) override {
    for (size_t begin = 0; begin < edits.size();) {
      // As many at once as may run at once; what comes later in the list counts only where nothing before it fails.
      std::vector<Candidate> window;
      std::vector<size_t> places;
      for (; begin < edits.size() && window.size() < static_cast<size_t>(options_.jobs); ++begin) {
        std::optional<Candidate> c = Make(edits[begin]);
        if (!c) continue;
        window.push_back(*std::move(c));
        places.push_back(begin);
        if (log_.Find(window.back().digest)) {  // known: no reason to look at others beside it
          ++begin;
          break;
        }
      }
      RETURN_IF_ERROR(Ask(absl::MakeConstSpan(window)));
      for (size_t i = 0; i < window.size(); ++i) {
        for (int attempt = 0; attempt < 2 && GaveOut(*log_.Find(window[i].digest)); ++attempt) {
          std::optional<Candidate> same = Respelled(window[i]);
          if (!same) break;
          window[i] = *std::move(same);
          RETURN_IF_ERROR(Ask(absl::MakeConstSpan(&window[i], 1)));
        }
        if (!Matches(*log_.Find(window[i].digest))) continue;
        RETURN_IF_ERROR(Accept(std::move(window[i]), what));
        return places[i];
      }
    }
    return std::nullopt;
  }
  const ir::Program& best() const override { return *best_.program; }
  const ir::Program* best_other() const { return best_.other.get(); }
  const minifier::StandIns& names() const { return *names_; }
  const MinifyData& data() const { return data_; }

  // The result once more: whoever fails by chance does not fail twice.
  absl::Status Confirm() {
    ASSIGN_OR_RETURN(const Verdict v, AskOfBest(best_.digest + "-again"));
    if (!Matches(v) && !flaky_)
      report_.notes.push_back(
          "the check is flaky: what is left failed when it was found, and did not when it was asked again");
    if (best_.program->graph->node_count() == 0)
      report_.notes.push_back(
          "without any node it fails so, too: the failure is the check's own, or of what is around the nodes");
    return absl::OkStatus();
  }

  // Best-so-far, whole at any time. On the way texts refer to the weights of the original where they lie; the last ones
  // stand alone. What a format cannot say is not there, and `missing` (may be null) says why.
  absl::Status WriteBest(bool last, std::vector<std::string>* missing) const {
    const std::vector<ir::TensorRef> inputs = data_.InputsOf(*best_.program, *names_);
    RETURN_IF_ERROR(WriteMinifiedText(*best_.program, options_.folder, "min", !last));
    if (best_.other && !onnx()) RETURN_IF_ERROR(WriteMinifiedText(*best_.other, options_.folder, "other", !last));
    for (const char* stem : {"min", "other"})  // the links of those on the way
      for (int i = 0; last && unlink(text::StrCat(options_.folder, "/", stem, ".", i).c_str()) == 0; ++i) {
      }
    const auto settle = [&](const absl::Status& s, const char* name) -> absl::Status {
      if (s.ok() || io::ErrnoOf(s) != 0) return s;
      unlink(text::StrCat(options_.folder, "/", name).c_str());
      if (missing) missing->push_back(text::StrCat(name, ": ", s.message()));
      return absl::OkStatus();
    };
    if (onnx()) {
      if (best_.other) RETURN_IF_ERROR(WriteMinifiedOnnx(*best_.other, options_.folder + "/other.onnx"));
      RETURN_IF_ERROR(WriteMinifiedOnnx(*best_.program, options_.folder + "/min.onnx"));
    } else {
      RETURN_IF_ERROR(settle(WriteMinifiedPt2(*best_.program, inputs, options_.folder + "/min.pt2"), "min.pt2"));
    }
    return settle(WriteMinifiedInputs(inputs, options_.folder + "/inputs.safetensors"), "inputs.safetensors");
  }

 private:
  const MinifyOptions& options_;
  const Check& check_;
  MinifyReport& report_;
  Candidate best_;
  std::unique_ptr<minifier::StandIns> names_;
  MinifyData data_;
  VerdictLog log_;
  Verdict target_;
  bool flaky_ = false, messages_ = true, infers_ = true;
  std::set<std::string> counted_;
  const Clock::time_point start_ = Clock::now();

  bool onnx() const { return onnx_model::IsOnnx(*best_.program); }

  // What the check depends on must be there; what the values between nodes are is only of use.
  absl::StatusOr<MinifyData> RecordedData() const {
    const OnnxRuntimeOptions runtime{.python = options_.python,
                                     .timeout_seconds = options_.timeout > 0 ? options_.timeout : 3600};
    auto data = MinifyData::Make(*best_.program, options_.inputs, check_.numeric(), runtime);
    if (data.ok() || IdOf(data.status()) != id::kNoRuntime || !check_.runtime().empty()) return data;
    return MinifyData::Make(*best_.program, options_.inputs, false, runtime);
  }

  std::string Scratch() const { return options_.folder + "/probes"; }
  static std::string Describe(const Verdict& v) {
    return v.message.empty() ? v.failure : text::StrCat(v.failure, ": ", v.message);
  }

  bool Matches(const Verdict& v) const {
    return v.kind == Verdict::kFails && v.failure == target_.failure && (!messages_ || v.message == target_.message);
  }

  // Whether the check was stopped by what it met, where the failure that is looked for is another.
  bool GaveOut(const Verdict& v) const {
    if (v.kind != Verdict::kFails || Matches(v)) return false;
    const bool memory = text::Contains(v.message, "MemoryError") || text::Contains(v.message, "bad_alloc") ||
                        text::Contains(v.message, "annot allocate memory") || text::Contains(v.message, "ut of memory");
    // A shell says 128 + N of a command that signal N ended.
    std::string_view code = v.failure;
    int number = 0;
    const bool by_shell = text::ConsumePrefix(&code, "exit ") && text::ParseNumber(code, &number) && number > 128;
    return memory || by_shell || v.failure == "timeout" || v.failure.starts_with("signal");
  }
  std::optional<Candidate> Respelled(const Candidate& c) const {
    Candidate same;
    same.program = ir::Clone(*c.program);
    if (!names_->Respell(*same.program)) return std::nullopt;
    if (c.other) {
      same.other = ir::Clone(*c.other);
      names_->Respell(*same.other);
    }
    same.digest = DigestOf(same);
    return same;
  }

  void Note() {
    report_.reached.nodes = CountNodes(*best_.program->graph);
    report_.reached.inputs = static_cast<int>(UserInputs(*best_.program).size());
  }
  void Count(const std::string& digest) {
    if (!counted_.insert(digest).second) return;
    ++report_.reached.probes;
    if (options_.progress) options_.progress(report_.reached);
  }

  // A copy of the best program with the edit; none where it does not fit, is not valid, or changes nothing.
  std::optional<Candidate> Make(const Edit& edit) const {
    Candidate c;
    c.program = ir::Clone(*best_.program);
    if (!edit(*c.program).ok() || !Valid(*c.program)) return std::nullopt;
    if (best_.other) {
      c.other = ir::Clone(*best_.other);
      if (!edit(*c.other).ok() || !Valid(*c.other)) return std::nullopt;
    }
    c.digest = DigestOf(c);
    if (c.digest == best_.digest) return std::nullopt;
    return c;
  }
  bool Valid(ir::Program& p) const {
    if (!ir::Verify(p).ok()) return false;
    if (!onnx()) return !infers_ || passes::InferShapes(p).ok();
    for (const ir::Value* v : UserInputs(p))  // a model has to state types, and only tensors are handed to a check
      if (v->type().kind == ir::Type::kObject && (v->type().class_name.empty() || check_.wants_inputs())) return false;
    return !infers_ || onnx_model::Check(p).ok();
  }

  // Files of a candidate, the check on them.
  absl::StatusOr<Verdict> Probe(const Candidate& c) const {
    CandidateFiles files;
    files.folder = text::StrCat(Scratch(), "/", c.digest);
    RETURN_IF_ERROR(MakeFolder(files.folder));
    const absl::Status written = WriteFiles(c, files);
    absl::StatusOr<Verdict> v;
    if (!written.ok() && io::ErrnoOf(written) != 0)
      v = written;
    else if (!written.ok())
      v = Verdict{Verdict::kUnusable, "cannot be written", text::Shortened(std::string(written.message()), 500)};
    else
      v = check_.Run(files);
    RemoveFolder(files.folder);
    return v;
  }
  absl::Status WriteFiles(const Candidate& c, CandidateFiles& files) const {
    const std::vector<ir::TensorRef> inputs = data_.InputsOf(*c.program, *names_);
    if (check_.wants_ir()) {
      files.ir = files.folder + "/model.ir";
      RETURN_IF_ERROR(WriteMinifiedText(*c.program, files.folder, "model", true));
    }
    if (c.other && onnx()) {
      files.other = files.folder + "/other.onnx";
      RETURN_IF_ERROR(WriteMinifiedOnnx(*c.other, files.other));
    } else if (c.other) {
      files.other = files.folder + "/other.ir";
      RETURN_IF_ERROR(WriteMinifiedText(*c.other, files.folder, "other", true));
    }
    if (check_.wants_onnx()) {
      files.onnx = files.folder + "/model.onnx";
      RETURN_IF_ERROR(WriteMinifiedOnnx(*c.program, files.onnx));
    }
    if (check_.wants_pt2()) {
      files.pt2 = files.folder + "/model.pt2";
      RETURN_IF_ERROR(WriteMinifiedPt2(*c.program, inputs, files.pt2));
    }
    if (check_.wants_inputs()) {
      files.inputs = files.folder + "/inputs.safetensors";
      RETURN_IF_ERROR(WriteMinifiedInputs(inputs, files.inputs));
    }
    return absl::OkStatus();
  }

  // What the check says of the best program, from the log where this was asked before.
  absl::StatusOr<Verdict> AskOfBest(const std::string& digest) {
    if (!log_.Find(digest)) {
      ASSIGN_OR_RETURN(const Verdict v, Probe(best_));
      RETURN_IF_ERROR(log_.Add(digest, v));
      ++report_.asked;
    }
    Count(digest);
    return *log_.Find(digest);
  }

  bool TimeIsUp() const {
    return options_.max_time > 0 && std::chrono::duration<double>(Clock::now() - start_).count() > options_.max_time;
  }

  // Verdicts of all of them in the log.
  absl::Status Ask(absl::Span<const Candidate> window) {
    std::vector<const Candidate*> unknown;
    for (const Candidate& c : window)
      if (!log_.Find(c.digest)) unknown.push_back(&c);
    if (!unknown.empty() &&
        ((options_.max_probes > 0 && report_.reached.probes >= options_.max_probes) || TimeIsUp())) {
      report_.stopped = true;
      return absl::CancelledError("the limit of probes or time is reached");
    }
    std::vector<absl::Status> statuses(unknown.size());
    const auto ask = [&](size_t i) {
      for (int attempt = 0; attempt < (flaky_ ? 3 : 1); ++attempt) {
        auto v = Probe(*unknown[i]);
        statuses[i] = v.status();
        if (!v.ok()) return;
        if (attempt + 1 < (flaky_ ? 3 : 1) && !Matches(*v)) continue;
        statuses[i] = log_.Add(unknown[i]->digest, *v);
        return;
      }
    };
    std::atomic<size_t> next = 0;
    OnThreads(static_cast<int>(unknown.size()), [&] {
      for (size_t i = next++; i < unknown.size(); i = next++) ask(i);
    });
    for (const absl::Status& s : statuses) RETURN_IF_ERROR(s);
    report_.asked += static_cast<int>(unknown.size());
    for (const Candidate& c : window) Count(c.digest);
    return absl::OkStatus();
  }

  absl::Status Accept(Candidate c, std::string_view what) {
    const int before = report_.reached.nodes;
    best_ = std::move(c);
    Note();
    report_.steps.push_back({std::string(what), before, report_.reached.nodes, report_.reached.probes});
    if (options_.progress) options_.progress(report_.reached);
    return WriteBest(false, nullptr);
  }
};

// ---- The result

std::string SizeText(int64_t bytes) { return text::StrCat(bytes, bytes == 1 ? " byte" : " bytes"); }

int64_t WeightBytes(const ir::Program& p) {
  int64_t bytes = 0;
  for (const auto& [name, t] : p.weights)
    if (std::holds_alternative<io::Bytes>(t.storage->bytes)) bytes += t.nbytes();
  return bytes;
}

std::string Symbols(const ir::Program& p) {
  std::vector<std::string> names;
  if (onnx_model::IsOnnx(p)) {  // inference has names for all that it does not know
    std::set<std::string> seen;
    for (const ir::Value* v : UserInputs(p))
      for (ir::Sym s : v->type().sizes)
        for (ir::Sym x : s.Symbols())
          if (seen.emplace(x.name()).second) names.emplace_back(x.name());
  } else {
    for (const ir::SymbolInfo& s : p.syms->symbols()) names.push_back(s.name);
  }
  return names.empty() ? "none" : text::Join(names, ", ");
}

// In Markdown, as code.
std::string Code(std::string_view s) {
  std::string out = text::Printable(text::Shortened(s, 1000));
  for (char& c : out)
    if (c == '`') c = '\'';
  return text::StrCat("`", out, "`");
}

// The module and line that a node came from; of an ONNX model what the node is called.
std::string PlaceOf(const ir::Node& n) {
  if (!n.source()) return "";
  if (onnx_model::IsOnnx(*n.graph()->program()))
    for (const auto& [key, value] : n.source()->other)
      if (key == "name") return value;
  return n.source()->Describe();
}

std::string ReportText(const MinifyOptions& o, const ir::Program& original, const Prober& prober,
                       const MinifyReport& report, bool onnx, const std::vector<std::string>& missing) {
  const ir::Program& p = prober.best();
  std::string out = "# A program that fails, made small\n\n";
  text::StrAppend(&out, "The failure: ", Code(report.failure), "\n\nThe check: ", Code(o.check),
                  o.fail_code ? text::StrCat(", exit code ", *o.fail_code) : "",
                  o.fail_regex.empty() ? "" : text::StrCat(", output that matches ", Code(o.fail_regex)), "\n\n");
  text::StrAppend(&out, "| | before | after |\n|---|---|---|\n| nodes | ", report.reached.nodes_before, " | ",
                  report.reached.nodes, " |\n| inputs | ", UserInputs(original).size(), " | ", UserInputs(p).size(),
                  " |\n| outputs | ", original.graph->outputs.size(), " | ", p.graph->outputs.size(),
                  " |\n| weights | ", original.weights.size(), ", ", SizeText(WeightBytes(original)), " | ",
                  p.weights.size(), ", ", SizeText(WeightBytes(p)), " |\n| symbolic sizes | ", Symbols(original), " | ",
                  Symbols(p), " |\n\n## What is left\n\n");
  for (const ir::Node* n : *p.graph) {
    std::string place;
    if (const ir::Value* v = n->output() ? original.graph->FindValue(n->output()->name()) : nullptr; v && v->producer())
      place = PlaceOf(*v->producer());
    text::StrAppend(&out, "- ", Code(n->op_name()),
                    n->output() ? text::StrCat(" (", Code("%" + n->output()->name()), ", ",
                                               Code(n->output()->type().ToString()), ")")
                                : "",
                    place.empty() ? "" : text::StrCat(", in ", Code(place)), "\n");
  }
  text::StrAppend(&out, "\n## What was done\n\n");
  for (const MinifyReport::Step& s : report.steps)
    text::StrAppend(&out, "1. ", s.what, ": ", s.nodes_before, " → ", s.nodes, " nodes\n");
  if (report.steps.empty()) out += "Nothing could be taken away.\n";
  if (report.stopped) out += "\nA limit of time or probes was reached: more may go.\n";
  for (const std::string& note : report.notes) text::StrAppend(&out, "\nNote: ", text::Printable(note), ".\n");
  text::StrAppend(&out, "\nThe numbers are ", prober.data().origin(), ".\n\n## Files\n\n");
  if (onnx_model::IsOnnx(p))
    out += "- `min.onnx`: the model; `min.ir`: its nodes as text, to be read\n";
  else
    text::StrAppend(&out, "- `min.ir`: the program as text; `min.pt2`", onnx ? ", `min.onnx`" : "", ": the same\n");
  out += "- `inputs.safetensors`: its inputs, as `slipway run` takes them\n- `repro.sh`: the check on it\n";
  if (onnx_model::IsOnnx(p))
    out += "- `repro.py`: the same with onnxruntime and numpy alone\n";
  else
    out += "- `repro.py`: the same program in torch, and the check on what that exports\n";
  out += "- `probes.log`: what was asked; the same command goes on from it\n";
  for (const std::string& m : missing) text::StrAppend(&out, "\nNot written: ", text::Printable(m), ".\n");
  text::StrAppend(&out, "\nMade by ", VersionText(),
                  original.torch_version.empty()
                      ? ""
                      : text::StrCat("; the program by torch ", text::Printable(original.torch_version)),
                  ".\n");
  return out;
}

absl::Status WriteResult(const MinifyOptions& o, const Check& check, const ir::Program& original, const Prober& prober,
                         MinifyReport& report) {
  std::vector<std::string> missing;
  RETURN_IF_ERROR(prober.WriteBest(true, &missing));
  const ir::Program& p = prober.best();
  const std::vector<ir::TensorRef> inputs = prober.data().InputsOf(p, prober.names());
  const bool model = onnx_model::IsOnnx(p);
  bool onnx = model;
  if (!model) {
    unlink((o.folder + "/min.onnx").c_str());
    auto converted = io::RunSubprocess({o.slipway, "convert", o.folder + "/min.ir", "-o", o.folder + "/min.onnx", "-q"},
                                       {.timeout_seconds = o.timeout, .memory_limit = o.memory});
    onnx = converted.ok() && !converted->timed_out && converted->exit_code == 0;
  }
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error),
                              folder = std::filesystem::weakly_canonical(o.folder, error);
  ReproOptions repro;
  repro.onnx = model;
  repro.runtime = check.runtime();
  repro.steps = check.ShellSteps();
  repro.from = std::filesystem::relative(here, folder, error).string();
  repro.result = std::filesystem::relative(folder, here, error).string() + "/";
  repro.failure = text::Printable(text::Shortened(report.failure, 300));
  RETURN_IF_ERROR(WriteReproShell(repro, o.folder));
  if (model) {
    RETURN_IF_ERROR(WriteReproOnnx(repro, o.folder));
  } else {
    const absl::Status written = WriteReproPython(p, inputs, repro, o.folder);
    if (absl::IsUnimplemented(written))
      missing.push_back(text::StrCat("repro.py: ", written.message()));
    else
      RETURN_IF_ERROR(written);
  }
  RETURN_IF_ERROR(io::WriteFile(o.folder + "/report.md", ReportText(o, original, prober, report, onnx, missing)));
  for (std::string& m : missing) report.notes.push_back("not written: " + std::move(m));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ir::Program>> ReadOne(const std::string& path) {
  auto source = OpenSource(path);
  if (!source.ok()) return WithPlace(source.status(), path);
  if (source->file) {
    auto onnx_graph = OpenOnnxGraph(*source);
    if (!onnx_graph.ok()) return WithPlace(onnx_graph.status(), path);
    if (*onnx_graph) return onnx_graph;
  }
  auto archive = OpenArchive(path);
  if (!archive.ok()) return WithPlace(archive.status(), path);
  if (archive->programs.size() != 1)
    return WithPlace(
        WithHelp(absl::UnimplementedError(text::StrCat("an archive of ", archive->programs.size(), " programs")),
                 "slipway unpack divides it"),
        path);
  return std::move(archive->programs[0]);
}

// All that the answers depend on.
absl::StatusOr<std::string> KeyOf(const MinifyOptions& o, const Check& check,
                                  absl::Span<const ir::Program* const> models) {
  io::Sha256 key;
  key.Update(check.Key());
  for (const std::string& path : {o.input, o.inputs, check.other()}) {
    if (path.empty()) continue;
    ASSIGN_OR_RETURN(const auto file, io::MappedFile::Open(path));
    key.Update(text::StrCat("\n", SourceDigest(file)));
  }
  std::set<std::string> beside;  // files of weights
  for (const ir::Program* p : models)
    for (const auto& [name, t] : p->weights)
      if (const auto* bytes = std::get_if<io::Bytes>(&t.storage->bytes); bytes && bytes->file_range())
        if (const auto& file = bytes->file_range()->file; file->path() != o.input && beside.insert(file->path()).second)
          key.Update(text::StrCat("\n", SourceDigest(file)));
  key.Update(VersionText());
  return io::ToHex(key.Finish()).substr(0, 32);
}

absl::Status Run(const MinifyOptions& o, MinifyReport& report) {
  RETURN_IF_ERROR(CheckMinifyPage(o));
  ASSIGN_OR_RETURN(std::unique_ptr<ir::Program> program, ReadOne(o.input));
  const bool onnx = onnx_model::IsOnnx(*program);
  ASSIGN_OR_RETURN(const Check check,
                   Check::Parse({o.check, o.fail_code, o.fail_regex, o.python, o.slipway, onnx, o.timeout, o.memory}));
  const std::unique_ptr<ir::Program> original = ir::Clone(*program);
  // Without values a program is looked at and converted, as far as that goes, but not run.
  const std::vector<std::string> absent = onnx ? std::vector<std::string>() : WeightsWithoutValues(*program);
  if (!absent.empty() && (o.check == "run" || o.check.starts_with("accuracy:")))
    return MissingWeights(*original, absent, kJoinWeights);
  std::unique_ptr<ir::Program> other;
  if (!check.other().empty()) {
    ASSIGN_OR_RETURN(other, ReadOne(check.other()));
    if (CountNodes(*other->graph) != CountNodes(*program->graph) || onnx_model::IsOnnx(*other) != onnx)
      return WithPlace(absl::UnimplementedError("a program of another structure, which cannot be cut alike"),
                       check.other());
  }
  std::vector<const ir::Program*> models;
  for (const ir::Program* p : {program.get(), other.get()})
    if (p && onnx) models.push_back(p);
  ASSIGN_OR_RETURN(const std::string key, KeyOf(o, check, models));
  Prober prober(o, check, report);
  RETURN_IF_ERROR(prober.Open(std::move(program), std::move(other), key));
  ASSIGN_OR_RETURN(const bool fails, prober.Establish());
  if (!fails) {
    const Verdict& v = prober.target();
    return WithPlace(AnswerIsNo(v.kind == Verdict::kPasses
                                    ? text::StrCat("the ", onnx ? "model" : "program", " does not fail the check")
                                    : text::StrCat("the program fails in another way than the check asks for: ",
                                                   v.failure, v.message.empty() ? "" : ": ", v.message),
                                id::kDoesNotFail),
                     o.input);
  }
  if (!absent.empty() && prober.target().failure == id::kMissingWeights && !o.check.starts_with("diagnostic:"))
    return MissingWeights(*original, absent, kJoinWeights);
  absl::Status searched = minifier::Search(prober, prober.names(), {prober.data().symbols()});
  if (!searched.ok() && !absl::IsCancelled(searched)) return searched;
  if (searched.ok()) RETURN_IF_ERROR(prober.Confirm());
  RETURN_IF_ERROR(WriteResult(o, check, *original, prober, report));
  return WriteMinifyPage(o, report, *original, prober.best());
}

}  // namespace

Outcome Minify(const MinifyOptions& options, MinifyReport* report) {
  if (absl::Status s = Run(options, *report); !s.ok()) return Fail(s, options.input);
  return {};
}

}  // namespace slipway::driver
