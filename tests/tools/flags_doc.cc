// The flags of convert and the exit codes, from their tables.
//
//   flags_doc docs/cli.md     the document with its tables as they must be (tests/golden/flags.golden compares)
//   flags_doc --samples       a line for each flag: its name, the targets that take it, a value (tests/cli/flags.sh
//                             walks them)
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/text.h"
#include "driver/convert/options.h"
#include "driver/edge/explanations.h"
#include "driver/edge/target.h"

namespace {

using namespace slipway;  // NOLINT: a tool of one file
using driver::ConvertFlag;

constexpr std::string_view kBegin = "<!-- written by flags_doc -->\n", kEnd = "<!-- end of flags_doc -->\n";
constexpr std::string_view kBeginCodes = "<!-- exit codes, written by flags_doc -->\n",
                           kEndCodes = "<!-- end of exit codes -->\n";

std::string Escaped(std::string_view s) {
  std::string out;
  for (char c : s) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string Table() {
  std::string out = "| flag | of | means |\n|---|---|---|\n";
  for (const ConvertFlag& flag : driver::kConvertFlags) {
    const std::string targets = driver::FlagTargets(flag), fallback = flag.get({});
    text::StrAppend(&out, "| `--", flag.name, flag.value.empty() ? "" : " ", Escaped(flag.value),
                    flag.kind == ConvertFlag::kSeveral ? "…" : "", "` | ", targets.empty() ? "all" : targets, " | ",
                    flag.help, fallback.empty() ? "" : text::StrCat(" (", fallback, ")"), " |\n");
  }
  return out;
}

std::string Codes() {
  std::string out = "| code | means |\n|---|---|\n";
  for (const driver::ExitCodeMeaning& row : driver::ExitCodes())
    text::StrAppend(&out, "| ", row.code, " | ", row.means, " |\n");
  return out;
}

// Puts `table` between two lines of the text; false where it has none.
bool Replace(std::string* text, std::string_view begin, std::string_view end, const std::string& table) {
  const size_t from = text->find(begin), to = text->find(end);
  if (from == text->npos || to == text->npos || to < from) return false;
  text->replace(from + begin.size(), to - from - begin.size(), table);
  return true;
}

int Document(const char* path) {
  std::ifstream file(path);
  std::stringstream buffer;
  buffer << file.rdbuf();
  std::string text = buffer.str();
  if (!Replace(&text, kBegin, kEnd, Table()) || !Replace(&text, kBeginCodes, kEndCodes, Codes())) {
    std::fprintf(stderr, "%s: no place for the tables\n", path);
    return 1;
  }
  std::cout << text;
  return 0;
}

void Samples() {
  for (const ConvertFlag& flag : driver::kConvertFlags) {
    std::string targets;
    for (const driver::Target& t : driver::Targets())
      if (t.bit & flag.targets) text::StrAppend(&targets, targets.empty() ? "" : ",", t.name);
    // The first of the words that the value may be, a number, a size, or what the value is called.
    std::string value(flag.value == "N"      ? "1"
                      : flag.value == "SIZE" ? "5GB"
                                             : flag.value.substr(0, flag.value.find('|')));
    if (flag.name == "to") continue;  // which chooses the target
    std::printf("%s %s %s\n", std::string(flag.name).c_str(), targets.c_str(), value.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (std::string_view(argv[1]) != "--samples") return Document(argv[1]);
  Samples();
}
