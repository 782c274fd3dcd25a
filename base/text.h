// Text helpers over std::string_view. Debian 12 builds abseil with its own absl::string_view, which std::string_view
// does not convert to; Debian 13 does not. These few wrappers are the one place that knows, so the rest of the code
// speaks std::string_view and builds on both.
#ifndef SLIPWAY_BASE_TEXT_H_
#define SLIPWAY_BASE_TEXT_H_

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace slipway::text {

inline absl::string_view ToAbsl(std::string_view s) { return absl::string_view(s.data(), s.size()); }
inline std::string_view FromAbsl(absl::string_view s) { return std::string_view(s.data(), s.size()); }

// What absl::StrCat takes, std::string_view included.
template <typename T>
decltype(auto) Piece(const T& x) {
  if constexpr (std::is_same_v<T, std::string_view>)
    return ToAbsl(x);
  else
    return (x);
}
template <typename... T>
std::string StrCat(const T&... parts) {
  return absl::StrCat(Piece(parts)...);
}
template <typename... T>
void StrAppend(std::string* out, const T&... parts) {
  absl::StrAppend(out, Piece(parts)...);
}

// The parts between separators; "" gives one empty part unless empty parts are skipped.
inline std::vector<std::string_view> Split(std::string_view s, char separator, bool skip_empty = false) {
  std::vector<std::string_view> out;
  for (;;) {
    size_t at = s.find(separator);
    std::string_view part = s.substr(0, at);
    if (!part.empty() || !skip_empty) out.push_back(part);
    if (at == std::string_view::npos) return out;
    s.remove_prefix(at + 1);
  }
}
template <typename Range>
std::string Join(const Range& parts, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& p : parts) {
    if (!first) out += separator;
    StrAppend(&out, p);
    first = false;
  }
  return out;
}

inline bool ConsumePrefix(std::string_view* s, std::string_view prefix) {
  if (!s->starts_with(prefix)) return false;
  s->remove_prefix(prefix.size());
  return true;
}
inline bool ConsumeSuffix(std::string_view* s, std::string_view suffix) {
  if (!s->ends_with(suffix)) return false;
  s->remove_suffix(suffix.size());
  return true;
}
inline bool Contains(std::string_view s, std::string_view what) { return s.find(what) != std::string_view::npos; }
inline std::string_view StripLeft(std::string_view s) {
  while (!s.empty() && (s[0] == ' ' || (s[0] >= '\t' && s[0] <= '\r'))) s.remove_prefix(1);
  return s;
}
inline std::string_view Strip(std::string_view s) {
  s = StripLeft(s);
  while (!s.empty() && (s.back() == ' ' || (s.back() >= '\t' && s.back() <= '\r'))) s.remove_suffix(1);
  return s;
}
// The whole text as a number; false where it is not one or does not fit.
template <typename T>
bool ParseNumber(std::string_view s, T* out) {
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  return error == std::errc() && end == s.data() + s.size();
}

struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};
struct Equal {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const { return a == b; }
};
// Hash tables keyed by text that look up by std::string_view without a copy.
template <typename V>
using Map = absl::flat_hash_map<std::string, V, Hash, Equal>;
using Set = absl::flat_hash_set<std::string, Hash, Equal>;
template <typename V>
using ViewMap = absl::flat_hash_map<std::string_view, V, Hash, Equal>;

}  // namespace slipway::text

#endif  // SLIPWAY_BASE_TEXT_H_
