// What writers of weights are made of: JSON text, casts, a zip laid out within a zip, the runs of bytes that tensors
// share; and programs that come back from a PT2 archive as they went in.
#include <cmath>
#include <cstring>

#include "base/json.h"
#include "exporters/pt2/payloads.h"
#include "exporters/pt2/pt2.h"
#include "gtest/gtest.h"
#include "importers/json.h"
#include "importers/pt2/pt2.h"
#include "io/zip_reader.h"
#include "io/zip_writer.h"
#include "ir/text.h"
#include "weights/cast.h"
#include "zip_builder.h"

namespace slipway {
namespace {

using ::slipway::testing::ReadWhole;
using ::slipway::testing::TempPath;

TEST(JsonWriter, EscapesAndNumbers) {
  json::Writer w;
  w.BeginObject().Key("a\"\\\n\x01").String("ü\xff");
  w.Key("n")
      .BeginArray()
      .Int(-7)
      .Double(1)
      .Double(0.1)
      .Double(1e300)
      .Double(-INFINITY)
      .Double(NAN)
      .Null()
      .Bool(true)
      .EndArray();
  w.Key("empty").BeginObject().EndObject().EndObject();
  EXPECT_EQ(w.text(),
            "{\"a\\\"\\\\\\n\\u0001\":\"ü\xef\xbf\xbd\",\"n\":[-7,1.0,0.1,1e+300,\"-Infinity\",\"NaN\",null,true],"
            "\"empty\":{}}");
  EXPECT_TRUE(importers::json::Document::Parse(w.text()).ok());
}

TEST(Cast, RoundsToNearestEven) {
  using ir::DType;
  EXPECT_EQ(weights::FindCast(DType::kFloat32, DType::kFloat32), nullptr);
  EXPECT_EQ(weights::FindCast(DType::kInt32, DType::kFloat32), nullptr);
  const struct {
    float in;
    uint16_t f16, bf16;
  } rows[] = {{1.0f, 0x3c00, 0x3f80},
              {-0.0f, 0x8000, 0x8000},
              {65504.0f, 0x7bff, 0x4780},
              {65520.0f, 0x7c00, 0x4780},
              {65519.996f, 0x7bff, 0x4780},
              {std::ldexp(1.0f, -24), 0x0001, 0x3380},
              {std::ldexp(1.0f, -25), 0, 0x3300},
              {std::ldexp(1.5f, -25), 0x0001, 0x3340},
              {1.00390625f, 0x3c04, 0x3f80},
              {1.01171875f, 0x3c0c, 0x3f82},
              {INFINITY, 0x7c00, 0x7f80},
              {3.4e38f, 0x7c00, 0x7f80}};
  for (const auto& row : rows) {
    uint16_t out;
    const uint8_t* in = reinterpret_cast<const uint8_t*>(&row.in);
    weights::FindCast(DType::kFloat32, DType::kFloat16)(in, reinterpret_cast<uint8_t*>(&out), 1);
    EXPECT_EQ(out, row.f16) << row.in;
    weights::FindCast(DType::kFloat32, DType::kBFloat16)(in, reinterpret_cast<uint8_t*>(&out), 1);
    EXPECT_EQ(out, row.bf16) << row.in;
  }
  // Every half comes back from f32 as it was.
  for (int bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    float wide;
    uint16_t back;
    weights::FindCast(DType::kFloat16, DType::kFloat32)(reinterpret_cast<const uint8_t*>(&half),
                                                        reinterpret_cast<uint8_t*>(&wide), 1);
    weights::FindCast(DType::kFloat32, DType::kFloat16)(reinterpret_cast<const uint8_t*>(&wide),
                                                        reinterpret_cast<uint8_t*>(&back), 1);
    if ((bits & 0x7fff) > 0x7c00)
      EXPECT_TRUE(std::isnan(wide));
    else
      EXPECT_EQ(back, half);
  }
}

TEST(ZipLayout, IsAMemberOfAnotherZip) {
  io::ZipLayout inner;
  ASSERT_TRUE(inner.Add("a/one", io::Bytes::Of(std::string("1"))).ok());
  ASSERT_TRUE(
      inner.Add("a/two", io::Bytes::Of(std::string(300, '2')), io::Crc32Of(io::Bytes::Of(std::string(300, '2')))).ok());
  EXPECT_FALSE(inner.Add("a/two", io::Bytes::Of(std::string())).ok());
  const auto pieces = inner.Finish();
  const std::string path = TempPath("outer.zip");
  auto file = io::AtomicFile::Create(path);
  ASSERT_TRUE(file.ok());
  io::ZipWriter outer(file->get());
  ASSERT_TRUE(outer.Begin("inner.zip", inner.size()).ok());
  for (const auto& piece : pieces) ASSERT_TRUE(outer.Append(piece.bytes, piece.crc).ok());
  ASSERT_TRUE(outer.End().ok());
  ASSERT_TRUE(outer.Finish().ok());
  ASSERT_TRUE((*file)->Commit().ok());
  auto mapped = io::MappedFile::Open(path);
  ASSERT_TRUE(mapped.ok());
  auto opened = io::ZipReader::Open(*mapped);
  ASSERT_TRUE(opened.ok());
  const io::ZipEntry& member = (*opened)->entries()[0];
  EXPECT_EQ((*opened)->ReadAll(member, 1 << 20)->size(), inner.size());  // checks the CRC
  auto bytes = (*opened)->Read(member, 1 << 20);
  ASSERT_TRUE(bytes.ok());
  auto nested = io::ZipReader::Open(*bytes);
  ASSERT_TRUE(nested.ok()) << nested.status();
  EXPECT_EQ(*(*nested)->ReadAll(*(*nested)->Find("a/two"), 1000), std::string(300, '2'));
  EXPECT_EQ((*nested)->Find("a/two")->data_offset % io::ZipWriter::kAlignment, 0u);
}

TEST(Payloads, OverlappingTensorsShareARun) {
  auto storage = std::make_shared<ir::Storage>();
  storage->bytes = io::Bytes::Of(std::string(400, 'x'));
  storage->size = 400;
  storage->crc32 = 7;
  const auto tensor = [&](ir::DType t, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset) {
    return exporters::NamedTensor{"t", {storage, t, std::move(sizes), std::move(strides), offset}};
  };
  using ir::DType;
  const std::vector<exporters::NamedTensor> tensors = {
      tensor(DType::kFloat32, {4}, {1}, 80),       tensor(DType::kFloat32, {2, 3}, {1, 2}, 88),
      tensor(DType::kFloat32, {10}, {1}, 0),       tensor(DType::kInt16, {200}, {1}, 0),
      tensor(DType::kFloat32, {0, 5}, {5, 1}, 20), tensor(DType::kFloat32, {3}, {0}, 200)};
  auto placed = exporters::PlaceTensors(tensors);
  ASSERT_TRUE(placed.ok()) << placed.status();
  std::vector<std::pair<size_t, int64_t>> places;
  for (const auto& p : placed->places) places.emplace_back(p.payload, p.offset);
  EXPECT_EQ(places, (std::vector<std::pair<size_t, int64_t>>{{0, 0}, {0, 2}, {1, 0}, {2, 0}, {1, 5}, {3, 0}}));
  EXPECT_EQ(placed->payloads[0].bytes.size(), 32u);
  EXPECT_EQ(placed->payloads[3].bytes.size(), 4u);
  EXPECT_EQ(placed->payloads[2].crc32, 7u);  // the whole storage
  EXPECT_FALSE(placed->payloads[0].crc32.has_value());
  EXPECT_FALSE(exporters::PlaceTensors({tensor(DType::kInt4, {2}, {1}, 0)}).ok());
  EXPECT_FALSE(exporters::PlaceTensors({tensor(DType::kFloat32, {101}, {1}, 0)}).ok());
}

constexpr char kProgram[] = R"(slipway.ir 1
dims { B = 2..64 positive hint 3 }
weights {
  $mask: bool[4] @ splat(1)
  $w: f32[4,8] @ random(seed=8)
}
graph main(
  %w: f32[4,8]{grad} = parameter $w,
  %mask: bool[4] = buffer $mask non_persistent,
  %x: f32[B,8],
  %flag: constant = constant $flag (0.5),
) {
  %size: i64(B) = aten.sym_size.int(self=%x, dim=0)
  %more: i64(B + 1) = _operator.add(a=%size, b=1)
  %linear: f32[B,4] = aten.linear.default(input=%x, weight=%w)  ; net.fc (model.py:7)
  %view: f32[B,2,2] = aten.view.default(self=%linear, size=[%size, 2, 2])
  %clamp: f32[B,4] = aten.clamp.default(self=%linear, max=inf)
  [%a: f32[B,2], %b: f32[B,2]] = aten.split.Tensor(self=%clamp, split_size=2, dim=1)
  %full: f64[4] = aten.full.default(size=[4], fill_value=nan, dtype=f64, pin_memory=false)
  return %view, %a, %b, %full, %more, None, true
}
)";

// Written and read; `bytes` receives the file.
ir::Archive RoundTrip(const ir::Archive& archive, const exporters::Pt2Options& options, std::string* bytes) {
  const std::string path = TempPath("round.pt2");
  auto written = exporters::ExportPt2({{&archive, path}}, options, /*dry_run=*/false);
  EXPECT_TRUE(written.ok()) << written.status();
  *bytes = ReadWhole(path);
  auto file = io::MappedFile::Open(path);
  auto read = importers::ReadPt2(*file);
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

TEST(Pt2Writer, ProgramsComeBack) {
  auto parsed = ir::Parse(kProgram, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  for (auto target : {exporters::TorchTarget::k29, exporters::TorchTarget::k26}) {
    exporters::Pt2Options options;
    options.target = target;
    std::string once, twice;
    const ir::Archive first = RoundTrip(*parsed, options, &once);
    RoundTrip(first, options, &twice);
    EXPECT_TRUE(once == twice) << "a second pass changed the archive";
    const ir::Program &a = *parsed->programs[0], &b = *first.programs[0];
    ASSERT_EQ(a.graph->node_count(), b.graph->node_count());
    for (const ir::Node *x = a.graph->first(), *y = b.graph->first(); x && y; x = x->next(), y = y->next()) {
      EXPECT_EQ(x->op_name(), y->op_name());
      EXPECT_EQ(x->groups(), y->groups());
      for (size_t i = 0; i < x->outputs().size(); ++i)
        EXPECT_EQ(x->output(i)->type().ToString(), y->output(i)->type().ToString());
    }
    EXPECT_EQ(*ir::ReadDense(a.weights.at("w")), *ir::ReadDense(b.weights.at("w")));
    EXPECT_EQ(b.input_specs[1].persistent, false);
    EXPECT_EQ(b.syms->range("B"), (ir::SymRange{2, 64}));
    ASSERT_EQ(b.graph->outputs.size(), 7u);
    EXPECT_TRUE(b.graph->outputs[5].is_none());
  }
}

TEST(Pt2Writer, RefusesAllAtOnce) {
  auto parsed = ir::Parse(R"(slipway.ir 1
graph main(%x: i4[2], %y: f32[3]) {
  %a: f32[3] = slipway.fancy.default(x=%y)
  return %a
}
)",
                          {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  auto written = exporters::ExportPt2({{&*parsed, TempPath("refused.pt2")}}, {}, false);
  ASSERT_EQ(written.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(written.status().message().find("i4"), written.status().message().npos);
  EXPECT_NE(written.status().message().find("slipway.fancy"), written.status().message().npos);
  EXPECT_FALSE(io::MappedFile::Open(TempPath("refused.pt2")).ok());
  parsed->programs[0]->name = "../up";
  EXPECT_EQ(exporters::ExportPt2({{&*parsed, TempPath("refused.pt2")}}, {}, false).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace slipway
