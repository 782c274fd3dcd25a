// Configurations of the quantizer: short names and JSON give the same values and print them again, problems are named
// all at once with the nearest name, and the matcher keeps torchao's order. What torchao itself writes and does:
// tests/interop/quantizer_config_test.py.
#include "quantizer/config.h"

#include <random>

#include "absl/strings/match.h"
#include "base/nearest.h"
#include "base/text.h"
#include "gtest/gtest.h"

namespace slipway::quantizer {
namespace {

using Scheme = Config::Scheme;

Config Short(std::string_view text) {
  auto c = ParseShortName(text);
  EXPECT_TRUE(c.ok()) << text << ": " << c.status();
  return c.ok() ? *c : Config();
}
std::string RefusedName(std::string_view text) {
  const auto c = ParseShortName(text);
  EXPECT_EQ(c.status().code(), absl::StatusCode::kInvalidArgument) << text << ": " << c.status();
  return std::string(c.status().message());
}
std::string RefusedJson(std::string_view text, absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const auto map = ParseConfigJson(text);
  EXPECT_EQ(map.status().code(), code) << text << ": " << map.status();
  return std::string(map.status().message());
}
testing::AssertionResult Says(const std::string& message, std::string_view part) {
  if (text::Contains(message, part)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << message << "' does not say '" << part << "'";
}

TEST(Nearest, CountsEdits) {
  constexpr std::string_view kNames[] = {"group", "granularity", "per"};
  EXPECT_EQ(text::Nearest("gruop", kNames), "group");  // neighbours swapped: one edit
  EXPECT_EQ(text::Nearest("Granularty", kNames), "granularity");
  EXPECT_EQ(text::Nearest("par", kNames), "per");
  EXPECT_EQ(text::Nearest("something", kNames), "");
  EXPECT_EQ(text::Nearest("", kNames), "");
  EXPECT_EQ(text::Nearest(std::string(100, 'g'), kNames), "");
  EXPECT_EQ(text::Suggestion("gruop", kNames), "; did you mean 'group'?");
  EXPECT_EQ(text::Suggestion("x", kNames), "; there are group, granularity and per");
  EXPECT_EQ(text::Suggestion("x", {}), "");
}

TEST(ShortNames, SayWhatTheyStandFor) {
  Config c = DefaultConfig(Scheme::kInt4WeightOnly);
  EXPECT_EQ(Short("int4-weight-only"), c);
  EXPECT_EQ(Short("int4_weight_only"), c);
  c.granularity = {Granularity::kGroup, 32};
  c.hqq = true;
  EXPECT_EQ(Short("int4-weight-only:group=32,hqq"), c);
  EXPECT_EQ(Short(" int4-weight-only : hqq , group = 32 "), c);
  c.method = Config::Method::kAwq;
  c.awq_search_space = 40;
  EXPECT_EQ(Short("awq(int4-weight-only:group=32,hqq):search=40"), c);
  EXPECT_EQ(ShortName(c), "awq(int4-weight-only:group=32,hqq):search=40");
  EXPECT_EQ(Short("8da4w").bits, 4);
  EXPECT_EQ(Short("8da4w").granularity, (Granularity{Granularity::kGroup, 32}));
  EXPECT_EQ(Short("8da4w:asym").mapping, Mapping::kAsymmetric);  // of the weights, which have one there
  EXPECT_EQ(Short("int8-dynamic:asym").act_mapping, Mapping::kAsymmetric);
  EXPECT_EQ(Short("int8-dynamic:asym").mapping, Mapping::kSymmetric);
  EXPECT_EQ(Short("mxfp4").element, ir::DType::kFloat4E2M1);
  EXPECT_EQ(Short("float8-dynamic:per=row").act_granularity.kind, Granularity::kRow);
}

// Every name with every value of every key prints as something that reads as the same, and so does its JSON.
TEST(ShortNames, PrintAndReadBack) {
  int checked = 0;
  for (const ShortNameRow& row : ShortNames()) {
    const bool method = row.name == "awq" || row.name == "smoothquant" || row.name == "gptq";
    const std::string base = method ? text::StrCat(row.name, "(int8-weight-only)") : std::string(row.name);
    std::vector<std::string> texts = {base};
    for (const std::string_view key : text::Split(row.keys, ',', /*skip_empty=*/true)) {
      std::string_view k = text::Strip(key);
      k = k.substr(0, k.find(" ("));  // the default
      const size_t equals = k.find('=');
      const std::string_view values = equals == std::string_view::npos ? "" : k.substr(equals + 1);
      if (values.empty()) {
        texts.push_back(text::StrCat(base, ":", k));
        continue;
      }
      for (const std::string_view value : text::Split(values, '|')) {
        const std::string_view given = value == "N" ? "6" : value == "X" ? "0.3" : value;
        texts.push_back(text::StrCat(base, ":", k.substr(0, equals), "=", given));
      }
    }
    for (const std::string& s : texts) {
      const Config c = Short(s);
      EXPECT_TRUE(CheckConfig(c).ok());
      EXPECT_EQ(Short(ShortName(c)), c) << s << " is printed as " << ShortName(c);
      const auto map = ParseConfigJson(ToJson(c));
      ASSERT_TRUE(map.ok()) << s << ": " << map.status();
      ASSERT_EQ(map->entries.size(), 1u);
      EXPECT_EQ(map->entries[0].config, c) << s;
      if (!c.int4_cpu) {  // a class of its own
        EXPECT_EQ(ClassName(c), row.class_name);
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 60);
}

TEST(ShortNames, ProblemsAreNamedAllAtOnce) {
  EXPECT_EQ(RefusedName("int8-wieght-only"),
            "unknown configuration 'int8-wieght-only'; did you mean 'int8-weight-only'?");
  const std::string both = RefusedName("int4-weight-only:gruop=32,hqqq,cpu=1");
  EXPECT_TRUE(Says(both, "unknown key 'gruop' of int4-weight-only; did you mean 'group'?"));
  EXPECT_TRUE(Says(both, "unknown key 'hqqq' of int4-weight-only; did you mean 'hqq'?"));
  EXPECT_TRUE(Says(both, "'cpu' takes no value"));
  EXPECT_TRUE(Says(RefusedName("float8-dynamic:per=rwo"), "unknown value 'per=rwo'; did you mean 'row'?"));
  EXPECT_TRUE(Says(RefusedName("intx:group=32,group=64"), "'group' is given twice"));
  EXPECT_TRUE(Says(RefusedName("intx:group=32,per=row"), "'per' and 'group' are about the same thing"));
  EXPECT_TRUE(Says(RefusedName("intx:bits=9"), "there are no weights of 9 bits"));
  EXPECT_TRUE(Says(RefusedName("int4-weight-only:group=0"), "needs a whole number"));
  EXPECT_TRUE(Says(RefusedName("mxfp4:block=33"), "a block cannot be of 33"));
  EXPECT_TRUE(Says(RefusedName("awq"), "awq goes around a configuration"));
  EXPECT_TRUE(Says(RefusedName("awk(int8-weight-only)"), "did you mean 'awq'?"));
  EXPECT_TRUE(Says(RefusedName("awq(nvfp4)"), "AWQConfig: it goes around"));
  EXPECT_TRUE(Says(RefusedName("gptq(int8-weight-only:group=32)"), "by rows"));
  EXPECT_TRUE(Says(RefusedName("gptq(int4-weight-only):percdamp=-1"), "percdamp"));
  EXPECT_TRUE(Says(RefusedName("float8-dynamic:lb=2,ub=1"), "above"));
  EXPECT_TRUE(Says(RefusedName("\x1b[31m"), "'\\x1b[31m'"));
}

constexpr char kInt8[] = R"({"_type":"Int8WeightOnlyConfig","_version":2,"_data":{"granularity":)"
                         R"({"_type":"PerGroup","_version":1,"_data":{"group_size":64}}}})";

std::string MapOf(std::string_view members) {
  return text::StrCat(R"({"_type":"FqnToConfig","_version":1,"_data":{"fqn_to_config":{)", members, "}}}");
}

TEST(ConfigJson, ReadsAndWrites) {
  const auto one = ParseConfigJson(kInt8);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->entries[0].config, Short("int8-weight-only:group=64"));
  const auto map = ParseConfigJson(MapOf(text::StrCat(R"("z":)", kInt8, R"(,"a":null,"_default":)", kInt8)));
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->entries.size(), 3u);
  EXPECT_EQ(map->entries[0].key, "z");  // the document's order
  EXPECT_FALSE(map->entries[1].config.has_value());
  const auto again = ParseConfigJson(ToJson(*map));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToJson(*again), ToJson(*map));
  ConfigMap skips = *map;
  skips.skip = {"lm_head"};
  const auto transformers = ParseConfigJson(ToJson(skips));
  ASSERT_TRUE(transformers.ok()) << transformers.status();
  EXPECT_EQ(transformers->skip, skips.skip);
  EXPECT_FALSE(transformers->keep_head);
  EXPECT_EQ(ToJson(*transformers), ToJson(skips));
}

TEST(ConfigJson, ProblemsAreNamedAllAtOnce) {
  const std::string message = RefusedJson(
      MapOf(R"("a":{"_type":"Int8WeightOnlyConfg","_data":{}},"b":{"_type":"Int8WeightOnlyConfig","_version":1,)"
            R"("_data":{"gruop_size":1,"group_size":32}},"c":7)"));
  EXPECT_TRUE(
      Says(message, "FqnToConfig.fqn_to_config.'a': unknown configuration 'Int8WeightOnlyConfg'; did you mean"));
  EXPECT_TRUE(Says(message, ".'b'.Int8WeightOnlyConfig: _version 1 is not one that torchao 0.18 takes: write 2"));
  EXPECT_TRUE(Says(message, ".'b'.Int8WeightOnlyConfig: unknown field 'gruop_size'; did you mean 'group_size'?"));
  EXPECT_TRUE(
      Says(message, ".group_size: is null since version 2: write granularity PerGroup with group_size 32 instead"));
  EXPECT_TRUE(Says(message, ".'c': expected an object"));
  EXPECT_TRUE(Says(RefusedJson(R"({"_type":"Int8WeightOnlyConfig","_data":{}})"),
                   "_version is missing, which means 1: write 2"));
  RefusedJson(R"({"_type":"NF4WeightOnlyConfig","_data":{}})", absl::StatusCode::kUnimplemented);
  RefusedJson(R"({"quantization_config":{"quant_method":"bitsandbytes"}})", absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(Says(RefusedJson("[]"), "has no configuration"));
  EXPECT_TRUE(Says(RefusedJson(MapOf(text::StrCat(R"("a":null,"a":)", kInt8))), "a"));  // a key twice
}

// Bytes changed, dropped and doubled: an answer each time, and what is taken prints and reads back.
TEST(ConfigJson, HostileDocuments) {
  std::mt19937 random(7);
  Config c = Short("smoothquant(int8-static):alpha=0.25");
  ConfigMap map{{{"a", c}, {"re:b.*", std::nullopt}, {"_default", Short("float8-dynamic:lb=1")}}, {"head"}};
  const std::string documents[] = {ToJson(map), ToJson(Short("8da4w:scale=bf16")), ToJson(Short("mxfp4")), kInt8};
  const std::string spare = "{}[]\",:0123456789eE+-.nulltruefalse_\\u";
  for (int i = 0; i < 20000; ++i) {
    std::string s = documents[i % std::size(documents)];
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % s.size(), n = std::min<size_t>(random() % 12, s.size() - at);
      switch (random() % 3) {
        case 0: s[at] = spare[random() % spare.size()]; break;
        case 1: s.erase(at, n); break;
        default: s.insert(random() % s.size(), std::string(s, at, n)); break;
      }
      if (s.empty()) s = "0";
    }
    const auto read = ParseConfigJson(s);
    if (!read.ok()) {
      EXPECT_FALSE(absl::StartsWith(read.status().message(), ":"));
      continue;
    }
    const auto again = ParseConfigJson(ToJson(*read));
    ASSERT_TRUE(again.ok()) << s << "\n" << ToJson(*read) << "\n" << again.status();
    EXPECT_EQ(ToJson(*again), ToJson(*read));
  }
}

TEST(Matcher, Precedence) {
  const Config c = Short("intx");
  const auto of = [&](int bits) {
    Config out = c;
    out.bits = bits;
    return out;
  };
  ConfigMap map;
  map.entries = {{"_default", of(1)},        {R"(re:a\.\w)", of(2)}, {R"(re:a\..*\.weight)", of(3)},
                 {"re:a.*", of(4)},          {"a.c", of(5)},         {"a.d", std::nullopt},
                 {"a.d.weight", of(6)},      {"b", std::nullopt},    {"re:nowhere", std::nullopt},
                 {"a.missing", std::nullopt}};
  auto matcher = Matcher::Make(map);
  ASSERT_TRUE(matcher.ok()) << matcher.status();
  const auto bits = [&](const std::string& module, std::string_view parameter = "weight") {
    const Match match = matcher->Find(module, parameter);
    return match.config == nullptr ? 0 : match.config->bits;
  };
  EXPECT_EQ(bits("a.b"), 3);          // an expression for the parameter goes before one for the module
  EXPECT_EQ(bits("a.b", "bias"), 4);  // the first that matches the whole name
  EXPECT_EQ(bits("a.c"), 5);
  EXPECT_EQ(bits("a.d"), 6);  // the parameter's name before the module's
  EXPECT_EQ(bits("b"), 0);
  EXPECT_EQ(matcher->Find("b").entry->key, "b");
  EXPECT_EQ(bits("ba.x"), 1);  // expressions match the whole name
  EXPECT_EQ(bits(""), 1);
  EXPECT_EQ(matcher->Unmatched(), (std::vector<std::string>{"re:nowhere", "a.missing"}));
}

TEST(Matcher, WithoutDefaultNothingIsChosen) {
  ConfigMap map{{{"a", Short("intx")}}, {"head", "x.y"}};
  auto matcher = Matcher::Make(map);
  ASSERT_TRUE(matcher.ok());
  EXPECT_EQ(matcher->Find("b").config, nullptr);
  EXPECT_EQ(matcher->Find("b").entry, nullptr);
  EXPECT_NE(matcher->Find("a").config, nullptr);
  EXPECT_TRUE(matcher->Find("head").skipped);
  EXPECT_TRUE(matcher->Find("lm_head").skipped);  // as in transformers
  EXPECT_TRUE(matcher->Find("0.x.y.z").skipped);
  EXPECT_FALSE(matcher->Find("heads").skipped);
  EXPECT_TRUE(matcher->Find("", "head").skipped);
}

TEST(Matcher, ExpressionsOfPython) {
  const auto make = [](const std::string& expression) {
    const ConfigMap map{{{expression, std::nullopt}}, {}};
    return Matcher::Make(map).status();
  };
  EXPECT_TRUE(make(R"(re:(?P<layer>model\.layers\.\d{1,2})\.(?:q|k)_proj)").ok());
  EXPECT_TRUE(make(R"(re:a\\Pb)").ok());
  EXPECT_EQ(make("re:a(?!b)").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(make(R"(re:(a)\1)").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(make(R"(re:\pL)").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(make("re:[^a[:digit:]]").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(make("re:[:a:][]:][^]:]").ok());
  EXPECT_EQ(make("re:a(").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(make("re:((((a{100}){100}){100}){100})").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(std::string(make("re:a(").message()), "'re:a('"));
}

}  // namespace
}  // namespace slipway::quantizer
