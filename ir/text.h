// The text form: one line-based text for golden tests, diffs, `inspect --ir` and repros. docs/formats.md has its
// grammar.
//
// Printing is canonical and lossless: Parse(Print(a)) is Equal to `a`, and printing that again gives the same text.
// Weights stay where they are: a mapped tensor prints as the place in its file, and parsing maps the file again.
#ifndef SLIPWAY_IR_TEXT_H_
#define SLIPWAY_IR_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace slipway::ir {

struct PrintOptions {
  // What is said of where a node came from: everything, in a table of its own (lossless); a remark for people, which
  // the parser skips; nothing.
  enum Sources : uint8_t { kFull, kShort, kNone };
  Sources sources = kFull;
  // Folder that the paths of weight files are printed relative to, where they lie in it.
  std::string base;
  // Bytes in memory longer than this print as `elided(N)`, which does not parse back.
  uint64_t inline_limit = uint64_t{1} << 20;
  // Whether weights and objects are printed at all.
  bool data = true;
};

std::string Print(const Archive& a, const PrintOptions& options = {});
std::string Print(const Program& p, const PrintOptions& options = {});

struct ParseOptions {
  // Folder that relative paths of weight files start from; "" is the current one.
  std::string base;
  // Whether weight files may be named by an absolute path or through "..". Off for texts that are not trusted.
  bool allow_outside = false;
  // What the text is called in errors.
  std::string name = "text";
};

// Errors: InvalidArgument "NAME:LINE:COLUMN: …" for a text that is not of the form or contradicts itself; those of
// io::MappedFile::Open, likewise with the place, for files that are missing.
absl::StatusOr<Archive> Parse(std::string_view text, const ParseOptions& options = {});

// Whether a text begins as the form does.
bool LooksLikeText(std::string_view text);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_TEXT_H_
