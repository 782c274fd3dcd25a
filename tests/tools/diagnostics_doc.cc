// docs/diagnostics.md with its table as it must be, from driver/edge/explanations.h (tests/golden/diagnostics.golden
// compares).
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/text.h"
#include "driver/edge/explanations.h"

namespace {

using namespace slipway;  // NOLINT: a tool of one file

constexpr std::string_view kBegin = "<!-- written by diagnostics_doc -->\n", kEnd = "<!-- end of diagnostics_doc -->\n";

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream file(argv[1]);
  std::stringstream buffer;
  buffer << file.rdbuf();
  const std::string text = buffer.str();
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == text.npos || end == text.npos) {
    std::fprintf(stderr, "%s: no place for the table\n", argv[1]);
    return 1;
  }
  std::string table = "| id | exit | means | what to do |\n|---|---|---|---|\n";
  for (const driver::Explanation& e : driver::Explanations())
    text::StrAppend(&table, "| ", e.id, " | ", e.exit_code, " | ", e.means, " | ", e.solution, " |\n");
  std::cout << text.substr(0, begin + kBegin.size()) << table << text.substr(end);
}
