// The families of quantized checkpoints, each a row of a table (quantized.cc) and a file with its functions: which
// tensors belong together, what shape the weight has that they stand for, and its numbers. What the functions share is
// declared here.
#ifndef SLIPWAY_WEIGHTS_QUANTIZED_FAMILIES_H_
#define SLIPWAY_WEIGHTS_QUANTIZED_FAMILIES_H_

#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text.h"
#include "ir/tensor_set.h"
#include "weights/quantized/model_config.h"
#include "weights/quantized/weight.h"

namespace slipway::weights::quantized {

// The tensors of a checkpoint, of which a family takes those that are parts of quantized weights.
class Finder {
 public:
  // `config` is null for families that are known by the tensors alone; `whole`: the set is a whole checkpoint, not one
  // file of several.
  Finder(const ir::TensorSet& set, const ModelConfig* config, bool whole) : set_(set), config_(config), whole_(whole) {}

  // Of families that a configuration names.
  const ModelConfig& config() const { return *config_; }
  bool has_config() const { return config_ != nullptr; }
  bool whole() const { return whole_; }
  const std::map<std::string, std::string>& metadata() const { return set_.metadata; }
  // The names of all tensors that end in `suffix`, without it.
  std::vector<std::string> EndingIn(std::string_view suffix) const;
  // The names of all tensors of a dtype.
  std::vector<std::string> Of(ir::DType dtype) const;
  bool Has(const std::string& name) const;
  // What a tensor is; nullptr where there is none, or it lies in pieces.
  const ir::TensorRef* Look(const std::string& name) const;

  // The values of a tensor of one of these dtypes. InvalidArgument, naming it, where there is none, or it is of another
  // dtype; Unimplemented where its values do not lie side by side.
  absl::StatusOr<Values> Need(const std::string& name, std::initializer_list<ir::DType> dtypes) const;
  // The same where there is a tensor of that name; else values without data.
  absl::StatusOr<Values> Want(const std::string& name, std::initializer_list<ir::DType> dtypes) const;

  // A weight in place of `parts`. InvalidArgument where there is a tensor of its name that is none of them, or one of
  // the parts is a part of another weight, too.
  absl::Status Add(Weight weight, const std::vector<std::string>& parts);
  // A tensor that means nothing once weights are plain.
  void LeaveOut(const std::string& name) { left_out_.insert(name); }

  const std::vector<std::shared_ptr<const Weight>>& weights() const { return weights_; }
  const std::set<std::string>& left_out() const { return left_out_; }
  // Names of parts, with the weight that they are parts of.
  const std::map<std::string, std::string>& taken() const { return taken_; }

 private:
  const ir::TensorSet& set_;
  const ModelConfig* const config_;
  const bool whole_;
  std::vector<std::shared_ptr<const Weight>> weights_;
  std::map<std::string, std::string> taken_;
  std::set<std::string> left_out_;
};

// Find all weights of a family. InvalidArgument, naming a tensor, for what does not fit together; Unimplemented, naming
// the variant, for what is not covered.
absl::Status FindFloat8(Finder& f);
absl::Status FindGptq(Finder& f);
absl::Status FindAwq(Finder& f);
absl::Status FindCompressedTensors(Finder& f);
absl::Status FindMxfp4(Finder& f);
absl::Status FindBitsandbytes(Finder& f);
absl::Status FindTorchao(Finder& f);

// What scales and zero points of a matrix belong to: blocks of so many rows and columns, `across` of them side by side.
struct Grid {
  int64_t rows = 1, columns = 1, across = 1;
  int64_t At(int64_t row, int64_t column) const { return row / rows * across + column / columns; }
};

// "[3,4]"; and the errors that several families have.
std::string Shape(const std::vector<int64_t>& sizes);
// "'a.qweight': [3,4] does not go with 'a.scales' of [5]".
absl::Status DoNotAgree(std::string_view name, const std::vector<int64_t>& sizes, std::string_view other,
                        const std::vector<int64_t>& other_sizes);
// Whether a shape is [rows, columns] with at least one of each.
bool IsMatrix(const std::vector<int64_t>& sizes);
// The checkpoints of a model whose linear layers are kept as [in, out] (GPT-2's Conv1D): Unimplemented.
absl::Status CheckNoConv1d(const Finder& f);

}  // namespace slipway::weights::quantized

#endif  // SLIPWAY_WEIGHTS_QUANTIZED_FAMILIES_H_
