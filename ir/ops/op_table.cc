// Parsing of operator declarations, on demand. The data is sorted text inside the binary; a declaration is found by
// binary search over line starts indexed once, parsed when first asked for, and kept.
#include "ir/ops/op_table.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "base/text.h"
#include "schemas/embedded.h"

namespace slipway::ir {
namespace {

// Cursor over one declaration. The data ships with the binary, so a malformed line is a programming error; the tests
// parse every line.
struct Cursor {
  std::string_view s;
  void Space() { s = text::StripLeft(s); }
  bool Eat(std::string_view t) {
    Space();
    return text::ConsumePrefix(&s, t);
  }
  std::string_view Word() {
    Space();
    size_t n = 0;
    while (n < s.size() && (absl::ascii_isalnum(s[n]) || s[n] == '_' || s[n] == '.')) ++n;
    std::string_view w = s.substr(0, n);
    s.remove_prefix(n);
    return w;
  }
};

struct TypeText {
  std::string base;
  bool is_list = false, optional = false, element_optional = false, written = false;
  int list_size = 0;
  char alias = 0;
};

TypeText ParseType(Cursor& c) {
  TypeText t;
  if (c.Eat("(")) {  // a tuple type inside a declaration: kept as text
    int depth = 1;
    t.base += '(';
    while (depth && !c.s.empty()) {
      depth += c.s[0] == '(' ? 1 : c.s[0] == ')' ? -1 : 0;
      t.base += c.s[0];
      c.s.remove_prefix(1);
    }
  } else {
    t.base = std::string(c.Word());
    if (!c.s.empty() && c.s[0] == '(') {
      if (t.base == "Dict" || t.base == "Future") {
        int depth = 0;
        do {
          depth += c.s[0] == '(' ? 1 : c.s[0] == ')' ? -1 : 0;
          t.base += c.s[0];
          c.s.remove_prefix(1);
        } while (depth && !c.s.empty());
      }
    }
  }
  for (;;) {
    if (!c.s.empty() && c.s[0] == '(') {  // alias annotation: (a), (a!), (a -> *), (a|b)
      size_t close = c.s.find(')');
      std::string_view in = c.s.substr(1, close - 1);
      if (!in.empty()) t.alias = in[0];
      t.written = text::Contains(in, "!");
      c.s.remove_prefix(close + 1);
    } else if (!c.s.empty() && c.s[0] == '[') {
      size_t close = c.s.find(']');
      std::string_view n = c.s.substr(1, close - 1);
      if (t.is_list) t.base += "[]";  // nested list: int[][]
      if (!n.empty()) (void)text::ParseNumber(n, &t.list_size);
      t.is_list = true;
      c.s.remove_prefix(close + 1);
      if (t.optional) {
        t.element_optional = true;
        t.optional = false;
      }
    } else if (!c.s.empty() && c.s[0] == '?') {
      t.optional = true;
      c.s.remove_prefix(1);
    } else {
      return t;
    }
  }
}

Arg ParseDefault(Cursor& c, const TypeText& t) {
  c.Space();
  if (c.Eat("None")) return Arg();
  if (c.Eat("True")) return Arg(true);
  if (c.Eat("False")) return Arg(false);
  if (c.Eat("[")) {
    size_t close = c.s.find(']');
    std::string_view in = c.s.substr(0, close);
    std::vector<std::string_view> items = text::Split(in, ',', true);
    c.s.remove_prefix(close + 1);
    if (t.base == "Tensor") return Arg(Values{});
    if (t.base == "float") {
      std::vector<double> v(items.size());
      for (size_t i = 0; i < items.size(); ++i) (void)text::ParseNumber(text::Strip(items[i]), &v[i]);
      return Arg(v);
    }
    if (t.base == "bool") {
      std::vector<bool> v;
      for (auto item : items) v.push_back(text::Strip(item) == "True");
      return Arg(v);
    }
    Ints v(items.size());
    for (size_t i = 0; i < items.size(); ++i) (void)text::ParseNumber(text::Strip(items[i]), &v[i]);
    return Arg(v);
  }
  if (!c.s.empty() && (c.s[0] == '"' || c.s[0] == '\'')) {
    std::string text;
    size_t at = 1;
    for (; at < c.s.size() && c.s[at] != c.s[0]; ++at) {
      if (c.s[at] == '\\' && at + 1 < c.s.size()) ++at;  // torch escapes quotes and backslashes
      text += c.s[at];
    }
    c.s.remove_prefix(std::min(at + 1, c.s.size()));
    return Arg(text);
  }
  size_t n = 0;
  while (n < c.s.size() && c.s[n] != ',' && c.s[n] != ')') ++n;
  std::string_view word = text::Strip(c.s.substr(0, n));
  c.s.remove_prefix(n);
  int64_t i;
  double d;
  bool integer_like = text::ParseNumber(word, &i);
  if (t.base == "MemoryFormat" && word == "contiguous_format") return Arg(MemoryFormat::kContiguous);
  if (t.base == "ScalarType" && integer_like) {
    // Schemas print c10::ScalarType numbers: 4 is int64, 6 float32, 7 float64, 11 bool.
    switch (i) {
      case 4: return Arg(DType::kInt64);
      case 6: return Arg(DType::kFloat32);
      case 7: return Arg(DType::kFloat64);
      case 11: return Arg(DType::kBool);
      case 23: return Arg(DType::kFloat8E5M2);
      case 24: return Arg(DType::kFloat8E4M3FN);
      default: break;
    }
  }
  if (t.is_list && integer_like) return Arg(Ints(t.list_size > 0 ? t.list_size : 1, i));
  if (t.base == "float" && text::ParseNumber(word, &d)) return Arg(d);
  if (integer_like) return Arg(i);
  if (text::ParseNumber(word, &d)) return Arg(d);
  return Arg(std::string(word));
}

void SplitName(OpDef& op) {
  std::string_view n = op.name;
  // Overload ops have the form ns.base.overload; _operator, math and torch functions have none.
  size_t first = n.find('.'), last = n.rfind('.');
  op.ns = n.substr(0, first == std::string_view::npos ? 0 : first);
  if (first == last || op.ns == "torch") {
    op.base = n.substr(first == std::string_view::npos ? 0 : first + 1);
    op.overload = {};
  } else {
    op.base = n.substr(first + 1, last - first - 1);
    op.overload = n.substr(last + 1);
  }
}

void ParseDeclaration(std::string_view line, OpDef& op) {
  Cursor c{line.substr(op.name.size())};
  c.Eat("(");
  bool keyword_only = false;
  for (size_t left = line.size() + 1; !c.Eat(")") && c.s.size() < left;) {  // ends too where a text is not understood
    left = c.s.size();
    if (c.Eat(",")) continue;
    c.Space();
    if (c.Eat("*")) {
      keyword_only = true;
      continue;
    }
    TypeText t = ParseType(c);
    ArgDef a;
    a.name = std::string(c.Word());
    a.type = t.base;
    a.is_list = t.is_list;
    a.list_size = t.list_size;
    a.optional = t.optional;
    a.element_optional = t.element_optional;
    a.alias = t.alias;
    a.written = t.written;
    a.keyword_only = keyword_only;
    if (c.Eat("=")) {
      a.has_default = true;
      a.default_value = ParseDefault(c, t);
    }
    op.args.push_back(std::move(a));
  }
  if (!c.Eat("->")) return;
  bool tuple = c.Eat("(");
  while (!c.s.empty()) {
    if (tuple && c.Eat(")")) break;
    if (c.Eat(",")) continue;
    TypeText t = ParseType(c);
    if (t.base.empty()) break;
    ReturnDef r;
    r.type = t.base;
    r.is_list = t.is_list;
    r.alias = t.alias;
    r.written = t.written;
    if (tuple) c.Word();  // optional result name
    op.returns.push_back(std::move(r));
    if (!tuple) break;
  }
}

class Table {
 public:
  Table() {
    for (std::string_view text : {schemas::OpSchemas(), schemas::OpSchemasExtra()}) {
      for (std::string_view line : text::Split(text, '\n')) {
        if (line.empty()) continue;
        if (line[0] == '#') {
          if (size_t at = line.find("torch "); version_.empty() && at != std::string_view::npos) {
            std::string_view v = line.substr(at + 6);
            version_ = v.substr(0, v.find_first_not_of("0123456789."));
          }
          continue;
        }
        size_t paren = line.find('(');
        if (paren == std::string_view::npos) continue;
        std::string_view name = line.substr(0, paren);
        names_.push_back(name);
        lines_.try_emplace(name, line);
      }
    }
    for (std::string_view line : text::Split(schemas::OpTraitLines(), '\n', true))
      if (const size_t space = line.find(' '); line[0] != '#' && space != std::string_view::npos)
        traits_.try_emplace(line.substr(0, space), line.substr(space));
  }

  const OpDef* Find(std::string_view name, bool make_unknown) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto it = parsed_.find(name); it != parsed_.end())
      return it->second->known || make_unknown ? it->second : nullptr;
    auto line = lines_.find(name);
    bool variadic = name.starts_with("higher_order.");
    if (line == lines_.end() && !make_unknown && !variadic) return nullptr;
    OpDef& op = ops_.emplace_back();
    op.name = std::string(name);
    SplitName(op);
    op.variadic = variadic;
    op.known = line != lines_.end() || variadic;
    if (line != lines_.end()) ParseDeclaration(line->second, op);
    auto traits = traits_.find(op.name);
    if (traits == traits_.end()) traits = traits_.find(text::StrCat(op.ns, ".", op.base));
    if (traits != traits_.end()) op.traits = ParseOpTraits(traits->second).value_or(OpTraits());
    parsed_[op.name] = &op;
    return &op;
  }

  const std::vector<std::string_view>& names() const { return names_; }
  std::string_view version() const { return version_; }

 private:
  std::mutex mutex_;
  std::string_view version_;
  std::vector<std::string_view> names_;
  text::ViewMap<std::string_view> lines_;
  text::ViewMap<std::string_view> traits_;  // by full name, or by namespace and base
  text::ViewMap<const OpDef*> parsed_;
  std::deque<OpDef> ops_;
};

Table& TheTable() {
  static Table& table = *new Table();
  return table;
}

}  // namespace

int OpDef::ArgIndex(std::string_view arg) const {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == arg) return static_cast<int>(i);
  return -1;
}
bool OpDef::mutates() const {
  return std::any_of(args.begin(), args.end(), [](const ArgDef& a) { return a.written; });
}
bool OpDef::is_view() const {
  return !mutates() && std::any_of(returns.begin(), returns.end(), [](const ReturnDef& r) { return r.alias != 0; });
}

const OpDef& GetOp(std::string_view name) { return *TheTable().Find(name, /*make_unknown=*/true); }
const OpDef* FindOp(std::string_view name) { return TheTable().Find(name, /*make_unknown=*/false); }

std::string OpNameFromTarget(std::string_view target) {
  text::ConsumePrefix(&target, "torch.ops.");
  return std::string(target);
}
std::string TargetFromOpName(std::string_view name) {
  for (std::string_view own : {"_operator.", "math.", "torch.", "#"})
    if (name.starts_with(own)) return std::string(name);
  return text::StrCat("torch.ops.", name);
}

std::vector<std::string_view> AllOps() { return TheTable().names(); }
std::string_view OpTableTorchVersion() { return TheTable().version(); }

}  // namespace slipway::ir
