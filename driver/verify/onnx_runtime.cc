// Requests and replies are JSON (onnx_runtime.py says of what); a reply is checked like any input.
#include "driver/verify/onnx_runtime.h"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "importers/json.h"
#include "io/subprocess.h"

extern "C" const char slipway_embedded_onnx_runtime[], slipway_embedded_onnx_runtime_end[];

namespace slipway::driver {
namespace {

namespace json_in = importers::json;

// The first lines of what Python or onnxruntime said.
std::string FirstLines(std::string_view text) {
  constexpr size_t kMost = 1500;
  std::string out(text::Strip(text).substr(0, kMost));
  for (char& c : out)
    if (c == '\n') c = ' ';
  return out;
}

}  // namespace

std::vector<std::string> UsualPythons() {
  std::vector<std::string> pythons = {"python3", "python"};
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return pythons;
  const std::string own = (self.parent_path() / "venv/bin/python").string();
  if (access(own.c_str(), X_OK) == 0) pythons.push_back(own);
  return pythons;
}

namespace {

absl::Status NoRuntime(std::string_view why) {
  return WithId(
      WithHelp(absl::UnimplementedError(text::StrCat("an .onnx is run by onnxruntime in an installed Python: ", why)),
               "pip install onnxruntime numpy, and name that Python by --python"),
      id::kNoRuntime);
}

absl::StatusOr<std::string> Request(const std::string& model, absl::Span<const Tensors> sets,
                                    const OnnxRuntimeOptions& o, const std::vector<std::string>* observe,
                                    io::MemoryFile& inputs, const io::MemoryFile& outputs) {
  json::Writer w;
  w.BeginObject().Key("model").String(model).Key("threads").Int(o.threads);
  w.Key("optimize").Bool(o.optimize).Key("exact").Bool(o.exact).Key("lenient").Bool(o.lenient);
  w.Key("inputs_fd").Int(inputs.fd()).Key("outputs_fd").Int(outputs.fd()).Key("sets").BeginArray();
  uint64_t at = 0;
  for (const Tensors& set : sets) {
    w.BeginArray();
    for (const ir::TensorRef& t : set) {
      ASSIGN_OR_RETURN(std::string bytes, ir::ReadDense(t, uint64_t{1} << 40));
      bytes.resize((bytes.size() + 63) / 64 * 64);
      w.BeginObject()
          .Key("dtype")
          .String(ir::Name(t.dtype))
          .Key("offset")
          .Int(static_cast<int64_t>(at))
          .Key("shape")
          .BeginArray();
      for (int64_t size : t.sizes) w.Int(size);
      w.EndArray().EndObject();
      at += bytes.size();
      RETURN_IF_ERROR(inputs.Append(bytes));
    }
    w.EndArray();
  }
  w.EndArray().Key("observe");
  if (observe) {
    w.BeginArray();
    for (const std::string& name : *observe) w.String(name);
    w.EndArray();
  } else {
    w.Null();
  }
  w.EndObject();
  return w.Take();
}

absl::StatusOr<ir::TensorRef> ReadTensor(const json_in::Value& v, const io::MemoryFile& outputs) {
  if (v.is_null()) return ir::TensorRef();
  ASSIGN_OR_RETURN(const json_in::Value* name, v.Get("dtype"));
  ASSIGN_OR_RETURN(const std::string_view dtype_name, name->AsString());
  const std::optional<ir::DType> dtype = ir::DTypeFromName(dtype_name);
  if (!dtype) return absl::InvalidArgumentError("a reply with an unknown type");
  std::vector<int64_t> sizes;
  ASSIGN_OR_RETURN(const json_in::Value* shape, v.Get("shape"));
  ASSIGN_OR_RETURN(const auto dims, shape->AsArray());
  for (const json_in::Value& d : dims) {
    ASSIGN_OR_RETURN(const int64_t size, d.AsInt());
    sizes.push_back(size);
  }
  ASSIGN_OR_RETURN(const json_in::Value* offset_value, v.Get("offset"));
  ASSIGN_OR_RETURN(const int64_t offset, offset_value->AsInt());
  ASSIGN_OR_RETURN(const json_in::Value* bytes_value, v.Get("bytes"));
  ASSIGN_OR_RETURN(const int64_t bytes, bytes_value->AsInt());
  if (offset < 0 || bytes < 0) return absl::InvalidArgumentError("a reply with a negative place");
  ASSIGN_OR_RETURN(std::string data, outputs.Read(static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes)));
  int64_t elements = 1;
  for (int64_t s : sizes)
    if (s < 0 || __builtin_mul_overflow(elements, s, &elements))
      return absl::InvalidArgumentError("a reply with a size out of range");
  int64_t wanted;
  if (__builtin_mul_overflow(elements, ir::ByteSize(*dtype), &wanted) || wanted != bytes)
    return absl::InvalidArgumentError("a reply whose tensor is not of its size");
  return ir::OwnedTensor(*dtype, std::move(sizes), std::move(data));
}

absl::StatusOr<std::vector<std::string>> Names(const json_in::Value& reply, std::string_view key) {
  ASSIGN_OR_RETURN(const json_in::Value* list, reply.Get(key));
  ASSIGN_OR_RETURN(const auto items, list->AsArray());
  std::vector<std::string> names;
  for (const json_in::Value& v : items) {
    ASSIGN_OR_RETURN(const std::string_view name, v.AsString());
    names.emplace_back(name);
  }
  return names;
}

absl::StatusOr<OnnxRuns> ReadReply(const json_in::Value& reply, const io::MemoryFile& outputs) {
  OnnxRuns runs;
  ASSIGN_OR_RETURN(const json_in::Value* version, reply.Get("version"));
  ASSIGN_OR_RETURN(const std::string_view version_text, version->AsString());
  runs.version = version_text;
  ASSIGN_OR_RETURN(const json_in::Value* opset, reply.Get("opset"));
  ASSIGN_OR_RETURN(runs.opset, opset->AsInt());
  ASSIGN_OR_RETURN(runs.outputs, Names(reply, "outputs"));
  ASSIGN_OR_RETURN(runs.observed, Names(reply, "observed"));
  ASSIGN_OR_RETURN(runs.made, Names(reply, "made"));
  ASSIGN_OR_RETURN(const json_in::Value* results, reply.Get("results"));
  ASSIGN_OR_RETURN(const auto sets, results->AsArray());
  for (const json_in::Value& set : sets) {
    if (const json_in::Value* error = set.Find("error")) {
      ASSIGN_OR_RETURN(const std::string_view why, error->AsString());
      runs.results.push_back(absl::InvalidArgumentError(text::StrCat("onnxruntime: ", FirstLines(why))));
      continue;
    }
    ASSIGN_OR_RETURN(const json_in::Value* tensors, set.Get("tensors"));
    ASSIGN_OR_RETURN(const auto items, tensors->AsArray());
    Tensors out;
    for (const json_in::Value& t : items) {
      ASSIGN_OR_RETURN(out.emplace_back(), ReadTensor(t, outputs));
    }
    runs.results.push_back(std::move(out));
  }
  return runs;
}

}  // namespace

absl::StatusOr<OnnxRuns> RunOnnx(const std::string& model, absl::Span<const Tensors> sets, const OnnxRuntimeOptions& o,
                                 const std::vector<std::string>* observe) {
  const std::string script(slipway_embedded_onnx_runtime, slipway_embedded_onnx_runtime_end);
  const std::vector<std::string> pythons = o.python.empty() ? UsualPythons() : std::vector{o.python};
  std::vector<std::string> whys;
  for (const std::string& python : pythons) {
    ASSIGN_OR_RETURN(io::MemoryFile inputs, io::MemoryFile::Make("inputs"));
    ASSIGN_OR_RETURN(io::MemoryFile outputs, io::MemoryFile::Make("outputs"));
    io::SubprocessOptions options;
    options.timeout_seconds = o.timeout_seconds;
    options.inherit = {inputs.fd(), outputs.fd()};
    ASSIGN_OR_RETURN(options.input, Request(model, sets, o, observe, inputs, outputs));
    auto done = io::RunSubprocess({python, "-c", script}, options);
    if (!done.ok()) {
      whys.push_back(std::string(done.status().message()));
      continue;
    }
    if (done->timed_out)
      return WithHelp(
          absl::ResourceExhaustedError(text::StrCat("onnxruntime took more than ", o.timeout_seconds, " s")),
          "--timeout allows more");
    if (done->signal != 0) {
      const std::string why = text::StrCat("onnxruntime died of signal ", done->signal, " (",
                                           std::string(strsignal(done->signal)), "): ", FirstLines(done->error));
      return done->signal == SIGKILL ? absl::ResourceExhaustedError(why) : absl::InvalidArgumentError(why);
    }
    auto reply = json_in::Document::Parse(done->output);
    if (!reply.ok()) {
      whys.push_back(text::StrCat(python, " gave no answer: ", FirstLines(done->error)));
      continue;
    }
    const json_in::Value& root = reply->root();
    const json_in::Value* error = root.Find("error");
    if (!error) {
      auto runs = ReadReply(root, outputs);
      if (runs.ok() && runs->results.size() != sets.size())
        return absl::InternalError("onnxruntime's answer is of other inputs");
      return runs;
    }
    ASSIGN_OR_RETURN(const std::string_view why, error->AsString());
    ASSIGN_OR_RETURN(const json_in::Value* kind_value, root.Get("kind"));
    ASSIGN_OR_RETURN(const std::string_view kind, kind_value->AsString());
    if (kind == "lacks") return absl::UnimplementedError(text::StrCat("onnxruntime has no kernel: ", FirstLines(why)));
    if (kind != "import")
      return absl::InvalidArgumentError(text::StrCat("onnxruntime does not load it: ", FirstLines(why)));
    whys.push_back(FirstLines(why));
  }
  return NoRuntime(text::Join(whys, "; "));
}

}  // namespace slipway::driver
