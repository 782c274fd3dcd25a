// The table of convert's flags, and that every flag with every target is taken or refused by name.
#include "driver/convert/options.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>

#include "base/text.h"
#include "driver/convert/convert.h"
#include "driver/edge/target.h"

namespace slipway::driver {
namespace {

// A value that the flag takes.
std::string Sample(const ConvertFlag& flag) {
  if (flag.kind == ConvertFlag::kSwitch) return "true";
  if (flag.value == "N") return "20";
  if (flag.value == "SIZE") return "5GB";
  if (flag.value == "KEY=VALUE") return "a=b";
  return std::string(flag.value.substr(0, flag.value.find('|')));
}

TEST(ConvertFlags, EachWithEachTargetIsTakenOrRefused) {
  for (const ConvertFlag& flag : kConvertFlags) {
    ASSERT_NE(flag.targets & kAll, 0u) << flag.name;
    for (const Target& target : Targets()) {
      ConvertOptions o;
      ASSERT_TRUE(SetConvertFlag(o, flag.name, Sample(flag)).ok()) << flag.name << " " << Sample(flag);
      const absl::Status s = CheckFlags(o, target);
      if (flag.targets & target.bit) {
        EXPECT_TRUE(s.ok()) << target.name << ": " << s;
        continue;
      }
      const std::string want =
          text::StrCat("--to ", target.name, " does not take --", flag.name, " (a flag of ", FlagTargets(flag), ")");
      EXPECT_EQ(std::string(s.message()), want);
      // The same through the whole conversion, before anything is read.
      o.inputs = {"no such file"};
      o.output = "no such folder/out";
      o.to = target.name;
      ConvertSummary summary;
      const Outcome out = Convert(o, &summary);
      EXPECT_EQ(out.code, kUsage);
      ASSERT_EQ(out.diagnostics.size(), 1u);
      EXPECT_EQ(out.diagnostics[0].id, id::kBadFlag);
      EXPECT_EQ(out.diagnostics[0].cause, want);
    }
  }
}

TEST(ConvertFlags, TheTableIsSound) {
  std::set<std::string_view> names;
  unsigned bits = 0;
  std::string targets;
  for (const Target& t : Targets()) {
    EXPECT_EQ(std::popcount(t.bit), 1) << t.name;
    EXPECT_EQ(bits & t.bit, 0u) << t.name;
    bits |= t.bit;
    text::StrAppend(&targets, targets.empty() ? "" : "|", t.name);
  }
  EXPECT_EQ(bits, kEvery);
  for (const ConvertFlag& flag : kConvertFlags) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_EQ(flag.kind == ConvertFlag::kSwitch, flag.value.empty()) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
    if (flag.name == "to") {
      EXPECT_EQ(flag.value, targets);
    }
    // A default is a value that may be given.
    ConvertOptions o;
    const std::string fallback = flag.get(o);
    EXPECT_TRUE(fallback.empty() || SetConvertFlag(o, flag.name, fallback).ok()) << flag.name;
  }
}

TEST(ConvertFlags, ValuesWithoutMeaningAreRefused) {
  ConvertOptions o;
  for (const auto& [name, value] : {std::pair("opset", "0"),
                                    {"opset", "-1"},
                                    {"opset", "20x"},
                                    {"opset", "100000"},
                                    {"shards", ""},
                                    {"state", "keep"},
                                    {"dtype", "f64"},
                                    {"torch", "2.7"},
                                    {"to", "tflite"},
                                    {"max-output", "5XB"},
                                    {"max-output", "0"},
                                    {"max-output", "99999999TB"},
                                    {"max-output", "-1"},
                                    {"metadata", "novalue"},
                                    {"metadata", "=x"},
                                    {"dry-run", "yes"},
                                    {"no-such-flag", "1"}})
    EXPECT_FALSE(SetConvertFlag(o, name, value).ok()) << name << " " << value;
  EXPECT_TRUE(o.given.empty());
  EXPECT_EQ(o.opset, 20);
  ASSERT_TRUE(SetConvertFlag(o, "max-output", "3MiB").ok());
  EXPECT_EQ(o.max_output, uint64_t{3} << 20);
  ASSERT_TRUE(SetConvertFlag(o, "max-shard-size", "2GB").ok());
  EXPECT_EQ(o.max_shard_size, 2'000'000'000u);
  ASSERT_TRUE(SetConvertFlag(o, "input-names", "a,b").ok());
  ASSERT_TRUE(SetConvertFlag(o, "input-names", "c").ok());
  EXPECT_EQ(o.input_names, (std::vector<std::string>{"a", "b", "c"}));
}

}  // namespace
}  // namespace slipway::driver
