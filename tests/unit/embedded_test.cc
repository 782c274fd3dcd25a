// The embedded data files are whole: their first lines say what made them and every line has the form its readers
// expect.
#include "schemas/embedded.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace slipway::schemas {
namespace {

TEST(Embedded, FilesAreWhole) {
  for (std::string_view text : {OpSchemas(), OpSchemasExtra(), OrtKernels()}) {
    EXPECT_TRUE(absl::StartsWith(text, "# "));
    EXPECT_TRUE(absl::EndsWith(text, "\n"));
  }
  EXPECT_TRUE(
      absl::StrContains(OpSchemas(), "\naten.add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n"));
  EXPECT_TRUE(absl::StrContains(OpSchemasExtra(), "\n_operator.add(Scalar a, Scalar b) -> Scalar\n"));
  EXPECT_TRUE(absl::StrContains(OrtKernels(), "\nGelu\t20-\tT:f32\n"));
}

TEST(Embedded, EveryLineHasItsForm) {
  for (std::string_view text : {OpSchemas(), OpSchemasExtra()}) {
    for (std::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      EXPECT_TRUE(line[0] == '#' || absl::StrContains(line, ") -> ")) << line;
    }
  }
  for (std::string_view line : absl::StrSplit(OrtKernels(), '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(line[0] == '#' || std::count(line.begin(), line.end(), '\t') == 2) << line;
  }
}

}  // namespace
}  // namespace slipway::schemas
