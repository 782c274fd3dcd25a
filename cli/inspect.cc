// `slipway inspect`: what is in a file.
#include "driver/inspect/inspect.h"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "driver/inspect/inspect_html.h"
#include "io/io_error.h"

namespace slipway::cli {

void AddInspect(CLI::App& app, int* code) {
  struct State {
    std::string file, html;
    std::string sources = "full";
    std::string diagnostics = "text";
    bool ops = false, weights = false, json = false, ir = false, verify = false, header = false, kernels = false,
         histograms = false;
  };
  auto state = std::make_shared<State>();
  CLI::App* cmd = app.add_subcommand("inspect", "Show what is in a file");
  cmd->add_option("FILE", state->file,
                  "exported program (.pt2), text form, native library (.so), or weights: .safetensors, checkpoint, "
                  "folder of shards")
      ->required();
  CLI::Option* json = cmd->add_flag("--json", state->json, "one JSON object (schemas/inspect.schema.json)");
  CLI::Option* ir =
      cmd->add_flag("--ir", state->ir, "the programs in slipway's text form (docs/formats.md)")->excludes(json);
  CLI::Option* header =
      cmd->add_flag("--header", state->header,
                    "a C header for the model as a native library: of a .so or of a program (slipway_model.h)")
          ->excludes(json)
          ->excludes(ir);
  CLI::Option* html = cmd->add_option("--html", state->html,
                                      "write a page, too: modules, operators, dims, weights and the graph "
                                      "(docs/pages.md)")
                          ->type_name("FILE")
                          ->excludes(ir)
                          ->excludes(header);
  cmd->add_flag("--histograms", state->histograms, "with --html: read all weights and draw how values are spread")
      ->needs(html);
  cmd->add_flag("--ops", state->ops, "operators and their counts")->excludes(ir);
  cmd->add_flag("--weights", state->weights, "all weights, not only the first")->excludes(ir);
  cmd->add_flag("--kernels", state->kernels,
                "of a native library: its products of matrices and the loops that they would take on this machine")
      ->excludes(ir);
  cmd->add_flag("--verify", state->verify, "read everything and compare with the checksums that the file states")
      ->excludes(ir);
  cmd->add_option("--sources", state->sources, "with --ir: where nodes come from, as full (parses back), short or none")
      ->check(CLI::IsMember({"full", "short", "none"}))
      ->needs(ir)
      ->capture_default_str();
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->callback([state, code] {
    absl::StatusOr<std::string> text;
    if (state->header) {
      text = driver::InspectHeader(state->file);
    } else if (state->ir) {
      text = driver::InspectIr(state->file, state->sources == "full"    ? ir::PrintOptions::kFull
                                            : state->sources == "short" ? ir::PrintOptions::kShort
                                                                        : ir::PrintOptions::kNone);
    } else if (auto report = driver::Inspect(state->file, state->verify, state->kernels); report.ok()) {
      const absl::Status page =
          state->html.empty() ? absl::OkStatus() : driver::WriteInspectPage(*report, state->html, state->histograms);
      if (page.ok())
        text = state->json ? driver::ToJson(*report) : driver::ToTable(*report, state->ops, state->weights);
      else
        text = page;
    } else {
      text = report.status();
    }
    driver::Outcome outcome;
    if (!text.ok()) {
      outcome = driver::Fail(text.status(), state->file);
    } else if (std::fwrite(text->data(), 1, text->size(), stdout) != text->size() || std::fflush(stdout) != 0) {
      outcome = driver::Fail(io::IoError(errno, "standard output"));
    }
    *code = Report(outcome, state->diagnostics == "json");
  });
}

}  // namespace slipway::cli
