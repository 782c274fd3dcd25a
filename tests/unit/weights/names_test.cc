// Choosing and renaming by regular expressions.
#include "weights/names.h"

#include <chrono>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace slipway::weights {
namespace {

std::string Renamed(const std::string& rule, const std::string& name) {
  auto rules = NameRules::Parse({}, {}, {rule});
  return rules.ok() ? rules->Apply(name).value_or("left out") : std::string(rules.status().message());
}

TEST(Names, RulesInOrder) {
  auto rules = NameRules::Parse({"^layers", "head"}, {"bias$"}, {"layers=>blocks", "blocks\\.(\\d+)=>b$1"});
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->Apply("layers.3.weight"), "b3.weight");
  EXPECT_EQ(rules->Apply("layers.3.bias"), std::nullopt);
  EXPECT_EQ(rules->Apply("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(rules->Apply("embed.weight"), std::nullopt);
}

TEST(Names, Replacements) {
  EXPECT_EQ(Renamed("(a)(b)=>$2$1", "xabab"), "xbaba");
  EXPECT_EQ(Renamed("b+=>[$&]", "abbc"), "a[bb]c");
  EXPECT_EQ(Renamed("b=>$$1", "abc"), "a$1c");
  EXPECT_EQ(Renamed("b=>\\1", "abc"), "a\\1c") << "a backslash is one";
  EXPECT_EQ(Renamed("b=>", "abc"), "ac");
  EXPECT_EQ(Renamed("b=>$", "abc"), "a$c");
  EXPECT_NE(Renamed("b=>$1", "abc").find("--rename '$1'"), std::string::npos) << "there is no group 1";
}

TEST(Names, WhatIsNoExpressionIsRefused) {
  for (const char* rule : {"(=>x", "a", "(a)\\1=>x", "(?=a)=>x"})
    EXPECT_NE(Renamed(rule, "a").find("--rename '"), std::string::npos) << rule;
  EXPECT_FALSE(NameRules::Parse({"["}, {}, {}).ok());
  EXPECT_FALSE(NameRules::Parse({}, {"["}, {}).ok());
}

// Backtracking would take 2^n steps.
TEST(Names, TimeIsLinearInTheName) {
  const auto begin = std::chrono::steady_clock::now();
  std::string name(100'000, 'a');
  EXPECT_EQ(Renamed("(a+)+$=>x", name), "x");
  name.push_back('b');
  EXPECT_EQ(Renamed("(a+)+$=>x", name), name);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace slipway::weights
