// Signatures of the schema: what inputs and outputs are.
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/json.h"
#include "importers/pt2/program_reader.h"

namespace slipway::importers {

using ir::Type;

absl::StatusOr<std::string> ProgramReader::Text(const Json& j, std::string_view key) {
  ASSIGN_OR_RETURN(const Json* v, j.Get(key));
  return AsText(*v);
}

absl::Status ProgramReader::ReadSignature(const Json& j) {
  ASSIGN_OR_RETURN(const Json* inputs, j.Get("input_specs"));
  ASSIGN_OR_RETURN(auto in, inputs->AsArray());
  if (in.size() != p_.graph->inputs().size())
    return inputs->Error(text::StrCat(in.size(), " input_specs for ", p_.graph->inputs().size(), " graph inputs"));
  for (const Json& spec : in) {
    ASSIGN_OR_RETURN(Union u, AsUnion(spec));
    ir::InputSpec s;
    if (u.tag == "user_input") {
      ASSIGN_OR_RETURN(const Json* arg, u.value->Get("arg"));
      ASSIGN_OR_RETURN(Union w, AsUnion(*arg));
      bool sym_const = false;
      if (w.tag.starts_with("as_sym") && w.value->is_object()) sym_const = !w.value->Find("as_name");
      if (w.tag != "as_tensor" && (!w.tag.starts_with("as_sym") || sym_const)) s.kind = ir::InputSpec::kConstant;
      if (s.kind == ir::InputSpec::kConstant) {
        Scope none{p_.graph.get()};
        ASSIGN_OR_RETURN(s.constant, ReadArg(none, *arg));
      }
    } else if (u.tag == "parameter") {
      s.kind = ir::InputSpec::kParameter;
      ASSIGN_OR_RETURN(s.target, Text(*u.value, "parameter_name"));
    } else if (u.tag == "buffer") {
      s.kind = ir::InputSpec::kBuffer;
      ASSIGN_OR_RETURN(s.target, Text(*u.value, "buffer_name"));
      if (const Json* p = u.value->Find("persistent"); p && p->is_bool()) s.persistent = *p->AsBool();
    } else if (u.tag == "tensor_constant") {
      s.kind = ir::InputSpec::kTensorConstant;
      ASSIGN_OR_RETURN(s.target, Text(*u.value, "tensor_constant_name"));
    } else if (u.tag == "custom_obj") {
      s.kind = ir::InputSpec::kCustomObj;
      ASSIGN_OR_RETURN(s.target, Text(*u.value, "custom_obj_name"));
    } else if (u.tag == "token") {
      s.kind = ir::InputSpec::kToken;
    } else if (u.tag == "constant_input") {
      s.kind = ir::InputSpec::kConstant;
      ASSIGN_OR_RETURN(s.target, Text(*u.value, "name"));
      ASSIGN_OR_RETURN(const Json* value, u.value->Get("value"));
      Scope none{p_.graph.get()};
      ASSIGN_OR_RETURN(s.constant, ReadArg(none, *value));
    } else {
      return spec.Error(text::StrCat("unknown InputSpec '", u.tag, "'"));
    }
    const Type& t = p_.graph->inputs()[p_.input_specs.size()]->type();
    if (s.is_weight() && !t.is_tensor()) return spec.Error("an input_spec of a tensor for an input that is none");
    p_.input_specs.push_back(std::move(s));
  }
  ASSIGN_OR_RETURN(const Json* outputs, j.Get("output_specs"));
  ASSIGN_OR_RETURN(auto out, outputs->AsArray());
  if (out.size() != p_.graph->outputs.size())
    return outputs->Error(text::StrCat(out.size(), " output_specs for ", p_.graph->outputs.size(), " graph outputs"));
  // clang-format off
  static constexpr struct { std::string_view tag; ir::OutputSpec::Kind kind; std::string_view target; } kOutputs[] = {
      {"user_output", ir::OutputSpec::kUser, ""},
      {"loss_output", ir::OutputSpec::kLoss, ""},
      {"buffer_mutation", ir::OutputSpec::kBufferMutation, "buffer_name"},
      {"parameter_mutation", ir::OutputSpec::kParameterMutation, "parameter_name"},
      {"gradient_to_parameter", ir::OutputSpec::kGradToParameter, "parameter_name"},
      {"gradient_to_user_input", ir::OutputSpec::kGradToUserInput, "user_input_name"},
      {"user_input_mutation", ir::OutputSpec::kUserInputMutation, "user_input_name"},
      {"token", ir::OutputSpec::kToken, ""},
  };
  // clang-format on
  for (const Json& spec : out) {
    ASSIGN_OR_RETURN(Union u, AsUnion(spec));
    ir::OutputSpec s;
    bool known = false;
    for (const auto& row : kOutputs) {
      if (row.tag != u.tag) continue;
      known = true;
      s.kind = row.kind;
      if (!row.target.empty()) {
        ASSIGN_OR_RETURN(s.target, Text(*u.value, row.target));
      }
    }
    if (!known) return spec.Error(text::StrCat("unknown OutputSpec '", u.tag, "'"));
    p_.output_specs.push_back(std::move(s));
  }
  return absl::OkStatus();
}

}  // namespace slipway::importers
