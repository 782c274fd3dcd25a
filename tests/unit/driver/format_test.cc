// The table of formats: what a file is follows from its structure.
#include "driver/edge/format.h"

#include <cstdint>
#include <fstream>
#include <set>
#include <string>

#include "base/text.h"
#include "gtest/gtest.h"
#include "zip_builder.h"

namespace slipway::driver {
namespace {

using testing::TempPath;

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = TempPath(name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// A file with one tensor of two bytes whose header has this length.
std::string Safetensors(uint64_t length) {
  std::string header = R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", out;
  EXPECT_LE(header.size(), length);
  header.resize(length, ' ');
  testing::Put(&out, length, 8);
  return out + header + "ab";
}

std::string FormatName(const std::string& path) {
  auto source = OpenSource(path);
  if (!source.ok()) return std::string(source.status().message());
  auto format = FormatOf(*source);
  return format.ok() ? std::string((*format)->name) : std::string(format.status().message());
}

// The length that a safetensors file begins with may be what a pickle (80 02 … 80 05) or a zip (PK) begins with.
TEST(Format, LengthsOfSafetensorsHeadersAreNoMagic) {
  for (uint64_t length : {640u, 896u, 1152u, 1408u, 66176u, 19280u, 84816u}) {
    const std::string path = Write("weights", Safetensors(length));
    EXPECT_EQ(FormatName(path), "safetensors") << length;
    auto set = OpenTensors(path, "");
    ASSERT_TRUE(set.ok()) << length << ": " << set.status();
    EXPECT_EQ(set->tensors.at("t").sizes, std::vector<int64_t>{2});
  }
}

TEST(Format, EachIsRecognised) {
  EXPECT_EQ(FormatName(Write("a", "slipway.ir 1\ngraph main() {\n  return\n}\n")), "text");
  EXPECT_EQ(FormatName(Write("b", testing::BuildZip({{.name = "m/data.pkl", .data = "x"}}))), "checkpoint");
  EXPECT_EQ(FormatName(Write("c", testing::BuildZip({{.name = "m/models/model.json", .data = "{}"}}))), "pt2");
  EXPECT_EQ(FormatName(Write("d", "\x80\x02\x8a\x0a")), "checkpoint");
  EXPECT_EQ(FormatName(Write("e.onnx", "\x08\x07")), "onnx");
  EXPECT_EQ(FormatName(Write("array", "\x93NUMPY")), "npy");
  EXPECT_EQ(FormatName(Write("arrays", testing::BuildZip({{.name = "w.npy", .data = "x"}}))), "npz");
  EXPECT_EQ(FormatName(::testing::TempDir()), "shards");
  EXPECT_EQ(FormatName("dlpack:nothing.so"), "dlpack");
  // A name decides only where the structure says nothing.
  EXPECT_EQ(FormatName(Write("f.safetensors", "short")), "safetensors");
  EXPECT_EQ(FormatName(Write("g.pt2", Safetensors(64))), "safetensors");
  const std::string other = Write("h", testing::BuildZip({{.name = "readme", .data = "x"}}));
  EXPECT_NE(FormatName(other).find("a zip archive that torch.save and torch.export.save did not write"),
            std::string::npos);
  const std::string nothing = Write("j", "nothing that is known");
  EXPECT_EQ(FormatName(nothing), text::StrCat(nothing, ": of no format that slipway reads"));
  EXPECT_NE(FormatName(Write("i", "PK\3\4 and no more")).find("zip"), std::string::npos);
}

TEST(Format, EveryRowGivesSomethingOrIsRefusedByName) {
  std::set<std::string_view> names;
  for (const Format& f : Formats()) {
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    EXPECT_FALSE(f.title.empty());
    EXPECT_TRUE(f.programs || f.tensors || f.describe || !f.suffix.empty()) << f.name;
  }
  EXPECT_EQ(OpenArchive(Write("j.safetensors", Safetensors(64))).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(OpenArchive(Write("k.onnx", "x")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(OpenTensors(Write("l.onnx", "x"), "").ok());
}

}  // namespace
}  // namespace slipway::driver
