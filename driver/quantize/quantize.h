// Quantizing as a step of conversions: the options, which weights get which configuration, and the two ways there are:
// tensors that are written as torchao writes them, and programs whose weights become quantized ones
// (quantize_program.cc).
#ifndef SLIPWAY_DRIVER_QUANTIZE_QUANTIZE_H_
#define SLIPWAY_DRIVER_QUANTIZE_QUANTIZE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "driver/quantize/budget.h"
#include "driver/quantize/folder_files.h"
#include "driver/quantize/report.h"
#include "ir/graph.h"
#include "quantizer/config.h"
#include "quantizer/scheme.h"
#include "quantizer/select.h"
#include "weights/named_tensor.h"
#include "weights/names.h"

namespace slipway::driver {

// A weight that gets quantized: its place in a list of the caller's, what with, and the row of the report it fills in.
struct ChosenWeight {
  size_t index;
  const quantizer::Config* config;
  std::unique_ptr<quantizer::Scheme> scheme;
  size_t row;
  bool lookups = false;  // with its embeddings, where it is the weight of a head that is tied to one
};

// The configurations that the options name, asked for one weight after the other.
class Chooser {
 public:
  // Reads the configuration (a short name, or a file of JSON). Usage errors for names that mean nothing.
  static absl::StatusOr<std::unique_ptr<Chooser>> Make(const ConvertOptions& o);
  static absl::StatusOr<std::unique_ptr<Chooser>> Make(const ConvertOptions& o, quantizer::ConfigMap configs);

  // A candidate, and why it is not to be quantized ("" where it is): it is no linear layer, or, `linear`, is one all
  // the same. Adds a row to the report; the weight, where it is chosen.
  void Consider(size_t index, const quantizer::Candidate& t, const std::string& why_not, bool linear = false);
  // A tensor without a row: of less than two dimensions.
  void Pass(uint64_t bytes);
  // A row for what cannot be quantized, whatever the configuration says.
  void Leave(const quantizer::Candidate& t, const std::string& why);
  // All weights chosen. InvalidArgument naming every weight that a configuration cannot take and every name in the
  // configuration that is no module's.
  absl::StatusOr<std::vector<ChosenWeight>> Finish();

  QuantizeReport& report() { return report_; }
  // The configurations as they are written, after Finish(): with embeddings, where they are chosen, by name.
  const quantizer::ConfigMap& configs() const { return written_; }
  // What --embeddings says; null where it says nothing.
  const quantizer::Config* embeddings() const { return embeddings_ ? &*embeddings_ : nullptr; }

 private:
  Chooser() = default;
  quantizer::ConfigMap configs_, written_;
  std::unique_ptr<quantizer::Matcher> matcher_;
  quantizer::Scheme::Options options_;
  bool automatic_ = false;  // a budget chose the configurations
  std::optional<quantizer::Config> embeddings_;
  std::vector<weights::NameExpression> include_, exclude_;
  std::vector<bool> include_hit_, exclude_hit_;
  std::vector<ChosenWeight> chosen_;
  std::map<std::string, std::vector<std::string>> problems_;  // names by what is wrong
  QuantizeReport report_;
};

// What gets quantized with what: `consider` shows a chooser all weights, and, where budgets choose, `weight` gives the
// one of an index and a second chooser sees all again.
absl::StatusOr<std::unique_ptr<Chooser>> Choose(const ConvertOptions& o, bool program,
                                                const std::function<void(Chooser&)>& consider,
                                                const std::function<BudgetWeight(size_t)>& weight,
                                                std::vector<ChosenWeight>* chosen);

// How many threads to use: --threads, or as many as `run` does.
int Threads(const ConvertOptions& o);

// A checkpoint as it is written: tensors in place of those that are quantized, and the metadata that torchao's loader
// wants.
struct QuantizedCheckpoint {
  std::vector<weights::NamedTensor> tensors;
  std::map<std::string, std::string> metadata;  // to add to the file's
  // for a folder: config.json with its quantization_config, and the small files of the source's
  FolderFiles extra_files;
  std::function<absl::Status(
      const std::vector<const weights::NamedTensor*>& tensors,
      const std::function<absl::Status(const weights::NamedTensor&, uint64_t, absl::Span<const uint8_t>)>& write)>
      compute;
  std::shared_ptr<QuantizeReport> report;  // errors are filled in by compute()
};

// `tensors` by name. Notes go to `lines`.
absl::StatusOr<QuantizedCheckpoint> QuantizeCheckpoint(const ConvertOptions& o,
                                                       std::vector<weights::NamedTensor> tensors,
                                                       std::vector<std::string>* lines);

// Replaces the linear layers of a program by quantized ones, as the options say; `aten` spells them in operators that
// torch has. Values are kept in a scratch file in `folder`.
absl::StatusOr<std::shared_ptr<QuantizeReport>> QuantizeProgram(ir::Program& p, const ConvertOptions& o, bool aten,
                                                                const std::string& folder);

// --require-all: FailedPrecondition, naming them, where weights that were asked for stay in float.
absl::Status CheckRequired(const ConvertOptions& o, const QuantizeReport& report);
// Writes --html and --save-config, which are of an output that is written.
absl::Status FinalizeReport(const ConvertOptions& o, const QuantizeReport& report);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_QUANTIZE_H_
