// How a status becomes diagnostics: ids and exit codes by payload, else by its code; and texts that no file can forge.
#include "driver/edge/diagnostic.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/cord.h"
#include "base/json.h"
#include "base/list_error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/io_error.h"
#include "passes/refusals.h"

namespace slipway::driver {

namespace {

// Payloads of statuses. kParts holds cause, place and source line of a diagnostic each, all ended by a zero byte.
constexpr char kId[] = "slipway/id", kPlace[] = "slipway/place", kHelp[] = "slipway/help", kParts[] = "slipway/parts",
               kAnswer[] = "slipway/answer";

// What is said of one file is bounded: its names may be as long as the file.
constexpr size_t kMostCause = 6000, kMostPlace = 500, kMostParts = 1000, kMostInLine = 5, kMostLines = 10;

std::string Payload(const absl::Status& s, const char* key) {
  const auto cord = s.GetPayload(key);
  return cord ? std::string(*cord) : std::string();
}

absl::Status With(absl::Status s, const char* key, std::string_view value) {
  if (!s.ok() && !value.empty() && !s.GetPayload(key)) s.SetPayload(key, absl::Cord(text::ToAbsl(value)));
  return s;
}

ExitCode ExitCodeOf(const absl::Status& s) {
  if (const int error = io::ErrnoOf(s)) return error == ENOMEM ? kNoMemory : kIo;
  switch (s.code()) {
    case absl::StatusCode::kOk: return kDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss: return kBad;
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition: return kNotSupported;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists: return kIo;
    case absl::StatusCode::kResourceExhausted: return kNoMemory;
    default: return kBug;
  }
}

const char* IdOf(ExitCode code) {
  switch (code) {
    case kBad: return id::kBadInput;
    case kNotSupported: return id::kUnsupported;
    case kIo: return id::kWrite;
    case kNoMemory: return id::kMemory;
    default: return id::kInternal;
  }
}

// What to do about a file that could not be reached.
std::string HowToReach(const absl::Status& s) {
  const std::string path = io::PathOf(s);
  const size_t slash = path.rfind('/');
  if (io::ErrnoOf(s) != ENOENT || slash == 0 || slash == path.npos) return "";
  const std::string folder = path.substr(0, slash);
  struct stat info;
  return stat(folder.c_str(), &info) == 0 ? "" : text::StrCat("there is no folder ", folder);
}

std::vector<std::string> ListOf(const absl::Status& s) {
  const std::string all = Payload(s, kListPayload);
  std::vector<std::string> items;
  for (std::string_view item : text::Split(all, '\0')) items.emplace_back(item);
  if (!items.empty()) items.pop_back();  // behind the last zero byte
  return items;
}

}  // namespace

absl::Status WithId(absl::Status s, std::string_view id) { return With(std::move(s), kId, id); }
std::string IdOf(const absl::Status& s) { return Payload(s, kId); }
absl::Status WithPlace(absl::Status s, std::string_view place) { return With(std::move(s), kPlace, place); }
absl::Status WithHelp(absl::Status s, std::string_view help) { return With(std::move(s), kHelp, help); }

absl::Status AnswerIsNo(std::string_view cause, std::string_view id) {
  return AnswerIsNo(absl::FailedPreconditionError(text::ToAbsl(cause)), id);
}

absl::Status AnswerIsNo(const absl::Status& cause, std::string_view id) {
  return With(WithId(cause, id), kAnswer, "no");
}

absl::Status UsageError(std::string_view cause, std::string_view help, std::string_view id) {
  return WithId(WithHelp(absl::InvalidArgumentError(text::ToAbsl(cause)), help), id);
}

absl::Status UnsupportedError(const std::vector<passes::Unsupported>& unsupported, std::string_view where,
                              std::string_view how) {
  std::vector<std::string> names;
  std::string parts;
  for (const passes::Unsupported& u : unsupported) {
    text::StrAppend(&parts, u.count > 1 ? text::StrCat(u.count, " × ") : "", u.reason);
    parts += '\0';
    parts += u.first_place;
    parts += '\0';
    parts += u.first_line;
    parts += '\0';
    if (std::find(names.begin(), names.end(), u.reason) == names.end()) names.push_back(u.reason);
  }
  const auto training = std::count_if(unsupported.begin(), unsupported.end(), passes::IsOfTraining);
  constexpr std::string_view kEval = "the model was exported in training mode: call model.eval() and export it again";
  std::string help(training > 0 ? kEval : how);
  if (training > 0 && training < static_cast<int64_t>(unsupported.size()))
    text::StrAppend(&help, "; of the others: ", how);
  absl::Status s = absl::UnimplementedError(text::StrCat("not supported ", where, ": ", text::Join(names, "; ")));
  return WithHelp(With(WithId(std::move(s), id::kUnsupportedOps), kParts, parts), help);
}

Outcome Fail(const absl::Status& s, std::string_view place) {
  Outcome out;
  out.code = ExitCodeOf(s);
  std::string name = Payload(s, kId), own = Payload(s, kPlace);
  const bool usage = name == id::kBadFlag || name == id::kUnknownFormat;
  if (usage) out.code = kUsage;
  if (s.GetPayload(kAnswer)) out.code = kNo;
  if (name.empty()) name = IdOf(out.code);
  const std::string list = Payload(s, kParts);
  const std::vector<std::string_view> parts = text::Split(list, '\0');
  const size_t count = parts.size() / 3;
  for (size_t i = 0; i < std::min(count, kMostParts); ++i)
    out.diagnostics.push_back({Severity::kError,
                               name,
                               text::Shortened(parts[3 * i], kMostPlace),
                               text::Shortened(parts[3 * i + 1], kMostPlace),
                               "",
                               {},
                               std::string(parts[3 * i + 2])});
  if (count > kMostParts)
    out.diagnostics.push_back({Severity::kError, name, text::StrCat("… and ", count - kMostParts, " more"), "", ""});
  // A usage error is of the command line and the last of a list is of all: neither has a place.
  if (usage || !list.empty())
    own.clear();
  else if (const std::string path = io::PathOf(s); !path.empty())
    own = path;
  else if (own.empty())
    own = place;
  std::string help = Payload(s, kHelp);
  if (help.empty()) help = HowToReach(s);
  std::vector<std::string> items = ListOf(s);
  const std::string_view cause = text::FromAbsl(s.message());
  out.diagnostics.push_back({Severity::kError, name,
                             items.empty() ? text::Shortened(cause, kMostCause) : std::string(cause),
                             text::Shortened(own, kMostPlace), text::Shortened(help, kMostPlace), std::move(items)});
  return out;
}

absl::Status StatusOf(const Outcome& outcome) {
  if (outcome.code == kDone || outcome.diagnostics.empty()) return absl::OkStatus();
  const Diagnostic& d = outcome.diagnostics.back();
  const absl::StatusCode code = outcome.code == kNotSupported ? absl::StatusCode::kUnimplemented
                                : outcome.code == kIo         ? absl::StatusCode::kNotFound
                                : outcome.code == kNoMemory   ? absl::StatusCode::kResourceExhausted
                                : outcome.code == kBug        ? absl::StatusCode::kInternal
                                                              : absl::StatusCode::kInvalidArgument;
  return WithPlace(WithHelp(WithId(absl::Status(code, text::ToAbsl(d.cause)), d.id), d.help), d.place);
}

Diagnostic DroppedState(const std::string& name) {
  return {Severity::kWarning, id::kDroppedState,
          "the program updates '" + text::Shortened(name, kMostPlace) + "'; the updated state is not an output", "",
          ""};
}

Diagnostic NarrowElements(const std::string& all) {
  return {Severity::kWarning, id::kNarrowElements,
          "elements of 4 or 2 bits are one a byte in the output: " + text::Shortened(all, kMostPlace), "",
          "callers give and take the wider types; stored weights keep their bits where the target has the form"};
}

namespace {

const char* Word(Severity s) { return s == Severity::kError ? "error" : s == Severity::kWarning ? "warning" : "note"; }

}  // namespace

std::string ToText(const Diagnostic& d, bool colour) {
  const char* on = !colour                            ? ""
                   : d.severity == Severity::kError   ? "\033[31;1m"
                   : d.severity == Severity::kWarning ? "\033[33;1m"
                                                      : "\033[36;1m";
  std::string cause = d.cause, items;
  const std::string tail = text::StrCat(": ", text::Join(d.list, ", "));
  if (d.list.size() > kMostInLine && cause.ends_with(tail)) {
    cause.resize(cause.size() - tail.size());
    for (size_t i = 0; i < std::min(d.list.size(), kMostLines); ++i)
      items += "  - " + text::Printable(text::Shortened(d.list[i], kMostPlace)) + "\n";
    if (d.list.size() > kMostLines) items += text::StrCat("  … and ", d.list.size() - kMostLines, " more\n");
  }
  std::string out = std::string(on) + Word(d.severity) + "[" + d.id + "]" + (colour ? "\033[0m" : "") + ": " +
                    text::Printable(text::Shortened(cause, kMostCause)) + "\n";
  if (!d.place.empty()) out += "  --> " + text::Printable(d.place) + "\n";
  out += items;
  if (!d.help.empty()) out += "  help: " + text::Printable(d.help) + "\n";
  return out;
}

std::string ToJson(const Diagnostic& d) {
  json::Writer out;
  out.BeginObject()
      .Key("severity")
      .String(Word(d.severity))
      .Key("id")
      .String(d.id)
      .Key("cause")
      .String(text::Shortened(d.cause, kMostCause));
  out.Key("place").String(d.place).Key("help").String(d.help).EndObject();
  return out.Take() + "\n";
}

}  // namespace slipway::driver
