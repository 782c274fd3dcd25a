// Diagnostics to stderr, and the version text.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "driver/version.h"

namespace slipway::cli {

std::string VersionText() { return driver::VersionText(); }

void Report(const driver::Outcome& outcome, bool json) {
  const bool colour = !json && isatty(2) && !std::getenv("NO_COLOR");
  for (const driver::Diagnostic& d : outcome.diagnostics)
    std::fputs((json ? driver::ToJson(d) : driver::ToText(d, colour)).c_str(), stderr);
}

}  // namespace slipway::cli
