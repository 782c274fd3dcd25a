// The op table: every declaration parses, and some are looked at closely.
#include "ir/ops/op_table.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "gtest/gtest.h"
#include "ir/ops/op_numbers.h"
#include "schemas/embedded.h"

namespace slipway::ir {
namespace {

TEST(OpTable, ParsesEveryDeclaration) {
  std::set<std::string_view> names;
  for (std::string_view name : AllOps()) {
    EXPECT_TRUE(names.insert(name).second) << name << " is declared twice";
    const OpDef* op = FindOp(name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_TRUE(op->known);
    EXPECT_EQ(op->name, name);
    EXPECT_FALSE(op->ns.empty()) << name;
    EXPECT_FALSE(op->base.empty()) << name;
    std::set<std::string> args;
    for (const ArgDef& a : op->args) {
      EXPECT_TRUE(args.insert(a.name).second) << name << ": " << a.name;
      EXPECT_FALSE(a.name.empty() && a.type != "...") << name;
      EXPECT_FALSE(a.type.empty()) << name << ": " << a.name;
      EXPECT_EQ(a.type.find_first_of(" ,=!?*"),
                a.type.starts_with("(") || a.type.starts_with("Dict(") ? a.type.find_first_of(" ,") : std::string::npos)
          << name << ": " << a.type;
      EXPECT_TRUE(!a.written || a.alias) << name;
      // A default that stayed text is an enumeration the parser does not know.
      if (a.has_default && a.type != "str" && !a.optional) {
        EXPECT_FALSE(a.default_value.is<std::string>()) << name << ": " << a.name;
      }
    }
    for (const ReturnDef& r : op->returns) EXPECT_FALSE(r.type.empty()) << name;
  }
  EXPECT_GT(names.size(), 3000u);
}

const ArgDef& ArgOf(std::string_view op, std::string_view arg) {
  const OpDef& d = GetOp(op);
  const int i = d.ArgIndex(arg);
  EXPECT_GE(i, 0) << op << " " << arg;
  return d.args[i < 0 ? 0 : i];
}

TEST(OpTable, TraitsAreOfDeclaredOperators) {
  std::set<std::string, std::less<>> names;
  for (std::string_view name : AllOps()) {
    names.emplace(name);
    const OpDef& op = GetOp(name);
    names.insert(text::StrCat(op.ns, ".", op.base));
  }
  std::string_view last;
  for (std::string_view line : text::Split(schemas::OpTraitLines(), '\n', true)) {
    if (line.starts_with('#')) continue;
    const size_t space = line.find(' ');
    ASSERT_NE(space, std::string_view::npos) << line;
    const std::string_view name = line.substr(0, space);
    EXPECT_TRUE(names.contains(name) || name.starts_with("higher_order.")) << name;
    EXPECT_LT(last, name);
    last = name;
    const auto traits = ParseOpTraits(line.substr(space));
    ASSERT_TRUE(traits) << line;
    // Arguments that traits name are arguments of every overload they count for.
    for (std::string_view op : AllOps()) {
      const OpDef& d = GetOp(op);
      if (op != name && text::StrCat(d.ns, ".", d.base) != name) continue;
      const OpTraits& t = d.traits;
      for (std::string_view a : {t.random_probability, t.random_training, t.identity, t.identity_when_idle, t.cast,
                                 t.updates_statistics, t.view_of})
        EXPECT_TRUE(a.empty() || d.ArgIndex(a) >= 0) << op << " has no argument " << a;
      EXPECT_TRUE(t.in_place_view_op.empty() || FindOp(t.in_place_view_op)) << line;
    }
  }
  for (std::string_view bad : {"elementwize", "random(", "random()", "random(p,q,r)", "autocast(half)", "view()",
                               "inverse", "body(x)", "body(-1)", "identity(a,b)", "none(a)"})
    EXPECT_FALSE(ParseOpTraits(bad)) << bad;
  EXPECT_TRUE(GetOp("aten.where.self").traits.elementwise);
  EXPECT_FALSE(GetOp("aten.where.default").traits.elementwise) << "the line of an overload stands alone";
}

// Each line names arguments that its operators have, each operator one of them at least, and no argument has two roles.
TEST(OpTable, NumbersAreOfDeclaredArguments) {
  EXPECT_EQ(NumberRoles(schemas::OpNumberLines()).error(), "");
  EXPECT_EQ(NumberRoles("bound start slice\nsetting start slice\n").error(), "setting start slice");
  EXPECT_EQ(NumberRoles("bounds start slice\n").error(), "bounds start slice");
  std::map<std::string, std::set<std::string>, std::less<>> arguments;
  std::set<std::string, std::less<>> all;
  for (std::string_view name : AllOps()) {
    const OpDef& op = GetOp(name);
    if (op.ns != "aten" && op.ns != "prims") continue;
    for (const ArgDef& a : op.args) {
      arguments[std::string(op.base)].insert(a.name);
      all.insert(a.name);
    }
  }
  for (std::string_view line : text::Split(schemas::OpNumberLines(), '\n', true)) {
    if (line.starts_with('#')) continue;
    const std::vector<std::string_view> words = text::Split(line, ' ', true);
    ASSERT_GE(words.size(), 3u) << line;
    const std::vector<std::string_view> args = text::Split(words[1], ',');
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "*") {
        for (std::string_view a : args) EXPECT_TRUE(all.contains(a)) << a << " of: " << line;
        continue;
      }
      const auto op = arguments.find(words[i]);
      ASSERT_NE(op, arguments.end()) << words[i];
      EXPECT_TRUE(std::any_of(args.begin(), args.end(),
                              [&](std::string_view a) { return op->second.contains(std::string(a)); }))
          << words[i] << " of: " << line;
    }
  }
  const auto role = [](std::string_view op, std::string_view arg) { return RoleOfNumber(GetOp(op), ArgOf(op, arg)); };
  EXPECT_EQ(role("aten.full_like.default", "fill_value"), NumberRole::kFill);
  EXPECT_EQ(role("aten.fill_.Scalar", "value"), NumberRole::kFill) << "the in-place form has no line";
  EXPECT_EQ(role("aten.linspace.default", "steps"), NumberRole::kCount);
  EXPECT_EQ(role("aten.div.Tensor", "other"), NumberRole::kDivisor) << "a number may stand for a tensor";
  EXPECT_EQ(role("aten.sum.dim_IntList", "dim"), NumberRole::kFixed);
  EXPECT_EQ(role("aten.topk.default", "k"), NumberRole::kSetting);
  EXPECT_EQ(role("aten.layer_norm.default", "eps"), NumberRole::kFixed);
  EXPECT_EQ(role("_operator.add", "a"), NumberRole::kNone);
}

TEST(OpTable, KnowsDefaults) {
  EXPECT_EQ(*ArgOf("aten.max_pool2d.default", "stride").default_value.get<Ints>(), (Ints{}));
  EXPECT_EQ(*ArgOf("aten.conv2d.default", "stride").default_value.get<Ints>(), (Ints{1, 1}));
  EXPECT_TRUE(ArgOf("aten.conv2d.default", "bias").default_value.is_none());
  EXPECT_EQ(*ArgOf("aten.conv2d.default", "groups").default_value.get<int64_t>(), 1);
  EXPECT_EQ(*ArgOf("aten.gelu.default", "approximate").default_value.get<std::string>(), "none");
  EXPECT_EQ(*ArgOf("aten.div.Tensor_mode", "rounding_mode").default_value.get<None>(), None{}) << "no default";
  EXPECT_EQ(*ArgOf("aten.layer_norm.default", "eps").default_value.get<double>(), 1e-5);
  EXPECT_EQ(*ArgOf("aten.layer_norm.default", "cudnn_enable").default_value.get<bool>(), true);
  EXPECT_FALSE(ArgOf("aten.relu.default", "self").has_default);
}

TEST(OpTable, KnowsTypes) {
  const ArgDef& stride = ArgOf("aten.conv2d.default", "stride");
  EXPECT_EQ(stride.type, "SymInt");
  EXPECT_TRUE(stride.is_list);
  EXPECT_EQ(stride.list_size, 2);
  EXPECT_FALSE(stride.optional);
  EXPECT_TRUE(ArgOf("aten.conv2d.default", "bias").optional);
  const ArgDef& indices = ArgOf("aten.index.Tensor", "indices");
  EXPECT_TRUE(indices.is_list && indices.element_optional && !indices.optional);
  const ArgDef& dims = ArgOf("aten.sum.dim_IntList", "dim");
  EXPECT_TRUE(dims.is_list && dims.optional && !dims.element_optional);
  EXPECT_TRUE(ArgOf("aten.sum.dim_IntList", "dtype").keyword_only);
  EXPECT_FALSE(ArgOf("aten.sum.dim_IntList", "keepdim").keyword_only);
}

TEST(OpTable, KnowsAliasing) {
  EXPECT_TRUE(GetOp("aten.add_.Tensor").mutates());
  EXPECT_TRUE(ArgOf("aten.add_.Tensor", "self").written);
  EXPECT_FALSE(ArgOf("aten.add_.Tensor", "other").written);
  EXPECT_FALSE(GetOp("aten.add.Tensor").mutates());
  EXPECT_TRUE(GetOp("aten.view.default").is_view());
  EXPECT_FALSE(GetOp("aten.add_.Tensor").is_view());
  EXPECT_EQ(GetOp("aten.view.default").returns[0].alias, 'a');
  EXPECT_TRUE(GetOp("aten.split.Tensor").returns[0].is_list);
  EXPECT_EQ(GetOp("aten.max.dim").returns.size(), 2u);
  EXPECT_TRUE(GetOp("aten.add.out").args.back().written);
}

TEST(OpTable, SplitsNames) {
  const OpDef& op = GetOp("aten.add.Tensor");
  EXPECT_EQ(op.ns, "aten");
  EXPECT_EQ(op.base, "add");
  EXPECT_EQ(op.overload, "Tensor");
  EXPECT_EQ(GetOp("_operator.add").base, "add");
  EXPECT_EQ(GetOp("_operator.add").overload, "");
  EXPECT_TRUE(GetOp("higher_order.cond").variadic);
  const OpDef& custom = GetOp("mylib.myop.default");
  EXPECT_FALSE(custom.known);
  EXPECT_EQ(&custom, &GetOp("mylib.myop.default"));
  EXPECT_EQ(FindOp("mylib.other.default"), nullptr);
}

TEST(OpTable, TranslatesTargets) {
  for (const char* target : {"torch.ops.aten.add.Tensor", "_operator.add", "math.trunc", "torch.sym_max"})
    EXPECT_EQ(TargetFromOpName(OpNameFromTarget(target)), target);
  EXPECT_EQ(OpNameFromTarget("torch.ops.aten.add.Tensor"), "aten.add.Tensor");
  EXPECT_EQ(OpTableTorchVersion(), "2.13.0");
}

}  // namespace
}  // namespace slipway::ir
