// Made-up numbers depend on the input's name and type only, so that the same candidate always gets the same.
#include "driver/minify/data.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "base/floats.h"
#include "base/status_macros.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/diagnostic.h"
#include "exporters/onnx/export.h"
#include "importers/checkpoint/state_dict.h"
#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"
#include "io/temp_folder.h"
#include "ir/clone.h"
#include "ir/ops/op_table.h"
#include "onnx_model/onnx_graph.h"
#include "passes/pass.h"
#include "planner/evaluator.h"

namespace slipway::driver {
namespace {

using ir::DType;
using ir::TensorRef;
using ir::Type;
using ir::Value;

constexpr int64_t kMostRecorded = int64_t{1} << 30;  // bytes
constexpr int64_t kMostMadeUp = int64_t{1} << 28;

int64_t ValueOf(ir::Sym s, const text::Map<int64_t>& symbols) {
  const auto value = ir::Evaluate(s, [&](std::string_view name) -> std::optional<int64_t> {
    auto it = symbols.find(name);
    return it == symbols.end() ? 2 : it->second;
  });
  return value.value_or(2);
}

std::vector<int64_t> SizesOf(const Type& t, const text::Map<int64_t>& symbols) {
  std::vector<int64_t> sizes;
  for (ir::Sym s : t.sizes) sizes.push_back(std::max<int64_t>(0, ValueOf(s, symbols)));
  return sizes;
}

DType TypeOf(const Type& t) {
  switch (t.kind) {
    case Type::kSymInt: return DType::kInt64;
    case Type::kSymFloat: return DType::kFloat64;
    case Type::kSymBool: return DType::kBool;
    default: return t.dtype;
  }
}

template <typename T>
void Put(std::string& bytes, size_t i, T x) {
  std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x);
}

// Floats between -2 and 2 that are not regular, integers and truth values of 0 and 1: valid as indices of anything.
TensorRef MadeUp(std::string_view name, const Type& t, const text::Map<int64_t>& symbols) {
  const DType dtype = TypeOf(t);
  std::vector<int64_t> sizes = t.is_tensor() ? SizesOf(t, symbols) : std::vector<int64_t>();
  TensorRef shape;
  shape.dtype = dtype;
  shape.sizes = sizes;
  int64_t n = 1;
  for (int64_t s : sizes)
    if (s > 0 && n <= kMostMadeUp) n *= s;
  if (n > kMostMadeUp || ir::BitSize(dtype) % 8 != 0) {
    auto storage = std::make_shared<ir::Storage>();
    storage->bytes = ir::Splat{0};
    shape.strides = ir::ContiguousStrides(sizes);
    shape.storage = storage;
    storage->size = static_cast<uint64_t>(shape.nbytes());
    return shape;
  }
  std::string bytes(static_cast<size_t>(shape.nbytes()), '\0');
  uint64_t state = 0xcbf29ce484222325;
  for (char c : name) state = (state ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  if (t.kind == Type::kSymInt) {
    Put(bytes, 0, ValueOf(t.expr, symbols));
    return ir::OwnedTensor(dtype, std::move(sizes), std::move(bytes));
  }
  const int64_t count = shape.numel();
  for (int64_t k = 0; k < count; ++k) {
    state += 0x9e3779b97f4a7c15;  // SplitMix64
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    const size_t i = static_cast<size_t>(k);
    const double x = std::round((static_cast<double>(z >> 11) / 9007199254740992.0 * 4 - 2) * 1024) / 1024;
    switch (dtype) {
      case DType::kFloat32: Put(bytes, i, static_cast<float>(x)); break;
      case DType::kFloat64: Put(bytes, i, x); break;
      case DType::kFloat16: Put(bytes, i, F16(static_cast<float>(x)).bits); break;
      case DType::kBFloat16: Put(bytes, i, BF16(static_cast<float>(x)).bits); break;
      case DType::kInt64:
      case DType::kUInt64: Put(bytes, i, static_cast<int64_t>(z & 1)); break;
      case DType::kInt32:
      case DType::kUInt32: Put(bytes, i, static_cast<int32_t>(z & 1)); break;
      case DType::kInt16:
      case DType::kUInt16: Put(bytes, i, static_cast<int16_t>(z & 1)); break;
      case DType::kInt8:
      case DType::kUInt8:
      case DType::kBool: Put(bytes, i, static_cast<int8_t>(z & 1)); break;
      default: k = count; break;  // zeros
    }
  }
  return ir::OwnedTensor(dtype, std::move(sizes), std::move(bytes));
}

// Whether a tensor is what an input of the type takes.
bool Fits(const TensorRef& t, const Type& type, const text::Map<int64_t>& symbols) {
  if (t.dtype != TypeOf(type)) return false;
  if (!type.is_tensor()) return t.sizes.empty();
  return t.sizes == SizesOf(type, symbols);
}

// Rank, dtype and known sizes.
bool MayFit(const TensorRef& t, const Type& type) {
  if (t.dtype != TypeOf(type) || static_cast<int>(t.sizes.size()) != (type.is_tensor() ? type.rank() : 0)) return false;
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (type.sizes[d].is_constant() && *type.sizes[d].constant() != t.sizes[d]) return false;
  return true;
}

absl::StatusOr<std::vector<TensorRef>> ReadInputs(const std::string& path, const std::vector<const Value*>& inputs) {
  ASSIGN_OR_RETURN(const auto file, io::MappedFile::Open(path));
  ASSIGN_OR_RETURN(const auto set, importers::ReadSafetensors(file));
  std::vector<TensorRef> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto it = set.tensors.find(text::StrCat("input.", i));
    if (it == set.tensors.end()) return absl::InvalidArgumentError(text::StrCat(path, ": there is no input.", i));
    if (!MayFit(it->second, inputs[i]->type()))
      return absl::InvalidArgumentError(text::StrCat(path, ": input.", i, " is ", ir::Name(it->second.dtype), "[",
                                                     text::Join(it->second.sizes, ","), "], the program takes ",
                                                     inputs[i]->type().ToString()));
    out.push_back(it->second);
  }
  return out;
}

std::vector<TensorRef> ReadSamples(const ir::Program& p, const std::vector<const Value*>& inputs) {
  const auto* bytes = p.sample_inputs ? std::get_if<io::Bytes>(&p.sample_inputs->bytes) : nullptr;
  if (!bytes) return {};
  auto tensors = importers::ListCheckpoint(*bytes);
  if (!tensors.ok() || tensors->tensors.size() != inputs.size()) return {};
  std::vector<TensorRef> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorRef& sample = tensors->tensors[i].second;
    if (!MayFit(sample, inputs[i]->type())) return {};
    out.push_back(sample);
  }
  return out;
}

// The program without what the executor does not take, its nodes still under their names.
std::unique_ptr<ir::Program> Runnable(const ir::Program& original) {
  std::unique_ptr<ir::Program> p = ir::Clone(original);
  if (p->form == ir::Form::kFunctional) return p;
  ConversionContext context;
  for (std::string_view name :
       {"infer-shapes", "unwrap-subclasses", "inline-subgraphs", "remove-vmap", "functionalize"})
    if (!passes::RunPass(*passes::FindPass(name), *p, context).ok()) return nullptr;
  return p;
}

// The values that can be computed, as long as they fit.
void Record(const ir::Program& original, const std::vector<TensorRef>& inputs, const text::Map<int64_t>& symbols,
            text::Map<TensorRef>& values) {
  std::unique_ptr<ir::Program> p = Runnable(original);
  if (!p) return;
  planner::PlanEvaluator evaluator({.memory_limit = uint64_t{1} << 33});
  absl::flat_hash_set<const Value*> computable;
  for (const Value* v : p->graph->inputs()) computable.insert(v);
  std::vector<std::string> names;
  int64_t bytes = 0;
  for (const ir::Node* n : *p->graph) {
    bool supported = evaluator.Supports(*n) && !n->op().mutates();
    for (const ir::NamedArg& a : n->args()) a.arg.ForEachValue([&](Value* v) { supported &= computable.contains(v); });
    if (!supported) continue;
    for (const Value* v : n->outputs()) {
      if (!v) continue;
      computable.insert(v);
      if (!v->type().is_tensor() || !original.graph->FindValue(v->name())) continue;
      int64_t size = ir::ByteSize(v->dtype());
      for (int64_t s : SizesOf(v->type(), symbols)) size = size > kMostRecorded ? size : size * s;
      if (bytes + size > kMostRecorded) continue;
      bytes += size;
      names.push_back(v->name());
    }
  }
  // Nodes that cannot be computed must not be there to be planned.
  p->graph->outputs.clear();
  p->output_specs.clear();
  for (ir::Node *n = p->graph->last(), *previous; n; n = previous) {
    previous = n->prev();
    bool used = false;
    for (Value* v : n->outputs()) used |= v && (!v->users().empty() || computable.contains(v));
    if (!used) p->graph->Erase(n);
  }
  auto prepared = evaluator.Prepare(std::move(p), names);
  if (!prepared.ok()) return;
  auto results = (*prepared)->Run(inputs);
  if (!results.ok() || results->size() != names.size()) return;
  for (size_t i = 0; i < names.size(); ++i) values.insert_or_assign(names[i], std::move((*results)[i]));
}

// The same of an ONNX model. One that onnxruntime does not run is cut behind the last node with which it does.
absl::Status RecordModel(const ir::Program& original, const text::Map<int64_t>& symbols,
                         const OnnxRuntimeOptions& runtime, text::Map<TensorRef>& values) {
  ASSIGN_OR_RETURN(const auto folder, io::TempFolder::Make());
  const std::string path = folder->path() + "/model.onnx";
  const minifier::StandIns names(original);
  OnnxRuntimeOptions options = runtime;
  options.optimize = false;
  options.exact = options.lenient = true;
  // Whether the first nodes run.
  const auto run = [&](size_t count) -> absl::StatusOr<bool> {
    std::unique_ptr<ir::Program> p = ir::Clone(original);
    minifier::Places places(count);
    std::iota(places.begin(), places.end(), 0);
    if (count < p->graph->node_count()) RETURN_IF_ERROR(minifier::KeepNodes(places, minifier::Joint::kCut, &names)(*p));
    Tensors inputs;
    for (const Value* v : UserInputs(*p)) {
      auto it = values.find(v->name());
      if (it == values.end()) return false;
      inputs.push_back(it->second);
    }
    std::vector<std::string> wanted;
    int64_t bytes = 0;
    for (const ir::Node* n : *p->graph)
      for (const Value* v : n->outputs()) {
        if (!v) continue;
        int64_t size = v->type().is_tensor() ? ir::ByteSize(v->dtype()) : 0;
        if (v->type().is_tensor())
          for (int64_t s : SizesOf(v->type(), symbols)) size = size > kMostRecorded ? size : size * s;
        if (bytes + size > kMostRecorded) continue;
        bytes += size;
        wanted.push_back(v->name());
      }
    RETURN_IF_ERROR(exporters::ExportOnnxGraph(*p, path).status());
    auto runs = RunOnnx(path, absl::MakeConstSpan(&inputs, 1), options, &wanted);
    if (!runs.ok() && IdOf(runs.status()) == id::kNoRuntime) return runs.status();
    if (!runs.ok() || !runs->results[0].ok()) return false;
    std::vector<std::string> given = runs->outputs;
    given.insert(given.end(), runs->observed.begin(), runs->observed.end());
    for (size_t i = 0; i < given.size() && i < runs->results[0]->size(); ++i)
      if ((*runs->results[0])[i].storage && original.graph->FindValue(given[i]))
        values.insert_or_assign(given[i], (*runs->results[0])[i]);
    return true;
  };
  const size_t all = original.graph->node_count();
  ASSIGN_OR_RETURN(const bool whole, run(all));
  for (size_t good = 0, bad = all; !whole && good + 1 < bad;) {
    const size_t middle = good + (bad - good) / 2;
    ASSIGN_OR_RETURN(const bool runs, run(middle));
    (runs ? good : bad) = middle;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<const Value*> UserInputs(const ir::Program& p) {
  std::vector<const Value*> out;
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (p.input_specs[i].kind == ir::InputSpec::kUser && p.graph->inputs()[i]->type().kind != Type::kConstant)
      out.push_back(p.graph->inputs()[i]);
  return out;
}

absl::StatusOr<MinifyData> MinifyData::Make(const ir::Program& original, const std::string& file, bool record,
                                            const OnnxRuntimeOptions& runtime) {
  MinifyData d;
  const std::vector<const Value*> inputs = UserInputs(original);
  std::vector<TensorRef> given;
  if (!file.empty()) {
    ASSIGN_OR_RETURN(given, ReadInputs(file, inputs));
    d.origin_ = "inputs from a file";
  } else if (record) {
    given = ReadSamples(original, inputs);
    if (!given.empty()) d.origin_ = "the archive's sample inputs";
  }
  for (const ir::SymbolInfo& s : original.syms->symbols()) {
    int64_t value = s.hint.value_or(std::max<int64_t>(2, s.range.min));
    d.symbols_[s.name] = std::min(std::max(value, s.range.min), s.range.max);
  }
  for (size_t i = 0; i < given.size(); ++i)
    for (size_t k = 0; k < given[i].sizes.size(); ++k)
      if (ir::Sym s = inputs[i]->type().sizes[k]; !s.is_constant() && s.kind() == ir::SymKind::kSymbol)
        d.symbols_[std::string(s.name())] = given[i].sizes[k];
  if (given.empty()) {
    for (const Value* v : inputs) given.push_back(MadeUp(v->name(), v->type(), d.symbols_));
    d.origin_ = "made-up inputs";
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (given[i].dtype != DType::kUnknown) d.values_[inputs[i]->name()] = given[i];  // no sequence, no text
  if (record) {
    const size_t before = d.values_.size();
    if (onnx_model::IsOnnx(original)) {
      RETURN_IF_ERROR(RecordModel(original, d.symbols_, runtime, d.values_));
    } else {
      Record(original, given, d.symbols_, d.values_);
    }
    if (d.values_.size() > before)
      text::StrAppend(&d.origin_, ", and what the ", onnx_model::IsOnnx(original) ? "model" : "program",
                      " computes of them");
  }
  return d;
}

void MinifyData::StateTypes(ir::Program& p) const {
  const auto state = [&](Value* v) {
    if (!v || v->type().kind != Type::kObject) return;
    auto it = values_.find(v->name());
    if (it == values_.end()) return;
    ir::Sizes sizes(it->second.sizes.begin(), it->second.sizes.end());
    v->mutable_type() = Type::Tensor(it->second.dtype, std::move(sizes));
  };
  for (Value* v : p.graph->inputs()) state(v);
  for (ir::Node* n : *p.graph)
    for (Value* v : n->outputs()) state(v);
}

std::vector<TensorRef> MinifyData::InputsOf(const ir::Program& candidate, const minifier::StandIns& names) const {
  std::vector<TensorRef> out;
  for (const Value* v : UserInputs(candidate)) {
    auto it = values_.find(names.ValueOf(v->name()));
    // Sizes that depend on data are what the data say.
    if (it != values_.end() &&
        (Fits(it->second, v->type(), symbols_) || (!v->type().StaticSizes() && MayFit(it->second, v->type()))))
      out.push_back(it->second);
    else
      out.push_back(MadeUp(v->name(), v->type(), symbols_));
  }
  return out;
}

}  // namespace slipway::driver
