// JSON documents as a tree: the graphs of exported programs, payload configs, safetensors headers and indexes.
//
// simdjson does the tokenizing; this adds what those files need: a tree whose strings and arrays live in one arena
// (a 10 MB graph has about a million values), the tokens Infinity, -Infinity and NaN (torch 2.5 writes them, though
// they are not JSON), a limit on nesting, and the byte offset of every value for error messages.
#ifndef SLIPWAY_IMPORTERS_JSON_H_
#define SLIPWAY_IMPORTERS_JSON_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace slipway::importers::json {

enum class Type : uint8_t { kNull, kBool, kInt, kDouble, kString, kArray, kObject };

struct Member;

// One value of a Document, which owns all it refers to. Values are cheap to copy.
//
// Reading a value as what it is not is an error of the file, not of the program: the As…() functions say what was
// expected, what was found and where. The is_…() tests and Find() are for places where several types are allowed.
class Value {
 public:
  Value() = default;

  Type type() const { return type_; }
  bool is_null() const { return type_ == Type::kNull; }
  bool is_bool() const { return type_ == Type::kBool; }
  bool is_int() const { return type_ == Type::kInt; }
  bool is_double() const { return type_ == Type::kDouble; }
  bool is_string() const { return type_ == Type::kString; }
  bool is_array() const { return type_ == Type::kArray; }
  bool is_object() const { return type_ == Type::kObject; }

  // The value as that type; InvalidArgument where it is another. AsDouble() takes integers too.
  absl::StatusOr<bool> AsBool() const;
  absl::StatusOr<int64_t> AsInt() const;
  absl::StatusOr<double> AsDouble() const;
  absl::StatusOr<std::string_view> AsString() const;
  absl::StatusOr<absl::Span<const Value>> AsArray() const;
  // The members in the order of the document; their keys are distinct.
  absl::StatusOr<absl::Span<const Member>> AsObject() const;

  // The member of that key, or nullptr where there is none or this is no object. Costs a binary search.
  const Value* Find(std::string_view key) const;
  // The member of that key; InvalidArgument where there is none or this is no object.
  absl::StatusOr<const Value*> Get(std::string_view key) const;

  // Where the value begins: a byte offset in the text that was parsed.
  uint64_t offset() const { return offset_; }
  // An InvalidArgument error about this value: "`message` (JSON byte N)".
  absl::Status Error(const std::string& message) const;

 private:
  friend class Builder;

  absl::Status Expected(const char* what) const;

  union {
    bool bool_;
    int64_t int_ = 0;
    double double_;
    const char* string_;
    const Value* array_;
    const Member* object_;  // followed by `size_` uint32_t: the members' places, sorted by key
  };
  uint32_t size_ = 0;  // of a string in bytes; of an array or object in elements
  uint32_t offset_ = 0;
  Type type_ = Type::kNull;
};

// One member of an object.
struct Member {
  std::string_view key;
  Value value;
};

// A parsed document and the memory behind it. Moving it keeps its values valid.
class Document {
 public:
  struct Options {
    int max_depth = 256;           // containers within containers; at most kMaxDepth
    bool allow_non_finite = true;  // accept the bare tokens Infinity, -Infinity and NaN
  };
  static constexpr int kMaxDepth = 1000;
  // Longest text that is parsed, in bytes.
  static constexpr uint64_t kMaxSize = uint64_t{1} << 31;

  // Parses UTF-8 `text`, which may go away afterwards. InvalidArgument, with the byte offset, where it is not one
  // JSON value, nests too deeply, repeats a key within an object, or holds a number that neither int64 nor double
  // represents (integers are never rounded to double).
  static absl::StatusOr<Document> Parse(std::string_view text, const Options& options);
  static absl::StatusOr<Document> Parse(std::string_view text) { return Parse(text, Options()); }

  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  // The outermost value; valid as long as this document.
  const Value& root() const { return root_; }

 private:
  struct Storage;
  Document();

  std::unique_ptr<Storage> storage_;
  Value root_;
};

}  // namespace slipway::importers::json

#endif  // SLIPWAY_IMPORTERS_JSON_H_
