// The table; docs/diagnostics.md has its rows by diagnostics_doc, and a unit test holds the ids of diagnostic.h against
// it.
#include "driver/edge/explanations.h"

#include <cctype>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"

namespace slipway::driver {
namespace {

constexpr size_t kColumns = 100;

constexpr Explanation kExplanations[] = {
    {id::kBadInput, kBad,
     "The input is corrupt, hostile or not of the format, or it changed while it was read; or inputs of a run have "
     "sizes that the program's ranges or guards forbid. "
     "The member, the place in it and the cause are named.",
     "Get the file again, or report it where it was made. `slipway inspect FILE --verify` reads all of it and compares "
     "checksums.",
     "slipway inspect model.pt2 --verify"},
    {id::kUnknownFormat, kUsage, "The output's format is not known from its name.",
     "End the name in `.onnx`, `.pt2`, `.so` or `.safetensors` (in `/` for a folder of shards), or give `--to`.",
     "slipway convert model.pt2 -o out --to onnx"},
    {id::kBadFlag, kUsage,
     "The command line does not parse: the message says what a misspelt word may have meant. Or a flag's value does "
     "not fit: its spelling, or a number of names that is not the "
     "program's. Or the target does not take the flag; those that do are named. Or a report would take the place of a "
     "file that the command reads or writes.",
     "Do as the line says; `slipway COMMAND --help` lists the flags.", "slipway convert --help"},
    {id::kMissingWeights, kBad,
     "Weights that are needed have no values, or the files of `--weights` lack names of the program or hold tensors of "
     "another type or size. All are listed.",
     "Give all files with `--weights`, or the checkpoint's folder; a program that was exported on torch's device meta "
     "has "
     "no values of its own. `--allow-missing` keeps the values that the archive has. `slipway diff` compares names, "
     "types and sizes of both.",
     "slipway convert model.pt2 --weights model.safetensors -o model.onnx"},
    {id::kUnsupportedOps, kNotSupported,
     "The program has operators that the target (ONNX at the opset asked for, or native kernels) cannot express. Each "
     "is listed with its count, the reason and the place of the first.",
     "Take the newer `--opset` that the help names, if one can express them. Call `model.eval()` before the export "
     "where the help says so. `--custom-op` writes operators of your own as nodes "
     "of a custom domain. `slipway minify` finds the smallest program that shows it, for a report.",
     "slipway minify model.pt2 -o small --check convert:onnx"},
    {id::kUnsupported, kNotSupported,
     "A feature besides operators is not supported: a type, a form of the file, a combination of flags.",
     "Do as the line says.", ""},
    {id::kDroppedState, kDone,
     "A warning: the program updates a buffer or an input, and the updated state is not an output. What the update "
     "means for the outputs of the call is kept.",
     "Nothing, if the state does not matter between calls. `--state io` (ONNX) makes it inputs and outputs; `--state "
     "auto` (`.so`) keeps it in the library.",
     "slipway convert model.pt2 -o model.onnx --state io"},
    {id::kNarrowElements, kDone,
     "A warning: inputs or results of an ONNX model have elements of 4 or 2 bits, of which programs have one a byte: "
     "int4 and int2 as int8, uint4 and uint2 as uint8, float4e2m1 as float8e4m3fn. The output's inputs and results are "
     "of these types, in ONNX too. Each is named with both.",
     "Give and take the wider types; what lies beyond the few bits of an input is not looked for.",
     "slipway inspect model.onnx"},
    {id::kWrite, kIo,
     "A file could not be read or written: it is missing, the disk is full, or permission is denied. The old output is "
     "unharmed.",
     "Free room, or correct the path or its permissions.", ""},
    {id::kMemory, kNoMemory,
     "The process is out of memory, or the result would be over a limit that protects against hostile files.",
     "Where the line names `--max-output`, allow as much, if the file is to be trusted.",
     "slipway convert model.pt2 -o model.onnx --max-output 40GB"},
    {id::kNotQuantized, kNo,
     "With `--require-all`, weights that were asked for would stay in float; or the budget of `--config auto` cannot "
     "be met.",
     "Exclude them by `--exclude`, or allow more. The closing table says why each weight stays as it is.", ""},
    {id::kLossyCast, kNo,
     "With `--strict`, values that `--dtype` would make infinite, or zero; they are counted by tensor.",
     "`--dtype bf16` has the range of f32. Without `--strict` such values are counted in the summary only.",
     "slipway convert model.safetensors -o half.safetensors --dtype bf16"},
    {id::kDiffers, kNo, "`verify`: the two models do not compute the same.",
     "`--layers` finds the first node that differs; `slipway minify --check accuracy:…` the smallest program.",
     "slipway verify model.pt2 model.onnx --layers"},
    {id::kNoRuntime, kNotSupported,
     "No Python with onnxruntime and numpy was found, which run ONNX models. The message says what each that was tried "
     "answered.",
     "Install them (`pip install onnxruntime numpy`), and name the Python by `--python`.",
     "slipway verify model.pt2 model.onnx --python venv/bin/python"},
    {id::kDoesNotFail, kNo,
     "`minify`: the program does not fail the check, or it fails in another way than the check asks for.",
     "Look at what the check says of the original; `--fail-code` and `--fail-regex` say which failure is meant.", ""},
    {id::kUnfit, kNo, "`doctor` found problems on this machine; each stands above with what to do.",
     "Do as the lines say.", "slipway doctor --python venv/bin/python"},
    {id::kInternal, kBug, "A bug in slipway.", "Report it with the input, or with what `slipway minify` leaves of it.",
     ""},
};

constexpr ExitCodeMeaning kExitCodes[] = {
    {kDone, "done"},
    {kNo,
     "the answer is no: models differ, a budget is not met, a program does not fail the check, a problem was found"},
    {kUsage, "usage"},
    {kBad, "bad input: corrupt, hostile, of the wrong format"},
    {kNotSupported, "not supported: operators, types, features; all are listed"},
    {kIo, "could not read or write"},
    {kNoMemory, "out of memory or over a limit"},
    {kBug, "a bug in slipway"},
};

// Words of a text, a line for as many as fit, each behind `indent`.
std::string Wrapped(std::string_view text, std::string_view indent) {
  std::string out, line(indent);
  for (std::string_view word : text::Split(text, ' ')) {
    if (line.size() + 1 + word.size() > kColumns && line.size() > indent.size()) {
      out += line + "\n";
      line = indent;
    }
    text::StrAppend(&line, line.size() > indent.size() ? " " : "", word);
  }
  return out + line + "\n";
}

}  // namespace

absl::Span<const ExitCodeMeaning> ExitCodes() { return kExitCodes; }

absl::Span<const Explanation> Explanations() { return kExplanations; }

absl::StatusOr<const Explanation*> FindExplanation(std::string_view id) {
  std::string wanted;
  for (char c : id)
    if (c != '[' && c != ']') wanted += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (!wanted.starts_with("SW")) wanted = "SW" + wanted;
  std::vector<std::string_view> known;
  for (const Explanation& e : kExplanations) {
    if (e.id == wanted) return &e;
    known.push_back(e.id);
  }
  return UsageError(text::StrCat("'", id, "' is no diagnostic's id", text::Suggestion(wanted, known)),
                    text::StrCat("there are ", text::Join(known, ", ")));
}

std::string ExplanationsJson(absl::Span<const Explanation> rows) {
  json::Writer w;
  w.BeginObject().Key("version").Int(1).Key("diagnostics").BeginArray();
  for (const Explanation& e : rows) {
    w.BeginObject().Key("id").String(e.id).Key("exit_code").Int(e.exit_code).Key("means").String(e.means);
    w.Key("solution").String(e.solution).Key("example").String(e.example).EndObject();
  }
  w.EndArray().EndObject();
  return w.Take() + "\n";
}

std::string ToText(const Explanation& e) {
  std::string out =
      text::StrCat(e.id, e.exit_code == kDone ? " (a warning)" : text::StrCat(" (exit code ", e.exit_code, ")"), "\n");
  out += Wrapped(e.means, "  ");
  out += "help:\n" + Wrapped(e.solution, "  ");
  if (!e.example.empty()) text::StrAppend(&out, "example:\n  ", e.example, "\n");
  return out;
}

}  // namespace slipway::driver
