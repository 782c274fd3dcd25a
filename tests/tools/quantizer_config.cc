// Reads a configuration and says what it is, so that a script can compare with torchao.
//
// quantizer_config CONFIG [MODULE...]: CONFIG is JSON where it begins with '{', else a short name. Prints the canonical
// JSON; then, where it is one configuration for all, its short name; then a line for each module, tabs between:
//   MODULE  key that decided, or -  short name, "null" (left alone) or "skipped"
// and "unmatched" with each key that matched none of them. What is wrong goes to stderr: exit 1 for what is not valid,
// 2 for what is not supported.
//
// quantizer_config --names prints the rows of the table in docs/quantize.md.
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>

#include "quantizer/config.h"

namespace {

namespace quantizer = slipway::quantizer;

absl::StatusOr<quantizer::ConfigMap> Parse(const std::string& text) {
  if (text.starts_with('{')) return quantizer::ParseConfigJson(text);
  auto c = quantizer::ParseShortName(text);
  if (!c.ok()) return c.status();
  return quantizer::ConfigMap::Of(*c);
}

void PrintNames() {
  for (const quantizer::ShortNameRow& row : quantizer::ShortNames()) {
    std::string keys;
    for (const char c : row.keys) keys += c == '|' ? std::string("\\|") : std::string(1, c);
    std::cout << "| `" << row.name << "` | " << keys << " | `" << row.class_name << "` |\n";
  }
}

int Fail(const absl::Status& status) {
  std::cerr << std::string(status.message()) << "\n";
  return status.code() == absl::StatusCode::kUnimplemented ? 2 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: quantizer_config CONFIG [MODULE...]\n";
    return 3;
  }
  if (std::string(argv[1]) == "--names") return PrintNames(), 0;
  const auto map = Parse(argv[1]);
  if (!map.ok()) return Fail(map.status());
  auto matcher = quantizer::Matcher::Make(*map);
  if (!matcher.ok()) return Fail(matcher.status());
  std::cout << quantizer::ToJson(*map) << "\n";
  if (map->entries.size() == 1 && map->entries[0].key == "_default" && map->entries[0].config)
    std::cout << quantizer::ShortName(*map->entries[0].config) << "\n";
  for (int i = 2; i < argc; ++i) {
    const quantizer::Match match = matcher->Find(argv[i]);
    std::cout << argv[i] << "\t" << (match.entry ? match.entry->key : "-") << "\t"
              << (match.skipped  ? "skipped"
                  : match.config ? quantizer::ShortName(*match.config)
                                 : "null")
              << "\n";
  }
  for (const std::string& key : matcher->Unmatched()) std::cout << "unmatched\t" << key << "\n";
  return 0;
}
