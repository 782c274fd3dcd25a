// Symbolic integers: what simplifies, what is provable, how ranges follow, and that text goes both ways. The broad
// comparison with sympy on random expressions is tests/interop/sym_property.py.
#include "ir/sym.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace slipway::ir {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

class SymTest : public testing::Test {
 protected:
  Sym Parse(std::string_view text) {
    auto r = table_.ParseExpr(text);
    EXPECT_TRUE(r.ok()) << text << ": " << r.status();
    return r.ok() ? *r : Sym(-12345);
  }
  std::string Shown(std::string_view text) { return Parse(text).ToString(); }
  std::string Error(std::string_view text) {
    auto r = table_.ParseExpr(text);
    return r.ok() ? "parsed as " + r->ToString() : std::string(r.status().message());
  }
  void SetRange(std::string_view name, int64_t min, int64_t max = kMax) {
    auto status = table_.SetRange(name, {min, max});
    EXPECT_TRUE(status.ok()) << status;
  }
  SymRange Range(std::string_view text) { return RangeOf(Parse(text)); }
  bool Equal(std::string_view a, std::string_view b) { return ProvablyEqual(Parse(a), Parse(b)); }

  SymTable table_;
  Sym s0_ = table_.Symbol("s0");
  Sym s1_ = table_.Symbol("s1");
  Sym s2_ = table_.Symbol("s2");
  Sym u0_ = table_.Symbol("u0", /*positive=*/false);
};

TEST_F(SymTest, ConstantsNeedNoTable) {
  EXPECT_EQ(Sym(3) + Sym(4), Sym(7));
  EXPECT_EQ(Sym(3) - Sym(4), Sym(-1));
  EXPECT_EQ(Sym(3) * Sym(4), Sym(12));
  EXPECT_EQ(FloorDiv(Sym(-7), Sym(2)), Sym(-4));
  EXPECT_EQ(FloorDiv(Sym(7), Sym(-2)), Sym(-4));
  EXPECT_EQ(CeilDiv(Sym(7), Sym(2)), Sym(4));
  EXPECT_EQ(CeilDiv(Sym(-7), Sym(2)), Sym(-3));
  EXPECT_EQ(Mod(Sym(-7), Sym(4)), Sym(1));
  EXPECT_EQ(Mod(Sym(7), Sym(-4)), Sym(-1));
  EXPECT_EQ(Max(Sym(2), Sym(5)), Sym(5));
  EXPECT_EQ(Min(Sym(2), Sym(5)), Sym(2));
  EXPECT_TRUE(Relation(SymKind::kLt, 2, 5).bool_value());
  EXPECT_EQ(Sym().kind(), SymKind::kInteger);
}

TEST_F(SymTest, ArithmeticThatLeavesInt64IsOpaque) {
  for (Sym s : {Sym(kMax) + 1, Sym(kMin) - 1, Sym(kMax) * 2, -Sym(kMin), FloorDiv(kMin, -1), FloorDiv(1, 0), Mod(1, 0),
                CeilDiv(5, 0)}) {
    EXPECT_FALSE(s.is_constant()) << s.ToString();
    EXPECT_TRUE(s.is_integer_valued());
    auto value = Evaluate(s, [](std::string_view) { return std::optional<int64_t>(); });
    EXPECT_FALSE(value.has_value()) << s.ToString();
    EXPECT_EQ(Parse(s.ToString()), s);
  }
  // What comes back within int64 is a constant again.
  EXPECT_EQ(Sym(kMax) + 1 - 1, Sym(kMax));
  EXPECT_EQ(Sym(kMax) * s0_ + s0_ - s0_ * Sym(kMax), s0_);
  EXPECT_NE(Sym(kMax) + 1, Sym(kMax) + 2);
  // Totals beyond int64 inside a division or product.
  const auto three = [](std::string_view) { return std::optional<int64_t>(3); };
  EXPECT_EQ(Evaluate(FloorDiv(Sym(kMin) - 2, 2), three), kMin / 2 - 1);
  EXPECT_EQ(Evaluate(FloorDiv(s0_ * kMax + s0_ * kMax, s0_ * 4), three), kMax / 2);
  EXPECT_EQ(Evaluate(Mod(Sym(kMax) + 3, 7), three), 3);
  EXPECT_EQ(Parse("32*(-3 - 9223372036854775807)").ToString(), "-32*(9223372036854775807 + 3)");
  EXPECT_FALSE(ProvablyEqual(s0_ * kMax + s0_ * kMax, s0_ * -2));
}

TEST_F(SymTest, EqualExpressionsAreTheSameNode) {
  EXPECT_EQ(s0_ + s1_, s1_ + s0_);
  EXPECT_EQ(s0_ * s1_, s1_ * s0_);
  EXPECT_EQ((s0_ - 1) * 4, s0_ * 4 - 4);
  EXPECT_EQ(s0_ + s0_, s0_ * 2);
  EXPECT_EQ(s0_ - s0_, Sym(0));
  EXPECT_EQ(s0_ * s0_, Parse("s0**2"));
  EXPECT_EQ((s0_ * 2 + 2) * (s1_ * 3 - 3), (s0_ + 1) * (s1_ - 1) * 6);
  EXPECT_EQ(Max(s0_, s1_), Max(s1_, Max(s0_, s1_)));
  EXPECT_NE(s0_, s1_);
}

TEST_F(SymTest, SumsAndProductsPrintInOneOrder) {
  EXPECT_EQ(Shown("1 + s1 - 4*s0 + s1*s0"), "s0*s1 - 4*s0 + s1 + 1");
  EXPECT_EQ(Shown("Mul(Integer(-1), Integer(2), FloorDiv(s0, 3))"), "-2*(s0//3)");
  EXPECT_EQ(Shown("-s0 - 1"), "-s0 - 1");
  EXPECT_EQ(Shown("(s0 - 1)//2 + 1"), "(s0 - 1)//2 + 1");
  EXPECT_EQ(Shown("s77 + 1"), "s77 + 1");
  EXPECT_EQ(Shown("s1*s0**2*3"), "3*s0**2*s1");
  EXPECT_EQ(Shown("(s0-4)*(s1-4)*4"), "4*(s0 - 4)*(s1 - 4)");
  EXPECT_EQ(Parse("s77 + 1").ToSrepr(), "Add(Symbol('s77', integer=True), Integer(1))");
  EXPECT_EQ((s0_ + 1).ToSrepr(), "Add(Symbol('s0', positive=True, integer=True), Integer(1))");
}

TEST_F(SymTest, FloorDivision) {
  EXPECT_EQ(FloorDiv(s0_ * 4, 4), s0_);
  EXPECT_EQ(FloorDiv(s0_ * s1_ * 4, s0_ * 2), s1_ * 2);
  EXPECT_EQ(FloorDiv((s0_ - 4) * (s1_ - 4) * 4, (s0_ - 4) * 4), s1_ - 4);
  EXPECT_EQ(FloorDiv(s0_ * s1_ + s0_ * 3, s1_ + 3), s0_);
  EXPECT_EQ(FloorDiv(s0_ * 4 + 3, 4), s0_);
  EXPECT_EQ(FloorDiv(s0_ * 4 + s1_, 4), s0_ + FloorDiv(s1_, 4));
  EXPECT_EQ(FloorDiv(FloorDiv(s0_, 3), 4), FloorDiv(s0_, 12));
  EXPECT_EQ(FloorDiv(FloorDiv(s0_, s1_), s2_), FloorDiv(s0_, s1_ * s2_));
  EXPECT_EQ(FloorDiv(FloorDiv(s0_ - 1, 4) - 1, 2), FloorDiv(s0_ - 5, 8));
  EXPECT_EQ(FloorDiv(u0_, -3), FloorDiv(-u0_, 3));
  EXPECT_EQ(FloorDiv(s0_ * 2 + 1, 4), FloorDiv(s0_, 2));
  EXPECT_EQ(FloorDiv(s0_, s0_), Sym(1));
  EXPECT_EQ(CeilDiv(s0_ * 4, 4), s0_);
  EXPECT_EQ(CeilDiv(s0_, 8), FloorDiv(s0_ + 7, 8));
  EXPECT_EQ(CeilDiv(s0_ * s1_, s0_), s1_);
  // Not for a divisor of unknown sign.
  EXPECT_EQ(FloorDiv(FloorDiv(s0_, u0_), 2).ToString(), "(s0//u0)//2");
  SetRange("r0", 8, 15);
  EXPECT_EQ(FloorDiv(Parse("r0"), 8), Sym(1));
  EXPECT_EQ(Mod(Parse("r0"), 8), Parse("r0") - 8);
}

TEST_F(SymTest, Modulo) {
  EXPECT_EQ(Mod(s0_ * 8, 4), Sym(0));
  EXPECT_EQ(Mod(s0_ * 8 + s1_, 4), Mod(s1_, 4));
  EXPECT_EQ(Mod(s0_ * 9, 4), Mod(s0_, 4));
  EXPECT_EQ(Mod(s0_ * 4, 8), Mod(s0_, 2) * 4);
  EXPECT_EQ(Mod(s0_ * s1_, s0_ * 4), s0_ * Mod(s1_, 4));
  EXPECT_EQ(Mod(Mod(s0_, 8), 4), Mod(s0_, 4));
  EXPECT_EQ(Mod(Mod(s0_, 4), 8), Mod(s0_, 4));
  EXPECT_EQ(Mod(u0_, -3), -Mod(-u0_, 3));
  EXPECT_EQ(Mod(s0_, 4) + FloorDiv(s0_, 4) * 4, s0_);
  EXPECT_EQ(Mod(s0_, s1_) * 2 + FloorDiv(s0_, s1_) * s1_ * 2 + 1, s0_ * 2 + 1);
  // Padding to a multiple keeps its non-negative dividend, and so torch's name for it.
  EXPECT_EQ(Shown("s0 + Mod(8 - Mod(s0, 8), 8)"), "s0 + Mod(-Mod(s0, 8) + 8, 8)");
  EXPECT_EQ(Shown("u0 % 8"), "PythonMod(u0, 8)");
}

TEST_F(SymTest, MaxAndMinArePrunedByRanges) {
  EXPECT_EQ(Max(1, s0_), s0_);
  EXPECT_EQ(Max(s0_, 0), s0_);
  EXPECT_EQ(Min(s0_, 1), Sym(1));
  EXPECT_EQ(Max(1, u0_).ToString(), "Max(1, u0)");
  EXPECT_EQ(Max(s0_ + 1, s0_), s0_ + 1);
  EXPECT_EQ(Min(s0_ + s1_, s0_), s0_);
  EXPECT_EQ(Max(1, FloorDiv(s0_ - 1, 2) + 1), FloorDiv(s0_ - 1, 2) + 1);
  EXPECT_EQ(Max(2, s0_).ToString(), "Max(2, s0)");
  SetRange("r0", 2);
  EXPECT_EQ(Max(2, Parse("r0")), Parse("r0"));
  EXPECT_EQ(Min(Parse("int_oo"), s0_), s0_);
  EXPECT_EQ(Max(Parse("-oo"), u0_), u0_);
}

TEST_F(SymTest, RelationsFoldWhenProvable) {
  EXPECT_TRUE(Relation(SymKind::kGe, s0_, 1).bool_value());
  EXPECT_EQ(Relation(SymKind::kLt, s0_, 1), table_.Bool(false));
  EXPECT_EQ(Relation(SymKind::kEq, s0_ * 2 + 1, s1_ * 2), table_.Bool(false));
  EXPECT_EQ(Relation(SymKind::kGe, s0_, 3).ToString(), "s0 >= 3");
  EXPECT_EQ(Relation(SymKind::kEq, s0_, 3).ToSrepr(),
            "Equality(Symbol('s0', positive=True, integer=True), Integer(3))");
  EXPECT_EQ(Not(Relation(SymKind::kLt, u0_, 3)), Relation(SymKind::kGe, u0_, 3));
  EXPECT_EQ(Parse("u0 >= 0 and u0 <= 40 and True").ToString(), "(u0 >= 0) & (u0 <= 40)");
  EXPECT_EQ(Parse("u0 >= 0 or 1 < 2"), table_.Bool(true));
  EXPECT_EQ(Parse("Where(s0 > 0, s1, u0)"), s1_);
  EXPECT_FALSE(Relation(SymKind::kLt, u0_, 3).is_integer_valued());
}

TEST_F(SymTest, ProvableEqualityOfViewSizes) {
  EXPECT_TRUE(Equal("(s0 - 4)*(s1 - 4)*4", "4*s0*s1 - 16*s0 - 16*s1 + 64"));
  EXPECT_TRUE(Equal("(s0 + 1)**2", "s0**2 + 2*s0 + 1"));
  EXPECT_TRUE(Equal("(s0 - 1)//2 + 1", "(s0 + 1)//2"));
  EXPECT_TRUE(Equal("s0 - 8*(s0//8)", "Mod(s0, 8)"));
  EXPECT_TRUE(Equal("PythonMod(-s0, 8)", "Mod(8 - Mod(s0, 8), 8)"));
  EXPECT_TRUE(Equal("CeilDiv(s0, 4)*3", "((s0 + 3)//4)*3"));
  EXPECT_FALSE(Equal("s0", "s1"));
  EXPECT_FALSE(Equal("4*(s0//4)", "s0"));
  EXPECT_TRUE(ProvablyDifferent(s0_ + 1, s0_));
  EXPECT_TRUE(ProvablyDifferent(s0_ * 2, s1_ * 2 + 1));
  EXPECT_FALSE(ProvablyDifferent(s0_, s1_));
  EXPECT_TRUE(ProvablyLess(FloorDiv(s0_, 2), s0_));
  EXPECT_TRUE(ProvablyLess(Parse("2*(s0//2)"), s0_ + 1));
  EXPECT_TRUE(ProvablyLessEqual(Parse("2*((s0 + 1)//3)"), s0_));
  EXPECT_FALSE(ProvablyLess(s0_, s1_));
  SetRange("r0", 2);
  EXPECT_TRUE(ProvablyLessEqual(0, Parse("r0 - 2*((r0 + 2)//3)")));
}

TEST_F(SymTest, Ranges) {
  const SymRange full;
  EXPECT_EQ(RangeOf(Sym(5)), (SymRange{5, 5}));
  EXPECT_EQ(Range("s0"), (SymRange{1, kMax}));
  EXPECT_EQ(Range("u0"), full);
  SetRange("s0", 2, 10);
  SetRange("u0", -5, 7);
  EXPECT_EQ(Range("s0*3 - 1"), (SymRange{5, 29}));
  EXPECT_EQ(Range("s0*u0"), (SymRange{-50, 70}));
  EXPECT_EQ(Range("u0**2"), (SymRange{0, 49}));
  EXPECT_EQ(Range("u0//s0"), (SymRange{-3, 3}));
  EXPECT_EQ(Range("Mod(s0, 8)"), (SymRange{0, 7}));
  EXPECT_EQ(Range("s0 - s0//2"), (SymRange{1, 5}));
  EXPECT_EQ(Range("(s0 - 2)*(s0 - 2)"), (SymRange{0, 64}));
  EXPECT_EQ(Range("Max(u0, s0)"), (SymRange{2, 10}));
  EXPECT_EQ(Range("TruncToInt(1.5*ToFloat(u0))"), full);  // nothing is known of what comes out of floats
  EXPECT_EQ(Range("Where(u0 > 0, s0, 100)"), (SymRange{2, 100}));
  EXPECT_EQ(Range("unknown_function(s0)"), full);
  SetRange("s1", 1, int64_t{1} << 62);
  EXPECT_EQ(Range("s1*4"), (SymRange{4, kMax}));
}

TEST_F(SymTest, RangesAreSettledBeforeUse) {
  SetRange("s0", 5, 9);
  SetRange("s0", 7);
  EXPECT_EQ(table_.range("s0"), (SymRange{7, 9}));
  EXPECT_EQ(table_.SetRange("s0", {20, 30}).message(),
            "no value is left for symbol s0: its range [7, 9] does not meet [20, 30]");
  const Sym e = FloorDiv(s0_ + 3, 2);
  EXPECT_EQ(RangeOf(e), (SymRange{5, 6}));
  SetRange("s0", 1, 20);  // says nothing new
  EXPECT_EQ(table_.SetRange("s0", {8, 9}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(table_.DeclareRange("s0", {0, 9}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(table_.range("s0"), (SymRange{7, 9}));
  EXPECT_EQ(table_.range("nobody"), SymRange{});
  // A declared range stands beside positive=True, which torch writes of symbols whose ranges begin at 0 too.
  EXPECT_TRUE(table_.DeclareRange("d0", {0, 9}).ok());
  EXPECT_EQ(Range("Symbol('d0', positive=True, integer=True)"), (SymRange{0, 9}));
  EXPECT_EQ(table_.DeclareRange("d1", {3, 2}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SymTest, Evaluate) {
  const auto value = [](std::string_view name) -> std::optional<int64_t> {
    if (name == "s0") return 7;
    if (name == "u0") return -3;
    return std::nullopt;
  };
  EXPECT_EQ(Evaluate(Parse("s0*u0 + s0//2 - PythonMod(u0, 5)"), value), -21 + 3 - 2);
  EXPECT_EQ(Evaluate(Parse("TruncToInt(1.5*ToFloat(s0))"), value), 10);
  EXPECT_EQ(Evaluate(Parse("RoundToInt(0.5*ToFloat(s0))"), value), 4);
  EXPECT_EQ(Evaluate(Parse("RoundToInt(0.5*ToFloat(u0))"), value), -2);
  EXPECT_EQ(Evaluate(Parse("s0//(u0 + 3)"), value), std::nullopt);
  EXPECT_EQ(Evaluate(Parse("s0 + s1"), value), std::nullopt);
  EXPECT_EQ(Evaluate(Parse("u0 > 3"), value), std::nullopt);
  EXPECT_EQ(EvaluateBool(Parse("u0 > 3"), value), false);
  EXPECT_EQ(EvaluateFloat(Parse("FloatPow(ToFloat(s0 + 2), 0.5)"), value), 3.0);
  EXPECT_EQ(Evaluate(Parse("s0*9223372036854775807"), value), std::nullopt);
  EXPECT_EQ(Evaluate(Parse("Where(u0 > 0, 1//(u0 + 3), 4)"), value), 4);
}

TEST_F(SymTest, SubstituteSimplifiesAgain) {
  const Sym e = Parse("(s0*s1)//4 + u0");
  const auto four = [](Sym s) { return s.name() == "s0" ? std::optional<Sym>(4) : std::nullopt; };
  EXPECT_EQ(Substitute(e, four), s1_ + u0_);
  SymTable other;
  const Sym there = Substitute(e, [&](Sym s) { return std::optional<Sym>(other.Symbol(s.name())); });
  EXPECT_EQ(there.ToString(), e.ToString());
  EXPECT_EQ(there, *other.ParseExpr(e.ToString()));
}

TEST_F(SymTest, SymbolsAreSortedAndUnique) {
  std::vector<std::string> names;
  for (Sym s : Parse("u0*s1 + Max(s0, u0)//s1").Symbols()) names.emplace_back(s.name());
  EXPECT_EQ(names, (std::vector<std::string>{"s0", "s1", "u0"}));
}

TEST_F(SymTest, SymbolAssumptions) {
  EXPECT_EQ(Range("s9"), SymRange{});  // a plain name says nothing
  EXPECT_EQ(Range("Symbol('s9', positive=True, integer=True)"), (SymRange{1, kMax}));
  EXPECT_EQ(Parse("s9").ToSrepr(), "Symbol('s9', positive=True, integer=True)");
  EXPECT_EQ(Parse("Symbol('u0', integer=True)"), u0_);
  SetRange("u0", -9, -1);
  EXPECT_NE(Error("Symbol('u0', positive=True, integer=True)").find("no value is left for symbol u0"),
            std::string::npos);
  table_.SetHint("s0", 17);
  EXPECT_EQ(table_.symbols()[0].hint, 17);
  EXPECT_EQ(table_.symbols()[0].name, "s0");
  EXPECT_EQ(table_.ParseExpr("Symbol('zf0', real=True)").status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(SymTest, BothSpellingsParseToTheSame) {
  const std::pair<std::string_view, std::string_view> same[] = {
      {"((s0 - 1)//2) + 1",
       "Add(FloorDiv(Add(Symbol('s0', positive=True, integer=True), Integer(-1)), Integer(2)), Integer(1))"},
      {"TruncToInt(1.5*ToFloat(s0))",
       "TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s0', integer=True))))"},
      {"s0 >= 3", "GreaterThan(s0, Integer(3))"},
      {"s0 < s1", "StrictLessThan(s0, s1)"},
      {"s0 != s1", "Unequality(s0, s1)"},
      {"not (u0 >= 3 and u0 != 5)", "Not(And(GreaterThan(u0, Integer(3)), Ne(u0, Integer(5))))"},
      {"~((u0 > 3) | (s0 < 2))", "Not(Or(StrictGreaterThan(u0, Integer(3)), StrictLessThan(s0, Integer(2))))"},
      {"FloatTrueDiv(1.0, ToFloat(s0))", "FloatTrueDiv(Float('1.0', precision=53), ToFloat(s0))"},
      {"1.0 / torch.sym_float(s0)", "FloatTrueDiv(Float('1.0', precision=53), ToFloat(s0))"},
      {"ToFloat(s0)**0.5", "FloatPow(ToFloat(s0), Float('0.5', precision=53))"},
      {"max(1, s0 // 2)", "Max(Integer(1), FloorDiv(s0, Integer(2)))"},
      {"s0 % 8", "ModularIndexing(s0, Integer(1), Integer(8))"},
      {"s0*8", "LShift(s0, Integer(3))"},
      {"s0//8", "RShift(s0, Integer(3))"},
      {"s0**2", "PowByNatural(s0, Integer(2))"},
      {"s0", "Identity(s0)"},
      {"-s0**2", "Mul(Integer(-1), Pow(s0, Integer(2)))"},
      {"2*s0 % 4", "Mod(Mul(Integer(2), s0), Integer(4))"},
  };
  for (const auto& [a, b] : same) EXPECT_EQ(Parse(a), Parse(b)) << a;
  EXPECT_EQ(Parse("-9223372036854775808"), Sym(kMin));
  EXPECT_EQ(Parse("-oo"), Sym(kMin));
  EXPECT_EQ(Parse("Infinity"), Sym(kMax));
  EXPECT_EQ(Parse("Rational(1, 2)*s0").ToString(), "Rational(1, 2)*s0");
  EXPECT_EQ(Parse("Rational(1, 2)").kind(), SymKind::kCall);
}

TEST_F(SymTest, TextRoundTrips) {
  for (std::string_view text : {"s0*s1 - 4*s0 - 4*s1 + 16",
                                "-(s0//3)",
                                "(-5)//s0",
                                "2**u0",
                                "(s0 + 1)**3*(s1 - 2)",
                                "s0 + 9223372036854775807 + 1",
                                "s0 + -9223372036854775808*s1",
                                "4*4611686018427387904*s0",
                                "-4*4611686018427387904*s0",
                                "1.5*ToFloat(s0) - 2.5",
                                "ToFloat(s0) - 2*ToFloat(s1)",
                                "-(1.5*ToFloat(s0) + 1.0)*ToFloat(s1)",
                                "1e+300*ToFloat(s0)",
                                "0.1 + ToFloat(s0)",
                                "2*ToFloat(s0)*ToFloat(s1) - ToFloat(s0)*ToFloat(s1)",
                                "Foo(s0, 1, 0.5, True)",
                                "math.sqrt(s0) + 1",
                                "2**100",
                                "Where((u0 > 3) & (s0 > 4), s0, u0)",
                                "Float('inf', precision=53)",
                                "Float('-0.0', precision=53)",
                                "Symbol('a b', integer=True) + 1",
                                "Symbol('it\\'s', integer=True)",
                                "Foo() < 3",
                                "Eq(True, u0 > 3)",
                                "Max(s0, s1, 4) // Min(s0, s1)",
                                "CeilDiv(s0, u0)",
                                "FloatPow(1.5, ToFloat(s0))",
                                "Pow(s0, -1)",
                                "10//(3//u0)"}) {
    const Sym e = Parse(text);
    EXPECT_EQ(Parse(e.ToString()), e) << text << " -> " << e.ToString();
    EXPECT_EQ(Parse(e.ToSrepr()), e) << text << " -> " << e.ToSrepr();
  }
}

TEST_F(SymTest, FloatsAreNotReordered) {
  // (0.1 + 0.2) + x and 0.1 + (0.2 + x) differ in IEEE arithmetic.
  EXPECT_EQ(Shown("0.1 + 0.2 + ToFloat(s0)"), "0.30000000000000004 + ToFloat(s0)");
  EXPECT_EQ(Shown("0.1 + (0.2 + ToFloat(s0))"), "0.1 + (0.2 + ToFloat(s0))");
  EXPECT_EQ(Shown("ToFloat(s0) - ToFloat(s0)"), "ToFloat(s0) - ToFloat(s0)");
  EXPECT_EQ(Shown("TruncToInt(ToFloat(u0))"), "TruncToInt(ToFloat(u0))");  // beyond 2**53 it may round
  SetRange("r0", 0, 1000);
  EXPECT_EQ(Parse("TruncToInt(ToFloat(r0))"), Parse("r0"));
}

TEST_F(SymTest, ParseErrorsSayWhere) {
  EXPECT_EQ(Error("s0 +"), "column 5: the expression ends early in expression \"s0 +\"");
  EXPECT_EQ(Error("FloorDiv(s0)"), "column 1: FloorDiv takes 2 operands, got 1 in expression \"FloorDiv(s0)\"");
  EXPECT_EQ(Error("(s0 > 1) + 1"), "column 10: '+' operand 1 is a truth value in expression \"(s0 > 1) + 1\"");
  EXPECT_EQ(Error("s0 s1"), "column 4: unexpected text after the expression in expression \"s0 s1\"");
  for (std::string_view bad : {"",
                               " ",
                               "(",
                               ")",
                               "s0)",
                               "(s0",
                               "s0 ** ",
                               "1 < u0 < 3",
                               "L['x'].size()[0] >= 3",
                               "9223372036854775808",
                               "1.2.3",
                               "12ab",
                               "0x10",
                               "s0 and",
                               "and",
                               "not",
                               "Symbol(s0)",
                               "Symbol('')",
                               "Symbol('s0'",
                               "Symbol('s0', integer)",
                               "Symbol('s0', integer=3)",
                               "Symbol('s0', even=True)",
                               "Float('x')",
                               "Float('1.0', precision=24)",
                               "Integer('3')",
                               "Integer(s0)",
                               "Integer(1, 2)",
                               "s0 \xc3\xa9",
                               "f(",
                               "f(1,",
                               "f(,)",
                               "s0!",
                               "s0 = 3",
                               "1e999",
                               "s0.s1",
                               "a.b.(c)",
                               "Not(s0)",
                               "s0 & s1",
                               "True + 1",
                               "Max()",
                               "'s0'",
                               "-True",
                               "nan"}) {
    auto r = table_.ParseExpr(bad);
    EXPECT_FALSE(r.ok()) << bad << " parsed as " << r->ToString();
  }
}

TEST_F(SymTest, HostileTextIsBounded) {
  const auto repeat = [](std::string_view s, size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += s;
    return out;
  };
  EXPECT_TRUE(table_.ParseExpr(repeat("(", 150) + "s0" + repeat(")", 150)).ok());
  EXPECT_NE(Error(repeat("(", 60000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(Error(repeat("f(", 30000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(Error(repeat("not ", 10000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(Error(repeat("s0**", 10000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(Error(repeat("1+", 50000)).find("longer than 65536"), std::string::npos);
  EXPECT_EQ(Parse(repeat("-", 60000) + "s0"), s0_);
  EXPECT_EQ(Parse(repeat("s0+", 20000) + "s0"), s0_ * 20001);
  EXPECT_NE(Error("s0" + repeat("//u0", 10000)).find("too large"), std::string::npos);
  std::string many = "0";
  for (int i = 0; i < 6000; ++i) many += "+a" + std::to_string(i);
  EXPECT_NE(Error(many).find("too large"), std::string::npos);
}

TEST_F(SymTest, GrowthIsBounded) {
  // Doubles the tree at each step.
  Sym e = s0_;
  for (int i = 0; i < 100; ++i) e = FloorDiv(e, 3 + i) * e + Mod(e, u0_);
  EXPECT_TRUE(e.is_too_large());
  EXPECT_TRUE(e.is_integer_valued());
  EXPECT_LT(e.ToString().size(), 100000u);
  EXPECT_EQ(RangeOf(e), SymRange{});
  EXPECT_EQ(Evaluate(e, [](std::string_view) { return std::optional<int64_t>(3); }), std::nullopt);
  // Two of them are never taken for one another.
  Sym a = s0_, b = s0_;
  for (int i = 0; i < 300; ++i) a = FloorDiv(u0_, a + 1);
  for (int i = 0; i < 300; ++i) b = FloorDiv(u0_, b + 1);
  EXPECT_TRUE(a.is_too_large());
  EXPECT_NE(a, b);
  EXPECT_FALSE(ProvablyEqual(a, b));
  // Products of sums are not multiplied out without end.
  Sym product = 1;
  Sym sum = 0;
  for (int i = 0; i < 40; ++i) {
    const Sym x = table_.Symbol("x" + std::to_string(i));
    product = product * (x + 1);
    sum = sum + x;
  }
  EXPECT_FALSE(ProvablyEqual(product, sum));
  EXPECT_EQ(FloorDiv(product * sum, sum), product);
}

TEST_F(SymTest, MakeChecksItsOperands) {
  EXPECT_FALSE(table_.Make(SymKind::kFloorDiv, {s0_}).ok());
  EXPECT_FALSE(table_.Make(SymKind::kAdd, {}).ok());
  EXPECT_FALSE(table_.Make(SymKind::kSymbol, {}).ok());
  EXPECT_FALSE(table_.Make(SymKind::kAnd, {s0_, s1_}).ok());
  EXPECT_FALSE(table_.Make(SymKind::kAdd, {s0_, table_.Bool(true)}).ok());
  EXPECT_FALSE(table_.Make(SymKind::kCall, {s0_}, "not a name").ok());
  EXPECT_FALSE(table_.Make(SymKind::kCall, {s0_}, "Symbol").ok());
  EXPECT_EQ(*table_.Make(SymKind::kCall, {s0_ * 4, 4}, "FloorDiv"), s0_);
  EXPECT_EQ(*table_.Make(SymKind::kToFloat, {3}), table_.Float(3.0));
  EXPECT_EQ(table_.Float(0.5).float_value(), 0.5);
}

TEST_F(SymTest, TextDoesNotDependOnTheTablesHistory) {
  SymTable other;
  for (std::string_view name : {"u0", "s2", "s1", "s0"}) other.Symbol(name, name[0] == 's');
  for (std::string_view text : {"s2*s1 + s0*u0 + u0//s1 + Max(u0, s0) + 3", "(u0 + s2)*(s1 + s0)*(s0 - u0)"}) {
    EXPECT_EQ(other.ParseExpr(text)->ToString(), Shown(text));
  }
}

TEST(SymDeathTest, TwoTablesDoNotMix) {
  SymTable a, b;
  EXPECT_DEATH((void)(a.Symbol("s0") + b.Symbol("s0")), "two tables");
}

}  // namespace
}  // namespace slipway::ir
