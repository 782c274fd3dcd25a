// The text form's parser: recursive descent over the text, no deeper than the grammar (a list in a list). Texts may
// come
// from anyone: names are checked before use, sizes before arithmetic, and a graph may mention only graphs that follow
// it, so graphs cannot contain one another.
#include <charconv>
#include <limits>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "io/mapped_file.h"
#include "ir/ops/op_table.h"
#include "ir/text.h"
#include "ir/text_internal.h"

namespace slipway::ir {
namespace {

using namespace text_form;  // NOLINT: this file and print.cc are its users

constexpr uint64_t kMaxText = uint64_t{1} << 32;
constexpr size_t kMaxRank = 64;
constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options) : text_(text), options_(options) {}

  absl::StatusOr<Archive> Run() {
    absl::Status s = ParseArchive();
    if (!s.ok()) return s;
    return std::move(archive_);
  }

 private:
  struct Bounds {
    std::optional<int64_t> min, max;
  };
  struct Pending {  // a subgraph that was mentioned and is not there yet
    SubGraph graph;
    size_t at;
  };

  std::string_view text_;
  const ParseOptions& options_;
  size_t at_ = 0;
  Archive archive_;
  std::vector<std::shared_ptr<const Storage>> storages_;
  std::map<std::string, std::shared_ptr<io::MappedFile>, std::less<>> files_;

  // Of the program at hand.
  Program* p_ = nullptr;
  text::Map<Sym> exprs_;
  text::Map<Pending> pending_;
  text::Set graphs_;
  text::Map<std::shared_ptr<const Device>> devices_;
  std::vector<std::shared_ptr<const Source>> sources_;
  bool has_main_ = false;

  // ---- characters and words

  absl::Status ErrorAt(size_t at, std::string_view message,
                       absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    size_t line = 1, begin = 0;
    for (size_t i = 0; i < at && i < text_.size(); ++i)
      if (text_[i] == '\n') {
        ++line;
        begin = i + 1;
      }
    return absl::Status(code, text::StrCat(options_.name, ":", line, ":", at - begin + 1, ": ", message));
  }
  absl::Status Error(std::string_view message) const { return ErrorAt(at_, message); }

  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool AtEnd() const { return at_ >= text_.size(); }

  void Blank() {
    while (Peek() == ' ' || Peek() == '\t') ++at_;
  }
  // Past spaces, line ends and remarks.
  void Space() {
    for (;;) {
      while (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r') ++at_;
      if (Peek() != ';') return;
      while (!AtEnd() && Peek() != '\n') ++at_;
    }
  }
  bool Eat(std::string_view token) {
    Space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  absl::Status Expect(std::string_view token) {
    if (Eat(token)) return absl::OkStatus();
    return Error(text::StrCat("'", token, "' is expected"));
  }
  // The plain word here, "" where there is none. Does not move.
  std::string_view PeekWord() {
    Space();
    size_t end = at_;
    while (end < text_.size() && IsNameChar(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool EatWord(std::string_view word) {
    if (PeekWord() != word) return false;
    at_ += word.size();
    return true;
  }
  absl::StatusOr<std::string> String() {
    Space();
    if (Peek() != '"') return Error("a string in double quotes is expected");
    std::string out;
    for (++at_; Peek() != '"'; ++at_) {
      if (AtEnd() || Peek() == '\n') return Error("the string does not end");
      if (Peek() != '\\') {
        out += Peek();
        continue;
      }
      switch (Peek(1)) {
        case 'n': out += '\n'; break;
        case 't': out += '\t'; break;
        case '"':
        case '\\': out += Peek(1); break;
        case 'x': {
          int value = 0;
          auto [end, error] =
              std::from_chars(text_.data() + at_ + 2, text_.data() + std::min(at_ + 4, text_.size()), value, 16);
          if (error != std::errc() || end != text_.data() + at_ + 4 || value < 0)
            return Error("\\x wants two hexadecimal digits");
          out += static_cast<char>(value);
          at_ += 2;
          break;
        }
        default: return Error("unknown escape");
      }
      ++at_;
    }
    ++at_;
    return out;
  }
  // A plain or quoted word.
  absl::StatusOr<std::string> Word() {
    Space();
    if (Peek() == '"') return String();
    std::string_view w = PeekWord();
    if (w.empty()) return Error("a word is expected");
    at_ += w.size();
    return std::string(w);
  }
  absl::StatusOr<std::string> Name(char sigil) {
    Space();
    if (Peek() != sigil) return Error(text::StrCat("'", std::string(1, sigil), "' and a name are expected"));
    ++at_;
    if (Peek() != '"' && !IsNameChar(Peek())) return Error("a name is expected");
    return Word();
  }
  template <typename T>
  absl::StatusOr<T> Integer() {
    Space();
    T value;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) return Error("the number is too large");
    if (error != std::errc()) return Error("an integer is expected");
    at_ = end - text_.data();
    return value;
  }
  absl::StatusOr<double> Real() {
    Space();
    double value;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) return Error("the number is too large");
    if (error != std::errc()) return Error("a number is expected");
    at_ = end - text_.data();
    return value;
  }
  absl::StatusOr<Bounds> Range() {
    Bounds b;
    for (std::optional<int64_t>* bound : {&b.min, &b.max}) {
      if (bound == &b.max) RETURN_IF_ERROR(Expect(".."));
      if (Eat("?")) continue;
      if (Eat("-inf"))
        *bound = kMin;
      else if (Eat("inf"))
        *bound = kMax;
      else {
        ASSIGN_OR_RETURN(*bound, Integer<int64_t>());
      }
    }
    return b;
  }
  // `element` for each item up to `close`; a comma may follow the last.
  template <typename F>
  absl::Status List(std::string_view close, F element) {
    while (!Eat(close)) {
      RETURN_IF_ERROR(element());
      if (Eat(",")) continue;
      return Expect(close);
    }
    return absl::OkStatus();
  }

  // ---- the archive

  absl::Status ParseArchive() {
    if (text_.size() > kMaxText) return Error("the text is too long");
    if (!LooksLikeText(text_)) return Error(text::StrCat("the first line is not '", kHeader, "'"));
    at_ = kHeader.size();
    for (Space(); !AtEnd(); Space()) {
      const size_t at = at_;
      const std::string_view word = PeekWord();
      if (word.empty()) return Error("a statement is expected");
      at_ += word.size();
      if (!p_) {
        if (word == "producer") {
          ASSIGN_OR_RETURN(archive_.producer, String());
          continue;
        }
        if (word == "extra_file") {
          ASSIGN_OR_RETURN(std::string name, String());
          RETURN_IF_ERROR(Expect("="));
          ASSIGN_OR_RETURN(std::string content, String());
          if (!archive_.extra_files.emplace(std::move(name), std::move(content)).second)
            return ErrorAt(at, "the extra file is there already");
          continue;
        }
        if (word == "storages") {
          RETURN_IF_ERROR(ParseStorages());
          continue;
        }
      }
      if (word == "program") {
        RETURN_IF_ERROR(Finish());
        ASSIGN_OR_RETURN(std::string name, Word());
        RETURN_IF_ERROR(Start(std::move(name), at));
        continue;
      }
      if (!p_) RETURN_IF_ERROR(Start("model", at));
      RETURN_IF_ERROR(ParseStatement(word, at));
    }
    if (!p_) return Error("there is no program");
    return Finish();
  }

  absl::Status ParseStorages() {
    RETURN_IF_ERROR(Expect("{"));
    while (!Eat("}")) {
      const size_t at = at_;
      ASSIGN_OR_RETURN(size_t id, StorageId());
      if (id != storages_.size()) return ErrorAt(at, text::StrCat("storage s", storages_.size(), " is expected"));
      RETURN_IF_ERROR(Expect("="));
      const size_t place = at_;
      ASSIGN_OR_RETURN(Storage s, Place());
      RETURN_IF_ERROR(Expect(":"));
      ASSIGN_OR_RETURN(uint64_t size, Integer<uint64_t>());
      RETURN_IF_ERROR(Fit(s, size, place));
      storages_.push_back(std::make_shared<const Storage>(std::move(s)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> StorageId() {
    RETURN_IF_ERROR(Expect("s"));
    return Integer<size_t>();
  }
  absl::StatusOr<std::shared_ptr<const Storage>> UseStorage() {
    const size_t at = at_;
    ASSIGN_OR_RETURN(size_t id, StorageId());
    if (id >= storages_.size()) return ErrorAt(at, text::StrCat("there is no storage s", id));
    return storages_[id];
  }

  absl::StatusOr<std::shared_ptr<io::MappedFile>> File(const std::string& path, size_t at) {
    std::shared_ptr<io::MappedFile>& file = files_[path];
    if (file) return file;
    if (!options_.allow_outside) {
      bool leaves = path.starts_with("/");
      for (std::string_view part : text::Split(path, '/')) leaves |= part == "..";
      if (leaves) return ErrorAt(at, text::StrCat("'", path, "' leaves the folder of the text"));
    }
    if (text::Contains(path, std::string_view("\0", 1))) return ErrorAt(at, "a path with a NUL");
    const bool relative = !path.starts_with("/") && !options_.base.empty();
    auto opened = io::MappedFile::Open(relative ? text::StrCat(options_.base, "/", path) : path);
    if (!opened.ok()) return ErrorAt(at, text::FromAbsl(opened.status().message()), opened.status().code());
    return file = *std::move(opened);
  }

  // Where bytes are. Their number is not known yet: Fit() follows.
  absl::StatusOr<Storage> Place() {
    Storage s;
    Space();
    const size_t at = at_;
    if (Peek() == '"') {
      ASSIGN_OR_RETURN(std::string path, String());
      RETURN_IF_ERROR(Expect("+"));
      ASSIGN_OR_RETURN(uint64_t offset, Integer<uint64_t>());
      ASSIGN_OR_RETURN(auto file, File(path, at));
      s.bytes = io::Bytes(io::FileRange{std::move(file), offset, 0});
    } else if (EatWord("splat")) {
      RETURN_IF_ERROR(Expect("("));
      ASSIGN_OR_RETURN(double value, Real());
      RETURN_IF_ERROR(Expect(")"));
      s.bytes = Splat{value};
    } else if (EatWord("random")) {
      RETURN_IF_ERROR(Expect("("));
      RETURN_IF_ERROR(Expect("seed"));
      RETURN_IF_ERROR(Expect("="));
      ASSIGN_OR_RETURN(uint64_t seed, Integer<uint64_t>());
      RETURN_IF_ERROR(Expect(")"));
      s.bytes = Random{seed};
    } else if (EatWord("base64")) {
      RETURN_IF_ERROR(Expect("("));
      ASSIGN_OR_RETURN(std::string coded, String());
      RETURN_IF_ERROR(Expect(")"));
      std::string bytes;
      if (!absl::Base64Unescape(coded, &bytes)) return ErrorAt(at, "the string is not base64");
      s.bytes = io::Bytes::Of(std::move(bytes));
    } else if (EatWord("elided")) {
      return ErrorAt(at, "the bytes were left out when this was printed");
    } else {
      return Error("a place of bytes is expected: \"FILE\"+OFFSET, splat(…), random(seed=…) or base64(…)");
    }
    return s;
  }

  absl::Status Fit(Storage& s, uint64_t size, size_t at) {
    s.size = size;
    io::Bytes* b = std::get_if<io::Bytes>(&s.bytes);
    if (!b) return absl::OkStatus();
    if (const io::FileRange* r = b->file_range()) {
      if (r->offset > r->file->size() || size > r->file->size() - r->offset)
        return ErrorAt(at, text::StrCat("bytes ", r->offset, " + ", size, " run past the end of ", r->file->path(),
                                        " (", r->file->size(), " bytes)"));
      s.bytes = io::Bytes(io::FileRange{r->file, r->offset, size});
    } else if (b->size() != size) {
      return ErrorAt(at, text::StrCat("there are ", b->size(), " bytes, not ", size));
    }
    return absl::OkStatus();
  }

  // ---- a program

  absl::Status Start(std::string name, size_t at) {
    for (const auto& other : archive_.programs)
      if (other->name == name) return ErrorAt(at, text::StrCat("there is a program '", name, "' already"));
    archive_.programs.push_back(std::make_unique<Program>());
    p_ = archive_.programs.back().get();
    p_->name = std::move(name);
    exprs_.clear();
    pending_.clear();
    graphs_.clear();
    devices_.clear();
    sources_.clear();
    has_main_ = false;
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (!p_) return absl::OkStatus();
    if (!has_main_) return Error(text::StrCat("program '", p_->name, "' has no graph main"));
    const Pending* missing = nullptr;
    for (const auto& [name, pending] : pending_)
      if (!missing || pending.at < missing->at) missing = &pending;
    if (missing) return ErrorAt(missing->at, "the graph is mentioned and does not follow");
    return absl::OkStatus();
  }

  absl::Status ParseStatement(std::string_view word, size_t at) {
    if (word == "graph") return ParseGraph(at);
    if (word == "dims") return ParseDims();
    if (word == "weights") return ParseWeights();
    if (word == "sources") return ParseSources();
    if (word == "object") return ParseObject(at);
    if (word == "form") {
      ASSIGN_OR_RETURN(std::string form, Word());
      return Choose(kForms, form, "form", &p_->form, at);
    }
    if (word == "schema") {
      ASSIGN_OR_RETURN(p_->schema_major, Integer<int>());
      ASSIGN_OR_RETURN(p_->schema_minor, Integer<int>());
      return absl::OkStatus();
    }
    if (word == "range") {
      ASSIGN_OR_RETURN(std::string key, String());
      RETURN_IF_ERROR(Expect("="));
      ASSIGN_OR_RETURN(Bounds b, Range());
      p_->range_constraints.emplace_back(std::move(key), RangeConstraint{b.min, b.max});
      return absl::OkStatus();
    }
    const std::pair<std::string_view, std::string*> fields[] = {
        {"torch", &p_->torch_version},
        {"dialect", &p_->verifier_dialect},
        {"in_spec", &p_->in_spec},
        {"out_spec", &p_->out_spec},
        {"module_calls", &p_->module_call_graph_json},
        {"namedtuples", &p_->namedtuple_fields_json},
    };
    for (auto [name, field] : fields) {
      if (word != name) continue;
      ASSIGN_OR_RETURN(*field, String());
      return absl::OkStatus();
    }
    if (word == "guard" || word == "forward_arg") {
      ASSIGN_OR_RETURN(std::string s, String());
      (word == "guard" ? p_->guards : p_->forward_arg_names).push_back(std::move(s));
      return absl::OkStatus();
    }
    return ErrorAt(at, text::StrCat("unknown statement '", word.substr(0, 100), "'"));
  }

  // The value of an enumeration by its place among `names`.
  template <size_t N, typename E>
  static bool Find(const std::string_view (&names)[N], std::string_view word, E* out) {
    for (size_t i = 0; i < N; ++i) {
      if (names[i] != word) continue;
      *out = static_cast<E>(i);
      return true;
    }
    return false;
  }
  template <size_t N, typename E>
  absl::Status Choose(const std::string_view (&names)[N], std::string_view word, std::string_view what, E* out,
                      size_t at) {
    if (Find(names, word, out)) return absl::OkStatus();
    return ErrorAt(at, text::StrCat("unknown ", what, " '", word.substr(0, 100), "'"));
  }

  absl::Status ParseDims() {
    RETURN_IF_ERROR(Expect("{"));
    while (!Eat("}")) {
      const size_t at = at_;
      SymbolInfo s;
      ASSIGN_OR_RETURN(s.name, Word());
      if (p_->syms->FindSymbol(s.name)) return ErrorAt(at, text::StrCat("dim '", s.name, "' is there already"));
      RETURN_IF_ERROR(Expect("="));
      ASSIGN_OR_RETURN(Bounds b, Range());
      if (b.min) s.range.min = *b.min;
      if (b.max) s.range.max = *b.max;
      if (s.range.min > s.range.max) return ErrorAt(at, "the range is empty");
      s.positive = EatWord("positive");
      absl::Status status = p_->syms->DeclareRange(s.name, s.range);
      if (status.ok() && s.positive) status = p_->syms->SetPositive(s.name);
      if (!status.ok()) return ErrorAt(at, text::FromAbsl(status.message()));
      if (EatWord("hint")) {
        ASSIGN_OR_RETURN(s.hint, Integer<int64_t>());
        p_->syms->SetHint(s.name, *s.hint);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseWeights() {
    RETURN_IF_ERROR(Expect("{"));
    while (!Eat("}")) {
      const size_t at = at_;
      ASSIGN_OR_RETURN(std::string name, Name('$'));
      RETURN_IF_ERROR(Expect(":"));
      TensorRef t;
      const std::string_view dtype = PeekWord();
      auto d = DTypeFromName(dtype);
      if (!d) return Error(text::StrCat("unknown dtype '", dtype.substr(0, 100), "'"));
      at_ += dtype.size();
      t.dtype = *d;
      RETURN_IF_ERROR(Naturals(&t.sizes));
      if (Eat("{")) {
        RETURN_IF_ERROR(Expect("strides="));
        RETURN_IF_ERROR(Naturals(&t.strides));
        RETURN_IF_ERROR(Expect("}"));
      }
      // Sizes are checked against unlimited room before any arithmetic on them.
      auto unlimited = std::make_shared<Storage>();
      unlimited->size = std::numeric_limits<uint64_t>::max();
      t.storage = unlimited;
      if (t.strides.empty()) {
        t.strides.assign(t.sizes.size(), 0);
        RETURN_IF_ERROR(Check(t, at));
        t.strides = ContiguousStrides(t.sizes);
      }
      RETURN_IF_ERROR(Check(t, at));
      RETURN_IF_ERROR(Expect("@"));
      Space();
      if (Peek() == 's' && Peek(1) >= '0' && Peek(1) <= '9') {
        ASSIGN_OR_RETURN(t.storage, UseStorage());
        RETURN_IF_ERROR(Expect("+"));
        ASSIGN_OR_RETURN(t.offset, Integer<int64_t>());
      } else {
        const size_t place = at_;
        ASSIGN_OR_RETURN(Storage s, Place());
        RETURN_IF_ERROR(Fit(s, static_cast<uint64_t>(t.nbytes()), place));
        t.storage = std::make_shared<const Storage>(std::move(s));
      }
      RETURN_IF_ERROR(Check(t, at));
      if (!p_->weights.emplace(std::move(name), std::move(t)).second) return ErrorAt(at, "the weight is there already");
    }
    return absl::OkStatus();
  }
  absl::Status Check(const TensorRef& t, size_t at) {
    absl::Status s = Validate(t);
    return s.ok() ? s : ErrorAt(at, text::FromAbsl(s.message()));
  }
  absl::Status Naturals(std::vector<int64_t>* out) {
    RETURN_IF_ERROR(Expect("["));
    return List("]", [&]() -> absl::Status {
      ASSIGN_OR_RETURN(int64_t n, Integer<int64_t>());
      if (n < 0) return Error("a negative size");
      if (out->size() >= kMaxRank) return Error("too many dimensions");
      out->push_back(n);
      return absl::OkStatus();
    });
  }

  absl::Status ParseObject(size_t at) {
    ASSIGN_OR_RETURN(std::string name, Name('$'));
    RETURN_IF_ERROR(Expect("="));
    ASSIGN_OR_RETURN(auto storage, UseStorage());
    ASSIGN_OR_RETURN(std::string member, String());
    if (!p_->objects.emplace(std::move(name), std::pair(std::move(storage), std::move(member))).second)
      return ErrorAt(at, "the object is there already");
    return absl::OkStatus();
  }

  absl::Status ParseSources() {
    RETURN_IF_ERROR(Expect("{"));
    while (!Eat("}")) {
      RETURN_IF_ERROR(Expect("#"));
      const size_t at = at_;
      ASSIGN_OR_RETURN(size_t id, Integer<size_t>());
      if (id != sources_.size()) return ErrorAt(at, text::StrCat("source #", sources_.size(), " is expected"));
      auto s = std::make_shared<Source>();
      RETURN_IF_ERROR(Expect("{"));
      RETURN_IF_ERROR(List("}", [&]() -> absl::Status {
        const bool quoted = (Space(), Peek() == '"');
        ASSIGN_OR_RETURN(std::string key, Word());
        RETURN_IF_ERROR(Expect("="));
        ASSIGN_OR_RETURN(std::string value, String());
        if (quoted)
          s->other.emplace_back(std::move(key), std::move(value));
        else if (key == "stack")
          s->stack_trace = std::move(value);
        else if (key == "modules")
          s->nn_module_stack = std::move(value);
        else if (key == "fn")
          s->torch_fn = std::move(value);
        else
          return Error(text::StrCat("unknown field '", key, "' of a source"));
        return absl::OkStatus();
      }));
      sources_.push_back(std::move(s));
    }
    return absl::OkStatus();
  }

  // ---- types

  // The expression up to a comma or closing bracket of its own level.
  absl::StatusOr<Sym> Expression() {
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
      return ErrorAt(
          begin, text::StrCat("expression '", text.substr(0, 200), "': ", text::FromAbsl(parsed.status().message())));
    exprs_.emplace(std::string(text), *parsed);
    return *parsed;
  }

  absl::Status SizeList(Sizes* out) {
    RETURN_IF_ERROR(Expect("["));
    return List("]", [&]() -> absl::Status {
      if (out->size() >= kMaxRank) return Error("too many dimensions");
      ASSIGN_OR_RETURN(Sym s, Expression());
      out->push_back(s);
      return absl::OkStatus();
    });
  }

  absl::StatusOr<Device> ParseDevice() {
    RETURN_IF_ERROR(Expect("device("));
    Device d;
    ASSIGN_OR_RETURN(d.type, String());
    if (Eat(",")) {
      ASSIGN_OR_RETURN(d.index, Integer<int64_t>());
    }
    RETURN_IF_ERROR(Expect(")"));
    return d;
  }

  absl::StatusOr<Type> ParseType(bool* dense) {
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

  // ---- graphs

  absl::Status ParseGraph(size_t at) {
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

  absl::Status ParseInputSpec(const Graph& g, InputSpec* spec) {
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

  // What is defined: "%name: type", or "_" for a result that is None.
  struct Definition {
    std::string name;  // empty: None
    Type type;
    bool dense = false;
    size_t at = 0;
  };
  absl::StatusOr<Definition> ParseDefinition() {
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
  absl::Status Define(Graph& g, Node* n, Definition d) {
    if (g.FindValue(d.name)) return ErrorAt(d.at, text::StrCat("'%", d.name, "' is defined twice"));
    Value* v =
        n ? g.AddOutput(n, std::move(d.name), std::move(d.type)) : g.AddInput(std::move(d.name), std::move(d.type));
    if (d.dense) v->mutable_type().strides = DenseStrides(v->type().sizes);
    return absl::OkStatus();
  }

  // Results stand before the operator and are defined after it: a node cannot use what it makes.
  absl::Status ParseNode(Graph& g) {
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

  absl::Status ParseResults(std::vector<Definition>* results, std::vector<int>* groups, bool* grouped) {
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

  // ---- arguments

  absl::StatusOr<NamedArg> ParseNamedArg(const Graph& g) {
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

  absl::StatusOr<Value*> UseValue(const Graph& g) {
    const size_t at = at_;
    ASSIGN_OR_RETURN(std::string name, Name('%'));
    Value* v = g.FindValue(name);
    if (!v) return ErrorAt(at, text::StrCat("'%", name, "' is used before it is defined"));
    return v;
  }

  // What is neither a list nor a marked list.
  absl::StatusOr<Arg> ParseScalar(const Graph& g) {
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
        if (d == '.' || d == 'e' || d == 'i' || d == 'n' || d == 'f' ||
            ((d == '+' || d == '-') && text_[end - 1] == 'e'))
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

  absl::StatusOr<Arg> ParseArg(const Graph& g) {
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

  absl::StatusOr<std::vector<Arg>> Items(const Graph& g) {
    RETURN_IF_ERROR(Expect("["));
    std::vector<Arg> items;
    RETURN_IF_ERROR(List("]", [&]() -> absl::Status {
      ASSIGN_OR_RETURN(Arg a, ParseScalar(g));
      items.push_back(std::move(a));
      return absl::OkStatus();
    }));
    return items;
  }

  // All items as T; false where one is another kind.
  template <typename T>
  static bool AllAs(const std::vector<Arg>& items, std::vector<T>* out) {
    for (const Arg& a : items) {
      auto x = a.get<T>();
      if (!x) return false;
      out->push_back(*x);
    }
    return true;
  }
  static bool AllAsValues(const std::vector<Arg>& items, Values* out) {
    for (const Arg& a : items) {
      if (!a.is_none() && !a.value()) return false;
      out->push_back(a.value());
    }
    return true;
  }
  static bool AllAsSymInts(const std::vector<Arg>& items, SymInts* out) {
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

  absl::StatusOr<Arg> ParseList(const Graph& g, std::string_view kind, size_t at) {
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

  absl::StatusOr<Arg> ParseNestedList(const Graph& g, std::string_view kind, size_t at) {
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
};

}  // namespace

bool LooksLikeText(std::string_view text) {
  return text.starts_with(kHeader) &&
         (text.size() == kHeader.size() || text[kHeader.size()] == '\n' || text[kHeader.size()] == '\r');
}

absl::StatusOr<Archive> Parse(std::string_view text, const ParseOptions& options) {
  return Parser(text, options).Run();
}

}  // namespace slipway::ir
