// Prints exported programs in the text form, parses the text, compares, prints again; copies them. Driven by
// tests/interop/text_form_test.py.
//
//   ir_roundtrip [--verify] FILE.pt2…
//
// A line on stdout for each file that fails: the file and the first difference. Exit 1 if any does.
#include <cstdio>
#include <string>

#include "importers/pt2/pt2.h"
#include "io/mapped_file.h"
#include "ir/clone.h"
#include "ir/equal.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace {

using namespace slipway;  // NOLINT: a tool of one file

absl::Status RoundTrip(const std::string& path, bool verify) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto archive = importers::ReadPt2(*file);
  if (!archive.ok()) return archive.status();
  if (verify)
    for (const auto& p : archive->programs)
      if (absl::Status s = ir::Verify(*p); !s.ok()) return s;
  const std::string text = ir::Print(*archive);
  ir::ParseOptions options;
  options.allow_outside = true;
  auto parsed = ir::Parse(text, options);
  if (!parsed.ok()) return parsed.status();
  std::string why;
  if (!ir::Equal(*archive, *parsed, &why)) return absl::InternalError("parsed again: " + why);
  for (const auto& p : archive->programs) {
    auto copy = ir::Clone(*p);
    if (!ir::Equal(*p, *copy, &why)) return absl::InternalError("copied: " + why);
  }
  const std::string again = ir::Print(*parsed);
  if (again == text) return absl::OkStatus();
  size_t at = 0, line = 1;
  while (at < text.size() && at < again.size() && text[at] == again[at]) line += text[at++] == '\n';
  return absl::InternalError("printed again: line " + std::to_string(line) + " differs");
}

}  // namespace

int main(int argc, char** argv) {
  int failed = 0, files = 0;
  bool verify = false;
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    if (path == "--verify") {
      verify = true;
      continue;
    }
    ++files;
    if (absl::Status s = RoundTrip(path, verify); !s.ok()) {
      ++failed;
      std::printf("%s\t%s\n", path.c_str(), std::string(s.message()).c_str());
    }
  }
  std::printf("%d files, %d failed\n", files, failed);
  return failed ? 1 : 0;
}
