// A check is a list of steps. A command of the user's is one, run by the shell; slipway's own are conversions and
// comparisons.
#include "driver/minify/check.h"

#include <re2/re2.h>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"

namespace slipway::driver {
namespace {

void ReplaceAll(std::string* s, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = s->find(from); at != std::string::npos; at = s->find(from, at + to.size()))
    s->replace(at, from.size(), to);
}

// The last line that begins as an error of slipway does, behind which place and help stand; else the last line.
std::string_view Cause(std::string_view text) {
  std::string_view last, error;
  for (std::string_view line : text::Split(text, '\n')) {
    if (line = text::Strip(line); line.empty()) continue;
    last = line;
    if (line.starts_with("error[")) error = line;
  }
  return error.empty() ? last : error;
}

// The member of one line of JSON as driver::ToJson() writes it, escapes and all.
std::string_view JsonText(std::string_view line, std::string_view key) {
  const std::string head = text::StrCat("\"", key, "\":\"");
  const size_t at = line.find(head);
  if (at == std::string_view::npos) return {};
  const size_t begin = at + head.size();
  for (size_t end = begin; end < line.size(); ++end) {
    if (line[end] == '\\')
      ++end;
    else if (line[end] == '"')
      return line.substr(begin, end - begin);
  }
  return {};
}

// The suffix after '@', taken off.
std::string TakeSuffix(std::string* s) {
  const size_t at = s->find('@');
  if (at == std::string::npos) return "";
  std::string suffix = s->substr(at + 1);
  s->resize(at);
  return suffix;
}

}  // namespace

std::string ShellQuoted(std::string_view path) {
  static const RE2& kPlain = *new RE2(R"([-A-Za-z0-9_./+,=@%]+)");
  if (RE2::FullMatch(re2::StringPiece(path.data(), path.size()), kPlain)) return std::string(path);
  std::string out = "'";
  for (char c : path) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  out += "'";
  return out;
}

std::string Normalized(std::string_view message, std::string_view folder) {
  std::string s(message.substr(0, 4000));
  if (!folder.empty()) {
    ReplaceAll(&s, text::StrCat(folder, "/"), "{}");
    ReplaceAll(&s, folder, "{}");
  }
  static const RE2& kAddress = *new RE2(R"(0x[0-9a-fA-F]+)");
  static const RE2& kSymbol = *new RE2(R"(\b[su][0-9]+\b)");
  static const RE2& kNumber = *new RE2(R"(-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?)");
  static const RE2& kSum = *new RE2(R"(#(\s*(//|\*\*|[-+*/,x^×])\s*#)+)");
  static const RE2& kGroup = *new RE2(R"(\[\s*#?\s*,?\s*\]|\(\s*#\s*,?\s*\))");
  // behind a word it is a call: model.eval()
  static const RE2& kNoSizes = *new RE2(R"((^|[^0-9A-Za-z_])\(\s*,?\s*\))");
  static const RE2& kFunction = *new RE2(R"(\b(Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv)#)");
  RE2::GlobalReplace(&s, kAddress, "#");
  RE2::GlobalReplace(&s, kSymbol, "#");
  RE2::GlobalReplace(&s, kNumber, "#");
  // Sizes and expressions over them are one thing, however many there are.
  while (RE2::GlobalReplace(&s, kSum, "#") + RE2::GlobalReplace(&s, kGroup, "#") +
                 RE2::GlobalReplace(&s, kNoSizes, "\\1#") + RE2::GlobalReplace(&s, kFunction, "#") >
             0 &&
         s.size() > 1) {
  }
  return s;
}

namespace {

// What onnxruntime says without what nodes and values are called in it, since candidates lose their names, and without
// the nodes that it stands inside of.
std::string WithoutNames(std::string s) {
  static const RE2& kQuoted = *new RE2(R"('[^']*'|\\?"[^"\\]*\\?")");
  static const RE2& kNode = *new RE2(R"(\b([Nn]ode:?) ?(\([^()]*\)|[^ ]*))");
  static const RE2& kInside =
      *new RE2(R"(Node '' Op \([^()]*\) \[[A-Za-z]*InferenceError\] Graph attribute inferencing failed: )");
  RE2::GlobalReplace(&s, kQuoted, "''");
  RE2::GlobalReplace(&s, kNode, "\\1 ''");
  RE2::GlobalReplace(&s, kInside, "");
  return s;
}

}  // namespace

absl::StatusOr<Check> Check::Parse(const CheckOptions& options) {
  Check c;
  c.options_ = options;
  const absl::Status s = options.onnx ? c.ParseModelCheck() : c.ParseProgramCheck();
  if (!s.ok()) return s;
  if (!options.fail_regex.empty()) {
    const RE2 pattern(options.fail_regex, RE2::Quiet);
    if (!pattern.ok()) return UsageError(text::StrCat("--fail-regex: ", pattern.error()));
  }
  return c;
}

absl::Status Check::AddConvert(const std::string& target, const std::string& opset, bool tells) {
  Step s;
  if (target != "onnx" && target != "so" && target != "pt2")
    return UsageError(text::StrCat("--check ", options_.check, ": '", target, "' is no target of checks"),
                      "onnx, so and pt2 are");
  int number = 0;
  if (!opset.empty() && (target != "onnx" || !text::ParseNumber(std::string_view(opset), &number)))
    return UsageError(text::StrCat("--check ", options_.check, ": '", opset, "' is no opset"));
  s.argv = {"{slipway}",     "convert", onnx_ ? "{onnx}" : "{ir}", "-o", text::StrCat("{folder}/out.", target),
            "--diagnostics", "json"};
  if (!opset.empty()) s.argv.insert(s.argv.end(), {"--opset", opset});
  s.tells = tells;
  s.diagnostics = true;
  ir_ = ir_ || !onnx_;
  steps_.push_back(std::move(s));
  return absl::OkStatus();
}

absl::Status Check::ParseConversion(std::string_view target) {
  std::string name(target);
  const std::string opset = TakeSuffix(&name);
  return AddConvert(name, opset, true);
}

absl::Status Check::ParseDiagnostic(std::string_view id) {
  id_ = std::string(id);
  const std::string target = TakeSuffix(&id_);
  if (!RE2::FullMatch(id_, R"(SW[0-9]{4})"))
    return UsageError(text::StrCat("--check ", options_.check, ": '", id_, "' is no diagnostic"),
                      "docs/diagnostics.md lists them");
  return AddConvert(target.empty() ? "onnx" : target, "", true);
}

absl::Status Check::ParseProgramCheck() {
  const std::string& check = options_.check;
  std::string_view rest = check;
  if (check == "run") {
    AddRun("{ir}");
    ir_ = true;
  } else if (text::ConsumePrefix(&rest, "convert:")) {
    return ParseConversion(rest);
  } else if (text::ConsumePrefix(&rest, "diagnostic:")) {
    return ParseDiagnostic(rest);
  } else if (text::ConsumePrefix(&rest, "accuracy:")) {
    std::string target(rest);
    const std::string opset = target.starts_with("onnx@") ? TakeSuffix(&target) : "";
    std::string against = text::StrCat("{folder}/out.", target);
    if (target == "onnx" || target == "so") {
      RETURN_IF_ERROR(AddConvert(target, opset, false));
    } else {
      other_ = target;
      against = "{other}";
    }
    AddVerify({"{ir}", against});
    ir_ = true;
  } else {
    pt2_ = text::Contains(check, "{}") || text::Contains(check, "{pt2}");
    ir_ = text::Contains(check, "{ir}");
    const bool onnx = text::Contains(check, "{onnx}");
    if (!pt2_ && !ir_ && !onnx)
      return UsageError(text::StrCat("--check '", check, "' names no file of the candidate"),
                        "{} in the command stands for it as .pt2, {ir} as text, {onnx} as ONNX; slipway's own checks "
                        "are convert:onnx, "
                        "convert:so, run, accuracy:onnx, accuracy:so, accuracy:OTHER.pt2, diagnostic:SW2001");
    if (onnx) RETURN_IF_ERROR(AddConvert("onnx", "", false));
    AddCommand();
  }
  return absl::OkStatus();
}

absl::Status Check::ParseModelCheck() {
  const std::string& check = options_.check;
  constexpr char kOwn[] =
      "slipway's own checks of ONNX models are run, convert:so, convert:onnx, accuracy:so, accuracy:onnx, "
      "accuracy:ort-unoptimized, accuracy:OTHER.onnx, diagnostic:SW2002@so";
  std::string_view rest = check;
  onnx_ = true;
  if (check == "run") {
    AddRun("{onnx}");
    runtime_ = "run";
  } else if (text::ConsumePrefix(&rest, "convert:")) {
    return ParseConversion(rest);
  } else if (text::ConsumePrefix(&rest, "diagnostic:")) {
    return ParseDiagnostic(rest);
  } else if (check == "accuracy:onnx" || check == "accuracy:so") {
    const std::string target = check.substr(check.find(':') + 1);
    RETURN_IF_ERROR(AddConvert(target, "", false));
    AddVerify({"{onnx}", text::StrCat("{folder}/out.", target)});
  } else if (check == "accuracy:ort-unoptimized") {
    AddVerify({"{onnx}", "{onnx}", "--ort-unoptimized"});
    runtime_ = "unoptimized";
  } else if (text::ConsumePrefix(&rest, "accuracy:")) {
    other_ = std::string(rest);
    AddVerify({"{onnx}", "{other}"});
    runtime_ = "other";
  } else {
    ir_ = text::Contains(check, "{ir}");
    if (!ir_ && !text::Contains(check, "{}") && !text::Contains(check, "{onnx}"))
      return UsageError(text::StrCat("--check '", check, "' names no file of the candidate"),
                        text::StrCat("{} in the command stands for it as .onnx, {ir} as text; ", kOwn));
    AddCommand();
  }
  return absl::OkStatus();
}

void Check::AddRun(const char* model) {
  Step s;
  s.argv = {"{slipway}",     "run", model, "--inputs", "{inputs}", "--outputs", "{folder}/outputs.safetensors",
            "--diagnostics", "json"};
  if (onnx_) s.argv.emplace_back("--onnxruntime");
  if (onnx_ && !options_.python.empty()) s.argv.insert(s.argv.end(), {"--python", options_.python});
  s.tells = s.diagnostics = true;
  steps_.push_back(std::move(s));
  inputs_ = numeric_ = true;
}

void Check::AddVerify(const std::vector<std::string>& models) {
  Step s;
  s.argv = {"{slipway}", "verify"};
  s.argv.insert(s.argv.end(), models.begin(), models.end());
  s.argv.insert(s.argv.end(), {"--inputs", "{inputs}"});
  if (!options_.python.empty()) s.argv.insert(s.argv.end(), {"--python", options_.python});
  s.tells = true;
  s.code = 1;
  steps_.push_back(std::move(s));
  inputs_ = numeric_ = true;
}

void Check::AddCommand() {
  Step s;
  s.argv = {"/bin/sh", "-c", options_.check};
  s.tells = true;
  steps_.push_back(std::move(s));
  inputs_ = text::Contains(options_.check, "{inputs}");
  command_ = numeric_ = true;
}

std::string Check::Replaced(std::string_view text, const CandidateFiles& files, bool quote) const {
  const std::pair<std::string_view, std::string> all[] = {
      {"{}", onnx_ ? files.onnx : files.pt2},
      {"{pt2}", files.pt2},
      {"{ir}", files.ir},
      {"{inputs}", files.inputs},
      {"{onnx}", onnx_ ? files.onnx : files.folder + "/out.onnx"},
      {"{other}", files.other},
      {"{folder}", files.folder},
      {"{slipway}", options_.slipway},
  };
  std::string out;
  while (!text.empty()) {
    bool found = false;
    for (const auto& [key, value] : all) {
      if (!text.starts_with(key)) continue;
      out += quote ? ShellQuoted(value) : value;
      text.remove_prefix(key.size());
      found = true;
      break;
    }
    if (found) continue;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

Verdict Check::Judge(const Step& step, const io::SubprocessResult& r, const CandidateFiles& files) const {
  Verdict v;
  const bool user = command_ && step.tells;
  const bool exited = !r.timed_out && r.exit_code >= 0;
  v.failure = r.timed_out ? "timeout" : exited ? text::StrCat("exit ", r.exit_code) : text::StrCat("signal ", r.signal);
  const bool regex = user && !options_.fail_regex.empty();
  const bool matches =
      regex && (RE2::PartialMatch(r.output, options_.fail_regex) || RE2::PartialMatch(r.error, options_.fail_regex));
  bool fails = !exited || (step.code == 0 ? r.exit_code != 0 : r.exit_code == step.code);
  if (user && options_.fail_code) fails = exited && r.exit_code == *options_.fail_code;
  if (regex) fails = matches && (!options_.fail_code || fails);
  if (!fails) {
    if (exited && r.exit_code == 0) v.failure.clear();
    // verify could not compare
    else if (!step.tells || !user)
      v.kind = Verdict::kUnusable, v.message = Normalized(Cause(r.error), files.folder);
    return v;
  }
  v.kind = step.tells ? Verdict::kFails : Verdict::kUnusable;
  if (!step.tells) {
    v.message = Normalized(Cause(r.error), files.folder);
    return v;
  }
  // Whoever says by code or pattern what the failure is has said all of it.
  if (regex)
    v.failure = "output matches";
  else if (user && options_.fail_code)
    return v;
  else if (exited && step.diagnostics) {
    for (std::string_view line : text::Split(r.error, '\n')) {
      if (JsonText(line, "severity") != "error") continue;
      const std::string_view id = JsonText(line, "id");
      if (!id_.empty()) {
        if (id != id_) continue;
        v.failure = id_;
        return v;
      }
      v.failure = std::string(id);
      v.message = Normalized(JsonText(line, "cause"), files.folder);
      if (onnx_) v.message = WithoutNames(std::move(v.message));
      return v;
    }
    if (!id_.empty()) v.kind = Verdict::kPasses;
  } else if (exited && user) {
    v.message = Normalized(Cause(r.error), files.folder);
  }
  return v;
}

absl::StatusOr<Verdict> Check::Run(const CandidateFiles& files) const {
  Verdict v;
  for (const Step& step : steps_) {
    std::vector<std::string> argv;
    const bool shell = command_ && step.tells;
    for (const std::string& a : step.argv) argv.push_back(Replaced(a, files, shell));
    auto result = io::RunSubprocess(
        argv, {.timeout_seconds = options_.timeout, .memory_limit = options_.memory, .max_output = size_t{8} << 20});
    if (!result.ok()) return result.status();
    v = Judge(step, *result, files);
    if (v.kind != Verdict::kPasses) return v;
  }
  return v;
}

std::vector<std::string> Check::ShellSteps() const {
  std::vector<std::string> out;
  for (const Step& step : steps_) {
    if (command_ && step.tells) {
      out.push_back(step.argv[2]);
      continue;
    }
    std::vector<std::string> words;
    for (const std::string& a : step.argv)
      if (a != "--diagnostics" && a != "json") words.push_back(a == "{slipway}" ? "slipway" : a);
    out.push_back(text::Join(words, " "));
  }
  return out;
}

std::string Check::Key() const {
  return text::StrCat(options_.check, "\n", options_.fail_code ? std::to_string(*options_.fail_code) : "", "\n",
                      options_.fail_regex, "\n", options_.timeout, " ", options_.memory);
}

}  // namespace slipway::driver
