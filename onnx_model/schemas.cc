// The table lists the schema classes that ONNX's operator_sets*.h declare; CMake takes it from there
// (cmake/OnnxSchemas.cmake). Where an operator's inference trusts an attribute too far, that is checked before.
#include "onnx_model/schemas.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "onnx/defs/operator_sets.h"
#include "onnx/defs/operator_sets_preview.h"
#include "onnx/defs/shape_inference.h"

namespace slipway::onnx_model {
namespace {

struct Version {
  int since;
  onnx::OpSchema (*make)();
};

// Domains by how names of schema classes have them.
constexpr std::string_view Onnx = "", OnnxPreview = kPreviewDomain;
using OperatorName = std::pair<std::string_view, std::string_view>;  // domain and type

// By operator, newest first.
const std::map<OperatorName, std::vector<Version>>& Versions() {
  static const auto& versions = *[] {
    auto* m = new std::map<OperatorName, std::vector<Version>>;
    const struct {
      OperatorName type;
      Version version;
    } all[] = {
#define SLIPWAY_SCHEMA(domain, since, type) \
  {{domain, #type},                         \
   {since, [] { return onnx::GetOpSchema<onnx::ONNX_OPERATOR_SET_SCHEMA_CLASS_NAME(domain, since, type)>(); }}},
#include "onnx_schemas.inc"
#undef SLIPWAY_SCHEMA
    };
    for (const auto& [type, version] : all) (*m)[type].push_back(version);
    for (auto& [type, list] : *m)
      std::sort(list.begin(), list.end(), [](const Version& a, const Version& b) { return a.since > b.since; });
    return m;
  }();
  return versions;
}

// What inference of an operator takes for granted of a node.
struct Precondition {
  std::string_view type;
  bool (*holds)(onnx::InferenceContext& c);
};
constexpr Precondition kPreconditions[] = {
    // The search for letters does not end at other characters.
    {"Einsum",
     [](onnx::InferenceContext& c) {
       const onnx::AttributeProto* equation = c.getAttribute("equation");
       return equation && std::all_of(equation->s().begin(), equation->s().end(), [](char x) {
                return absl::ascii_isalpha(x) || x == ',' || x == '.' || x == '-' || x == '>' || x == ' ';
              });
     }},
    // The result's shape is the input's, whatever is known of that.
    {"EyeLike", [](onnx::InferenceContext& c) { return c.getInputType(0) != nullptr; }},
    {"RegexFullMatch", [](onnx::InferenceContext& c) { return c.getInputType(0) != nullptr; }},
    // So many dims of the indices are taken for granted.
    {"GatherND",
     [](onnx::InferenceContext& c) {
       const onnx::AttributeProto* batch = c.getAttribute("batch_dims");
       if (!batch || !onnx::hasNInputShapes(c, 2)) return true;
       return batch->i() >= 0 && batch->i() < onnx::getInputShape(c, 0).dim_size() &&
              batch->i() < onnx::getInputShape(c, 1).dim_size();
     }},
    // Sizes are set from there on.
    {"LayerNormalization",
     [](onnx::InferenceContext& c) {
       const onnx::AttributeProto* axis = c.getAttribute("axis");
       if (!axis || !onnx::hasInputShape(c, 0)) return true;
       const int64_t rank = onnx::getInputShape(c, 0).dim_size();
       return axis->i() >= -rank && axis->i() < rank;
     }},
};

// Propagation of sizes through a list makes an element for each of its own, known or not.
constexpr int64_t kMostSizes = 4096;

bool HasLongList(onnx::DataPropagationContext& c) {
  for (size_t i = 0; i < c.getNumInputs(); ++i) {
    const onnx::TypeProto* type = c.getInputType(i);
    if (!type || !type->has_tensor_type() || type->tensor_type().shape().dim_size() != 1) continue;
    if (type->tensor_type().shape().dim(0).dim_value() > kMostSizes) return true;
  }
  return false;
}

onnx::OpSchema WithChecks(onnx::OpSchema schema) {
  if (schema.has_data_propagation_function())
    schema.PartialDataPropagationFunction(
        [propagate = schema.GetDataPropagationFunction()](onnx::DataPropagationContext& c) {
          if (!HasLongList(c)) propagate(c);
        });
  for (const Precondition& b : kPreconditions)
    if (schema.Name() == b.type && schema.domain().empty())
      schema.TypeAndShapeInferenceFunction(
          [holds = b.holds, infer = schema.GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& c) {
            if (!holds(c)) throw onnx::InferenceError("an attribute that no node of this operator may have");
            infer(c);
          });
  return schema;
}

const onnx::OpSchema* FindLocked(const std::string& type, int opset, const std::string& domain) {
  static auto& found = *new std::map<std::tuple<std::string, std::string, int>, const onnx::OpSchema*>;
  static auto& registered = *new std::set<std::tuple<std::string, std::string, int>>;
  const auto [entry, first] = found.try_emplace({domain, type, opset}, nullptr);
  auto versions = Versions().find({domain, type});
  if (!first || versions == Versions().end()) return entry->second;
  for (const Version& v : versions->second) {
    if (v.since > opset) continue;
    if (registered.emplace(domain, type, v.since).second)
      onnx::RegisterSchema(WithChecks(v.make()), 0, /*fail_duplicate_schema=*/false);
    const onnx::OpSchema* schema = entry->second = onnx::OpSchemaRegistry::Schema(type, opset, domain);
    // The checker infers a function's types by its body, whose operators are those of the function's own opset.
    // Null where the body is of operators that the opset has not.
    const onnx::FunctionProto* body = schema && schema->HasFunction() ? schema->GetFunction(opset) : nullptr;
    for (int i = 0; body && i < body->node_size(); ++i)
      FindLocked(body->node(i).op_type(), opset, body->node(i).domain());
    break;
  }
  return entry->second;
}

}  // namespace

std::shared_mutex& RegistryMutex() {
  static std::shared_mutex& mutex = *new std::shared_mutex;
  return mutex;
}

const onnx::OpSchema* FindSchema(const std::string& type, int opset, const std::string& domain) {
  std::lock_guard lock(RegistryMutex());
  return FindLocked(type, opset, domain);
}

}  // namespace slipway::onnx_model
