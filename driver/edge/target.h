// What `convert` makes: the table of targets, each one value, and what the functions in it are handed.
#ifndef SLIPWAY_DRIVER_EDGE_TARGET_H_
#define SLIPWAY_DRIVER_EDGE_TARGET_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "driver/convert/convert.h"
#include "driver/convert/pass_context.h"
#include "driver/convert/storages.h"
#include "ir/graph.h"
#include "passes/pass.h"

namespace slipway::driver {

// One conversion on its way. Targets of programs find them in `archive`, read and with weights joined, and the passes
// run.
struct Conversion {
  const ConvertOptions& options;
  const Reader& reader;
  ConvertSummary& summary;
  ir::Archive archive;
  ConversionContext context;
  uint64_t max_output = 0;                                          // bytes; set by CheckInputs()
  std::vector<std::pair<std::string, std::string>> extra_metadata;  // of the metadata, what this conversion adds
  // of the results that a call gives, as they were read: passes rename and join values
  std::vector<std::string> output_names;

  // What was read, before anything is made of it: verified as --check-crc asks, and the output limited by what it
  // holds.
  absl::Status CheckInputs(const Storages& storages);
  ir::Program& program() { return *archive.programs[0]; }
  // What a model says of its making: --metadata, slipway's version, the source's producer and digest.
  std::vector<std::pair<std::string, std::string>> Metadata() const;
};

using Legality = std::function<bool(const ir::Node&)>;

struct Target {
  enum Takes : uint8_t { kOneProgram, kSeveralPrograms, kTensors };
  std::string_view name;    // for --to
  unsigned bit;             // in ConvertFlag::targets
  std::string_view suffix;  // of outputs, ".onnx", several with a | between them; "" where --to must say it
  std::string_view title;   // in messages: "ONNX" takes one program
  Takes takes;
  absl::Span<const passes::Pipeline* const> passes;
  // Whether a node is legal, as the options have it; null where no pass of the target asks.
  absl::StatusOr<Legality> (*legal)(const ConvertOptions& o);
  passes::FoldLimits fold;
  // Exports, and fills in the summary's bytes; its node count too where that is not the program's.
  absl::Status (*write)(Conversion& c);
};

absl::Span<const Target> Targets();
// Null for a name that is no target's.
const Target* FindTarget(std::string_view name);
// The target that --to or the output's name asks for: its suffix, or a folder ("dir/", or one that exists). Usage for
// what asks for two things, a folder with a suffix, and for "-".
absl::StatusOr<const Target*> TargetOf(const ConvertOptions& o);
// The output as a folder ("out" as "out/") where all inputs are folders, nothing of its name is there, and neither its
// suffix nor --to says what it is; else as it is.
std::string OutputOf(const ConvertOptions& o);
bool IsFolder(const std::string& output);

// Usage, naming every flag that was given and that `target` does not take, with the targets that do.
absl::Status CheckFlags(const ConvertOptions& o, const Target& target);

// The programs of the inputs with their weights joined, as many as `target` takes.
absl::StatusOr<ir::Archive> ReadPrograms(const ConvertOptions& o, const Reader& reader, const Target& target,
                                         ConvertSummary& summary);

// torch.export.load runs whatever pickle it finds as sample inputs, so only those of tensors and plain containers are
// passed on; a line of the summary says why others are not.
void DropUnsafeSampleInputs(ir::Program& p, ConvertSummary& summary);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_TARGET_H_
