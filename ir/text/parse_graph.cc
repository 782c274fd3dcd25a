// Types, graphs, nodes and their arguments.
#include <limits>

#include "base/status_macros.h"
#include "base/text.h"
#include "io/mapped_file.h"
#include "ir/ops/op_table.h"
#include "ir/text/internal.h"
#include "ir/text/parser.h"

namespace slipway::ir::text_form {

namespace {

constexpr size_t kMaxRank = 64;

}  // namespace

absl::StatusOr<Archive> TextParser::Run() {
  absl::Status s = ParseArchive();
  if (!s.ok()) return s;
  return std::move(archive_);
}

// The expression up to a comma or closing bracket of its own level.
absl::StatusOr<Sym> TextParser::Expression() {
  Space();
  const size_t begin = at_;
  int depth = 0;
  for (;; ++at_) {
    const char c = Peek();
    if (AtEnd() || c == '\n' || c == ';') return ErrorAt(begin, "the expression does not end");
    if (c == '\'') {
      for (++at_; Peek() != '\''; ++at_) {
        if (Peek() == '\\') ++at_;
        if (AtEnd() || Peek() == '\n') return ErrorAt(begin, "the expression does not end");
      }
      continue;
    }
    if (depth == 0 && (c == ',' || c == ']' || c == ')' || c == '}')) break;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
  }
  std::string_view text = text::Strip(text_.substr(begin, at_ - begin));
  int64_t number;
  if (text::ParseNumber(text, &number)) return Sym(number);
  if (auto it = exprs_.find(text); it != exprs_.end()) return it->second;
  auto parsed = p_->syms->ParseExpr(text);
  if (!parsed.ok())
    return ErrorAt(begin,
                   text::StrCat("expression '", text.substr(0, 200), "': ", text::FromAbsl(parsed.status().message())));
  exprs_.emplace(std::string(text), *parsed);
  return *parsed;
}

absl::Status TextParser::SizeList(Sizes* out) {
  RETURN_IF_ERROR(Expect("["));
  return List("]", [&]() -> absl::Status {
    if (out->size() >= kMaxRank) return Error("too many dimensions");
    ASSIGN_OR_RETURN(Sym s, Expression());
    out->push_back(s);
    return absl::OkStatus();
  });
}

absl::StatusOr<Device> TextParser::ParseDevice() {
  RETURN_IF_ERROR(Expect("device("));
  Device d;
  ASSIGN_OR_RETURN(d.type, String());
  if (Eat(",")) {
    ASSIGN_OR_RETURN(d.index, Integer<int64_t>());
  }
  RETURN_IF_ERROR(Expect(")"));
  return d;
}

absl::StatusOr<Type> TextParser::ParseType(bool* dense) {
  const std::string_view word = PeekWord();
  const size_t at = at_;
  at_ += word.size();
  Type t;
  *dense = false;
  if (Peek() == '(') {
    ++at_;
    if (word == "object") {
      t.kind = Type::kObject;
      ASSIGN_OR_RETURN(t.class_name, String());
    } else {
      t.kind = word == "i64"    ? Type::kSymInt
               : word == "f64"  ? Type::kSymFloat
               : word == "bool" ? Type::kSymBool
                                : Type::kNone;
      if (t.kind == Type::kNone) return ErrorAt(at, text::StrCat("unknown type '", word.substr(0, 100), "(…)'"));
      ASSIGN_OR_RETURN(t.expr, Expression());
    }
    RETURN_IF_ERROR(Expect(")"));
    return t;
  }
  if (Peek() != '[') {
    if (word == "none") return t;
    t.kind = word == "token" ? Type::kToken : word == "constant" ? Type::kConstant : Type::kNone;
    if (t.kind == Type::kNone) return ErrorAt(at, text::StrCat("unknown type '", word.substr(0, 100), "'"));
    return t;
  }
  auto dtype = DTypeFromName(word);
  if (!dtype && word != "unknown") return ErrorAt(at, text::StrCat("unknown dtype '", word.substr(0, 100), "'"));
  t = Type::Tensor(dtype.value_or(DType::kUnknown), {});
  RETURN_IF_ERROR(SizeList(&t.sizes));
  for (Sym s : t.sizes)
    if (s.is_constant() && *s.constant() < 0) return ErrorAt(at, "a negative size");
  t.strides_known = Peek() != '~';
  if (!t.strides_known) ++at_;
  *dense = t.strides_known;
  if (Peek() != '{') return t;
  ++at_;
  RETURN_IF_ERROR(List("}", [&]() -> absl::Status {
    if (Eat("strides=")) {
      *dense = false;
      RETURN_IF_ERROR(SizeList(&t.strides));
      if (t.strides_known && t.strides.size() != t.sizes.size()) return ErrorAt(at, "strides do not match sizes");
      return absl::OkStatus();
    }
    if (Eat("offset=")) {
      ASSIGN_OR_RETURN(t.storage_offset, Expression());
      return absl::OkStatus();
    }
    if (Eat("device=")) {
      ASSIGN_OR_RETURN(Device d, ParseDevice());
      auto& shared = devices_[d.index ? text::StrCat(d.type, ":", *d.index) : d.type];
      if (!shared) shared = std::make_shared<const Device>(std::move(d));
      t.device = shared;
      return absl::OkStatus();
    }
    if (Eat("layout=")) {
      ASSIGN_OR_RETURN(std::string name, Word());
      return Choose(kLayouts, name, "layout", &t.layout, at_);
    }
    if (!EatWord("grad")) return Error("strides, offset, device, layout or grad is expected");
    t.requires_grad = true;
    return absl::OkStatus();
  }));
  return t;
}

absl::Status TextParser::ParseGraph(size_t at) {
  ASSIGN_OR_RETURN(std::string name, Word());
  Graph* g;
  SubGraph keep;
  const bool root = name == "main";
  if (root) {
    if (has_main_) return ErrorAt(at, "there is a graph main already");
    has_main_ = true;
    g = p_->graph.get();
  } else {
    auto it = pending_.find(name);
    if (it == pending_.end())
      return ErrorAt(at, graphs_.contains(name) ? text::StrCat("there is a graph '", name, "' already")
                                                : text::StrCat("no graph before this mentions '", name, "'"));
    keep = it->second.graph;
    g = keep.get();
    pending_.erase(it);
  }
  graphs_.insert(name);
  RETURN_IF_ERROR(Expect("("));
  RETURN_IF_ERROR(List(")", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Definition d, ParseDefinition());
    RETURN_IF_ERROR(Define(*g, nullptr, std::move(d)));
    if (!root) return absl::OkStatus();
    InputSpec spec;
    if (Eat("=")) RETURN_IF_ERROR(ParseInputSpec(*g, &spec));
    p_->input_specs.push_back(std::move(spec));
    return absl::OkStatus();
  }));
  g->single_tensor_return = EatWord("single");
  RETURN_IF_ERROR(Expect("{"));
  while (!EatWord("return")) RETURN_IF_ERROR(ParseNode(*g));
  while (!Eat("}")) {
    ASSIGN_OR_RETURN(Arg a, ParseArg(*g));
    g->outputs.push_back(std::move(a));
    OutputSpec spec;
    if (root && EatWord("as")) {
      const size_t kind_at = at_;
      ASSIGN_OR_RETURN(std::string kind, Word());
      RETURN_IF_ERROR(Choose(kOutputKinds, kind, "kind of output", &spec.kind, kind_at));
      Space();
      if (Peek() == '$') {
        ASSIGN_OR_RETURN(spec.target, Name('$'));
      }
    }
    if (root) p_->output_specs.push_back(std::move(spec));
    if (Eat(",")) continue;
    RETURN_IF_ERROR(Expect("}"));
    break;
  }
  return absl::OkStatus();
}

absl::Status TextParser::ParseInputSpec(const Graph& g, InputSpec* spec) {
  const size_t at = at_;
  ASSIGN_OR_RETURN(std::string kind, Word());
  RETURN_IF_ERROR(Choose(kInputKinds, kind, "kind of input", &spec->kind, at));
  Space();
  if (Peek() == '$') {
    ASSIGN_OR_RETURN(spec->target, Name('$'));
  }
  if (EatWord("non_persistent")) spec->persistent = false;
  if (!Eat("(")) return absl::OkStatus();
  ASSIGN_OR_RETURN(spec->constant, ParseArg(g));
  return Expect(")");
}

absl::StatusOr<TextParser::Definition> TextParser::ParseDefinition() {
  Definition d;
  Space();
  d.at = at_;
  ASSIGN_OR_RETURN(d.name, Name('%'));
  if (d.name.empty()) return ErrorAt(d.at, "an empty name");
  RETURN_IF_ERROR(Expect(":"));
  Space();
  ASSIGN_OR_RETURN(d.type, ParseType(&d.dense));
  return d;
}

// Makes it an input, or a result of `n`.
absl::Status TextParser::Define(Graph& g, Node* n, Definition d) {
  if (g.FindValue(d.name)) return ErrorAt(d.at, text::StrCat("'%", d.name, "' is defined twice"));
  Value* v =
      n ? g.AddOutput(n, std::move(d.name), std::move(d.type)) : g.AddInput(std::move(d.name), std::move(d.type));
  if (d.dense) v->mutable_type().strides = DenseStrides(v->type().sizes);
  return absl::OkStatus();
}

// Results stand before the operator and are defined after it: a node cannot use what it makes.
absl::Status TextParser::ParseNode(Graph& g) {
  Space();
  if (AtEnd()) return Error("the graph does not end");
  std::vector<Definition> results;
  std::vector<int> groups;
  bool grouped = false;
  if (Peek() == '%' || Peek() == '[' || PeekWord() == "_") RETURN_IF_ERROR(ParseResults(&results, &groups, &grouped));
  ASSIGN_OR_RETURN(std::string op, Word());
  RETURN_IF_ERROR(Expect("("));
  std::vector<NamedArg> args;
  RETURN_IF_ERROR(List(")", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(NamedArg a, ParseNamedArg(g));
    args.push_back(std::move(a));
    return absl::OkStatus();
  }));
  Node* n = g.Insert(GetOp(op), std::move(args));
  for (Definition& d : results) {
    if (d.name.empty())
      g.AddNoneOutput(n);
    else
      RETURN_IF_ERROR(Define(g, n, std::move(d)));
  }
  if (grouped) n->set_groups(std::move(groups));
  Blank();
  if (text_.substr(at_).starts_with("->")) {
    at_ += 2;
    if (EatWord("single"))
      n->hop_single_return = true;
    else if (EatWord("tuple"))
      n->hop_single_return = false;
    else
      return Error("single or tuple is expected");
    Blank();
  }
  if (Peek() != ';') return absl::OkStatus();
  ++at_;
  Blank();
  if (Peek() == '#') {
    const size_t at = ++at_;
    ASSIGN_OR_RETURN(size_t id, Integer<size_t>());
    if (id >= sources_.size()) return ErrorAt(at, text::StrCat("there is no source #", id));
    n->set_source(sources_[id]);
  }
  while (!AtEnd() && Peek() != '\n') ++at_;
  return absl::OkStatus();
}

absl::Status TextParser::ParseResults(std::vector<Definition>* results, std::vector<int>* groups, bool* grouped) {
  auto one = [&]() -> absl::Status {
    if (EatWord("_")) return results->emplace_back(), absl::OkStatus();
    ASSIGN_OR_RETURN(Definition d, ParseDefinition());
    results->push_back(std::move(d));
    return absl::OkStatus();
  };
  do {
    if (Eat("[")) {
      const size_t before = results->size();
      RETURN_IF_ERROR(List("]", one));
      groups->push_back(static_cast<int>(results->size() - before));
      *grouped = true;
    } else {
      RETURN_IF_ERROR(one());
      groups->push_back(-1);
    }
  } while (Eat(","));
  if (EatWord("grouped")) *grouped = true;
  return Expect("=");
}

absl::StatusOr<NamedArg> TextParser::ParseNamedArg(const Graph& g) {
  NamedArg a;
  Space();
  const size_t begin = at_;
  const bool string = Peek() == '"';
  if (string || !PeekWord().empty()) {
    ASSIGN_OR_RETURN(a.name, Word());
  }
  if (Peek() == ':') {
    ++at_;
    if (EatWord("pos"))
      a.kind = 1;
    else if (EatWord("kw"))
      a.kind = 2;
    else {
      ASSIGN_OR_RETURN(int kind, Integer<int>());
      if (kind < -128 || kind > 127) return Error("unknown kind of argument");
      a.kind = static_cast<int8_t>(kind);
    }
    RETURN_IF_ERROR(Expect("="));
  } else if (Peek() == '=') {
    ++at_;
  } else {
    a.name.clear();
    at_ = begin;
  }
  ASSIGN_OR_RETURN(a.arg, ParseArg(g));
  return a;
}

absl::StatusOr<Value*> TextParser::UseValue(const Graph& g) {
  const size_t at = at_;
  ASSIGN_OR_RETURN(std::string name, Name('%'));
  Value* v = g.FindValue(name);
  if (!v) return ErrorAt(at, text::StrCat("'%", name, "' is used before it is defined"));
  return v;
}

// What is neither a list nor a marked list.
absl::StatusOr<Arg> TextParser::ParseScalar(const Graph& g) {
  Space();
  const size_t at = at_;
  const char c = Peek();
  if (c == '%') {
    ASSIGN_OR_RETURN(Value * v, UseValue(g));
    return Arg(v);
  }
  if (c == '"') {
    ASSIGN_OR_RETURN(std::string s, String());
    return Arg(std::move(s));
  }
  if (c == '@') {
    ASSIGN_OR_RETURN(std::string name, Name('@'));
    if (graphs_.contains(name)) return ErrorAt(at, text::StrCat("graph '", name, "' comes before its first use"));
    auto [it, added] = pending_.try_emplace(name, Pending{nullptr, at});
    if (added) it->second.graph = std::make_shared<Graph>(p_);
    return Arg(it->second.graph);
  }
  if (c == '-' || (c >= '0' && c <= '9')) {
    size_t end = at_ + 1;
    bool real = false;
    for (; end < text_.size(); ++end) {
      const char d = text_[end];
      if (d >= '0' && d <= '9') continue;
      if (d == '.' || d == 'e' || d == 'i' || d == 'n' || d == 'f' || ((d == '+' || d == '-') && text_[end - 1] == 'e'))
        real = true;
      else
        break;
    }
    if (!real) {
      ASSIGN_OR_RETURN(int64_t i, Integer<int64_t>());
      return Arg(i);
    }
    ASSIGN_OR_RETURN(double d, Real());
    return Arg(d);
  }
  const std::string_view word = PeekWord();
  if (word.empty()) return Error("a value is expected");
  if (word == "device") {
    ASSIGN_OR_RETURN(Device d, ParseDevice());
    return Arg(std::move(d));
  }
  at_ += word.size();
  if (word == "None") return Arg();
  if (word == "true" || word == "false") return Arg(word == "true");
  if (word == "inf") return Arg(std::numeric_limits<double>::infinity());
  if (word == "nan") return Arg(std::numeric_limits<double>::quiet_NaN());
  if (word == "complex") {
    RETURN_IF_ERROR(Expect("("));
    ASSIGN_OR_RETURN(double re, Real());
    RETURN_IF_ERROR(Expect(","));
    ASSIGN_OR_RETURN(double im, Real());
    RETURN_IF_ERROR(Expect(")"));
    return Arg(std::complex<double>(re, im));
  }
  if (word == "op") {
    RETURN_IF_ERROR(Expect("("));
    ASSIGN_OR_RETURN(std::string name, String());
    RETURN_IF_ERROR(Expect(")"));
    return Arg(OperatorName{std::move(name)});
  }
  if (auto dtype = DTypeFromName(word)) return Arg(*dtype);
  if (word == "unknown") return Arg(DType::kUnknown);
  MemoryFormat format;
  if (Find(kMemoryFormats, word, &format)) return Arg(format);
  Layout layout;
  if (Find(kLayouts, word, &layout)) return Arg(layout);
  return ErrorAt(at, text::StrCat("unknown word '", word.substr(0, 100), "'"));
}

absl::StatusOr<Arg> TextParser::ParseArg(const Graph& g) {
  Space();
  const size_t at = at_;
  if (Peek() == '[') return ParseList(g, "", at);
  for (std::string_view kind :
       {"values", "symints", "floats", "bools", "strings", "value_lists", "int_lists", "float_lists"}) {
    if (PeekWord() != kind || Peek(kind.size()) != '[') continue;
    at_ += kind.size();
    return ParseList(g, kind, at);
  }
  return ParseScalar(g);
}

absl::StatusOr<std::vector<Arg>> TextParser::Items(const Graph& g) {
  RETURN_IF_ERROR(Expect("["));
  std::vector<Arg> items;
  RETURN_IF_ERROR(List("]", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Arg a, ParseScalar(g));
    items.push_back(std::move(a));
    return absl::OkStatus();
  }));
  return items;
}

bool TextParser::AllAsValues(const std::vector<Arg>& items, Values* out) {
  for (const Arg& a : items) {
    if (!a.is_none() && !a.value()) return false;
    out->push_back(a.value());
  }
  return true;
}

bool TextParser::AllAsSymInts(const std::vector<Arg>& items, SymInts* out) {
  for (const Arg& a : items) {
    if (Value* v = a.value())
      out->push_back(v);
    else if (auto i = a.get<int64_t>())
      out->push_back(*i);
    else
      return false;
  }
  return true;
}

absl::StatusOr<Arg> TextParser::ParseList(const Graph& g, std::string_view kind, size_t at) {
  const size_t begin = at_;
  RETURN_IF_ERROR(Expect("["));
  Space();
  const bool nested = kind.ends_with("_lists") || Peek() == '[';
  at_ = begin;
  if (nested) return ParseNestedList(g, kind, at);
  ASSIGN_OR_RETURN(std::vector<Arg> items, Items(g));
  const bool any = kind.empty();
  {
    Ints x;
    if (any && AllAs(items, &x)) return Arg(std::move(x));
  }
  {
    Values x;
    if ((any || kind == "values") && AllAsValues(items, &x) && !(any && ReadsAsSymInts(x))) return Arg(std::move(x));
  }
  {
    SymInts x;
    if ((any || kind == "symints") && AllAsSymInts(items, &x)) {
      Arg a;
      a.v = std::move(x);
      return a;
    }
  }
  {
    std::vector<double> x;
    if ((any || kind == "floats") && AllAs(items, &x)) return Arg(std::move(x));
  }
  {
    std::vector<bool> x;
    if ((any || kind == "bools") && AllAs(items, &x)) return Arg(std::move(x));
  }
  {
    std::vector<std::string> x;
    if ((any || kind == "strings") && AllAs(items, &x)) return Arg(std::move(x));
  }
  return ErrorAt(at, "the items of the list do not go together");
}

absl::StatusOr<Arg> TextParser::ParseNestedList(const Graph& g, std::string_view kind, size_t at) {
  std::vector<std::vector<Arg>> lists;
  RETURN_IF_ERROR(Expect("["));
  RETURN_IF_ERROR(List("]", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<Arg> items, Items(g));
    lists.push_back(std::move(items));
    return absl::OkStatus();
  }));
  const bool any = kind.empty();
  bool ok = any || kind == "int_lists";
  std::vector<Ints> ints;
  for (const auto& items : lists) ok = ok && AllAs(items, &ints.emplace_back());
  if (ok) return Arg(std::move(ints));
  ok = any || kind == "float_lists";
  std::vector<std::vector<double>> floats;
  for (const auto& items : lists) ok = ok && AllAs(items, &floats.emplace_back());
  if (ok) return Arg(std::move(floats));
  ok = any || kind == "value_lists";
  std::vector<Values> values;
  for (const auto& items : lists) ok = ok && AllAsValues(items, &values.emplace_back());
  if (ok) return Arg(std::move(values));
  return ErrorAt(at, "the items of the lists do not go together");
}

}  // namespace slipway::ir::text_form

namespace slipway::ir {

bool LooksLikeText(std::string_view text) {
  return text.starts_with(text_form::kHeader) &&
         (text.size() == text_form::kHeader.size() || text[text_form::kHeader.size()] == '\n' ||
          text[text_form::kHeader.size()] == '\r');
}

absl::StatusOr<Archive> Parse(std::string_view text, const ParseOptions& options) {
  return text_form::TextParser(text, options).Run();
}

}  // namespace slipway::ir
