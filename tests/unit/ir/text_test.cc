// The text form: what it looks like, that it comes back, and what it says of texts that are wrong.
#include "ir/text.h"

#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "ir/equal.h"
#include "ir/ops/op_table.h"

namespace slipway::ir {
namespace {

constexpr char kSmall[] = R"(slipway.ir 1
program "model"
form as_exported
schema 8 20
dims {
  B = 2..inf positive hint 3
}
weights {
  $fc.bias: f32[4] @ random(seed=7)
  $fc.weight: f32[4,8] @ splat(0.5)
}
sources {
  #0 {stack="File \"model.py\", line 7, in forward\n  return self.fc(x)\n", modules="a,L['self'].fc,torch.nn.Linear"}
}
graph main(
  %p_fc_weight: f32[4,8]{grad} = parameter $fc.weight,
  %p_fc_bias: f32[4]{grad} = parameter $fc.bias,
  %x: f32[B,8],
) {
  %linear: f32[B,4] = aten.linear.default(input=%x, weight=%p_fc_weight, bias=%p_fc_bias)  ; #0 fc (model.py:7)
  %size: i64(B) = aten.sym_size.int(self=%linear, dim=0)
  %view: f32[B,2,2]~ = aten.view.default(self=%linear, size=[%size, 2, 2])
  return %view
}
)";

Archive MustParse(std::string_view text) {
  auto a = Parse(text);
  EXPECT_TRUE(a.ok()) << a.status();
  return a.ok() ? *std::move(a) : Archive();
}

std::string ErrorOf(std::string_view text) {
  auto a = Parse(text);
  return a.ok() ? "parsed" : std::string(a.status().message());
}

// `text` with the one occurrence of `from` replaced.
std::string With(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Text, PrintsWhatItParsed) {
  Archive a = MustParse(kSmall);
  ASSERT_EQ(a.programs.size(), 1u);
  EXPECT_EQ(Print(*a.programs[0]), kSmall);
  EXPECT_EQ(a.programs[0]->graph->first()->source()->Describe(), "fc (model.py:7)");
  Archive again = MustParse(Print(a));
  std::string why;
  EXPECT_TRUE(Equal(a, again, &why)) << why;
}

TEST(Text, NeedsLittle) {
  Archive a = MustParse(R"(slipway.ir 1
graph main(%x: f32[N,8]) { %0: f32[N,8] = aten.relu.default(self=%x)
  return %0 }
)");
  EXPECT_EQ(a.programs[0]->name, "model");
  EXPECT_EQ(a.programs[0]->graph->node_count(), 1u);
  EXPECT_EQ(a.programs[0]->output_specs.size(), 1u);
}

TEST(Text, KeepsEveryKindOfArgument) {
  // clang-format off
  const std::string args[] = {
      "None", "%x", "5", "-9223372036854775808", "0.5", "1e-300", "-0.0", "inf", "-inf", "nan", "true", "false",
      R"("a\"b\\c\n\t\x00ü")",
      "complex(1.0, -2.5)", "[1, 2]", "[]", "[%n, 2]", "[%n, %n]", "values[%n]", "values[]", "[%x, None]", "[None]",
      "symints[%x]",
      "[1.0, nan]", "floats[]", "[true, false]", "bools[]", R"(["a", "b"])", "strings[]", "f32", "bool", "f8e4m3fn",
      "contiguous_format", "unknown_format", "strided", "sparse_coo", R"(device("cuda", 1))", R"(device("cpu"))",
      R"(op("aten.add.Tensor"))", "[[%x], [%x, %x]]", "value_lists[[]]", "[[1], []]", "int_lists[[], []]",
      "[[0.5], []]",
      "float_lists[[]]", "int_lists[]"};
  // clang-format on
  for (const std::string& arg : args) {
    const std::string text =
        "slipway.ir 1\nprogram \"p\"\nform functional\nschema 8 20\ndims {\n  s0 = 0..9 positive\n}\n"
        "graph main(\n  %x: f32[s0],\n  %n: i64(s0),\n) {\n  my.op(a=" +
        arg + ")\n  return\n}\n";
    // The range stands as it is stated, beside the assumption too.
    Archive a = MustParse(text);
    ASSERT_EQ(a.programs.size(), 1u) << arg;
    EXPECT_EQ(Print(*a.programs[0]), text) << arg;
  }
}

TEST(Text, KeepsTypes) {
  for (const char* type : {"f32[]", "unknown[2]", "f32[2,s0 + 1,s0//2]", "f32[2]~", "f32[2,3]{strides=[1,2]}",
                           "f32[4]{offset=s0, grad}", "f32[4]{device=device(\"cuda\", 0), layout=sparse_coo}",
                           "f32[2]~{strides=[1]}", "i64(s0)", "f64(ToFloat(s0))", "bool(s0 >= 4)", "none", "token",
                           "constant", "object(\"a.B\")", "f32[0,s0]", "f32[Max(1, s0),Symbol('a]b', integer=True)]"}) {
    const std::string text =
        std::string("slipway.ir 1\nprogram \"p\"\nform as_exported\nschema 8 20\ndims {\n  s0 = -inf..inf\n") +
        (std::string(type).find("a]b") != std::string::npos ? "  \"a]b\" = -inf..inf\n" : "") +
        "}\ngraph main(\n  %x: " + type + ",\n) {\n  return %x\n}\n";
    Archive a = MustParse(text);
    ASSERT_EQ(a.programs.size(), 1u) << type;
    EXPECT_EQ(Print(*a.programs[0]), text);
  }
}

TEST(Text, KeepsResultsGroupsAndReturns) {
  const std::string text = R"(slipway.ir 1
program "p"
form as_exported
schema 8 20
graph main(
  %x: f32[4],
) {
  [%a: f32[2], %b: f32[2]] = aten.split.Tensor(self=%x, split_size=2)
  %c: f32[4], _, [] = my.op(x=%x)
  %d: f32[4] grouped = my.op(x:kw=%x)
  _ = my.op("")
  "odd op"("odd arg"=%a, :pos=%b)
  %"odd name": f32[4] = higher_order.cond(true, @cond.0, @cond.1, [%x]) -> single
  return %c, None as loss, %d as buffer_mutation $bn.mean
}
graph cond.0(%x: f32[4]) {
  %y: f32[4] = higher_order.cond(true, @cond.1, @cond.1, [%x]) -> tuple
  return %y
}
graph cond.1(%x: f32[4]) single {
  return %x
}
)";
  Archive a = MustParse(text);
  ASSERT_EQ(a.programs.size(), 1u);
  EXPECT_EQ(Print(*a.programs[0]), text);
  const Node* split = a.programs[0]->graph->first();
  EXPECT_EQ(split->groups(), std::vector<int>{2});
}

TEST(Text, KeepsSignatures) {
  const std::string text = R"(slipway.ir 1
producer "torch"
extra_file "a/b.txt" = "\xff\x00"
storages {
  s0 = base64("AAECAwQFBgc="):8
  s1 = splat(2.0):16
}
program "p"
form functional
schema 7 1
torch "2.5.1"
dialect "ATEN"
in_spec "in"
out_spec "out"
forward_arg "x"
module_calls "[]"
namedtuples "{}"
guard "L['x'].size()[0] <= 9"
range "s0" = 2..?
range "s0 + 1" = 3..inf
weights {
  $a: f32[1] @ s0+0
  $b: i8[2,2]{strides=[1,2]} @ s0+4
  $"odd name": u8[3] @ base64("AQID")
  $tied: f32[1] @ s0+0
  $z: f32[0] @ splat(0.0)
}
object $obj = s1 "data/x"
graph main(
  %a: f32[1] = parameter $a,
  %b: i8[2,2] = buffer $b non_persistent,
  %t: u8[3] = tensor_constant $"odd name",
  %o: object("X") = custom_obj $obj,
  %k: token = token,
  %c: constant = constant $flag (true),
  %x: f32[1],
) {
  return %x, 5, "s", %a as user_input_mutation $x
}
program "q"
form as_exported
schema 8 20
graph main() {
  return
}
)";
  Archive a = MustParse(text);
  ASSERT_EQ(a.programs.size(), 2u);
  EXPECT_EQ(Print(a), text);
  EXPECT_EQ(a.programs[0]->weights.at("a").storage, a.programs[0]->weights.at("tied").storage);
  EXPECT_EQ(a.extra_files.at("a/b.txt"), std::string("\xff\0", 2));
}

TEST(Text, MapsWeightFiles) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "/w.bin") << std::string(4, 'x') << std::string(16, 'y');
  const std::string text =
      "slipway.ir 1\nprogram \"p\"\nform functional\nschema 8 20\nweights {\n  $w: f32[4] @ \"w.bin\"+4\n}\n"
      "graph main() {\n  return\n}\n";
  ParseOptions options;
  options.base = folder;
  auto a = Parse(text, options);
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(*ReadDense(a->programs[0]->weights.at("w")), std::string(16, 'y'));
  PrintOptions print;
  print.base = folder;
  EXPECT_EQ(Print(*a->programs[0], print), text);
  EXPECT_NE(Parse(With(text, "+4", "+5"), options).status().message().find("text:6:"), std::string::npos);
  EXPECT_EQ(Parse(With(text, "w.bin", "missing.bin"), options).status().code(), absl::StatusCode::kNotFound);
  for (const char* path : {"/etc/passwd", "../w.bin", "a/../../w.bin"})
    EXPECT_NE(ErrorOf(With(text, "w.bin", path)).find("leaves the folder"), std::string::npos) << path;
}

TEST(Text, ElidedBytesDoNotComeBack) {
  Archive a = MustParse("slipway.ir 1\nweights { $w: u8[3] @ base64(\"AQID\") }\ngraph main() { return }\n");
  PrintOptions options;
  options.inline_limit = 2;
  const std::string text = Print(a, options);
  EXPECT_NE(text.find("elided(3)"), std::string::npos) << text;
  EXPECT_NE(ErrorOf(text).find("left out"), std::string::npos);
}

TEST(Text, SaysWhatIsWrongAndWhere) {
  const std::string graph =
      "slipway.ir 1\ngraph main(%x: f32[2]) {\n  %y: f32[2] = aten.relu.default(self=%x)\n  return %y\n}\n";
  ASSERT_EQ(ErrorOf(graph), "parsed");
  const struct {
    const char *from, *to, *error;
  } cases[] = {
      {"slipway.ir 1", "slipway.ir 2", "text:1:1: the first line"},
      {"self=%x", "self=%z", "text:3:39: '%z' is used before it is defined"},
      {"self=%x", "self=%y", "'%y' is used before it is defined"},
      {"%y: f32[2] =", "%x: f32[2] =", "text:3:3: '%x' is defined twice"},
      {"%y: f32", "%y: f33", "unknown dtype 'f33'"},
      {"f32[2] =", "f32[2", "text:3:"},
      {"f32[2])", "f32[-2])", "a negative size"},
      {"f32[2])", "f32[2 +])", "expression '2 +'"},
      {"self=%x", "self=[1, 2.0]", "do not go together"},
      {"self=%x", "self=[[[1]]]", "a value is expected"},
      {"self=%x", "self=@g", "mentioned and does not follow"},
      {"self=%x", "self=99999999999999999999", "too large"},
      {"self=%x", "self=\"x", "the string does not end"},
      {"self=%x", "self=\"\\q\"", "unknown escape"},
      {"%y\n}", "%y as banana\n}", "unknown kind of output 'banana'"},
      {"%x: f32[2])", "%x: f32[2] = banana)", "unknown kind of input 'banana'"},
      {"graph main", "graph other", "no graph before this mentions 'other'"},
      {"graph main", "banana 1\ngraph main", "text:2:1: unknown statement 'banana'"},
      {"graph main", "dims { s0 = 5..2 }\ngraph main", "the range is empty"},
      {"graph main", "weights { $w: f32[4] @ base64(\"AAAA\") }\ngraph main", "there are 3 bytes, not 16"},
      {"graph main", "weights { $w: f32[4] @ s0+0 }\ngraph main", "there is no storage s0"},
      {"graph main", "weights { $w: f32[4611686018427387904,4] @ splat(1.0) }\ngraph main", "overflows"},
      {"graph main", "storages { s0 = splat(1.0):15 }\nweights { $w: f32[4] @ s0+0 }\ngraph main",
       "of a storage of 15 bytes"},
      {"  return %y\n}\n", "", "the graph does not end"},
      {"relu.default(self=%x)", "relu.default(self=%x)  ; #0", "there is no source #0"},
  };
  for (const auto& c : cases) {
    const std::string error = ErrorOf(With(graph, c.from, c.to));
    EXPECT_NE(error.find(c.error), std::string::npos) << c.to << ": " << error;
  }
}

TEST(Text, GraphsCannotContainOneAnother) {
  EXPECT_NE(ErrorOf("slipway.ir 1\ngraph main() {\n  higher_order.x(@a.0)\n  return\n}\n"
                    "graph a.0() {\n  higher_order.x(@a.0)\n  return\n}\n")
                .find("comes before its first use"),
            std::string::npos);
}

// Every prefix of a text, and every text with one byte changed, is refused or read; nothing else happens.
TEST(Text, SurvivesDamage) {
  const std::string text = kSmall;
  for (size_t i = 0; i < text.size(); ++i) (void)Parse(std::string_view(text).substr(0, i));
  for (size_t i = 0; i < text.size(); ++i)
    for (char c : {'\0', '"', '[', ']', '{', '}', '%', '@', '9', '-', ' ', '\n', '\xff'}) {
      std::string damaged = text;
      damaged[i] = c;
      (void)Parse(damaged);
    }
}

TEST(Equal, NamesTheDifference) {
  const std::string base = kSmall;
  Archive a = MustParse(base);
  // clang-format off
  const struct { const char *from, *to, *why; } cases[] = {
      {"2..inf", "3..inf", "symbols B"},       {"hint 3", "hint 4", "symbols B"},
      {"splat(0.5)", "splat(0.25)", "fc.weight"}, {"seed=7", "seed=8", "fc.bias"},
      {"dim=0", "dim=1", "arguments dim"},     {"2, 2]", "2, 3]", "arguments size"},
      {"f32[B,2,2]~", "f32[B,2,2]", "types of %view"}, {"line 7", "line 8", "sources"},
      {"%size: i64(B)", "%size: i64(B + 1)", "types of %size"}, {"return %view", "return %linear", "outputs 0"},
      {"{grad} = parameter $fc.bias", " = parameter $fc.bias", "types of %p_fc_bias"},
      {"as_exported", "functional", "forms"},
  };
  // clang-format on
  for (const auto& c : cases) {
    Archive b = MustParse(With(base, c.from, c.to));
    std::string why;
    EXPECT_FALSE(Equal(a, b, &why)) << c.to;
    EXPECT_NE(why.find(c.why), std::string::npos) << c.to << ": " << why;
  }
}

}  // namespace
}  // namespace slipway::ir
