// JSON documents: values and their places, the tokens that torch 2.5 adds, and what is refused.
#include "importers/json.h"

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace slipway::importers::json {
namespace {

void ExpectRefused(std::string_view text, const std::string& message) {
  const absl::Status status = Document::Parse(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text << status;
  EXPECT_TRUE(absl::StrContains(status.message(), message)) << text << ": " << status;
}

TEST(Json, EveryType) {
  auto document = Document::Parse(R"( {"n": null, "t": true, "f": false, "i": -7, "d": 2.5, "e": 1e3,
      "s": "a\"b\\\u00e9\ud83d\ude00 \n", "a": [1, [], {}], "o": {"x": {"y": 3}}, "": 0} )");
  ASSERT_TRUE(document.ok()) << document.status();
  const Value& root = document->root();
  ASSERT_EQ(root.AsObject()->size(), 10u);
  EXPECT_EQ((*root.AsObject())[0].key, "n");
  EXPECT_EQ((*root.AsObject())[9].key, "");
  EXPECT_TRUE(root.Find("n")->is_null());
  EXPECT_TRUE(*root.Find("t")->AsBool());
  EXPECT_FALSE(*root.Find("f")->AsBool());
  EXPECT_EQ(*root.Find("i")->AsInt(), -7);
  EXPECT_EQ(*root.Find("i")->AsDouble(), -7.0);
  EXPECT_EQ(*root.Find("d")->AsDouble(), 2.5);
  EXPECT_EQ(*root.Find("e")->AsDouble(), 1000.0);
  EXPECT_EQ(*root.Find("s")->AsString(), "a\"b\\\xc3\xa9\xf0\x9f\x98\x80 \n");
  const auto array = *root.Find("a")->AsArray();
  ASSERT_EQ(array.size(), 3u);
  EXPECT_TRUE(array[1].AsArray()->empty());
  EXPECT_TRUE(array[2].AsObject()->empty());
  EXPECT_EQ(array[2].Find("q"), nullptr);
  EXPECT_EQ(*root.Find("o")->Find("x")->Find("y")->AsInt(), 3);
  EXPECT_EQ(root.Find("z"), nullptr);
  EXPECT_EQ(root.Find("a")->Find("z"), nullptr);
}

TEST(Json, DocumentsMayMove) {
  auto parsed = Document::Parse(R"(["text"])");
  ASSERT_TRUE(parsed.ok());
  const Document moved = *std::move(parsed);
  EXPECT_EQ(*(*moved.root().AsArray())[0].AsString(), "text");
}

TEST(Json, ErrorsSayWhatAndWhere) {
  auto document = Document::Parse(R"({"a": [1, "x"]})");
  ASSERT_TRUE(document.ok());
  const Value& second = (*document->root().Find("a")->AsArray())[1];
  EXPECT_EQ(second.offset(), 10u);
  EXPECT_EQ(second.AsInt().status().message(), "expected an integer, found a string (JSON byte 10)");
  EXPECT_EQ(document->root().Get("b").status().message(), "missing key 'b' (JSON byte 0)");
  EXPECT_FALSE(second.Get("b").ok());
  EXPECT_FALSE(second.AsBool().ok());
  EXPECT_FALSE(second.AsDouble().ok());
  EXPECT_FALSE(second.AsArray().ok());
  EXPECT_FALSE(second.AsObject().ok());
  EXPECT_FALSE(document->root().AsString().ok());
}

TEST(Json, WideIntegersAreExact) {
  auto document = Document::Parse("[9223372036854775807, -9223372036854775808, 9223372036854775806]");
  ASSERT_TRUE(document.ok()) << document.status();
  const auto array = *document->root().AsArray();
  EXPECT_EQ(*array[0].AsInt(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*array[1].AsInt(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*array[2].AsInt(), std::numeric_limits<int64_t>::max() - 1);
  ExpectRefused("[9223372036854775808]", "exceeds 64 bits");
  ExpectRefused("[99999999999999999999999]", "out of range");
  ExpectRefused("[-9223372036854775809]", "out of range");
  ExpectRefused("[1e999]", "out of range");
}

TEST(Json, BareNonFiniteNumbers) {
  auto document = Document::Parse(R"({"max": Infinity, "min":-Infinity , "x": [NaN], "s": "Infinity, NaN"})");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(*document->root().Find("max")->AsDouble(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(*document->root().Find("min")->AsDouble(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(*(*document->root().Find("x")->AsArray())[0].AsDouble()));
  EXPECT_EQ(*document->root().Find("s")->AsString(), "Infinity, NaN");
  EXPECT_FALSE(Document::Parse("[Infinity]", {.allow_non_finite = false}).ok());
  ExpectRefused("[Infinit]", "JSON byte 1: unexpected 'Infinit'");
  ExpectRefused("[-Infinityy]", "not a number");
  ExpectRefused("[+Infinity]", "unexpected");
}

TEST(Json, LargeObjectsAreSearchable) {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&text, i ? "," : "", "\"key", (i * 7919) % 1000, "\":", i);
  auto document = Document::Parse(text + "}");
  ASSERT_TRUE(document.ok()) << document.status();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(*document->root().Find(absl::StrCat("key", (i * 7919) % 1000))->AsInt(), i);
    EXPECT_EQ(*(*document->root().AsObject())[i].value.AsInt(), i);
  }
  EXPECT_EQ(document->root().Find("key"), nullptr);
  EXPECT_EQ(document->root().Find("zzz"), nullptr);
  ExpectRefused(text + ",\"key5\":1}", "'key5' occurs twice");
  ExpectRefused(R"({"a":1,"b":2,"a":3})", "'a' occurs twice");
  ExpectRefused(R"({"a":1,"\u0061":3})", "'a' occurs twice");
}

TEST(Json, Depth) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(Document::Parse(nested(256)).ok());
  ExpectRefused(nested(257), "JSON byte 256: nested deeper than 256");
  ExpectRefused(std::string(1'000'000, '['), "");
  EXPECT_TRUE(Document::Parse(nested(1000), {.max_depth = 1'000'000}).ok());
  EXPECT_FALSE(Document::Parse(nested(1001), {.max_depth = 1'000'000}).ok());
}

TEST(Json, RefusesWhatIsNotJson) {
  for (std::string_view text : {"",         " ",          "{",     "[",         "]",          "}",
                                "[1",       "[1,",        "[1,]",  "[,1]",      "[1 2]",      "{\"a\"}",
                                "{\"a\":}", "{\"a\":1,}", "{1:2}", "{\"a\" 1}", "[\"\\x\"]",  "[\"\\ud800\"]",
                                "[\"a]",    "[01]",       "[1.]",  "[.5]",      "[-]",        "[nul]",
                                "[truee]",  "[1] 2",      "[1]]",  "{}{}",      "[\"\xff\"]", "{\"a\":1]",
                                "[1}",      "3",          "\"s\"", "null",      "['a']",      "[\"\n\"]"}) {
    EXPECT_EQ(Document::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  ExpectRefused("{\"a\": [1, nul]}", "JSON byte 10");
  // simdjson 3.2 and later see this before there is a place to give.
  const absl::Status behind = Document::Parse("{\"a\": 1} x").status();
  EXPECT_EQ(behind.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(behind.message(), "JSON byte 9: text behind") ||
              absl::StrContains(behind.message(), "JSON: the object or array does not end where the text does"))
      << behind;
}

TEST(Json, EveryTruncationIsRefused) {
  const std::string text = R"({"a": [1, -2.5, "x\n", null], "b": {"c": Infinity, "d": true}})";
  ASSERT_TRUE(Document::Parse(text).ok());
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(Document::Parse(text.substr(0, size)).ok()) << size;
}

TEST(Json, EveryChangedByteIsReadOrRefused) {
  const std::string text = R"({"a": [1, -2.5, "x\n\u00e9", null], "b": {"c": Infinity, "d": true}, "e": [[]]})";
  for (size_t at = 0; at < text.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bad = text;
      bad[at] = static_cast<char>(byte);
      (void)Document::Parse(bad);
      (void)Document::Parse(std::string_view(bad).substr(0, at + 1));
    }
  }
}

}  // namespace
}  // namespace slipway::importers::json
