// What people are told: an id that stays, one line of cause, the place, and what to do about it. All code returns
// absl::Status; Fail() turns it into diagnostics and an exit code at the edge. What a status has to say beyond its code
// and text rides in it as payloads, which the functions here set and Fail() reads.
#ifndef SLIPWAY_DRIVER_EDGE_DIAGNOSTIC_H_
#define SLIPWAY_DRIVER_EDGE_DIAGNOSTIC_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace slipway::passes {
struct Unsupported;
}

namespace slipway::driver {

// docs/diagnostics.md lists these ids.
namespace id {
constexpr char kBadInput[] = "SW1001";       // the input is corrupt, hostile or of the wrong format
constexpr char kUnknownFormat[] = "SW1002";  // neither input nor output format is known from the name
// a flag's value has no meaning, or does not fit the program or the target
constexpr char kBadFlag[] = "SW1003";
constexpr char kMissingWeights[] = "SW1010";  // names without values
constexpr char kUnsupportedOps[] = "SW2001";  // operators the target cannot express
constexpr char kUnsupported[] = "SW2002";     // another feature that is not supported
constexpr char kDroppedState[] = "SW2010";    // warning: a mutation's updated state is not an output
constexpr char kNarrowElements[] = "SW2011";  // warning: inputs or results get a wider type than the model's
constexpr char kWrite[] = "SW3001";           // could not read or write
constexpr char kMemory[] = "SW4001";          // out of memory or over a limit
constexpr char kNotQuantized[] = "SW5001";    // --require-all: weights that were asked for stay in float
constexpr char kLossyCast[] = "SW5002";       // --strict: values that --dtype would lose
constexpr char kDiffers[] = "SW6001";         // verify: the two do not compute the same
constexpr char kNoRuntime[] = "SW6002";       // no Python with onnxruntime
constexpr char kDoesNotFail[] = "SW6101";     // minify: the program does not fail the check
constexpr char kUnfit[] = "SW6201";           // doctor: problems were found
constexpr char kInternal[] = "SW9001";        // a bug in slipway
}  // namespace id

// Exit codes of the contract (docs/cli.md).
enum ExitCode : int { kDone = 0, kNo = 1, kUsage = 2, kBad = 3, kNotSupported = 4, kIo = 5, kNoMemory = 6, kBug = 70 };

enum class Severity { kError, kWarning, kNote };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string id;
  std::string cause;
  std::string place;  // member, node or model source line; may be empty
  std::string help;   // what solves it; may be empty
  // where the cause ends in one (base/list_error.h): its items, one line each in the text
  std::vector<std::string> list = {};
  std::string line = {};  // of the model's source: "/home/u/model.py:12"; may be empty
};

// What a command came to.
struct Outcome {
  ExitCode code = kDone;
  std::vector<Diagnostic> diagnostics;  // errors last, of several the one that is of all
};

// A usage error: exit code 2.
absl::Status UsageError(std::string_view cause, std::string_view help = {}, std::string_view id = id::kBadFlag);
// That the answer is no: exit code 1.
absl::Status AnswerIsNo(std::string_view cause, std::string_view id);
absl::Status AnswerIsNo(const absl::Status& cause, std::string_view id);
// Unimplemented: what a target cannot express, a diagnostic each, and at the end one that names all: "not supported
// `where`: …". `how` is the help for operators that the target lacks; what only training mode asks for has another.
absl::Status UnsupportedError(const std::vector<passes::Unsupported>& unsupported, std::string_view where,
                              std::string_view how);
inline constexpr std::string_view kByKernels = "by native kernels";
inline constexpr std::string_view kHowKernels = "--plugin LIBRARY brings kernels of your own; docs/native.md";
inline constexpr std::string_view kHowToDivide = "slipway unpack divides it";

// The status with an id, a place or a help for its diagnostic. What it has already stays, and so does an empty text.
absl::Status WithId(absl::Status s, std::string_view id);
absl::Status WithPlace(absl::Status s, std::string_view place);
absl::Status WithHelp(absl::Status s, std::string_view help);

// The id that WithId() gave; "" for none.
std::string IdOf(const absl::Status& s);

// The errors of a status that is not OK. Where it has no id, id and exit code follow from its errno (io/io_error.h),
// ENOMEM 6 and any other 5, else from its code: InvalidArgument and OutOfRange 3, Unimplemented 4, NotFound and
// PermissionDenied 5, ResourceExhausted 6, Internal 70. `place` is for a status without one. Texts that are very long
// lose their middle, and long lists
// their end: what a file says does not fill a screen.
Outcome Fail(const absl::Status& s, std::string_view place = {});

// The error of an outcome that is not done, with its id, place and help.
absl::Status StatusOf(const Outcome& outcome);

// The warning for state whose updates are not an output.
Diagnostic DroppedState(const std::string& name);
// `all`: names and types.
Diagnostic NarrowElements(const std::string& all);

// "error[SW1001]: cause", with place, list and help on lines of their own behind it; and one JSON object a line.
std::string ToText(const Diagnostic& d, bool colour);
std::string ToJson(const Diagnostic& d);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_DIAGNOSTIC_H_
