// The spelling OPERATOR=DOMAIN:NAME is checked in full here, so that lowering never meets a malformed one.
#include "exporters/onnx/custom_op.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/text.h"

namespace slipway::exporters {
namespace {

bool IsName(std::string_view s, std::string_view also) {
  return !s.empty() && !absl::ascii_isdigit(s[0]) && std::all_of(s.begin(), s.end(), [&](char c) {
    return absl::ascii_isalnum(c) || c == '_' || also.find(c) != std::string_view::npos;
  });
}

}  // namespace

absl::Status AddCustomOp(std::string_view spec, CustomOps* ops) {
  const size_t equals = spec.find('='), scope = spec.find("::"), colon = spec.rfind(':');
  if (equals == std::string_view::npos || scope == std::string_view::npos || scope > equals || colon < equals)
    return absl::InvalidArgumentError(text::StrCat("'", spec, "' is not NAMESPACE::NAME=DOMAIN:OPTYPE"));
  const std::string_view ns = spec.substr(0, scope), name = spec.substr(scope + 2, equals - scope - 2);
  const std::string_view domain = spec.substr(equals + 1, colon - equals - 1), type = spec.substr(colon + 1);
  if (!IsName(ns, "") || !IsName(name, ".") || !IsName(domain, ".-") || !IsName(type, ""))
    return absl::InvalidArgumentError(text::StrCat("'", spec, "': the names are of letters, digits and underscores"));
  if (!ops->emplace(text::StrCat(ns, ".", name), CustomOp{std::string(domain), std::string(type)}).second)
    return absl::InvalidArgumentError(text::StrCat(ns, "::", name, " is mapped twice"));
  return absl::OkStatus();
}

}  // namespace slipway::exporters
