// How the text of a flag becomes a value follows from the type of the field that it sets.
#include "driver/convert/options.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/other_names.h"
#include "base/text.h"

namespace slipway::driver {

namespace convert_flags {

constexpr int kMostNumber = 99999;

bool Parse(std::string_view text, bool* out) {
  *out = text == "true";
  return *out || text == "false";
}
bool Parse(std::string_view text, int64_t* out) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > kMostNumber) return false;
  *out = number;
  return true;
}
bool Parse(std::string_view text, int* out) {
  int64_t number = 0;
  if (!Parse(text, &number) || number == 0) return false;
  *out = static_cast<int>(number);
  return true;
}
bool Parse(std::string_view text, uint64_t* bytes) {
  static constexpr struct {
    std::string_view name;
    uint64_t bytes;
  } kUnits[] = {{"", 1},
                {"B", 1},
                {"KB", 1000},
                {"MB", 1000'000},
                {"GB", 1000'000'000},
                {"TB", 1000'000'000'000},
                {"KiB", uint64_t{1} << 10},
                {"MiB", uint64_t{1} << 20},
                {"GiB", uint64_t{1} << 30},
                {"TiB", uint64_t{1} << 40}};
  uint64_t number = 0, size;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0) return false;
  const std::string_view name = text.substr(end - text.data());
  const auto unit = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& u) { return u.name == name; });
  if (unit == std::end(kUnits) || __builtin_mul_overflow(number, unit->bytes, &size)) return false;
  *bytes = size;
  return true;
}
bool Parse(std::string_view text, std::string* out) {
  *out = text;
  return true;
}
bool Parse(std::string_view text, Strings* out) {
  out->emplace_back(text);
  return true;
}
bool Parse(std::string_view text, Pairs* out) {
  const size_t eq = text.find('=');
  if (eq == text.npos || eq == 0) return false;
  out->emplace_back(text.substr(0, eq), text.substr(eq + 1));
  return true;
}

std::string Show(bool) { return ""; }
std::string Show(int number) { return number ? text::StrCat(number) : ""; }
std::string Show(int64_t number) { return Show(static_cast<int>(number)); }
std::string Show(uint64_t bytes) { return bytes ? text::StrCat(bytes) : ""; }
std::string Show(const std::string& text) { return text; }
std::string Show(const Strings&) { return ""; }
std::string Show(const Pairs&) { return ""; }

}  // namespace convert_flags

namespace {

// Whether `text` is one of the words that are all a flag's value may be; a word with a '=' stands for any text with
// one.
bool IsWord(std::string_view text, std::string_view words) {
  for (std::string_view word : text::Split(words, '|'))
    if (word == text || (text::Contains(word, "=") && text::Contains(text, "="))) return true;
  return false;
}

bool Set(const ConvertFlag& flag, ConvertOptions& o, std::string_view value) {
  if (text::Contains(flag.value, "|") && !IsWord(value, flag.value)) return false;
  if (flag.kind == ConvertFlag::kOne || !text::Contains(flag.value, ",")) return flag.set(o, value);
  for (std::string_view part : text::Split(value, ','))
    if (!flag.set(o, part)) return false;
  return true;
}

// Which of the words somebody meant by another name, or with a slip.
std::string WordMeant(std::string_view value, std::string_view words) {
  const std::vector<std::string_view> known = text::Split(words, '|');
  const std::string_view meant = text::Meant(text::NameKind::kWord, value, known);
  return known.size() < 2 || meant.empty() ? "" : text::StrCat("; did you mean '", meant, "'?");
}

}  // namespace

absl::Status SetConvertFlag(ConvertOptions& o, std::string_view name, std::string_view value) {
  const auto flag = std::find_if(std::begin(kConvertFlags), std::end(kConvertFlags),
                                 [&](const ConvertFlag& f) { return f.name == name; });
  if (flag == std::end(kConvertFlags))
    return absl::InvalidArgumentError(text::StrCat("no flag of convert is named '", name, "'"));
  if (!Set(*flag, o, value))
    return absl::InvalidArgumentError(text::StrCat(name, " '", value, "' is not ",
                                                   flag->kind == ConvertFlag::kSwitch ? "true|false" : flag->value,
                                                   WordMeant(value, flag->value)));
  o.given.insert(flag->name);
  return absl::OkStatus();
}

}  // namespace slipway::driver
