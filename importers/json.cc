// Builds json::Document trees from simdjson's on-demand tokens.
#include "importers/json.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory_resource>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace slipway::importers::json {
namespace {

namespace ondemand = simdjson::ondemand;

// Objects up to this size are searched member by member; larger ones carry their order by key.
constexpr uint32_t kLinearMembers = 8;

std::string Shown(std::string_view text) {
  constexpr size_t kLongest = 40;
  const bool cut = text.size() > kLongest;
  if (cut) text = text.substr(0, kLongest);
  return absl::StrCat("'", absl::CHexEscape(absl::string_view(text.data(), text.size())), cut ? "…'" : "'");
}

const char* NameOf(Type type) {
  constexpr const char* kNames[] = {"null", "a boolean", "an integer", "a number", "a string", "an array", "an object"};
  return kNames[static_cast<int>(type)];
}

// The sorted places that follow the members of a large object.
const uint32_t* OrderOf(const Member* members, uint32_t size) {
  return reinterpret_cast<const uint32_t*>(members + size);
}

}  // namespace

absl::Status Value::Error(const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(message, " (JSON byte ", offset_, ")"));
}

absl::Status Value::Expected(const char* what) const {
  return Error(absl::StrCat("expected ", what, ", found ", NameOf(type_)));
}

absl::StatusOr<bool> Value::AsBool() const {
  if (type_ != Type::kBool) return Expected(NameOf(Type::kBool));
  return bool_;
}

absl::StatusOr<int64_t> Value::AsInt() const {
  if (type_ != Type::kInt) return Expected(NameOf(Type::kInt));
  return int_;
}

absl::StatusOr<double> Value::AsDouble() const {
  if (type_ == Type::kInt) return static_cast<double>(int_);
  if (type_ != Type::kDouble) return Expected(NameOf(Type::kDouble));
  return double_;
}

absl::StatusOr<std::string_view> Value::AsString() const {
  if (type_ != Type::kString) return Expected(NameOf(Type::kString));
  return std::string_view(string_, size_);
}

absl::StatusOr<absl::Span<const Value>> Value::AsArray() const {
  if (type_ != Type::kArray) return Expected(NameOf(Type::kArray));
  return absl::MakeConstSpan(array_, size_);
}

absl::StatusOr<absl::Span<const Member>> Value::AsObject() const {
  if (type_ != Type::kObject) return Expected(NameOf(Type::kObject));
  return absl::MakeConstSpan(object_, size_);
}

const Value* Value::Find(std::string_view key) const {
  if (type_ != Type::kObject) return nullptr;
  if (size_ <= kLinearMembers) {
    for (const Member& member : absl::MakeConstSpan(object_, size_)) {
      if (member.key == key) return &member.value;
    }
    return nullptr;
  }
  const uint32_t* order = OrderOf(object_, size_);
  const uint32_t* found =
      std::lower_bound(order, order + size_, key, [&](uint32_t at, std::string_view k) { return object_[at].key < k; });
  return found != order + size_ && object_[*found].key == key ? &object_[*found].value : nullptr;
}

absl::StatusOr<const Value*> Value::Get(std::string_view key) const {
  if (type_ != Type::kObject) return Expected(NameOf(Type::kObject));
  const Value* value = Find(key);
  if (value == nullptr) return Error(absl::StrCat("missing key ", Shown(key)));
  return value;
}

struct Document::Storage {
  std::pmr::monotonic_buffer_resource arena;
};

// Turns tokens into values, depth first. Containers are gathered on two stacks and moved to the arena when complete.
class Builder {
 public:
  Builder(std::pmr::memory_resource* arena, const simdjson::padded_string& text, const Document::Options& options)
      : arena_(arena), text_(text), options_(options), max_depth_(std::min(options.max_depth, Document::kMaxDepth)) {}

  absl::Status BuildDocument(Value* root) {
    ondemand::parser parser;
    ondemand::document document;
    if (auto error = parser.iterate(text_).get(document); error) return Failed(error, nullptr);
    ondemand::value value;
    if (auto error = document.get_value().get(value); error) {
      // simdjson 3.2 and later look at both ends of the text first.
      return absl::InvalidArgumentError(
          error == simdjson::INCOMPLETE_ARRAY_OR_OBJECT
              ? "JSON: the object or array does not end where the text does: it is cut, or there is text behind it"
              : "JSON: the text is not an object or an array");
    }
    if (absl::Status status = Build(value, 0, root); !status.ok()) return status;
    // Past the end there is no location to give.
    if (const char* place = nullptr; !document.current_location().get(place)) {
      return Failed("text behind the end of the value", place);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Failed(const std::string& what, const char* place) const {
    if (place == nullptr) return absl::InvalidArgumentError(absl::StrCat("JSON: ", what));
    return absl::InvalidArgumentError(absl::StrCat("JSON byte ", place - text_.data(), ": ", what));
  }
  absl::Status Failed(simdjson::error_code error, const char* place) const {
    return Failed(simdjson::error_message(error), place);
  }

  absl::Status Build(ondemand::value token, int depth, Value* out) {
    const std::string_view raw = token.raw_json_token();
    const char* place = raw.data();
    out->offset_ = static_cast<uint32_t>(place - text_.data());
    if (static_cast<size_t>(place - text_.data()) >= text_.size()) return Failed("the text ends too early", place);
    switch (*place) {
      case '{': return BuildObject(token, depth, place, out);
      case '[': return BuildArray(token, depth, place, out);
      case '"': {
        std::string_view text;
        if (auto error = token.get_string().get(text); error) return Failed(error, place);
        out->type_ = Type::kString;
        return Keep(text, place, &out->string_, &out->size_);
      }
      default: return BuildScalar(token, raw, place, out);
    }
  }

  absl::Status BuildScalar(ondemand::value token, std::string_view raw, const char* place, Value* out) {
    raw = raw.substr(0, raw.find_last_not_of(" \t\r\n") + 1);
    if (*place == '-' || (*place >= '0' && *place <= '9')) {
      if (raw != "-Infinity") {
        ondemand::number number;
        if (token.get_number().get(number)) {
          return Failed(absl::StrCat(Shown(raw), " is not a number, or is out of range"), place);
        }
        if (number.is_int64()) {
          out->type_ = Type::kInt;
          out->int_ = number.get_int64();
        } else if (number.is_double()) {
          out->type_ = Type::kDouble;
          out->double_ = number.get_double();
        } else {
          return Failed(absl::StrCat("the integer ", Shown(raw), " exceeds 64 bits"), place);
        }
        return absl::OkStatus();
      }
    }
    // These tokens are left unread; the iterator of the container steps over them.
    if (raw == "null") {
      out->type_ = Type::kNull;
    } else if (raw == "true" || raw == "false") {
      out->type_ = Type::kBool;
      out->bool_ = raw == "true";
    } else if (options_.allow_non_finite && (raw == "Infinity" || raw == "-Infinity" || raw == "NaN")) {
      out->type_ = Type::kDouble;
      out->double_ = raw == "NaN" ? std::numeric_limits<double>::quiet_NaN()
                                  : (raw[0] == '-' ? -1 : 1) * std::numeric_limits<double>::infinity();
    } else {
      return Failed(absl::StrCat("unexpected ", Shown(raw)), place);
    }
    return absl::OkStatus();
  }

  absl::Status BuildArray(ondemand::value token, int depth, const char* place, Value* out) {
    if (depth >= max_depth_) return Failed(absl::StrCat("nested deeper than ", max_depth_), place);
    ondemand::array array;
    if (auto error = token.get_array().get(array); error) return Failed(error, place);
    const size_t base = values_.size();
    for (simdjson::simdjson_result<ondemand::value> element : array) {
      ondemand::value next;
      if (auto error = element.get(next); error) return Failed(error, place);
      Value value;
      if (absl::Status status = Build(next, depth + 1, &value); !status.ok()) return status;
      values_.push_back(value);
    }
    out->type_ = Type::kArray;
    out->size_ = static_cast<uint32_t>(values_.size() - base);
    out->array_ = Move(values_, base, 0);
    return absl::OkStatus();
  }

  absl::Status BuildObject(ondemand::value token, int depth, const char* place, Value* out) {
    if (depth >= max_depth_) return Failed(absl::StrCat("nested deeper than ", max_depth_), place);
    ondemand::object object;
    if (auto error = token.get_object().get(object); error) return Failed(error, place);
    const size_t base = members_.size();
    for (simdjson::simdjson_result<ondemand::field> field : object) {
      std::string_view text;
      if (auto error = field.unescaped_key().get(text); error) return Failed(error, place);
      const char* key = nullptr;
      uint32_t key_size = 0;
      if (absl::Status status = Keep(text, place, &key, &key_size); !status.ok()) return status;
      ondemand::value next;
      if (auto error = field.value().get(next); error) return Failed(error, place);
      Value value;
      if (absl::Status status = Build(next, depth + 1, &value); !status.ok()) return status;
      members_.push_back({std::string_view(key, key_size), value});
    }
    const uint32_t size = static_cast<uint32_t>(members_.size() - base);
    const bool sorted = size > kLinearMembers;
    Member* members = Move(members_, base, sorted ? size * sizeof(uint32_t) : 0);
    out->type_ = Type::kObject;
    out->size_ = size;
    out->object_ = members;
    const Member* twice = nullptr;
    if (sorted) {
      uint32_t* order = const_cast<uint32_t*>(OrderOf(members, size));
      std::iota(order, order + size, 0);
      std::sort(order, order + size, [&](uint32_t a, uint32_t b) { return members[a].key < members[b].key; });
      for (uint32_t i = 1; i < size; ++i) {
        if (members[order[i - 1]].key == members[order[i]].key) twice = &members[order[i]];
      }
    } else {
      for (uint32_t i = 1; i < size; ++i) {
        for (uint32_t j = 0; j < i; ++j) {
          if (members[i].key == members[j].key) twice = &members[i];
        }
      }
    }
    if (twice != nullptr) return Failed(absl::StrCat("the key ", Shown(twice->key), " occurs twice"), place);
    return absl::OkStatus();
  }

  // Copies a string to the arena.
  absl::Status Keep(std::string_view text, const char* place, const char** data, uint32_t* size) {
    if (text.size() > std::numeric_limits<uint32_t>::max()) return Failed("the string is too long", place);
    char* copy = static_cast<char*>(arena_->allocate(text.size() + 1, 1));
    std::memcpy(copy, text.data(), text.size());
    *data = copy;
    *size = static_cast<uint32_t>(text.size());
    return absl::OkStatus();
  }

  // Moves the elements of `stack` from `base` on to the arena, with `extra` bytes of room behind them.
  template <typename T>
  T* Move(std::vector<T>& stack, size_t base, size_t extra) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    const size_t count = stack.size() - base;
    if (count == 0) return nullptr;
    T* place = static_cast<T*>(arena_->allocate(count * sizeof(T) + extra, alignof(T)));
    std::uninitialized_copy_n(stack.data() + base, count, place);
    stack.resize(base);
    return place;
  }

  std::pmr::memory_resource* arena_;
  const simdjson::padded_string& text_;
  const Document::Options& options_;
  const int max_depth_;
  std::vector<Value> values_;    // elements of the arrays not yet complete
  std::vector<Member> members_;  // members of the objects not yet complete
};

Document::Document() : storage_(std::make_unique<Storage>()) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

absl::StatusOr<Document> Document::Parse(std::string_view text, const Options& options) {
  if (text.size() > kMaxSize) {
    return absl::InvalidArgumentError(absl::StrCat("JSON: ", text.size(), " bytes are too many; at most ", kMaxSize));
  }
  const simdjson::padded_string padded(text);
  Document document;
  Builder builder(&document.storage_->arena, padded, options);
  if (absl::Status status = builder.BuildDocument(&document.root_); !status.ok()) return status;
  return document;
}

}  // namespace slipway::importers::json
