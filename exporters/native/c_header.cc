// Names come from files: whatever becomes an identifier or stands in a comment is made harmless first.
#include "exporters/native/c_header.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <limits>
#include <set>
#include <string_view>

#include "base/text.h"
#include "planner/lowering/rules.h"
#include "planner/planner.h"

namespace slipway::exporters {
namespace {

using Value = NativeInterface::Value;

// Names come from files: an identifier of theirs is made of letters, digits and underscores.
std::string Identifier(std::string_view name) {
  std::string out;
  for (char c : name)
    out += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 0x80 ? c : '_';
  return out.empty() ? "_" : out;
}

std::string Upper(std::string s) {
  for (char& c : s) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return s;
}

// Text within a comment: it cannot end it, nor begin another, and is plain ASCII.
std::string Comment(std::string_view s) {
  std::string out;
  for (char c : s) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (u < 0x20 || u >= 0x7F || c == '\\') {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "<%02x>", u);
      out += buffer;
      continue;
    }
    const bool pair = !out.empty() && ((out.back() == '*' && c == '/') || (out.back() == '/' && c == '*') ||
                                       (out.back() == '?' && c == '?'));
    if (pair) out += ' ';
    out += c;
  }
  return out;
}

// Identifiers that differ.
class HeaderNames {
 public:
  std::string New(std::string_view name) {
    const std::string base = Identifier(name);
    std::string out = base;
    for (int i = 2; !taken_.insert(Upper(out)).second; ++i) out = text::StrCat(base, "_", i);
    return out;
  }

 private:
  std::set<std::string> taken_;
};

std::string_view CType(kernels::DType t) {
  using enum kernels::DType;
  switch (t) {
    case kBool:
    case kU8:
    case kF8E4M3FN:
    case kF8E5M2:
    case kF8E4M3FNUZ:
    case kF8E5M2FNUZ:
    case kF8E8M0: return "uint8_t";
    case kI8: return "int8_t";
    case kI16: return "int16_t";
    case kI32: return "int32_t";
    case kI64: return "int64_t";
    case kF16:
    case kBF16:
    case kU16: return "uint16_t";
    case kU32: return "uint32_t";
    case kU64: return "uint64_t";
    case kF32: return "float";
    case kF64: return "double";
  }
  return "uint8_t";
}

std::string TypeText(const Value& v) {
  return text::StrCat(ir::Name(planner::FromNative(v.dtype)), "[", text::Join(v.dims, ", "), "]",
                      v.number ? ", a number of the program" : "");
}

bool IsNumber(const std::string& dim) {
  int64_t n;
  return text::ParseNumber(dim, &n);
}

class Writer {
 public:
  Writer(const NativeInterface& model, const std::string& prefix) : m_(model), p_(Identifier(prefix)) {
    if (std::isdigit(static_cast<unsigned char>(p_[0]))) p_ = "model_" + p_;
    up_ = Upper(p_);
    HeaderNames in, out;
    for (const Value& v : m_.inputs) inputs_.push_back(in.New(v.name));
    for (const Value& v : m_.outputs) outputs_.push_back(out.New(v.name));
  }

  std::string Write() {
    const std::string guard = text::StrCat("SLIPWAY_INTERFACE_", up_, "_H_");
    Line("/* The interface of the model '", Comment(m_.name),
         "', as `slipway inspect --header` prints it: what to hand to the functions of");
    Line(" * slipway_model.h, of the library that holds the model. */");
    Line("#ifndef ", guard);
    Line("#define ", guard, "\n");
    Line("#include \"slipway/slipway_model.h\"\n");
    if (!m_.dims.empty()) {
      Line("/* Sizes that inputs may have:");
      for (const auto& d : m_.dims)
        Line(" *   ", Comment(d.name), " = ", d.min,
             d.max == std::numeric_limits<int64_t>::max() ? " and more" : text::StrCat(" ... ", d.max));
      Line(" * Expressions in them say how sizes depend on each other; runs with other sizes are refused. */\n");
    }
    if (!m_.states.empty()) {
      Line("/* What the library keeps between runs, by slipway_model_state()'s index:");
      for (size_t i = 0; i < m_.states.size(); ++i)
        Line(" *   ", i, ": ", Comment(m_.states[i].name), ": ", Comment(TypeText(m_.states[i])));
      Line(" * slipway_model_reset_state() begins anew. */\n");
    }
    Places("IN", "inputs", inputs_, m_.inputs);
    Places("OUT", "outputs", outputs_, m_.outputs);
    for (size_t i = 0; i < m_.inputs.size(); ++i) Input(i);
    for (size_t i = 0; i < m_.outputs.size(); ++i) Output(i);
    Calls();
    Line("#endif /* ", guard, " */");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Line(const Args&... args) {
    text::StrAppend(&out_, args..., "\n");
  }

  void Places(std::string_view kind, std::string_view what, const std::vector<std::string>& names,
              const std::vector<Value>& values) {
    Line("/* Places among the ", what, ". */");
    Line("enum {");
    for (size_t i = 0; i < names.size(); ++i)
      Line("  ", up_, "_", kind, "_", Upper(names[i]), " = ", i, ", /* ", Comment(values[i].name), ": ",
           Comment(TypeText(values[i])), " */");
    Line("  ", up_, "_", Upper(std::string(what)), " = ", values.size());
    Line("};\n");
  }

  // A function that describes dense memory of the caller's as the input.
  void Input(size_t i) {
    const Value& v = m_.inputs[i];
    const size_t rank = v.dims.size();
    std::vector<std::string> parameters, sizes;
    HeaderNames names;
    std::set<std::string> seen;
    std::string open;
    for (size_t d = 0; d < rank; ++d) {
      const std::string& dim = v.dims[d];
      if (IsNumber(dim)) {
        sizes.push_back(dim);
        continue;
      }
      // A dim that comes twice is one parameter; an expression is a size like any other.
      const bool plain = Identifier(dim) == dim;
      const std::string name = plain ? "size_" + dim : text::StrCat("size_of_dim_", d);
      sizes.push_back(name);
      if (!seen.insert(name).second) continue;
      parameters.push_back("int64_t " + name);
      if (!plain) text::StrAppend(&open, open.empty() ? " " : ", ", name, " is ", Comment(dim));
    }
    Line("/* Input ", i, ", ", Comment(v.name), ": ", Comment(TypeText(v)),
         ". A view of dense memory of the caller's, which stays until the run is over,");
    Line(" * as `shape` does.", open, open.empty() ? "" : ".", " */");
    Line("static inline DLTensor ", p_, "_in_", inputs_[i], "(const ", CType(v.dtype), "* data, int64_t shape[",
         std::max<size_t>(rank, 1), "]", parameters.empty() ? "" : ", ", text::Join(parameters, ", "), ") {");
    Line("  DLTensor t;");
    for (size_t d = 0; d < rank; ++d) Line("  shape[", d, "] = ", sizes[d], ";");
    Line("  t.data = (void*)(uintptr_t)data;");
    Line("  t.device.device_type = kDLCPU;");
    Line("  t.device.device_id = 0;");
    Line("  t.ndim = ", rank, ";");
    Line("  t.dtype.code = ", kernels::Info(v.dtype).dlpack_name, ";");
    Line("  t.dtype.bits = ", kernels::Info(v.dtype).bits, ";");
    Line("  t.dtype.lanes = 1;");
    Line("  t.shape = shape;");
    Line("  t.strides = NULL;");
    Line("  t.byte_offset = 0;");
    Line("  return t;");
    Line("}\n");
  }

  // The elements of a result.
  void Output(size_t i) {
    const Value& v = m_.outputs[i];
    Line("/* Output ", i, ", ", Comment(v.name), ": ", Comment(TypeText(v)),
         ". Its elements, dense, as long as it is not deleted. */");
    Line("static inline const ", CType(v.dtype), "* ", p_, "_out_", outputs_[i],
         "_data(DLManagedTensorVersioned* const outputs[", up_, "_OUTPUTS]) {");
    Line("  const DLTensor* t = &outputs[", up_, "_OUT_", Upper(outputs_[i]), "]->dl_tensor;");
    Line("  return (const ", CType(v.dtype), "*)(const void*)((const char*)t->data + t->byte_offset);");
    Line("}");
    Line("static inline const int64_t* ", p_, "_out_", outputs_[i], "_shape(DLManagedTensorVersioned* const outputs[",
         up_, "_OUTPUTS]) {");
    Line("  return outputs[", up_, "_OUT_", Upper(outputs_[i]), "]->dl_tensor.shape;");
    Line("}\n");
  }

  void Calls() {
    const std::string in = text::StrCat(std::max<size_t>(m_.inputs.size(), 1)),
                      out = text::StrCat(std::max<size_t>(m_.outputs.size(), 1));
    Line(
        "/* slipway_model_run() with as many tensors as this model has. On SLIPWAY_MODEL_OK the outputs are the "
        "caller's to delete:");
    Line(" * ", p_, "_delete(). */");
    Line("static inline int ", p_, "_run(slipway_model* model, const DLTensor inputs[", in,
         "], DLManagedTensorVersioned* outputs[", out, "]) {");
    Line("  const DLTensor* views[", in, "];");
    if (m_.inputs.empty())
      Line("  views[0] = inputs;");
    else
      Line("  int i;\n  for (i = 0; i < ", up_, "_INPUTS; ++i) views[i] = &inputs[i];");
    Line("  return slipway_model_run(model, views, ", up_, "_INPUTS, outputs, ", up_, "_OUTPUTS);");
    Line("}\n");
    Line("static inline void ", p_, "_delete(DLManagedTensorVersioned* outputs[", out, "]) {");
    if (m_.outputs.empty())
      Line("  (void)outputs;");
    else
      Line("  int i;\n  for (i = 0; i < ", up_, "_OUTPUTS; ++i)\n    if (outputs[i]) outputs[i]->deleter(outputs[i]);");
    Line("}\n");
    Line("/* 1 where the opened model takes and gives what this header says, in numbers, dtypes and dims; else 0. */");
    Line("static inline int ", p_, "_fits(const slipway_model* model) {");
    if (!m_.inputs.empty() || !m_.outputs.empty()) Line("  slipway_model_value v;");
    Line("  if (slipway_model_input_count(model) != ", up_, "_INPUTS || slipway_model_output_count(model) != ", up_,
         "_OUTPUTS) return 0;");
    auto each = [&](std::string_view kind, const std::vector<Value>& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        Line("  slipway_model_", kind, "(model, ", i, ", &v);");
        Line("  if (v.dtype.code != ", kernels::Info(values[i].dtype).dlpack_name,
             " || v.dtype.bits != ", kernels::Info(values[i].dtype).bits, " || v.ndim != ", values[i].dims.size(),
             ") return 0;");
      }
    };
    each("input", m_.inputs);
    each("output", m_.outputs);
    Line("  return 1;");
    Line("}\n");
  }

  const NativeInterface& m_;
  std::string p_, up_, out_;
  std::vector<std::string> inputs_, outputs_;
};

// The dims that inputs give, of a plan.
std::vector<NativeInterface::Dim> DimsOf(const kernels::Plan& plan) {
  std::vector<bool> given(plan.symbols.size());
  const auto is_room = [&](const kernels::Binding& b) {  // of a state, which is no caller's
    return b.dim >= 0 && b.input >= 0 && static_cast<size_t>(b.input) >= plan.given_inputs();
  };
  for (const auto& b : plan.bindings)
    if (b.symbol >= 0 && static_cast<size_t>(b.symbol) < given.size() && !is_room(b)) given[b.symbol] = true;
  std::vector<NativeInterface::Dim> out;
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] && !plan.symbols[i].real)
      out.push_back({plan.symbols[i].name, plan.symbols[i].min, plan.symbols[i].max});
  return out;
}

std::vector<std::string> Texts(const ir::Type& t) {
  std::vector<std::string> out;
  if (t.is_tensor())
    for (ir::Sym s : t.sizes) out.push_back(s.ToString());
  return out;
}

}  // namespace

NativeInterface InterfaceOf(const kernels::NativeModel& m) {
  NativeInterface out;
  out.name = m.name;
  for (size_t i = 0; i < m.plan.given_inputs(); ++i)
    out.inputs.push_back({m.plan.inputs[i].name, m.plan.inputs[i].dtype, m.input_dims[i],
                          m.plan.inputs[i].kind != kernels::Input::kTensor});
  for (size_t i = 0; i < m.plan.outputs.size(); ++i)
    out.outputs.push_back({m.output_names[i], m.plan.outputs[i].dtype, m.output_dims[i], m.plan.outputs[i].number});
  for (const kernels::State& s : m.plan.states)
    out.states.push_back({m.plan.inputs[s.input].name, m.plan.inputs[s.input].dtype, m.input_dims[s.input], false});
  out.dims = DimsOf(m.plan);
  return out;
}

std::string CHeader(const NativeInterface& model, const std::string& prefix) { return Writer(model, prefix).Write(); }

NativeInterface InterfaceOf(const std::string& name, const planner::PlannedProgram& planned) {
  NativeInterface out;
  out.name = name;
  for (size_t i = 0; i < planned.plan.given_inputs(); ++i)
    out.inputs.push_back({planned.inputs[i].name, planned.plan.inputs[i].dtype, Texts(planned.inputs[i].type),
                          planned.plan.inputs[i].kind != kernels::Input::kTensor});
  for (size_t i = 0; i < planned.plan.outputs.size(); ++i)
    out.outputs.push_back({planned.outputs[i].name, planned.plan.outputs[i].dtype, Texts(planned.outputs[i].type),
                           planned.plan.outputs[i].number});
  out.dims = DimsOf(planned.plan);
  return out;
}

}  // namespace slipway::exporters
