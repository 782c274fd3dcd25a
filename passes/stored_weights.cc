#include "passes/stored_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "base/text.h"
#include "ir/ops/args.h"

namespace slipway::passes {

using ir::DType;
using ir::Value;

StoredWeights::StoredWeights(ir::Program& p) : p_(p) {
  const text::Set updated = ir::UpdatedWeights(p);
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    const Value* v = p.graph->inputs()[i];
    const auto weight = s.kind == ir::InputSpec::kUser ? p.weights.end() : p.weights.find(s.target);
    if (weight == p.weights.end() || updated.contains(s.target) || weight->second.dtype != v->dtype() ||
        (v->dtype() != DType::kFloat32 && v->dtype() != DType::kFloat64))
      continue;
    const auto sizes = v->type().StaticSizes();
    if (sizes && *sizes == weight->second.sizes) names_[v] = weight->first;
  }
}

const std::string* StoredWeights::NameOf(const Value* v) const {
  const auto it = names_.find(v);
  return it == names_.end() ? nullptr : &it->second;
}

bool StoredWeights::IsWeightOrNone(const ir::Node& n, std::string_view argument) const {
  return n.Get(argument).value() == nullptr ? n.Get(argument).is_none() : NameOf(n, argument) != nullptr;
}

bool StoredWeights::IsReadOnce(const Value* v) const {
  if (v->users().size() != 1 || p_.graph->IsOutput(v)) return false;
  const ir::TensorRef& t = Tensor(*NameOf(v));
  for (size_t i = 0; i < p_.input_specs.size(); ++i) {
    const Value* other = p_.graph->inputs()[i];
    const auto it = p_.weights.find(p_.input_specs[i].target);
    if (other != v && it != p_.weights.end() && it->second.storage == t.storage && it->second.offset == t.offset &&
        (!other->users().empty() || p_.graph->IsOutput(other)))
      return false;
  }
  return true;
}

absl::StatusOr<std::vector<double>> StoredWeights::Read(const std::string& name) const {
  return ir::ReadNumbers(Tensor(name));
}

bool StoredWeights::IsNorm(const ir::Node& n) const {
  if (n.op_name() != "aten.batch_norm.default") return false;
  ir::ArgReader c(n);
  const bool training = c.b("training");
  (void)c.f("eps");
  return c.ok() && !training && NameOf(n, "running_mean") && NameOf(n, "running_var") && IsWeightOrNone(n, "weight") &&
         IsWeightOrNone(n, "bias");
}

absl::Status StoredWeights::Append(const ir::Node& norm, ChannelAffine* all) const {
  ir::ArgReader c(norm);
  const double epsilon = c.f("eps");
  ChannelAffine own(static_cast<int64_t>(all->scale.size()));
  auto each = [&](std::string_view argument, auto f) -> absl::Status {
    const std::string* name = NameOf(norm, argument);
    if (!name) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<double> values, Read(*name));
    if (values.size() != own.scale.size())
      return absl::InvalidArgumentError("a batch norm of another number of channels");
    for (size_t i = 0; i < values.size(); ++i) f(own.scale[i], own.shift[i], values[i]);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(each("running_var", [&](double& scale, double&, double v) { scale = 1 / std::sqrt(v + epsilon); }));
  RETURN_IF_ERROR(each("weight", [](double& scale, double&, double v) { scale *= v; }));
  RETURN_IF_ERROR(each("running_mean", [](double& scale, double& shift, double v) { shift = -v * scale; }));
  RETURN_IF_ERROR(each("bias", [](double&, double& shift, double v) { shift += v; }));
  for (size_t i = 0; i < own.scale.size(); ++i) {
    all->scale[i] *= own.scale[i];
    all->shift[i] = all->shift[i] * own.scale[i] + own.shift[i];
  }
  return absl::OkStatus();
}

absl::Status StoredWeights::AddBiasOf(const ir::Node& product, ChannelAffine* all) const {
  const std::string* name = NameOf(product, "bias");
  if (!name) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<double> bias, Read(*name));
  if (bias.size() != all->shift.size()) return absl::InvalidArgumentError("a bias of another number of channels");
  for (size_t i = 0; i < bias.size(); ++i) all->shift[i] += bias[i] * all->scale[i];
  return absl::OkStatus();
}

Value* StoredWeights::Add(const std::string& name, DType dtype, std::vector<int64_t> sizes, std::string bytes) {
  ir::TensorRef t = ir::OwnedTensor(dtype, std::move(sizes), std::move(bytes));
  return ir::AddWeight(p_, ir::InputSpec::kTensorConstant, name, std::move(t), text::StrCat("c_", name));
}

ir::Arg StoredWeights::AddBias(const std::string& of, const std::vector<double>& numbers) {
  if (std::all_of(numbers.begin(), numbers.end(), [](double d) { return d == 0; })) return ir::None{};
  const DType dtype = Tensor(of).dtype;
  return Add(text::StrCat(of, ".merged_bias"), dtype, {static_cast<int64_t>(numbers.size())}, BytesOf(dtype, numbers));
}

std::string BytesOf(DType dtype, const std::vector<double>& numbers) {
  const auto write = [&]<typename T>(T) {
    std::string bytes(numbers.size() * sizeof(T), '\0');
    for (size_t i = 0; i < numbers.size(); ++i) {
      const T x = static_cast<T>(numbers[i]);
      std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x);
    }
    return bytes;
  };
  return dtype == DType::kFloat64 ? write(double{}) : write(float{});
}

}  // namespace slipway::passes
