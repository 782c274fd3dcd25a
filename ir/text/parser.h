// The text form's parser: recursive descent over the text, no deeper than the grammar (a list in a list). Texts may
// come from anyone: names are checked before use, sizes before arithmetic, and a graph may mention only graphs that
// follow it, so graphs cannot contain one another. The methods are in lex.cc, parse_archive.cc and parse_graph.cc.
#ifndef SLIPWAY_IR_TEXT_PARSER_H_
#define SLIPWAY_IR_TEXT_PARSER_H_

#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "io/mapped_file.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "ir/text/internal.h"

namespace slipway::ir::text_form {

class TextParser {
 public:
  TextParser(std::string_view text, const ParseOptions& options) : text_(text), options_(options) {}

  absl::StatusOr<Archive> Run();

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
                       absl::StatusCode code = absl::StatusCode::kInvalidArgument) const;
  absl::Status Error(std::string_view message) const { return ErrorAt(at_, message); }

  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool AtEnd() const { return at_ >= text_.size(); }

  void Blank();
  void Space();
  bool Eat(std::string_view token);
  absl::Status Expect(std::string_view token);
  std::string_view PeekWord();
  bool EatWord(std::string_view word);
  absl::StatusOr<std::string> String();
  absl::StatusOr<std::string> Word();
  absl::StatusOr<std::string> Name(char sigil);
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
  absl::StatusOr<double> Real();
  absl::StatusOr<Bounds> Range();
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

  absl::Status ParseArchive();
  absl::Status ParseStorages();
  absl::StatusOr<size_t> StorageId();
  absl::StatusOr<std::shared_ptr<const Storage>> UseStorage();
  absl::StatusOr<std::shared_ptr<io::MappedFile>> File(const std::string& path, size_t at);
  absl::StatusOr<Storage> Place();
  absl::Status Fit(Storage& s, uint64_t size, size_t at);

  // ---- a program

  absl::Status Start(std::string name, size_t at);
  absl::Status Finish();
  absl::Status ParseStatement(std::string_view word, size_t at);

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

  absl::Status ParseDims();
  absl::Status ParseWeights();
  absl::Status Check(const TensorRef& t, size_t at);
  absl::Status Naturals(std::vector<int64_t>* out);
  absl::Status ParseObject(size_t at);
  absl::Status ParseSources();

  // ---- types

  absl::StatusOr<Sym> Expression();
  absl::Status SizeList(Sizes* out);
  absl::StatusOr<Device> ParseDevice();
  absl::StatusOr<Type> ParseType(bool* dense);

  // ---- graphs

  absl::Status ParseGraph(size_t at);
  absl::Status ParseInputSpec(const Graph& g, InputSpec* spec);

  // What is defined: "%name: type", or "_" for a result that is None.
  struct Definition {
    std::string name;  // empty: None
    Type type;
    bool dense = false;
    size_t at = 0;
  };
  absl::StatusOr<Definition> ParseDefinition();
  absl::Status Define(Graph& g, Node* n, Definition d);
  absl::Status ParseNode(Graph& g);
  absl::Status ParseResults(std::vector<Definition>* results, std::vector<int>* groups, bool* grouped);

  // ---- arguments

  absl::StatusOr<NamedArg> ParseNamedArg(const Graph& g);
  absl::StatusOr<Value*> UseValue(const Graph& g);
  absl::StatusOr<Arg> ParseScalar(const Graph& g);
  absl::StatusOr<Arg> ParseArg(const Graph& g);
  absl::StatusOr<std::vector<Arg>> Items(const Graph& g);

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
  static bool AllAsValues(const std::vector<Arg>& items, Values* out);
  static bool AllAsSymInts(const std::vector<Arg>& items, SymInts* out);
  absl::StatusOr<Arg> ParseList(const Graph& g, std::string_view kind, size_t at);
  absl::StatusOr<Arg> ParseNestedList(const Graph& g, std::string_view kind, size_t at);
};

}  // namespace slipway::ir::text_form

#endif  // SLIPWAY_IR_TEXT_PARSER_H_
