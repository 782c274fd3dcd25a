// What each diagnostic's id means and what to do about it: `slipway explain` and the table of docs/diagnostics.md.
#ifndef SLIPWAY_DRIVER_EDGE_EXPLANATIONS_H_
#define SLIPWAY_DRIVER_EDGE_EXPLANATIONS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace slipway::driver {

// Texts are Markdown's `code` at most.
struct Explanation {
  std::string_view id;        // one of driver::id
  int exit_code;              // of a command that ends with it; warnings: 0
  std::string_view means;     // one sentence or several
  std::string_view solution;  // what to do
  std::string_view example;   // a command that shows it, "" where none is short
};

// What a command's exit code means: the table of docs/cli.md and of the manual page.
struct ExitCodeMeaning {
  int code;
  std::string_view means;
};
absl::Span<const ExitCodeMeaning> ExitCodes();

// In the order of their ids.
absl::Span<const Explanation> Explanations();

// The explanation of an id, in upper or lower case, with or without "SW" and brackets. Usage naming those that are like
// it.
absl::StatusOr<const Explanation*> FindExplanation(std::string_view id);

// For people, lines of 100 columns at most.
std::string ToText(const Explanation& e);
// One object of schemas/explain.schema.json.
std::string ExplanationsJson(absl::Span<const Explanation> rows);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_EXPLANATIONS_H_
