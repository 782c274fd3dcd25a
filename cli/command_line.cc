// The command line as a function: one subcommand a file, each a function that adds its flags and returns what to run.
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
#include "base/other_names.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/paths.h"
#include "driver/edge/processor.h"
#include "io/atomic_writer.h"
#include "slipway/slipway.h"

namespace {

// What a command line has that nothing takes, and what it may have been: a command where none was given, else a flag of
// it. The first such word; "" where there is none.
std::string Unexpected(const CLI::App& app, int argc, char** argv) {
  const auto commands = app.get_subcommands();  // those that were given
  const CLI::App& taker = commands.empty() ? app : *commands[0];
  std::vector<std::string> flags, words;
  for (const CLI::Option* option : taker.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  for (const CLI::App* command : app.get_subcommands({})) words.push_back(command->get_name());
  for (int i = 1; i < argc; ++i) {
    const std::string_view given = argv[i], word = given.substr(0, given.find('='));
    const bool flag = word.size() > 1 && word.starts_with("-");
    if (word == "--" || (!flag && !commands.empty())) continue;
    const std::vector<std::string_view> known(flag ? flags.begin() : words.begin(), flag ? flags.end() : words.end());
    const bool joined = flag && word[1] != '-';  // -oOUT
    if (std::any_of(known.begin(), known.end(),
                    [&](std::string_view k) { return k == word || (joined && word.substr(0, 2) == k); }))
      continue;
    const std::string_view near =
        slipway::text::Meant(flag ? slipway::text::NameKind::kFlag : slipway::text::NameKind::kCommand, word, known);
    const std::string what = !flag ? "there is no command '" : taker.get_name() + " has no flag '";
    return what + std::string(word) + "'" + (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?");
  }
  return "";
}

// A command line that does not parse, as a diagnostic.
absl::Status UsageOf(const CLI::App& app, const CLI::ParseError& e, int argc, char** argv) {
  const auto commands = app.get_subcommands();
  const int kind = e.get_exit_code();
  std::string cause;
  if (kind == static_cast<int>(CLI::ExitCodes::ExtrasError) || kind == static_cast<int>(CLI::ExitCodes::RequiredError))
    cause = Unexpected(app, argc, argv);
  if (cause.empty()) cause = commands.empty() ? "a command is wanted" : commands[0]->get_name() + ": " + e.what();
  const std::string of = commands.empty() ? "slipway" : "slipway " + commands[0]->get_name();
  return slipway::driver::UsageError(
      cause, of + (commands.empty() ? " --help lists the commands" : " --help says what it takes"));
}

// The help of the command that was given, or of all.
int PrintHelp(const CLI::App& app, slipway::cli::HelpForm form) {
  const auto commands = app.get_subcommands();
  const std::string help = slipway::cli::Help(commands.empty() ? app : *commands[0], form, slipway::cli::HelpWidth());
  std::fputs(help.c_str(), stdout);
  return slipway::driver::kDone;
}

// The value of a flag such as --color, of a command line that may not parse; "" where it is not given.
std::string_view ValueOf(std::string_view flag, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == flag && i + 1 < argc) return argv[i + 1];
    if (word.starts_with(flag) && word.substr(flag.size()).starts_with("=")) return word.substr(flag.size() + 1);
  }
  return "";
}

// Takes --sarif, also of a command line that does not parse. Usage where it names what another word of the line does.
absl::Status SetSarif(int argc, char** argv) {
  using slipway::driver::NamedPath;
  const std::string path(ValueOf("--sarif", argc, argv));
  if (path.empty()) return absl::OkStatus();
  std::vector<NamedPath> paths = {{"--sarif", path, NamedPath::kReport}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--sarif" && ++i < argc) continue;
    if (word.starts_with("--sarif=")) continue;
    if (!word.starts_with("-")) paths.push_back({"the argument", word});
    if (word.starts_with("-o")) paths.push_back({"-o", word.substr(2)});
    if (const size_t eq = word.find('='); eq != word.npos) paths.push_back({"the argument", word.substr(eq + 1)});
  }
  if (absl::Status s = slipway::driver::CheckDistinct(paths); !s.ok()) return s;
  slipway::cli::SetSarif(path);
  return absl::OkStatus();
}

}  // namespace

extern "C" int slipway_main(int argc, char** argv) {
  // A file that grows past a limit is a failed write with a message, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  slipway::io::RemoveTemporariesOnSignals(slipway::cli::EndOnLostInput);
  // A checkpoint of thousands of ranks is thousands of files at once.
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  slipway::cli::SetColor(ValueOf("--color", argc, argv));
  const bool json = ValueOf("--diagnostics", argc, argv) == "json";
  if (absl::Status s = SetSarif(argc, argv); !s.ok()) return slipway::cli::Report(slipway::driver::Fail(s), json);
  CLI::App app("Converts, quantizes, runs and compares models that PyTorch exported.");
  app.name("slipway");
  app.set_help_flag("-h", "a line a flag");
  app.set_help_all_flag("--help", "what each flag does");
  app.set_version_flag("-V,--version", slipway::cli::VersionText());
  app.require_subcommand(1);
  int code = slipway::driver::kDone;
  slipway::cli::AddConvert(app, &code);
  slipway::cli::AddDoctor(app, &code);
  slipway::cli::AddExplain(app, &code);
  slipway::cli::AddInspect(app, &code);
  slipway::cli::AddMinify(app, &code);
  slipway::cli::AddQuantize(app, &code);
  slipway::cli::AddRun(app, &code);
  slipway::cli::AddShapes(app, &code);
  slipway::cli::AddUnpack(app, &code);
  slipway::cli::AddDiff(app, &code);
  slipway::cli::AddVerify(app, &code);
  slipway::cli::AddPages(app);
  // Of other processors' kernels: what explains that, and helps, works.
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (!command.starts_with("-") && command != "doctor" && command != "explain")
    if (absl::Status s = slipway::driver::CheckProcessor(); !s.ok())
      return slipway::cli::Report(slipway::driver::Fail(s), json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return PrintHelp(app, slipway::cli::HelpForm::kBrief);
  } catch (const CLI::CallForAllHelp&) {
    return PrintHelp(app, slipway::cli::HelpForm::kFull);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return slipway::cli::Report(slipway::driver::Fail(UsageOf(app, e, argc, argv)), json);
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
