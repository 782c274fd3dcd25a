// Reports of inspect as JSON (schemas/inspect.schema.json).
#include <algorithm>
#include <limits>

#include "base/byte_count.h"
#include "base/json.h"
#include "base/text.h"
#include "driver/inspect/inspect.h"
#include "driver/inspect/inspect_text.h"

namespace slipway::driver {

std::string Bound(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) return "-inf";
  if (v == std::numeric_limits<int64_t>::max()) return "inf";
  return text::StrCat(v);
}

namespace {

void PutRows(json::Writer& j, std::string_view key, const std::vector<TensorRow>& rows, bool weights) {
  j.Key(key);
  j.BeginArray();
  for (const TensorRow& r : rows) {
    j.BeginObject();
    j.Key("name").String(r.name);
    j.Key("kind").String(r.kind);
    if (!r.dtype.empty()) j.Key("dtype").String(r.dtype);
    if (r.is_tensor) {
      j.Key("shape");
      j.BeginArray();
      for (const std::string& s : r.shape) {
        int64_t n;
        if (text::ParseNumber(s, &n))
          j.Raw(s);
        else
          j.String(s);
      }
      j.EndArray();
    } else {
      j.Key("value").String(r.value);
    }
    if (weights) {
      j.Key("bytes").Int(r.bytes);
      j.Key("stored");
      j.Raw(r.stored ? "true" : "false");
      if (!r.form.empty()) j.Key("form").String(r.form);
    }
    j.EndObject();
  }
  j.EndArray();
}

void PutKernels(json::Writer& j, const KernelsReport& r) {
  j.BeginObject()
      .Key("isa")
      .String(r.isa)
      .Key("integers")
      .String(r.integers)
      .Key("bf16")
      .String(r.bf16)
      .Key("cap")
      .String(r.cap);
  j.Key("products").BeginArray();
  // Numbers as numbers.
  auto size = [&](std::string_view key, const std::string& s) {
    int64_t n;
    j.Key(key);
    if (text::ParseNumber(s, &n))
      j.Int(n);
    else
      j.String(s);
  };
  for (const ProductRow& p : r.products) {
    j.BeginObject().Key("op").String(p.op).Key("place").String(p.place).Key("kernel").String(p.kernel);
    size("batch", p.batch), size("m", p.m), size("k", p.k);
    if (!p.n.empty()) size("n", p.n);
    j.Key("left").String(p.left);
    if (!p.right.empty()) j.Key("right").String(p.right);
    j.Key("result")
        .String(p.result)
        .Key("groups")
        .Int(p.groups)
        .Key("packing")
        .String(p.packing)
        .Key("weight_bytes")
        .Int(p.bytes);
    j.Key("loops").BeginArray();
    for (const ProductRow::Rows& l : p.loops) {
      j.BeginObject().Key("from").Int(l.from).Key("to");
      if (l.to == 0)
        j.Raw("null");
      else
        j.Int(l.to);
      j.Key("isa").String(l.isa).Key("way").String(l.way).EndObject();
    }
    j.EndArray().EndObject();
  }
  j.EndArray().EndObject();
}

constexpr uint64_t kMostJsonBytes = std::numeric_limits<int64_t>::max();

void PutProgram(json::Writer& j, const ProgramReport& p) {
  j.BeginObject();
  j.Key("name").String(p.name);
  j.Key("form").String(p.form);
  j.Key("schema").String(text::StrCat(p.schema_major, ".", p.schema_minor));
  j.Key("torch").String(p.torch_version);
  j.Key("dialect").String(p.dialect);
  j.Key("nodes").Int(p.nodes);
  j.Key("subgraphs").Int(p.subgraphs);
  PutRows(j, "inputs", p.inputs, false);
  PutRows(j, "outputs", p.outputs, false);
  PutRows(j, "updates", p.updates, false);
  j.Key("dims");
  j.BeginArray();
  for (const ir::SymbolInfo& s : p.dims) {
    j.BeginObject();
    j.Key("name").String(s.name);
    auto bound = [&](std::string_view key, int64_t v, int64_t unlimited) {
      j.Key(key);
      j.Raw(v == unlimited ? "null" : text::StrCat(v));
    };
    bound("min", s.range.min, std::numeric_limits<int64_t>::min());
    bound("max", s.range.max, std::numeric_limits<int64_t>::max());
    if (s.hint) {
      j.Key("hint");
      j.Raw(text::StrCat(*s.hint));
    }
    j.EndObject();
  }
  j.EndArray();
  j.Key("guards");
  j.BeginArray();
  for (const std::string& g : p.guards) j.String(g);
  j.EndArray();
  j.Key("ops");
  j.BeginObject();
  for (const auto& [name, count] : p.ops) j.Key(name).Int(count);
  j.EndObject();
  PutRows(j, "weights", p.weights, true);
  uint64_t bytes = 0, lacking = 0, lacking_bytes = 0;
  for (const TensorRow& r : p.weights) {
    bytes += r.bytes;
    lacking += !r.stored;
    if (__builtin_add_overflow(lacking_bytes, r.lacking, &lacking_bytes)) lacking_bytes = kMostJsonBytes;
  }
  j.Key("weight_bytes").Int(bytes);
  j.Key("weights_without_values").Int(lacking);
  j.Key("bytes_without_values").Int(std::min(lacking_bytes, kMostJsonBytes));
  j.EndObject();
}

}  // namespace

std::string ToJson(const FileReport& r) {
  json::Writer j;
  j.BeginObject();
  j.Key("version").Int(1);
  j.Key("file").String(r.file);
  j.Key("format").String(r.format);
  j.Key("bytes").Int(r.bytes);
  j.Key("producer").String(r.producer);
  j.Key("programs");
  j.BeginArray();
  for (const ProgramReport& p : r.programs) PutProgram(j, p);
  j.EndArray();
  PutRows(j, "tensors", r.tensors, true);
  j.Key("metadata");
  j.BeginObject();
  for (const auto& [key, value] : r.metadata) j.Key(key).String(value);
  j.EndObject();
  j.Key("extra_files");
  j.BeginObject();
  for (const auto& [key, size] : r.extra_files) j.Key(key).Int(size);
  j.EndObject();
  if (!r.quantization.empty()) j.Key("quantization").String(r.quantization);
  if (r.verified) {
    j.Key("verified")
        .BeginObject()
        .Key("members")
        .Int(r.verified->members)
        .Key("bytes")
        .Int(r.verified->bytes)
        .Key("corrected")
        .BeginArray();
    for (const std::string& c : r.verified->corrected) j.String(c);
    j.EndArray().EndObject();
  }
  if (!r.target.empty()) j.Key("target").String(r.target);
  if (r.runtime_bytes > 0) j.Key("runtime_bytes").Int(r.runtime_bytes);
  if (r.kernels) {
    j.Key("kernels");
    PutKernels(j, *r.kernels);
  }
  if (r.onnx) {
    j.Key("onnx").BeginObject().Key("ir_version").Int(r.onnx->ir_version).Key("opsets").BeginObject();
    for (const auto& [domain, version] : r.onnx->opsets) j.Key(domain).Int(version);
    j.EndObject().Key("functions").BeginArray();
    for (const std::string& f : r.onnx->functions) j.String(f);
    j.EndArray().Key("external_data").BeginObject();
    for (const auto& [file, bytes] : r.onnx->external_data) j.Key(file).Int(bytes);
    j.EndObject().EndObject();
  }
  j.EndObject();
  return j.Take() + "\n";
}

}  // namespace slipway::driver
