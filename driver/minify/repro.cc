// A program as a torch.nn.Module: one call a node, in the operators of the graph. Numbers that are few stand in the
// text.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "base/floats.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/minify/data.h"
#include "driver/minify/files.h"
#include "io/atomic_writer.h"
#include "ir/ops/op_table.h"

namespace slipway::driver {
namespace {

using ir::Arg;
using ir::DType;
using ir::Value;
using text::Quoted;

constexpr int64_t kMostElementsInText = 64;  // elements

std::string Real(double d) {
  if (std::isnan(d)) return "float(\"nan\")";
  if (std::isinf(d)) return d < 0 ? "-float(\"inf\")" : "float(\"inf\")";
  char buffer[40];
  std::string s(buffer, std::to_chars(buffer, buffer + sizeof buffer, d).ptr);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

template <typename List, typename F>
std::string ListOf(const List& list, F element) {
  std::vector<std::string> parts;
  for (const auto& x : list) parts.push_back(element(x));
  return text::StrCat("[", text::Join(parts, ", "), "]");
}

// A tuple in Python.
std::string TupleOf(const std::vector<std::string>& parts) {
  return text::StrCat("(", text::Join(parts, ", "), parts.size() == 1 ? ",)" : ")");
}

class Python {
 public:
  Python(const ir::Program& p, const std::vector<ir::TensorRef>& inputs, const ReproOptions& options)
      : p_(p), inputs_(inputs), options_(options) {}

  absl::Status Write(const std::string& folder) {
    std::string module = Module();
    std::vector<std::string> arguments;
    const std::vector<const Value*> values = UserInputs(p_);
    for (size_t i = 0; i < values.size(); ++i)
      arguments.push_back(values[i]->type().is_tensor()
                              ? Strided(Tensor(inputs_[i]), inputs_[i].sizes, StridesOf(values[i]->type()))
                              : Number(inputs_[i]));
    std::string text = Head();
    text += module;
    text::StrAppend(&text, "\n\nINPUTS = (\n");
    for (const std::string& a : arguments) text::StrAppend(&text, "    ", a, ",\n");
    const std::string dynamic = Dynamic(values);
    text::StrAppend(&text, ")\n", dims_, "DYNAMIC = ", dynamic, "  # dimensions whose sizes are free\n", Ranges(values),
                    Tail());
    RETURN_IF_ERROR(failure_);
    if (data_.empty())
      unlink((folder + "/repro.bin").c_str());
    else
      RETURN_IF_ERROR(io::WriteFile(folder + "/repro.bin", data_));
    return io::WriteFile(folder + "/repro.py", text);
  }

 private:
  const ir::Program& p_;
  const std::vector<ir::TensorRef>& inputs_;
  const ReproOptions& options_;
  absl::Status failure_;
  std::string data_;      // of repro.bin
  bool strided_ = false;  // whether a tensor is not dense
  std::string members_, bodies_, dims_;
  absl::flat_hash_map<const Value*, std::string> names_;
  absl::flat_hash_map<const ir::Graph*, std::string> functions_;
  std::set<std::string> taken_;

  std::string DTypeText(DType t) {
    const std::string_view name = ir::Info(t).torch_name;
    if (name.empty() && failure_.ok())
      failure_ = absl::UnimplementedError(text::StrCat("elements of type ", ir::Name(t), " in Python"));
    return text::StrCat("torch.", name);
  }

  // ---- Numbers

  std::string Number(const ir::TensorRef& t) {
    auto bytes = ir::ReadDense(t);
    if (!bytes.ok() || bytes->empty()) return "0";
    if (t.dtype == DType::kInt64) return Element<int64_t>(*bytes, 0);
    if (t.dtype == DType::kFloat64) return Real(At<double>(*bytes, 0));
    return (*bytes)[0] ? "True" : "False";
  }
  template <typename T>
  static T At(const std::string& bytes, size_t i) {
    T x;
    std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
    return x;
  }
  template <typename T>
  static std::string Element(const std::string& bytes, size_t i) {
    return text::StrCat(static_cast<int64_t>(At<T>(bytes, i)));
  }

  // An element as a literal; "" for types without one.
  static std::string Literal(DType t, const std::string& bytes, size_t i) {
    switch (t) {
      case DType::kFloat32: return Real(At<float>(bytes, i));
      case DType::kFloat64: return Real(At<double>(bytes, i));
      case DType::kFloat16: return Real(static_cast<float>(At<F16>(bytes, i)));
      case DType::kBFloat16: return Real(static_cast<float>(At<BF16>(bytes, i)));
      case DType::kInt64: return Element<int64_t>(bytes, i);
      case DType::kInt32: return Element<int32_t>(bytes, i);
      case DType::kInt16: return Element<int16_t>(bytes, i);
      case DType::kInt8: return Element<int8_t>(bytes, i);
      case DType::kUInt8: return Element<uint8_t>(bytes, i);
      case DType::kBool: return bytes[i] ? "True" : "False";
      default: return "";
    }
  }

  std::string Tensor(const ir::TensorRef& t) {
    const std::string dtype = DTypeText(t.dtype);
    std::vector<std::string> sizes;
    for (int64_t s : t.sizes) sizes.push_back(std::to_string(s));
    if (auto splat = std::get_if<ir::Splat>(&t.storage->bytes)) {
      const std::string value = ir::IsFloating(t.dtype) || ir::IsComplex(t.dtype)
                                    ? Real(splat->value)
                                    : text::StrCat(static_cast<int64_t>(splat->value));
      return text::StrCat("torch.full(", TupleOf(sizes), ", ", value, ").to(", dtype, ")");
    }
    auto bytes = ir::ReadDense(t, uint64_t{1} << 34);
    if (!bytes.ok()) {
      if (failure_.ok()) failure_ = bytes.status();
      return "";
    }
    const int64_t n = t.numel();
    if (n <= kMostElementsInText && (n == 0 || !Literal(t.dtype, *bytes, 0).empty())) {
      std::vector<std::string> elements;
      for (int64_t i = 0; i < n; ++i) elements.push_back(Literal(t.dtype, *bytes, static_cast<size_t>(i)));
      const std::string flat = text::StrCat("torch.tensor([", text::Join(elements, ", "), "], dtype=", dtype, ")");
      return t.sizes.size() == 1 ? flat : text::StrCat(flat, ".reshape(", TupleOf(sizes), ")");
    }
    const size_t offset = data_.size();
    data_ += *bytes;
    data_.resize((data_.size() + 63) / 64 * 64);
    return text::StrCat("load(", offset, ", ", TupleOf(sizes), ", ", dtype, ")");
  }

  // How an input lies in memory, of the sizes that inputs have; empty where that is not known.
  std::vector<int64_t> StridesOf(const ir::Type& t) const {
    if (!t.strides_known) return {};
    const std::vector<const Value*> values = UserInputs(p_);
    const auto size = [&](std::string_view symbol) -> std::optional<int64_t> {
      for (size_t i = 0; i < values.size(); ++i)
        for (size_t d = 0; d < inputs_[i].sizes.size() && d < values[i]->sizes().size(); ++d)
          if (const ir::Sym s = values[i]->sizes()[d]; s.kind() == ir::SymKind::kSymbol && s.name() == symbol)
            return inputs_[i].sizes[d];
      return std::nullopt;
    };
    std::vector<int64_t> strides;
    for (ir::Sym s : t.strides) {
      const auto n = ir::Evaluate(s, size);
      if (!n || *n < 0) return {};
      strides.push_back(*n);
    }
    return strides;
  }

  // A dense tensor's text as that of one with other strides.
  std::string Strided(std::string tensor, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    const std::vector<int64_t> dense = ir::ContiguousStrides(sizes);
    bool same = strides.size() != sizes.size() || std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
    if (!same) {
      same = true;
      for (size_t d = 0; d < sizes.size(); ++d) same = same && (sizes[d] == 1 || strides[d] == dense[d]);
    }
    if (same) return tensor;
    strided_ = true;
    std::vector<std::string> texts;
    for (int64_t s : strides) texts.push_back(std::to_string(s));
    return text::StrCat("strided(", tensor, ", ", TupleOf(texts), ")");
  }

  // ---- Names

  // Python's own words, and what the script uses.
  std::string NameFor(const Value* v) {
    std::string& name = names_[v];
    if (!name.empty()) return name;
    std::string base;
    for (char c : v->name())
      base += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    static const std::set<std::string_view>& kWords = *new std::set<std::string_view>{
        "and",    "as",   "assert", "async",   "await",    "break",     "class",   "continue", "def",
        "del",    "elif", "else",   "except",  "finally",  "for",       "from",    "global",   "if",
        "import", "in",   "is",     "lambda",  "nonlocal", "not",       "or",      "pass",     "raise",
        "return", "try",  "while",  "with",    "yield",    "None",      "True",    "False",    "self",
        "torch",  "math", "load",   "strided", "float",    "_operator", "operator"};
    if (base.empty() || (base[0] >= '0' && base[0] <= '9')) base = text::StrCat("v", base);
    if (kWords.contains(base)) base += "_";
    std::string unique = base;
    for (int i = 1; !taken_.insert(unique).second; ++i) unique = text::StrCat(base, "_", i);
    return names_[v] = unique;
  }

  // ---- Nodes

  // \xHH is a byte in the text form and a character in Python.
  std::string StringText(const std::string& s) {
    bool same = text::IsUtf8(s);
    for (size_t i = 0; i + 1 < s.size(); ++i) same = same && !(s[i] == '\xc2' && static_cast<uint8_t>(s[i + 1]) < 0xa0);
    if (!same && failure_.ok()) failure_ = absl::UnimplementedError("a string of bytes that are no text, in Python");
    return Quoted(s);
  }

  std::string ValueText(const Value* v) { return v ? NameFor(v) : "None"; }

  std::string Text(const Arg& a) {
    const auto integer = [](int64_t i) { return std::to_string(i); };
    const auto value = [&](const Value* v) { return ValueText(v); };
    if (a.is_none()) return "None";
    if (auto v = a.get<Value*>()) return ValueText(*v);
    if (auto vs = a.get<ir::Values>()) return ListOf(*vs, value);
    if (auto i = a.get<int64_t>()) return std::to_string(*i);
    if (auto d = a.get<double>()) return Real(*d);
    if (auto b = a.get<bool>()) return *b ? "True" : "False";
    if (auto s = a.get<std::string>()) return StringText(*s);
    if (auto c = a.get<std::complex<double>>())
      return text::StrCat("complex(", Real(c->real()), ", ", Real(c->imag()), ")");
    if (auto is = a.get<ir::Ints>()) return ListOf(*is, integer);
    if (auto ss = a.get<ir::SymInts>())
      return ListOf(*ss,
                    [&](const ir::IntOrValue& x) { return x.value ? ValueText(x.value) : std::to_string(x.constant); });
    if (auto ds = a.get<std::vector<double>>()) return ListOf(*ds, [](double d) { return Real(d); });
    if (auto bs = a.get<std::vector<bool>>())
      return ListOf(*bs, [](bool b) { return std::string(b ? "True" : "False"); });
    if (auto ts = a.get<std::vector<std::string>>())
      return ListOf(*ts, [&](const std::string& s) { return StringText(s); });
    if (auto t = a.get<DType>()) return DTypeText(*t);
    if (auto m = a.get<ir::MemoryFormat>()) {
      static constexpr const char* kNames[] = {"contiguous_format", "contiguous_format", "channels_last",
                                               "channels_last_3d", "preserve_format"};
      return text::StrCat("torch.", kNames[static_cast<int>(*m)]);
    }
    if (auto l = a.get<ir::Layout>()) return *l == ir::Layout::kStrided ? "torch.strided" : "None";
    if (a.is<ir::Device>()) return "torch.device(\"cpu\")";
    if (auto nested = a.get<std::vector<ir::Values>>())
      return ListOf(*nested, [&](const ir::Values& vs) { return ListOf(vs, value); });
    if (auto lists = a.get<std::vector<ir::Ints>>())
      return ListOf(*lists, [&](const ir::Ints& is) { return ListOf(is, integer); });
    if (failure_.ok()) failure_ = absl::UnimplementedError("an argument that Python code cannot state");
    return "None";
  }

  std::string Call(const ir::Node& n) {
    std::vector<std::string> arguments;
    const ir::OpDef& op = n.op();
    bool positional = true;
    for (size_t i = 0; i < n.args().size(); ++i) {
      const ir::NamedArg& a = n.args()[i];
      const bool in_place = a.name.empty() || op.variadic ||
                            (i < op.args.size() && op.args[i].name == a.name && !op.args[i].keyword_only);
      positional &= in_place && a.kind != 2;
      // Higher-order operators want tuples.
      const auto graph = a.arg.get<ir::SubGraph>();
      const bool condition = i == 0 && n.op_name() == "higher_order.while_loop";
      std::string value = graph ? Function(**graph, condition) : Text(a.arg);
      if (op.variadic && value.starts_with("[")) value = text::StrCat("tuple(", value, ")");
      arguments.push_back(positional || a.name.empty() ? value : text::StrCat(a.name, "=", value));
    }
    return text::StrCat(ir::TargetFromOpName(n.op_name()), "(", text::Join(arguments, ", "), ")");
  }

  // What is assigned to: a name, or the pattern of names that the operator's returns have.
  std::string Target(const ir::Node& n) {
    std::vector<std::string> names;
    for (const Value* v : n.outputs()) names.push_back(v ? NameFor(v) : "_");
    if (names.empty()) return "";
    if (!n.groups().empty()) {
      std::vector<std::string> parts;
      size_t at = 0;
      for (int group : n.groups()) {
        if (group < 0) {
          if (at < names.size()) parts.push_back(names[at++]);
          continue;
        }
        std::vector<std::string> list;
        for (int i = 0; i < group && at < names.size(); ++i) list.push_back(names[at++]);
        parts.push_back(text::StrCat("[", text::Join(list, ", "), "]"));
      }
      return parts.size() == 1 ? text::StrCat(parts[0], " = ") : text::StrCat(TupleOf(parts), " = ");
    }
    if (names.size() == 1 && !n.op().variadic) return names[0] == "_" ? "" : text::StrCat(names[0], " = ");
    return text::StrCat(TupleOf(names), " = ");
  }

  // `bare`: the result alone, not in a tuple.
  void Body(const ir::Graph& g, std::string_view indent, bool bare, std::string& out) {
    for (const ir::Node* n : g) {
      const std::string call = Call(*n);
      text::StrAppend(&out, indent, Target(*n), call, "\n");
    }
    std::vector<std::string> results;
    for (const Arg& a : g.outputs) results.push_back(Text(a));
    text::StrAppend(&out, indent, "return ", bare && results.size() == 1 ? results[0] : TupleOf(results), "\n");
  }

  // A nested graph is a function before the module.
  std::string Function(const ir::Graph& g, bool bare) {
    std::string& name = functions_[&g];
    if (!name.empty()) return name;
    const std::string made = text::StrCat("body_", functions_.size());
    functions_[&g] = made;
    std::vector<std::string> inputs;
    for (const Value* v : g.inputs()) inputs.push_back(NameFor(v));
    std::string text = text::StrCat("\n\ndef ", made, "(", text::Join(inputs, ", "), "):\n");
    Body(g, "    ", bare || g.single_tensor_return, text);
    bodies_ += text;
    return made;
  }

  std::string Module() {
    const ir::Graph& g = *p_.graph;
    std::vector<std::string> inputs = {"self"};
    std::string loads;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Value* v = g.inputs()[i];
      const ir::InputSpec& spec = p_.input_specs[i];
      const std::string name = NameFor(v);
      if (spec.kind == ir::InputSpec::kUser) {
        inputs.push_back(name);
        continue;
      }
      auto weight = p_.weights.find(spec.target);
      if (weight == p_.weights.end()) {
        if (failure_.ok()) failure_ = absl::UnimplementedError(text::StrCat("'", spec.target, "' has no values"));
        continue;
      }
      // A weight that is made by a rule is dense in the file, whatever its type says.
      std::vector<int64_t> strides = StridesOf(v->type());
      if (strides.empty()) strides = weight->second.strides;
      const std::string tensor = Strided(Tensor(weight->second), weight->second.sizes, strides);
      if (spec.kind == ir::InputSpec::kParameter)
        text::StrAppend(&members_, "        self.", name, " = torch.nn.Parameter(", tensor, ", requires_grad=False)\n");
      else
        text::StrAppend(&members_, "        self.register_buffer(", Quoted(name), ", ", tensor, ")\n");
      text::StrAppend(&loads, "        ", name, " = self.", name, "\n");
    }
    std::string body;
    Body(g, "        ", false, body);
    std::string out = bodies_;
    text::StrAppend(&out, "\n\nclass Repro(torch.nn.Module):\n");
    if (!members_.empty())
      text::StrAppend(&out, "    def __init__(self):\n        super().__init__()\n", members_, "\n");
    text::StrAppend(&out, "    def forward(", text::Join(inputs, ", "), "):\n", loads, body);
    return out;
  }

  // The dimensions whose sizes are free. Sizes that are computed of a symbol (8*s0) need it by name.
  std::string Dynamic(const std::vector<const Value*>& values) {
    std::vector<std::string> out;
    bool any = false, computed = false;
    std::set<std::string> used;
    for (const Value* v : values) {
      if (!v->type().is_tensor()) continue;
      for (ir::Sym s : v->sizes()) {
        computed |= !s.is_constant() && s.kind() != ir::SymKind::kSymbol;
        for (ir::Sym x : s.Symbols()) used.insert(std::string(x.name()));
      }
    }
    if (computed)
      for (const std::string& name : used) {
        const ir::SymRange range = p_.syms->range(name);
        text::StrAppend(&dims_, name, " = torch.export.Dim(", Quoted(name), ", min=", std::max<int64_t>(range.min, 0),
                        range.max == std::numeric_limits<int64_t>::max() ? "" : text::StrCat(", max=", range.max),
                        ")\n");
      }
    for (const Value* v : values) {
      std::vector<std::string> dims;
      for (size_t d = 0; d < v->sizes().size(); ++d)
        if (v->type().is_tensor() && !v->sizes()[d].is_constant())
          dims.push_back(text::StrCat(d, ": ", computed ? v->sizes()[d].ToString() : "torch.export.Dim.AUTO"));
      any |= !dims.empty() || !v->type().is_tensor();
      const std::string none = v->type().is_tensor() ? "None" : "torch.export.Dim.AUTO";
      out.push_back(dims.empty() ? none : text::StrCat("{", text::Join(dims, ", "), "}"));
    }
    return any ? TupleOf(out) : "None";
  }

  // Ranges of expressions, which archives state and exporting again does not: "8*s0" = 8..512.
  std::string Ranges(const std::vector<const Value*>& values) {
    if (p_.range_constraints.empty()) return "";
    std::string ranges, symbols;
    std::set<std::string> seen;
    for (const auto& [key, range] : p_.range_constraints)
      text::StrAppend(&ranges, ranges.empty() ? "" : ", ", Quoted(key), ": (",
                      range.min ? std::to_string(*range.min) : "0", ", ",
                      range.max ? std::to_string(*range.max) : "int_oo", ")");
    for (size_t i = 0; i < values.size(); ++i)
      for (size_t d = 0; d < values[i]->sizes().size(); ++d)
        for (ir::Sym s = values[i]->sizes()[d]; ir::Sym x : s.Symbols())
          if (s == x && seen.insert(std::string(x.name())).second)
            text::StrAppend(&symbols, symbols.empty() ? "" : ", ", Quoted(x.name()), ": (", i, ", ", d, ")");
    return text::StrCat("RANGES = {", ranges, "}\nSYMBOLS = {", symbols,
                        R"PY(}  # whose values are sizes: the input, the dimension


def restore_ranges(program):
    """The file stated ranges of expressions, too."""
    values = {n.name: n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"}
    inputs = [values[name] for name in program.graph_signature.user_inputs]
    symbols = {name: inputs[i].shape[d].node.expr for name, (i, d) in SYMBOLS.items()}
    for text, (least, most) in RANGES.items():
        program.range_constraints[sympy.sympify(text, locals=symbols)] = ValueRanges(least, most)


)PY");
  }

  std::string Head() {
    std::string head = "#!/usr/bin/env python3\n";
    text::StrAppend(&head, "\"\"\"What is left of a program that fails: ",
                    options_.failure.find("\"\"\"") == std::string::npos ? options_.failure : "", R"(

    python repro.py             exports it to repro.pt2 and runs the check on that: exits as the check does
    python repro.py --run       runs it in eager mode

Needs torch. SLIPWAY names the binary where the check is one of slipway's.
"""
import _operator  # noqa: F401
import math  # noqa: F401
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
)");
    if (!p_.range_constraints.empty()) {
      const size_t at = head.find("\nHERE = ");
      head.insert(at,
                  "import sympy\nfrom torch.utils._sympy.numbers import int_oo  # noqa: F401\nfrom "
                  "torch.utils._sympy.value_ranges import ValueRanges\n");
    }
    if (!data_.empty())
      head += R"(

def load(offset, sizes, dtype):
    """Numbers of repro.bin."""
    count = math.prod(sizes)
    with open(os.path.join(HERE, "repro.bin"), "rb") as file:
        file.seek(offset)
        data = bytearray(file.read(count * dtype.itemsize))
    return torch.frombuffer(data, dtype=dtype, count=count).reshape(sizes) if count else torch.empty(sizes, dtype=dtype)
)";
    if (strided_)
      head += R"(

def strided(dense, strides):
    """The same numbers, lying in memory as they did."""
    size = 1 + sum((n - 1) * s for n, s in zip(dense.shape, strides))
    places = torch.arange(size).as_strided(dense.shape, strides).flatten()
    numbers = torch.zeros(size, dtype=dense.dtype).index_put_((places,), dense.flatten())
    return numbers.as_strided(dense.shape, strides)
)";
    return head;
  }

  std::string Tail() {
    std::string out = ReproConstants(options_, "program");
    text::StrAppend(&out, R"PY(

def main():
    model = Repro()
    if "--run" in sys.argv:
        with torch.no_grad():
            for result in model(*INPUTS):
                print(tuple(result.shape) if isinstance(result, torch.Tensor) else result)
        return 0
    pt2 = os.path.join(HERE, "repro.pt2")
    program = torch.export.export(model, INPUTS, dynamic_shapes=DYNAMIC)
    torch.export.save(program, pt2)
    slipway = os.environ.get("SLIPWAY", "slipway")
    files = {"{}": pt2, "{pt2}": pt2, "{inputs}": os.path.join(HERE, "inputs.safetensors"),
             "{other}": os.path.join(HERE, "other.ir")}
    files["{folder}"] = tempfile.mkdtemp()
    files["{onnx}"] = os.path.join(files["{folder}"], "out.onnx")
    code = 0
    for step in CHECK:
        if "{ir}" in step and step.startswith("slipway "):
            files["{ir}"] = pt2
        elif "{ir}" in step:
            files["{ir}"] = os.path.join(HERE, "repro.ir")
            with open(files["{ir}"], "w") as text:
                subprocess.run([slipway, "inspect", "--ir", pt2], stdout=text, check=True)
)PY",
                    kReproStep, kReproMain);
    if (!p_.range_constraints.empty()) out.insert(out.find("    torch.export.save("), "    restore_ranges(program)\n");
    return out;
  }
};

}  // namespace

absl::Status WriteReproPython(const ir::Program& p, const std::vector<ir::TensorRef>& inputs,
                              const ReproOptions& options, const std::string& folder) {
  return Python(p, inputs, options).Write(folder);
}

}  // namespace slipway::driver
