// The help of commands, on one screen for -h and in full for --help, from the options that parse the command line.
#ifndef SLIPWAY_CLI_HELP_H_
#define SLIPWAY_CLI_HELP_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace slipway::cli {

enum class HelpForm { kBrief, kFull };

// The columns to print help in: COLUMNS, or as the terminal of standard output says, at least 80 and at most 120; 100
// where neither is known.
int HelpWidth();

// The help of a command, or of `slipway` itself. kBrief: at most 100 columns, a line a flag, those that few need by
// name alone. kFull: all descriptions, wrapped.
std::string Help(const CLI::App& command, HelpForm form, int width);

// "N", "auto|always|never": what help calls an option's value; "" for flags without one.
std::string ValueName(const CLI::Option& option);

// The values that an option may have where they are a fixed set, else empty.
std::vector<std::string> ValueChoices(const CLI::Option& option);

}  // namespace slipway::cli

#endif  // SLIPWAY_CLI_HELP_H_
