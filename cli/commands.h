// The subcommands. Each Add… registers one with its flags; when it is chosen it runs during parse and sets *code.
#ifndef SLIPWAY_CLI_COMMANDS_H_
#define SLIPWAY_CLI_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "driver/convert/convert.h"
#include "driver/edge/diagnostic.h"
#include "io/inputs.h"

namespace slipway::cli {

void AddConvert(CLI::App& app, int* code);
void AddDiff(CLI::App& app, int* code);
void AddDoctor(CLI::App& app, int* code);
void AddExplain(CLI::App& app, int* code);
void AddInspect(CLI::App& app, int* code);
void AddMinify(CLI::App& app, int* code);
void AddPages(CLI::App& app);  // completion, help, man, version
void AddQuantize(CLI::App& app, int* code);
void AddRun(CLI::App& app, int* code);
void AddShapes(CLI::App& app, int* code);
void AddUnpack(CLI::App& app, int* code);
void AddVerify(CLI::App& app, int* code);

// Adds the flags of convert's table that have these names.
void AddFlags(CLI::App* cmd, driver::ConvertOptions& o, std::initializer_list<std::string_view> names);

// Shows on a terminal how far a command that writes weights is; empty where stderr is none.
std::function<void(uint64_t done, uint64_t total)> ProgressBar();
// The closing line of a command that writes, and its remarks.
void PrintSummary(const std::string& output, bool dry_run, const driver::ConvertSummary& summary);
// The same as JSON on standard output (schemas/convert.schema.json).
absl::Status PrintJson(const driver::ConvertOptions& o, const driver::ConvertSummary& summary);
// Standard output.
absl::Status WriteOut(std::string_view text);

// "slipway 0.1.0 (ONNX opset 18 … 24, PT2 schema 7 … 8.20, torch operators 2.13.0)"
std::string VersionText();

// The path of the binary that this process runs; "slipway" where the system does not say.
std::string Self();

// Whether TERM says that the terminal takes no escape sequences.
bool OnDumbTerminal();
// What --color says: "auto", "always" or "never".
void SetColor(std::string_view when);
// --diagnostics, --sarif and --color, for every command.
void AddDiagnostics(CLI::App* cmd, std::string* format);
// What --sarif says: where Report() writes diagnostics as SARIF as well; "": nowhere.
void SetSarif(std::string_view path);
// Writes the outcome's diagnostics to stderr, as text or JSON lines. The exit code: the outcome's, or that of an error
// in writing them.
int Report(const driver::Outcome& outcome, bool json);
// Reports in the same way, and ends the process: for io::RemoveTemporariesOnSignals().
[[noreturn]] void EndOnLostInput(const io::LostInput& lost);

}  // namespace slipway::cli

#endif  // SLIPWAY_CLI_COMMANDS_H_
