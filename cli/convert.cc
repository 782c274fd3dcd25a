// `slipway convert`.
#include <memory>

#include "cli/commands.h"
#include "driver/convert.h"

namespace slipway::cli {
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
  cmd->add_option("IN", o.inputs, "exported program (.pt2, NAME=FILE where there are several), or weights: .safetensors, checkpoint, folder of shards, distributed checkpoint")
      ->required();
  cmd->add_option("-o,--output", o.output, "where to write; the suffix chooses the format")->required();
  cmd->add_option("--to", o.to, "the format, when the suffix does not say it (onnx, pt2, so, native-pt2, safetensors)");
  cmd->add_option("--opset", o.opset, "ONNX opset to declare, exactly")->capture_default_str();
  cmd->add_option("--external-data", o.external_data, "weights in a file of their own")
      ->check(CLI::IsMember({"auto", "always", "never"}))->capture_default_str();
  cmd->add_option("--weights", o.weights, "safetensors files, checkpoints, folders of shards, or dlpack:LIBRARY.so (runs its code), whose tensors replace the program's by name");
  cmd->add_option("--key", o.key, "the dict of a nested checkpoint that holds the tensors, such as model.state_dict");
  cmd->add_flag("--allow-missing", o.allow_missing, "with --weights: names the files lack keep the archive's values");
  cmd->add_flag("--strict-types", o.strict_types, "never cast around operators that ONNX Runtime lacks for a type");
  cmd->add_flag("--functions", o.functions, "keep repeated blocks (modules that compute the same) as local functions");
  cmd->add_option_function<std::string>("--state", [&o](const std::string& v) { o.state_io = v == "io"; },
      "what becomes of state the program updates: drop, with a warning, or io: inputs state_in.FQN, outputs state_out.FQN")
      ->check(CLI::IsMember({"drop", "io"}))->default_str("drop");
  cmd->add_option("--custom-op", o.custom_ops, "NAMESPACE::NAME=DOMAIN:OPTYPE: write an operator as a node of a custom domain")
      ->expected(1)->take_all();
  cmd->add_flag("--with-program", o.with_program, "native-pt2: also the exported program, which torch.export.load opens");
  cmd->add_option("--plugin", o.plugins, "native: a shared library with kernels (slipway_kernel.h), run now and put into the output")->expected(1)->take_all();
  cmd->add_option("--input-names", o.input_names, "names of the inputs, in order")->delimiter(',');
  cmd->add_option("--output-names", o.output_names, "names of the outputs, in order")->delimiter(',');
  cmd->add_option("--metadata", state->metadata, "KEY=VALUE to store in the model");
  cmd->add_option("--torch", o.torch, "PT2: the oldest torch that shall load the archive (2.9, or 2.6 in the older layout)")
      ->check(CLI::IsMember({"2.9", "2.6"}))->capture_default_str();
  cmd->add_flag("--no-weights", o.no_weights, "PT2: the programs without their weights");
  cmd->add_flag("--check-crc", o.check_crc, "PT2: verify the CRC-32 of the source's payloads on the way");
  cmd->add_option("--dtype", o.dtype, "safetensors: cast floating-point tensors on the way")->check(CLI::IsMember({"bf16", "f16", "f32"}));
  cmd->add_option("--include", o.include, "safetensors: only tensors whose names the regular expression finds itself in")->expected(1)->take_all();
  cmd->add_option("--exclude", o.exclude, "safetensors: without those")->expected(1)->take_all();
  cmd->add_option("--rename", o.rename, "safetensors: RE=>REPLACEMENT on every name, $1 for a group")->expected(1)->take_all();
  cmd->add_option("--max-shard-size", o.max_shard_size, "safetensors, into a folder: the most bytes of a shard (5GB)");
  cmd->add_option("--shards", o.shards, "safetensors, into a folder: exactly so many shards")->check(CLI::Range(1, 99999));
  CLI::Option* tp = cmd->add_option("--tp", o.tp, "safetensors, into a folder: a file for each rank of a tensor-parallel job")->check(CLI::Range(1, 99999));
  tp->needs(cmd->add_option("--tp-rules", o.tp_rules, "with --tp: JSON list of {\"match\": RE, \"split\": \"row\"|\"column\"|\"replicate\"}; the first match decides")->needs(tp));
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
    if (!state->quiet && state->diagnostics == "text") o.progress = ProgressBar();
    driver::ConvertSummary summary;
    driver::Outcome outcome = driver::Convert(o, &summary);
    const bool json = state->diagnostics == "json";
    if (outcome.code == driver::kDone && !state->quiet && !json) PrintSummary(o.output, o.dry_run, summary);
    Report(outcome, json);
    *code = outcome.code;
  });
}

}  // namespace slipway::cli
