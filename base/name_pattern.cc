// Numbers are told from words by their characters alone.
#include "base/name_pattern.h"

#include "base/text.h"

namespace slipway::text {

std::string NamePattern(std::string_view name) {
  std::string out;
  bool first = true;
  for (std::string_view part : Split(name, '.')) {
    if (!first) out += '.';
    first = false;
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    out += number ? std::string_view("*") : part;
  }
  return out;
}

}  // namespace slipway::text
