// Writes JSON: the graphs and payload tables of PT2 archives, safetensors headers and shard indexes. Members come out
// in the order they are given, so the same calls give the same bytes.
#ifndef SLIPWAY_BASE_JSON_H_
#define SLIPWAY_BASE_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace slipway::json {

// Builds one JSON text; commas are its own business. Calls must form a value: keys within objects only, every Begin
// with its End.
class Writer {
 public:
  Writer& BeginObject() { return Open('{'); }
  Writer& EndObject() { return Close('}'); }
  Writer& BeginArray() { return Open('['); }
  Writer& EndArray() { return Close(']'); }
  Writer& Key(std::string_view key);
  Writer& String(std::string_view s);
  Writer& Int(int64_t v);
  Writer& Bool(bool v) { return Raw(v ? "true" : "false"); }
  Writer& Null() { return Raw("null"); }
  // Always with a point or exponent, so that readers take it for a float; the shortest text that reads back the same.
  // Infinities and NaN, which JSON lacks, are the strings that PT2 uses: "Infinity", "-Infinity", "NaN".
  Writer& Double(double v);
  // A value that is JSON already.
  Writer& Raw(std::string_view json);

  const std::string& text() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
  bool comma_ = false;  // a value stands before the place of the next one

  void Separate() {
    if (comma_) out_ += ',';
    comma_ = true;
  }
  Writer& Open(char c) {
    Separate();
    out_ += c;
    comma_ = false;
    return *this;
  }
  Writer& Close(char c) {
    out_ += c;
    comma_ = true;
    return *this;
  }
};

// Appends a string literal with its quotes. Bytes that are not UTF-8 become U+FFFD.
void AppendString(std::string* out, std::string_view s);

}  // namespace slipway::json

#endif  // SLIPWAY_BASE_JSON_H_
