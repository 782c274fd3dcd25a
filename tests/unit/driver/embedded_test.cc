// The embedded data files are whole: their first lines say what made them and every line has the form its readers
// expect.
#include "schemas/embedded.h"

#include <algorithm>

#include "base/text.h"
#include "gtest/gtest.h"

namespace slipway::schemas {
namespace {

TEST(Embedded, FilesAreWhole) {
  for (std::string_view content : {OpSchemas(), OpSchemasExtra(), OrtKernels()}) {
    EXPECT_TRUE(content.starts_with("# "));
    EXPECT_TRUE(content.ends_with("\n"));
  }
  EXPECT_TRUE(
      text::Contains(OpSchemas(), "\naten.add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n"));
  EXPECT_TRUE(text::Contains(OpSchemasExtra(), "\n_operator.add(Scalar a, Scalar b) -> Scalar\n"));
  EXPECT_TRUE(text::Contains(OrtKernels(), "\nGelu\t20-\tT:f32\n"));
}

TEST(Embedded, EveryLineHasItsForm) {
  for (std::string_view content : {OpSchemas(), OpSchemasExtra()}) {
    for (std::string_view line : text::Split(content, '\n', true)) {
      EXPECT_TRUE(line[0] == '#' || text::Contains(line, ") -> ")) << line;
    }
  }
  for (std::string_view line : text::Split(OrtKernels(), '\n', true)) {
    EXPECT_TRUE(line[0] == '#' || std::count(line.begin(), line.end(), '\t') == 2) << line;
  }
}

}  // namespace
}  // namespace slipway::schemas
