// The two sides of `slipway verify`: models of any kind that can be run, behind one interface.
#ifndef SLIPWAY_DRIVER_VERIFY_MODEL_H_
#define SLIPWAY_DRIVER_VERIFY_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "driver/edge/plugins.h"
#include "driver/verify/inputs.h"
#include "driver/verify/verify.h"
#include "ir/graph.h"
#include "planner/evaluator.h"

namespace slipway::driver {

// A model that runs. `Run` gives an entry for each set: the outputs, or InvalidArgument where the model refuses the
// inputs; its own error is of the model: Unimplemented, and so on.
class VerifyModel {
 public:
  // What `path` is follows from its structure.
  // With `unoptimized` onnxruntime runs it as it is written.
  static absl::StatusOr<std::unique_ptr<VerifyModel>> Open(const std::string& path, const VerifyOptions& options,
                                                           bool unoptimized = false);
  virtual ~VerifyModel() = default;

  virtual absl::StatusOr<std::vector<absl::StatusOr<Tensors>>> Run(absl::Span<const Tensors> sets) = 0;
  // As it was read; null for what is no program.
  virtual const ir::Program* program() const { return nullptr; }
  // What f32 of the program became when it was converted (convert --dtype); kFloat32 where it stayed. Inputs of f32 are
  // cast by such a model, where it takes them so.
  virtual ir::DType narrowed() const { return ir::DType::kFloat32; }
  virtual std::string kind() const = 0;  // for people: "program", "native library", "ONNX model"
  // Of a run: onnxruntime's version.
  virtual std::string note() const { return ""; }
  // Of the outputs after Run(); empty where not known.
  virtual std::vector<std::string> output_names() const { return {}; }
};

// The tensor in another floating-point type; itself where it is none, or already that.
absl::StatusOr<ir::TensorRef> CastTo(const ir::TensorRef& t, ir::DType to);

// The options of plans that run programs to compare. `plugins` must outlive what is planned.
planner::PlanOptions PlanOptionsOf(const VerifyOptions& options, const Plugins& plugins);

// Each set by a program that is ready.
std::vector<absl::StatusOr<Tensors>> RunAll(ir::PreparedProgram& program, absl::Span<const Tensors> sets);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_VERIFY_MODEL_H_
