// An output is the input with something behind it if each of its parts is. Selections by constant indices on the
// input's side and stacks on the output's are walked together: what is left is a set of parts, each a cat that begins
// with the same part of the input. Nothing else needs to be known, for what slipway.append writes lies behind all that
// anybody reads of the input.
#include "passes/keep_state.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/match.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;
using ir::Values;

constexpr std::string_view kAppend = "slipway.append.default";

// A part of the input: an index for some of its dims, and which dims of it are left, in the order of the part's own.
// -1: a dim of size 1 that the input has not.
struct StatePart {
  std::vector<std::optional<int64_t>> fixed;
  std::vector<int> left;
  bool operator==(const StatePart&) const = default;
};
StatePart Whole(const Value* input) {
  StatePart p;
  p.fixed.resize(static_cast<size_t>(input->rank()));
  for (int d = 0; d < input->rank(); ++d) p.left.push_back(d);
  return p;
}

// What part of the input `v` is; nullopt for other values.
std::optional<StatePart> PartOf(const Value* v, const Value* input) {
  if (v == input) return Whole(input);
  const Node* n = v->producer();
  if (!IsOneOf(n, {"aten.select.int", "aten.unbind.int", "aten.unsqueeze.default", "aten.squeeze.dim"}))
    return std::nullopt;
  ir::ArgReader a(*n);
  const Value* source = a.tensor("self");
  if (!a.ok()) return std::nullopt;
  auto part = PartOf(source, input);
  if (!part) return std::nullopt;
  const bool adds = n->op_name() == "aten.unsqueeze.default";
  const int dim = a.dim("dim", source->rank() + adds);
  if (!a.ok()) return std::nullopt;
  if (adds) {
    part->left.insert(part->left.begin() + dim, -1);
    return part;
  }
  const int of = part->left[static_cast<size_t>(dim)];
  const auto size = source->sizes()[dim].constant();
  if (!size) return std::nullopt;
  int64_t index = 0;
  if (n->op_name() == "aten.select.int") {
    const auto given = ir::ExprOf(a.sym("index")).constant();
    if (!a.ok() || !given) return std::nullopt;
    index = *given < 0 ? *given + *size : *given;
  } else if (n->op_name() == "aten.unbind.int") {
    const auto& outputs = n->outputs();
    index = std::find(outputs.begin(), outputs.end(), v) - outputs.begin();
  } else if (*size != 1) {  // a squeeze that leaves the dim
    return part;
  }
  if (index < 0 || index >= *size) return std::nullopt;
  if (of >= 0) part->fixed[static_cast<size_t>(of)] = index;
  part->left.erase(part->left.begin() + dim);
  return part;
}

// The cats that make `output` of `input`.
class Matcher {
 public:
  explicit Matcher(const Value* input) : input_(input) {}

  // "" or why the output is something else.
  std::string Match(Value* output) {
    if (!input_->type().is_tensor() || !output->type().is_tensor()) return "both have to be tensors";
    if (input_->dtype() != output->dtype() || input_->rank() != output->rank())
      return text::StrCat("it is ", output->type().ToString(), ", the input ", input_->type().ToString());
    if (std::string why = MatchPart(output, Whole(input_)); !why.empty()) return why;
    for (int d = 0; d < input_->rank(); ++d)
      if ((d == dim_) == input_->sizes()[d].is_constant())
        return d == dim_ ? text::StrCat("dim ", d, ", along which it grows, is ", input_->sizes()[d].ToString(),
                                        " at all times")
                         : text::StrCat("its size ", input_->sizes()[d].ToString(), " in dim ", d, " is not fixed");
    return "";
  }
  int dim() const { return dim_; }
  const std::vector<Node*>& cats() const { return cats_; }

 private:
  std::string MatchPart(Value* v, const StatePart& want) {
    Node* n = v->producer();
    const bool stack = IsOneOf(n, {"aten.stack.default"});
    if (!stack && !(n && IsCat(*n)))
      return text::StrCat("%", v->name(),
                          n ? text::StrCat(" is a result of ", n->op_name()) : " is an input, unchanged",
                          ", not of cat or stack");
    ir::ArgReader a(*n);
    const Values tensors = a.tensors("tensors");
    const int at = a.dim("dim", v->rank());
    if (!a.ok() || tensors.empty() || want.left.size() != static_cast<size_t>(v->rank()))
      return text::StrCat("%", v->name(), " is of another rank");
    const int of = want.left[static_cast<size_t>(at)];
    if (!stack && tensors.size() > 1) {
      const auto first = PartOf(tensors[0], input_);
      if (first == want) {
        if (of < 0 || (dim_ >= 0 && dim_ != of)) return "its parts grow along several dims";
        dim_ = of;
        cats_.push_back(n);
        return "";
      }
    }
    // One tensor for each index of a dim.
    if (of < 0 || input_->sizes()[of].constant() != static_cast<int64_t>(tensors.size()))
      return text::StrCat("%", v->name(), " does not begin with ",
                          IsWhole(want) ? text::StrCat("%", input_->name()) : "the same part of the input");
    for (size_t i = 0; i < tensors.size(); ++i) {
      StatePart part = want;
      part.fixed[static_cast<size_t>(of)] = static_cast<int64_t>(i);
      part.left.erase(part.left.begin() + at);
      Value* one = tensors[i];
      if (!stack) {  // of tensors that have the dim already
        const Node* u = one->producer();
        if (!IsOneOf(u, {"aten.unsqueeze.default"})) return text::StrCat("%", one->name(), " is not of unsqueeze");
        ir::ArgReader args(*u);
        const int dim = args.dim("dim", one->rank());
        one = args.tensor("self");
        if (!args.ok() || dim != at) return text::StrCat("%", tensors[i]->name(), " has another dim of size 1");
      }
      if (std::string why = MatchPart(one, part); !why.empty()) return why;
    }
    return "";
  }
  static bool IsWhole(const StatePart& p) {
    return std::none_of(p.fixed.begin(), p.fixed.end(), [](const auto& f) { return f.has_value(); });
  }

  const Value* input_;
  int dim_ = -1;
  std::vector<Node*> cats_;
};

struct Found {
  Value* input;
  size_t output;
  Matcher match;
};

// Whether inputs of the call give all symbols of e.
bool IsGivenByInputs(const ir::Program& p, ir::Sym e) {
  absl::flat_hash_set<ir::Sym> given;
  for (const Value* v : p.graph->inputs()) {
    for (ir::Sym s : v->sizes())
      for (ir::Sym symbol : s.Symbols()) given.insert(symbol);
    if (v->type().is_sym())
      for (ir::Sym symbol : v->type().expr.Symbols()) given.insert(symbol);
  }
  const auto symbols = e.Symbols();
  return std::all_of(symbols.begin(), symbols.end(), [&](ir::Sym s) { return given.contains(s); });
}

// "" or why the pair is none.
std::string Check(const ir::Program& p, size_t output, Matcher& m) {
  Value* v = p.graph->outputs[output].value();
  if (std::string why = m.Match(v); !why.empty()) return why;
  return IsGivenByInputs(p, v->sizes()[m.dim()])
             ? ""
             : text::StrCat("its size ", v->sizes()[m.dim()].ToString(), " depends on data");
}

absl::Status Rewrite(ir::Program& p, std::vector<Found>& found, std::vector<GrowingState>* states) {
  std::vector<std::pair<std::string, Value*>> appended;  // input, what is behind it now
  for (Found& f : found) {
    Value* out = p.graph->outputs[f.output].value();
    states->push_back(
        {std::string(f.input->name()), std::string(out->name()), f.output, f.match.dim(), out->sizes()[f.match.dim()]});
    for (Node* cat : f.match.cats()) {
      ir::ArgReader a(*cat);
      Values tensors = a.tensors("tensors");
      Value* past = tensors[0];
      tensors.erase(tensors.begin());
      ir::Builder b(*p.graph, cat, cat->source());
      Value* y = b.Call(kAppend, {past, tensors, a.dim("dim", past->rank())});
      if (!b.ok()) return b.status();
      const bool is_output = out->producer() == cat;
      ReplaceNode(cat, {y});
      if (is_output) out = y;
      appended.emplace_back(f.input->name(), y);
    }
  }
  // What is appended is kept also where nothing else reads it: as updates of the inputs.
  std::vector<ir::Arg> outputs;
  std::vector<ir::OutputSpec> specs;
  for (size_t i = 0; i < p.graph->outputs.size(); ++i) {
    if (std::any_of(found.begin(), found.end(), [&](const Found& f) { return f.output == i; })) continue;
    outputs.push_back(std::move(p.graph->outputs[i]));
    specs.push_back(std::move(p.output_specs[i]));
  }
  for (const auto& [input, value] : appended) {
    outputs.emplace_back(value);
    specs.push_back({ir::OutputSpec::kUserInputMutation, input});
  }
  p.graph->outputs = std::move(outputs);
  p.output_specs = std::move(specs);
  p.in_spec.clear(), p.out_spec.clear();  // of the call as it was
  return EliminateDeadCode(p);
}

}  // namespace

const StateUpdate* FindStateUpdate(const Node& n) {
  static constexpr StateUpdate kUpdates[] = {
      {kAppend, "past", "tensors"},
      {"aten.index_copy.default", "self", "source"},
      {"aten.index_put.default", "self", "values"},
      {"aten.slice_scatter.default", "self", "src"},
      {"aten.select_scatter.default", "self", "src"},
  };
  const auto at =
      std::find_if(std::begin(kUpdates), std::end(kUpdates), [&](const StateUpdate& u) { return u.op == n.op_name(); });
  return at == std::end(kUpdates) ? nullptr : at;
}

std::vector<size_t> UserOutputs(const ir::Program& p) {
  std::vector<size_t> out;
  for (size_t i = 0; i < p.graph->outputs.size() && i < p.output_specs.size(); ++i)
    if (p.output_specs[i].kind == ir::OutputSpec::kUser) out.push_back(i);
  return out;
}

static absl::StatusOr<std::vector<Found>> Find(const ir::Program& p,
                                               absl::Span<const std::pair<std::string, size_t>> pairs) {
  for (const Node* n : *p.graph)
    if (n->op_name() == kAppend) return absl::UnimplementedError("the program has states already");
  std::vector<Value*> inputs;
  std::vector<size_t> outputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < p.graph->inputs().size(); ++i)
    if (Value* v = p.graph->inputs()[i]; p.input_specs[i].kind == ir::InputSpec::kUser && v->type().is_tensor())
      inputs.push_back(v), names.emplace_back(v->name());
  for (size_t i : UserOutputs(p))
    if (const Value* v = p.graph->outputs[i].value(); v && v->type().is_tensor()) outputs.push_back(i);
  std::vector<Found> found;
  if (pairs.empty()) {
    absl::flat_hash_set<size_t> taken;
    for (Value* input : inputs)
      for (size_t output : outputs) {
        Matcher m(input);
        if (taken.contains(output) || !Check(p, output, m).empty()) continue;
        taken.insert(output);
        found.push_back({input, output, std::move(m)});
        break;
      }
  }
  for (const auto& [input, output] : pairs) {
    const auto in = std::find(names.begin(), names.end(), input);
    if (in == names.end())
      return absl::NotFoundError(text::StrCat("no input is named '", input, "': there are ",
                                              names.empty() ? "none" : text::Join(names, ", ")));
    Value* value = inputs[static_cast<size_t>(in - names.begin())];
    if (std::find(outputs.begin(), outputs.end(), output) == outputs.end())
      return absl::NotFoundError(text::StrCat("what '", input, "' is to become is no tensor"));
    for (const Found& other : found)
      if (other.input == value || other.output == output)
        return absl::NotFoundError(text::StrCat("two pairs have '", input, "', or its output"));
    Found f{value, output, Matcher(value)};
    if (std::string why = Check(p, f.output, f.match); !why.empty())
      return absl::UnimplementedError(
          text::StrCat("the output is not input '", input, "' with something behind it: ", why));
    found.push_back(std::move(f));
  }
  return found;
}

absl::StatusOr<std::vector<std::pair<std::string, size_t>>> FindStates(
    const ir::Program& p, absl::Span<const std::pair<std::string, size_t>> pairs) {
  ASSIGN_OR_RETURN(const std::vector<Found> found, Find(p, pairs));
  std::vector<std::pair<std::string, size_t>> out;
  for (const Found& f : found) out.emplace_back(f.input->name(), f.output);
  return out;
}

absl::StatusOr<std::vector<GrowingState>> KeepState(ir::Program& p,
                                                    absl::Span<const std::pair<std::string, size_t>> pairs) {
  ASSIGN_OR_RETURN(std::vector<Found> found, Find(p, pairs));
  std::vector<GrowingState> states;
  if (found.empty()) return states;
  RETURN_IF_ERROR(Rewrite(p, found, &states));
  return states;
}

}  // namespace slipway::passes
