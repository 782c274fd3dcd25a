// A program as an ONNX model. What it cannot express is reported all at once, with the newer opset that can, if one
// does.
#include "importers/onnx/onnx.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/missing_weights.h"
#include "driver/edge/format.h"
#include "driver/edge/target.h"
#include "exporters/onnx/export.h"
#include "ir/guards.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::driver {
namespace {

using exporters::OnnxOptions;

static_assert(kOldestOpset == exporters::kMinOpset && kNewestOpset == exporters::kMaxOpset);

absl::StatusOr<OnnxOptions> OnnxOptionsOf(const ConvertOptions& o) {
  if (o.opset < exporters::kMinOpset || o.opset > exporters::kMaxOpset)
    return absl::UnimplementedError(
        text::StrCat("opset ", o.opset, " (supported: ", exporters::kMinOpset, " … ", exporters::kMaxOpset, ")"));
  OnnxOptions options;
  options.opset = o.opset;
  options.external_data = o.external_data == "always"  ? exporters::ExternalData::kAlways
                          : o.external_data == "never" ? exporters::ExternalData::kNever
                                                       : exporters::ExternalData::kAuto;
  options.form = o.onnx_form == "ort"        ? exporters::OnnxForm::kOrt
                 : o.onnx_form == "portable" ? exporters::OnnxForm::kPortable
                                             : exporters::OnnxForm::kExact;
  options.strict_types = o.strict_types;
  options.node_metadata = o.node_metadata == "none"  ? exporters::NodeMetadata::kNone
                          : o.node_metadata == "all" ? exporters::NodeMetadata::kAll
                                                     : exporters::NodeMetadata::kModules;
  if (o.state != "drop" && o.state != "io")
    return UsageError(text::StrCat("--state ", o.state, ": ONNX models keep no state between runs"),
                      "--state io carries it as inputs and outputs");
  options.state_io = o.state == "io";
  if (!o.cache_dtype.empty() && !options.state_io)
    return UsageError("--cache-dtype without --state", "--state io carries caches as inputs and outputs");
  options.input_names = o.input_names;
  options.output_names = o.output_names;
  options.progress = o.progress;
  for (const std::string& spec : o.custom_ops)
    if (absl::Status s = exporters::AddCustomOp(spec, &options.custom_ops); !s.ok())
      return UsageError(text::StrCat("--custom-op: ", text::FromAbsl(s.message())));
  return options;
}

// The lowest newer opset at which the whole model can be written; 0 where there is none.
int NewerOpset(Conversion& c, OnnxOptions options) {
  exporters::OnnxReport failure;
  for (++options.opset; options.opset <= exporters::kMaxOpset; ++options.opset)
    if (exporters::ExportOnnx(c.program(), c.options.output, options, /*dry_run=*/true, &failure).ok())
      return options.opset;
  return 0;
}

// What to do about what ONNX lacks: a newer opset, or what helps operators and what helps the types of the signature
// and of weights.
std::string HowOnnx(Conversion& c, const OnnxOptions& options, const exporters::OnnxReport& failure) {
  constexpr std::string_view kOperators =
      "--custom-op NAMESPACE::NAME=DOMAIN:OPTYPE writes an operator as a node of a custom domain";
  constexpr std::string_view kTypes =
      "export a module around the model whose inputs, outputs and weights have other types, and that casts them: "
      "x.to(…)";
  if (const int newer = NewerOpset(c, options); newer > 0)
    return text::StrCat("--opset ", newer, " has all that is needed");
  if (failure.of_signature == 0) return std::string(kOperators);
  if (failure.of_signature == failure.unsupported.size()) return std::string(kTypes);
  return text::StrCat("of operators: ", kOperators, "; of types: ", kTypes);
}

// Where ONNX's checker refuses what was made of an ONNX model: what it says of that model itself. Sizes that it
// computes contradict each other in the result only, where they are constants.
absl::Status WhyRefused(const std::string& path, const absl::Status& of_result) {
  ASSIGN_OR_RETURN(const Source source, OpenSource(path));
  ASSIGN_OR_RETURN(const importers::OnnxModel model, importers::ReadOnnx(source.file));
  if (absl::Status s = onnx_model::Check(*model.program); !s.ok())
    return absl::InvalidArgumentError(
        text::StrCat("the ONNX checker refuses the model as it is: ", text::FromAbsl(s.message())));
  const std::string_view said = text::FromAbsl(of_result.message());
  if (!text::Contains(said, "ShapeInferenceError")) return of_result;
  return WithHelp(absl::InvalidArgumentError(text::StrCat("sizes contradict each other: ", said)),
                  "where onnxruntime runs the model, this is a fault of slipway's: report it");
}

// Types of inputs say ranges and which sizes are equal, and a runtime asks for no more.
void SayGuards(Conversion& c) {
  std::vector<std::string> guards;
  for (const ir::Guard& guard : ir::GuardsOf(c.program())) guards.push_back(guard.text);
  if (guards.empty()) return;
  const std::string all = text::Join(guards, "; ");
  c.extra_metadata.emplace_back("slipway.guards", all);
  c.summary.lines.push_back(text::StrCat("not checked by the model: the program was exported for sizes where ", all));
}

}  // namespace

absl::StatusOr<Legality> OnnxLegality(const ConvertOptions& o) {
  auto options = OnnxOptionsOf(o);
  if (!options.ok()) return options.status();
  return [options = *std::move(options)](const ir::Node& n) { return exporters::OnnxLegal(n, options); };
}

absl::Status WriteOnnx(Conversion& c) {
  auto options = OnnxOptionsOf(c.options);
  if (!options.ok()) return options.status();
  options->refusals = &c.context.refusals;
  options->result_names = c.output_names;
  options->from_onnx = IsFromOnnx(c.archive);
  options->keep_halves = options->from_onnx && c.options.dtype.empty();
  SayGuards(c);
  options->metadata = c.Metadata();
  options->max_output = c.max_output;
  if (absl::Status s = exporters::CheckNames(c.program(), *options); !s.ok())
    return UsageError(std::string(s.message()));
  exporters::OnnxReport failure;
  auto report = exporters::ExportOnnx(c.program(), c.options.output, *options, c.options.dry_run, &failure);
  if (!report.ok() && !failure.missing_weights.empty())
    return MissingWeights(c.program(), failure.missing_weights, kGiveWeights);
  if (absl::IsInternal(report.status()) && options->from_onnx) return WhyRefused(c.options.inputs[0], report.status());
  if (!report.ok() && failure.unsupported.empty()) return report.status();
  if (!report.ok())
    return UnsupportedError(failure.unsupported, text::StrCat("at opset ", c.options.opset),
                            HowOnnx(c, *options, failure));
  c.summary.nodes_after = report->nodes_out;
  c.summary.weight_bytes = report->weight_bytes;
  c.summary.bytes_written = report->file_bytes;
  return absl::OkStatus();
}

}  // namespace slipway::driver
