// The weights of a program that passes compute with at export: which values they are, their numbers, and new ones made
// of them.
#ifndef SLIPWAY_PASSES_STORED_WEIGHTS_H_
#define SLIPWAY_PASSES_STORED_WEIGHTS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace slipway::passes {

// y = scale[c] · x + shift[c] in channel c.
struct ChannelAffine {
  explicit ChannelAffine(int64_t channels)
      : scale(static_cast<size_t>(channels), 1), shift(static_cast<size_t>(channels)) {}
  std::vector<double> scale, shift;
};

class StoredWeights {
 public:
  explicit StoredWeights(ir::Program& p);

  // The name of an f32 or f64 weight that no run of the program updates; null for other values and for null.
  const std::string* NameOf(const ir::Value* v) const;
  const std::string* NameOf(const ir::Node& n, std::string_view argument) const {
    return NameOf(n.Get(argument).value());
  }
  bool IsWeightOrNone(const ir::Node& n, std::string_view argument) const;
  // Whether one node reads the weight, and nothing another one of the same bytes.
  bool IsReadOnce(const ir::Value* v) const;
  const ir::TensorRef& Tensor(const std::string& name) const { return p_.weights.find(name)->second; }
  absl::StatusOr<std::vector<double>> Read(const std::string& name) const;

  // A batch norm of the running statistics, which are weights as its factors are.
  bool IsNorm(const ir::Node& n) const;
  // Such a norm behind *all.
  absl::Status Append(const ir::Node& norm, ChannelAffine* all) const;
  // The bias of a product, a weight or None, in front of *all.
  absl::Status AddBiasOf(const ir::Node& product, ChannelAffine* all) const;

  ir::Value* Add(const std::string& name, ir::DType dtype, std::vector<int64_t> sizes, std::string bytes);
  // The bias of a product with the weight `of`, in its dtype; None where it would add nothing.
  ir::Arg AddBias(const std::string& of, const std::vector<double>& numbers);

 private:
  ir::Program& p_;
  absl::flat_hash_map<const ir::Value*, std::string> names_;
};

// Numbers in dtype, f32 or f64.
std::string BytesOf(ir::DType dtype, const std::vector<double>& numbers);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_STORED_WEIGHTS_H_
