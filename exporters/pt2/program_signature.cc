// Signatures, module calls and ranges of the schema.
#include <limits>

#include "base/text.h"
#include "exporters/pt2/program.h"
#include "exporters/pt2/program_writer.h"

namespace slipway::exporters {

using ir::Arg;
using ir::Value;

void ProgramWriter::WriteSignature() {
  GraphNames none{*p_.graph, {}, {}};
  out_.BeginObject().Key("input_specs").BeginArray();
  for (size_t i : InputOrder()) {
    const ir::InputSpec& s = p_.input_specs[i];
    const Value& v = *p_.graph->inputs()[i];
    const auto named = [&](std::string_view kind, std::string_view key) {
      WriteName("name", (out_.Key(kind).BeginObject().Key("arg"), v));
      out_.Key(key).String(s.target);
    };
    out_.BeginObject();
    switch (s.kind) {
      case ir::InputSpec::kUser:
        out_.Key("user_input").BeginObject().Key("arg");
        WriteValue(v);
        break;
      case ir::InputSpec::kParameter: named("parameter", "parameter_name"); break;
      case ir::InputSpec::kBuffer:
        named("buffer", "buffer_name");
        out_.Key("persistent").Bool(s.persistent);
        break;
      case ir::InputSpec::kTensorConstant: named("tensor_constant", "tensor_constant_name"); break;
      case ir::InputSpec::kCustomObj:
        Refuse("custom objects, whose class only its own library can write");
        named("custom_obj", "custom_obj_name");
        break;
      case ir::InputSpec::kToken:
        out_.Key("token").BeginObject().Key("arg");
        WriteName("name", v);
        break;
      case ir::InputSpec::kConstant:
        if (s.target.empty()) {
          out_.Key("user_input").BeginObject().Key("arg");
        } else {
          out_.Key("constant_input").BeginObject().Key("name").String(s.target).Key("value");
        }
        WriteArg(s.constant, none, "");
        break;
    }
    out_.EndObject().EndObject();
  }
  out_.EndArray().Key("output_specs").BeginArray();
  static constexpr struct {
    ir::OutputSpec::Kind kind;
    std::string_view tag, target;
  } kRows[] = {{ir::OutputSpec::kUser, "user_output", ""},
               {ir::OutputSpec::kLoss, "loss_output", ""},
               {ir::OutputSpec::kBufferMutation, "buffer_mutation", "buffer_name"},
               {ir::OutputSpec::kParameterMutation, "parameter_mutation", "parameter_name"},
               {ir::OutputSpec::kGradToParameter, "gradient_to_parameter", "parameter_name"},
               {ir::OutputSpec::kGradToUserInput, "gradient_to_user_input", "user_input_name"},
               {ir::OutputSpec::kUserInputMutation, "user_input_mutation", "user_input_name"},
               {ir::OutputSpec::kToken, "token", ""}};
  for (size_t i = 0; i < p_.output_specs.size(); ++i) {
    const ir::OutputSpec& s = p_.output_specs[i];
    const Arg& a = p_.graph->outputs[i];
    if (s.kind == ir::OutputSpec::kParameterMutation && !Since29()) Refuse("updated parameters, for torch 2.6");
    for (const auto& row : kRows) {
      if (row.kind != s.kind) continue;
      out_.BeginObject().Key(row.tag).BeginObject().Key("arg");
      if (s.kind == ir::OutputSpec::kUser)
        WriteArg(a, none, "");
      else if (a.value())
        WriteName("name", *a.value());
      else
        status_ = absl::InternalError(text::StrCat("the output ", row.tag, " '", s.target, "' is no value"));
      if (!row.target.empty()) out_.Key(row.target).String(s.target);
      out_.EndObject().EndObject();
    }
  }
  out_.EndArray().EndObject();
}

void ProgramWriter::WriteModuleCalls() {
  if (!p_.module_call_graph_json.empty()) {
    out_.Raw(p_.module_call_graph_json);
    return;
  }
  out_.BeginArray().BeginObject().Key("fqn").String("").Key("signature").BeginObject();
  out_.Key("inputs").BeginArray().EndArray().Key("outputs").BeginArray().EndArray();
  out_.Key("in_spec").String(p_.in_spec.empty() ? PlainInputSpec(p_) : p_.in_spec);
  out_.Key("out_spec").String(p_.out_spec.empty() ? PlainOutputSpec(p_) : p_.out_spec);
  out_.Key("forward_arg_names");
  if (p_.forward_arg_names.empty()) {
    out_.Null();
  } else {
    out_.BeginArray();
    for (const std::string& name : p_.forward_arg_names) out_.String(name);
    out_.EndArray();
  }
  out_.EndObject().EndObject().EndArray();
}

// The pytrees of a program that states none: positional inputs, an output or a tuple of them.
void ProgramWriter::WriteRange(std::string_view key, std::optional<int64_t> min, std::optional<int64_t> max) {
  out_.Key(key).BeginObject();
  const struct {
    const char* key;
    std::optional<int64_t> bound;
  } bounds[] = {{"min_val", min}, {"max_val", max}};
  for (const auto& b : bounds) {
    out_.Key(b.key);
    if (b.bound)
      out_.Int(*b.bound);
    else
      out_.Null();
  }
  out_.EndObject();
}

void ProgramWriter::WriteRanges() {
  const auto bound = [](int64_t v, int64_t unbounded) {
    return v == unbounded ? std::nullopt : std::optional<int64_t>(v);
  };
  out_.BeginObject();
  for (const ir::SymbolInfo& s : p_.syms->symbols())
    WriteRange(s.name, bound(s.range.min, std::numeric_limits<int64_t>::min()),
               bound(s.range.max, std::numeric_limits<int64_t>::max()));
  for (const auto& [key, r] : p_.range_constraints) WriteRange(key, r.min, r.max);
  out_.EndObject();
}

}  // namespace slipway::exporters
