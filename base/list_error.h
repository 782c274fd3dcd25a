// An error that is a list: its text is one line with all of it, and whoever shows it to people can put an item on each.
#ifndef SLIPWAY_BASE_LIST_ERROR_H_
#define SLIPWAY_BASE_LIST_ERROR_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "base/text.h"

namespace slipway {

// The payload that holds the items, each ended by a zero byte.
inline constexpr char kListPayload[] = "slipway/list";

// "WHAT: a, b, c".
inline absl::Status ListError(std::string_view what, const std::vector<std::string>& items,
                              absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  absl::Status s(code, text::ToAbsl(text::StrCat(what, ": ", text::Join(items, ", "))));
  std::string list;
  for (const std::string& item : items) {
    list += item;
    list += '\0';
  }
  s.SetPayload(kListPayload, absl::Cord(list));
  return s;
}

}  // namespace slipway

#endif  // SLIPWAY_BASE_LIST_ERROR_H_
