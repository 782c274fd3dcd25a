// The subcommands. Each Add… registers one with its flags; when it is chosen it runs during parse and sets *code.
#ifndef SLIPWAY_CLI_COMMANDS_H_
#define SLIPWAY_CLI_COMMANDS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "driver/diagnostic.h"

namespace slipway::cli {

void AddConvert(CLI::App& app, int* code);
void AddInspect(CLI::App& app, int* code);

// "slipway 0.1.0 (ONNX opset 18 … 24, PT2 schema 7 … 8.20, torch operators 2.13.0)"
std::string VersionText();

// Writes the outcome's diagnostics to stderr, as text or JSON lines.
void Report(const driver::Outcome& outcome, bool json);

}  // namespace slipway::cli

#endif  // SLIPWAY_CLI_COMMANDS_H_
