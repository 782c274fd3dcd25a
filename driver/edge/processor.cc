#include "driver/edge/processor.h"

#include "base/text.h"
#include "kernels/isa/names.h"

namespace slipway::driver {

absl::Status CheckProcessor() {
  const char* const error = kernels::IsaError();
  return error == nullptr ? absl::OkStatus() : absl::UnimplementedError(error);
}

std::string HowToAdd(const char* setting) {
  return text::StrCat("`cmake -D", setting, " build && cmake --build build`");
}

std::string KernelsOfLibraries() {
  if (kernels::HasAllIsas()) return "";
  std::string names;
  int count = 0;
  for (; const char* name = kernels::IsaName(count); ++count) text::StrAppend(&names, count > 0 ? ", " : "", name);
  return text::StrCat("kernels for ", names, " only: the library needs a processor that has ",
                      count == 1 ? "it" : "one of these", "; ", HowToAdd("SLIPWAY_ISAS=all"), " adds the others");
}

}  // namespace slipway::driver
