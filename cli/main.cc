// slipway's entry point: one subcommand a file, each a function that adds its flags and returns what to run.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/nearest.h"
#include "cli/commands.h"
#include "driver/diagnostic.h"
#include "io/atomic_writer.h"

namespace {

// What a word of the command line that nothing takes may have been: a command where none was given, else a flag of it.
std::string Meant(const CLI::App& app, int argc, char** argv) {
  const auto commands = app.get_subcommands();  // those that were given
  std::vector<std::string> known;
  if (commands.empty()) {
    for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  } else {
    for (const CLI::Option* option : commands[0]->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (int i = 1; i < argc; ++i) {
    const std::string_view given = argv[i], word = given.substr(0, given.find('='));
    const bool flag = word.starts_with("--");
    if (word == "--" || flag == commands.empty() || word.starts_with("-") != flag) continue;
    if (std::find(names.begin(), names.end(), word) != names.end()) continue;
    const std::string_view near = slipway::text::Nearest(word, names);
    const std::string what = commands.empty() ? "there is no command '" : commands[0]->get_name() + " has no flag '";
    return what + std::string(word) + "'" + (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?") + "\n";
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  // A file that grows past a limit is a failed write with a message, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  slipway::io::RemoveTemporariesOnSignals(slipway::cli::EndOnLostInput);
  // A checkpoint of thousands of ranks is thousands of files at once.
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  CLI::App app("slipway: models as PyTorch leaves them, launched as ONNX and more. No Python, no libtorch.");
  app.name("slipway");
  app.set_version_flag("--version", slipway::cli::VersionText());
  app.require_subcommand(1);
  int code = slipway::driver::kDone;
  slipway::cli::AddConvert(app, &code);
  slipway::cli::AddInspect(app, &code);
  slipway::cli::AddMinify(app, &code);
  slipway::cli::AddQuantize(app, &code);
  slipway::cli::AddRun(app, &code);
  slipway::cli::AddShapes(app, &code);
  slipway::cli::AddUnpack(app, &code);
  slipway::cli::AddDiff(app, &code);
  slipway::cli::AddVerify(app, &code);
  slipway::cli::AddPages(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    const int kind = e.get_exit_code();
    if (kind == static_cast<int>(CLI::ExitCodes::ExtrasError) || kind == static_cast<int>(CLI::ExitCodes::RequiredError))
      std::fputs(Meant(app, argc, argv).c_str(), stderr);
    return slipway::driver::kUsage;
  } catch (const std::bad_alloc&) {
    std::fputs("error[SW4001]: out of memory\n", stderr);
    return slipway::driver::kNoMemory;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error[SW9001]: a bug in slipway: %s\n", e.what());
    return slipway::driver::kBug;
  }
  // Everything is written and closed: the destructors of registries and tables would only cost time.
  std::fflush(nullptr);
  std::_Exit(code);
}
