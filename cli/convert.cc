// `slipway convert`.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/text.h"
#include "cli/commands.h"
#include "driver/convert.h"

namespace slipway::cli {
namespace {

std::string Bytes(uint64_t n) {
  char buffer[32];
  if (n >= 10'000'000) std::snprintf(buffer, sizeof buffer, "%.1f MB", n / 1e6);
  else if (n >= 10'000) std::snprintf(buffer, sizeof buffer, "%.1f kB", n / 1e3);
  else std::snprintf(buffer, sizeof buffer, "%llu bytes", static_cast<unsigned long long>(n));
  return buffer;
}

void PrintSummary(const driver::ConvertOptions& o, const driver::ConvertSummary& s) {
  for (const std::string& line : s.lines) std::fprintf(stderr, "note: %s\n", driver::Printable(line).c_str());
  std::string dims = s.dims.empty() ? "static" : text::Join(s.dims, ", ");
  std::fprintf(stderr, "%s%s: %d nodes -> %d, dims %s, weights %s, %s written, %.0f ms, peak %s\n",
               o.dry_run ? "dry run, " : "", o.output.c_str(), s.nodes_before, s.nodes_after, driver::Printable(dims).c_str(),
               Bytes(s.weight_bytes).c_str(), Bytes(s.bytes_written).c_str(), s.seconds * 1e3, Bytes(s.peak_rss).c_str());
}

}  // namespace

void AddConvert(CLI::App& app, int* code) {
  struct State {
    driver::ConvertOptions options;
    std::vector<std::string> metadata;
    std::string diagnostics = "text";
    bool quiet = false;
  };
  auto state = std::make_shared<State>();
  driver::ConvertOptions& o = state->options;
  CLI::App* cmd = app.add_subcommand("convert", "Convert a model to the format of OUT's suffix");
  cmd->add_option("IN", o.inputs, "exported program (.pt2)")->required();
  cmd->add_option("-o,--output", o.output, "where to write; the suffix chooses the format")->required();
  cmd->add_option("--to", o.to, "the format, when the suffix does not say it (onnx)");
  cmd->add_option("--opset", o.opset, "ONNX opset to declare, exactly")->capture_default_str();
  cmd->add_option("--external-data", o.external_data, "weights in a file of their own")
      ->check(CLI::IsMember({"auto", "always", "never"}))->capture_default_str();
  cmd->add_option("--weights", o.weights, "safetensors files whose tensors replace the program's by name");
  cmd->add_flag("--allow-missing", o.allow_missing, "with --weights: names the files lack keep the archive's values");
  cmd->add_flag("--strict-types", o.strict_types, "never cast around operators that ONNX Runtime lacks for a type");
  cmd->add_option("--metadata", state->metadata, "KEY=VALUE to store in the model");
  cmd->add_flag("--dry-run", o.dry_run, "say what would be done, write nothing");
  cmd->add_flag("--verify-each", o.verify_each, "check the program's consistency after every pass");
  cmd->add_option("--diagnostics", state->diagnostics, "text or json")->check(CLI::IsMember({"text", "json"}))->capture_default_str();
  cmd->add_flag("-q,--quiet", state->quiet, "no summary");
  cmd->callback([state, code] {
    driver::ConvertOptions& o = state->options;
    for (const std::string& kv : state->metadata) {
      size_t eq = kv.find('=');
      if (eq == std::string::npos || eq == 0) throw CLI::ValidationError("--metadata", "'" + kv + "' is not KEY=VALUE");
      o.metadata.emplace_back(kv.substr(0, eq), kv.substr(eq + 1));
    }
    driver::ConvertSummary summary;
    driver::Outcome outcome = driver::Convert(o, &summary);
    const bool json = state->diagnostics == "json";
    if (outcome.code == driver::kDone && !state->quiet && !json) PrintSummary(o, summary);
    Report(outcome, json);
    *code = outcome.code;
  });
}

}  // namespace slipway::cli
