// slipway's entry point: one subcommand a file, each a function that adds its flags and returns what to run.
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "driver/diagnostic.h"
#include "io/atomic_writer.h"

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
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
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
