// The table lists the schema classes that onnx/defs/operator_sets.h declares; CMake takes it from there
// (cmake/OnnxSchemas.cmake).
#include "onnx_model/schemas.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/defs/operator_sets.h"

namespace slipway::onnx_model {
namespace {

struct Version {
  int since;
  onnx::OpSchema (*make)();
};

// By operator, newest first.
const std::map<std::string_view, std::vector<Version>>& Versions() {
  static const auto& versions = *[] {
    auto* m = new std::map<std::string_view, std::vector<Version>>;
    const struct {
      std::string_view type;
      Version version;
    } all[] = {
#define SLIPWAY_SCHEMA(since, type) \
  {#type, {since, [] { return onnx::GetOpSchema<onnx::ONNX_OPERATOR_SET_SCHEMA_CLASS_NAME(Onnx, since, type)>(); }}},
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

const onnx::OpSchema* FindLocked(const std::string& type, int opset) {
  static auto& found = *new std::map<std::pair<std::string, int>, const onnx::OpSchema*>;
  static auto& registered = *new std::set<std::pair<std::string, int>>;
  const auto [entry, first] = found.try_emplace({type, opset}, nullptr);
  auto versions = Versions().find(type);
  if (!first || versions == Versions().end()) return entry->second;
  for (const Version& v : versions->second) {
    if (v.since > opset) continue;
    if (registered.emplace(type, v.since).second) onnx::RegisterSchema(v.make(), 0, /*fail_duplicate_schema=*/false);
    const onnx::OpSchema* schema = entry->second = onnx::OpSchemaRegistry::Schema(type, opset);
    // The checker infers a function's types by its body, whose operators are those of the function's own opset.
    // Null where the body is of operators that the opset has not.
    const onnx::FunctionProto* body = schema && schema->HasFunction() ? schema->GetFunction(opset) : nullptr;
    for (int i = 0; body && i < body->node_size(); ++i) FindLocked(body->node(i).op_type(), opset);
    break;
  }
  return entry->second;
}

}  // namespace

std::shared_mutex& RegistryMutex() {
  static std::shared_mutex& mutex = *new std::shared_mutex;
  return mutex;
}

const onnx::OpSchema* FindSchema(const std::string& type, int opset) {
  std::lock_guard lock(RegistryMutex());
  return FindLocked(type, opset);
}

}  // namespace slipway::onnx_model
