// The ONNX exporter's main line: bind inputs and weights, lower, describe, check, write.
#include "exporters/onnx/export.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "absl/container/flat_hash_map.h"
#include "base/list_error.h"
#include "base/text.h"
#include "exporters/onnx/check.h"
#include "exporters/onnx/fold.h"
#include "exporters/onnx/functions.h"
#include "exporters/onnx/graph_order.h"
#include "exporters/onnx/lowering.h"
#include "exporters/onnx/ort_workarounds.h"
#include "exporters/onnx/types.h"
#include "exporters/onnx/wire.h"
#include "exporters/program_names.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::exporters {

using ir::DType;
using ir::InputSpec;
using ir::Ints;
using ir::OutputSpec;
using onnx_out::V;

int IrVersionFor(int opset) {
  // Opset -> IR version of the ONNX release that introduced it.
  switch (opset) {
    case 18: return 8;
    case 19:
    case 20: return 9;
    case 21:
    case 22: return 10;
    case 23: return 11;
    case 24: return 12;
    case 25:
    case 26:
    case 27: return 13;
    default: return 14;
  }
}

bool OnnxLegal(const ir::Node& n, const OnnxOptions& options) {
  return onnx_out::FindCustomOp(options.custom_ops, n.op()) != nullptr || onnx_out::IsOnnxNode(n) ||
         onnx_out::FindRow(n.op_name(), options.opset, &n, options.form) != nullptr;
}

namespace {

std::string RangeText(const ir::SymbolInfo& s) {
  std::string max = s.range.max >= std::numeric_limits<int64_t>::max() - 1 ? "inf" : text::StrCat(s.range.max);
  return text::StrCat(s.name, " = ", std::max<int64_t>(s.range.min, 0), "..", max);
}

bool IsUserInput(const ir::Program& p, size_t i) {
  return p.input_specs[i].kind == InputSpec::kUser && p.graph->inputs()[i]->type().kind != ir::Type::kConstant;
}
bool IsUserOutput(const ir::Program& p, size_t i) {
  const OutputSpec::Kind kind = p.output_specs[i].kind;
  return (kind == OutputSpec::kUser || kind == OutputSpec::kLoss) && p.graph->outputs[i].value() != nullptr;
}

// One export, in the order of its functions.
class Exporter {
 public:
  Exporter(const ir::Program& p, const OnnxOptions& o)
      : p_(p), o_(o), graph_(model_.mutable_graph()), emitter_(graph_, &shared_) {
    shared_.opset = o.opset;
    shared_.form = o.form;
    shared_.strict_types = o.strict_types;
    shared_.from_onnx = o.from_onnx;
    shared_.keep_halves = o.keep_halves;
    shared_.metadata = o.node_metadata;
    shared_.functions = &functions_;
    lowering_.refusals = o.refusals;
    lowering_.custom_ops = &o.custom_ops;
    lowering_.resolve = [this](const ir::Value* v, const std::optional<onnx_out::StoredForm>& form) {
      return Weight(v, form);
    };
    lowering_.turned = [this](const ir::Value* v, const Ints& perm) { return TurnedWeight(v, perm); };
    lowering_.stacked = [this](std::vector<ir::TensorRef> parts, const Ints& dims, std::string_view name) {
      return Stacked(std::move(parts), dims, name);
    };
    lowering_.numbers = [this](const ir::Value* v) { return NumbersOf(v); };
    report_.nodes_in = static_cast<int>(p.graph->node_count());
  }

  absl::StatusOr<OnnxReport> Run(const std::string& path, bool dry_run, OnnxReport* on_failure) {
    Head();
    UserInputs();
    if (o_.state_io) StateInputs();
    ReserveOutputNames();
    if (o_.from_onnx) NameConstants();
    FindTurnedWeights();
    std::vector<passes::Problem> problems;
    lowering_.Run(*p_.graph, &problems);
    Outputs();
    // A mistake of ours is not an operator that ONNX lacks; values of inputs that are refused have no counterpart
    // either.
    if (report_.unsupported.empty()) {
      for (const passes::Problem& problem : problems)
        if (absl::IsInternal(problem.status)) return problem.status;
      if (absl::IsInternal(shared_.status)) return shared_.status;
    }
    if (!shared_.status.ok())
      report_.unsupported.push_back({"outputs", std::string(shared_.status.message()), "", "", 1});
    report_.of_signature = report_.unsupported.size();
    for (passes::Unsupported& u : passes::Group(problems)) report_.unsupported.push_back(std::move(u));
    report_.nodes_out = graph_->node_size();
    if (!report_.unsupported.empty()) {
      if (on_failure) *on_failure = report_;
      return absl::UnimplementedError(
          text::StrCat(report_.unsupported.size(), " kinds of operators cannot be written"));
    }
    if (absl::Status s = MissingWeights(); !s.ok() && !dry_run) {
      if (on_failure) *on_failure = report_;
      return s;
    }
    Tail();
    if (absl::Status s = onnx_out::CheckSkeleton(model_, weights_); !s.ok()) return s;
    for (const auto& w : weights_) report_.weight_bytes += w.nbytes();
    if (absl::Status s = CheckOutput(report_.weight_bytes, o_.max_output); !s.ok()) return s;
    if (dry_run) return std::move(report_);
    auto written = onnx_out::WriteModel(model_, weights_, path, o_);
    if (!written.ok()) return written.status();
    report_.file_bytes = *written;
    return std::move(report_);
  }

 private:
  void Head() {
    model_.set_ir_version(IrVersionFor(o_.opset));
    // The graph is PyTorch's, and tools choose patterns by this name: onnxruntime's optimizer for transformers warns
    // of any other.
    model_.set_producer_name("pytorch");
    model_.set_producer_version(text::StrCat("slipway ", SLIPWAY_VERSION));
    auto* opset = model_.add_opset_import();
    opset->set_domain("");
    opset->set_version(o_.opset);
    graph_->set_name(p_.name.empty() ? "model" : p_.name);
    shared_.names.insert(o_.input_names.begin(), o_.input_names.end());
    shared_.names.insert(o_.output_names.begin(), o_.output_names.end());
  }

  // A graph input and the value it stands for.
  void Input(const ir::Value* v, std::string name) {
    if (v->type().is_tensor() && !onnx_out::OnnxType(v->dtype())) {
      report_.unsupported.push_back(
          {"input " + v->name(), text::StrCat("ONNX has no type for ", ir::Name(v->dtype())), "", "", 1});
      return;
    }
    onnx_out::Describe(graph_->add_input(), name, v->type());
    lowering_.Bind(v, {std::move(name), onnx_out::ElementType(v->type()), v->type().is_tensor() ? v->rank() : 0});
  }

  // The user's, in order, used or not.
  void UserInputs() {
    for (size_t i = 0, k = 0; i < p_.graph->inputs().size(); ++i) {
      const ir::Value* v = p_.graph->inputs()[i];
      spec_of_[v] = i;
      if (IsUserInput(p_, i)) Input(v, o_.input_names.empty() ? emitter_.UniqueName(v->name()) : o_.input_names[k++]);
    }
  }

  // State that the program updates: an input whose default is the value in the file.
  void StateInputs() {
    for (size_t i = 0; i < p_.graph->inputs().size(); ++i) {
      const InputSpec& s = p_.input_specs[i];
      if (s.kind == InputSpec::kUser || !updated_.contains(s.target)) continue;
      const std::string name = emitter_.UniqueName(text::StrCat("state_in.", s.target));
      Input(p_.graph->inputs()[i], name);
      if (auto w = p_.weights.find(s.target); w != p_.weights.end())
        weights_.push_back({name, w->second, std::nullopt});
    }
  }

  // The initializer of a weight, made on first use; tensors that are the same bytes in the same form share one.
  V Weight(const ir::Value* v, const std::optional<onnx_out::StoredForm>& form) {
    auto it = spec_of_.find(v);
    if (it == spec_of_.end()) return {};
    const InputSpec& s = p_.input_specs[it->second];
    if (s.kind == InputSpec::kUser || s.kind == InputSpec::kConstant) return {};
    auto w = p_.weights.find(s.target);
    if (w == p_.weights.end()) {
      missing_.push_back(s.target);
      return {"?", v->dtype(), v->rank()};
    }
    ir::TensorRef t = w->second;
    if (!onnx_out::OnnxType(t.dtype)) {
      emitter_.SetStatus(
          absl::UnimplementedError(text::StrCat("weight '", s.target, "': ONNX has no type for ", ir::Name(t.dtype))));
      return {"?", v->dtype(), v->rank()};
    }
    if (form && !form->strides.empty()) t.sizes = form->sizes, t.strides = form->strides;
    const onnx_out::WeightRef ref{"", t, form};
    std::string& name = name_of_[{t.storage.get(), t.offset, ref.dtype(), ref.dims(), t.strides}];
    if (name.empty()) {
      name = emitter_.UniqueName(form ? text::StrCat(s.target, form->suffix) : s.target);
      weights_.push_back({name, t, form});
      if (!form && s.kind == InputSpec::kTensorConstant) KnowElements(name, t);
    }
    return {name, ref.dtype(), static_cast<int>(ref.dims().size())};
  }

  // The outputs' names are taken before nodes get theirs: what is inside gives way.
  void ReserveOutputNames() {
    size_t result = 0, user = 0;
    const auto results =
        static_cast<size_t>(std::count_if(p_.output_specs.begin(), p_.output_specs.end(),
                                          [](const OutputSpec& s) { return s.kind == OutputSpec::kUser; }));
    const bool named = o_.result_names.size() == results;
    for (size_t i = 0; i < p_.graph->outputs.size(); ++i) {
      const size_t place = result;
      result += p_.output_specs[i].kind == OutputSpec::kUser;
      if (!IsUserOutput(p_, i)) continue;
      std::string name;
      if (!o_.output_names.empty()) {
        name = o_.output_names[user++];
      } else {
        if (named && p_.output_specs[i].kind == OutputSpec::kUser) name = o_.result_names[place];
        if (name.empty()) name = p_.graph->outputs[i].value()->name();
        if (!shared_.names.insert(name).second) name = emitter_.UniqueName(text::StrCat(name, "_out"));
      }
      output_name_[i] = std::move(name);
    }
    if (!o_.state_io) return;
    for (size_t i = 0; i < p_.graph->outputs.size(); ++i)
      if (const OutputSpec& s = p_.output_specs[i]; s.updates_state())
        output_name_[i] = emitter_.UniqueName(text::StrCat("state_out.", s.target));
  }

  // Sizes, axes and limits that were constants of the model and are arguments of the program: where a lowering makes
  // the same constant, it is called as it was.
  void NameConstants() {
    for (size_t i = 0; i < p_.input_specs.size(); ++i) {
      const auto w = p_.weights.find(p_.input_specs[i].target);
      if (!p_.input_specs[i].is_weight() || w == p_.weights.end() || !p_.graph->inputs()[i]->users().empty()) continue;
      const auto& [name, t] = *w;
      if (!onnx_out::OnnxType(t.dtype) || t.nbytes() > kMostNamed) continue;
      if (auto bytes = ir::ReadDense(t); bytes.ok()) emitter_.Const(t.dtype, t.sizes, *std::move(bytes), name);
    }
  }

  // Small integers and truth values that no parameter or buffer is: lowerings compute with them.
  void KnowElements(const std::string& name, const ir::TensorRef& t) {
    if (ir::IsFloating(t.dtype) || ir::ByteSize(t.dtype) == 0 || t.nbytes() > onnx_out::kMostFolded) return;
    if (auto bytes = ir::ReadDense(t); bytes.ok()) shared_.known[name] = {t.dtype, t.sizes, *std::move(bytes)};
  }

  // The order of dims in which a node reads one of its operands, where a row takes it from the file in that order (in
  // lowerings/nn.cc and views.cc); nullopt where the row takes the operand as it is. Empty for a product that takes
  // either.
  std::optional<Ints> OrderOf(const ir::Node& n, const ir::Value* weight) const {
    if (onnx_out::FindCustomOp(o_.custom_ops, n.op()) != nullptr) return std::nullopt;
    const std::string_view op = n.op_name();
    if (op == "aten.linear.default") {
      const ir::Value* x = n.Get("input").value();
      if (weight->rank() != 2 || x == weight || n.Get("weight").value() != weight || n.Get("bias").value() == weight)
        return std::nullopt;
      return x && x->rank() == 2 ? Ints{} : Ints{1, 0};
    }
    return onnx_out::PermutationOf(n);
  }

  // Weights that all nodes read in the same other order. Tensors that are the same bytes count as one.
  void FindTurnedWeights() {
    std::map<WeightKey, std::optional<Ints>> orders;  // nullopt: as it is; empty: any
    for (const auto& [v, i] : spec_of_) {
      const auto w =
          p_.input_specs[i].kind == InputSpec::kUser ? p_.weights.end() : p_.weights.find(p_.input_specs[i].target);
      if (w == p_.weights.end()) continue;
      const ir::TensorRef& t = w->second;
      const auto [known, fresh] = orders.try_emplace(KeyOf(t), Ints{});
      std::optional<Ints>& order = known->second;
      if (p_.graph->IsOutput(v) || updated_.contains(w->first) || ir::MappedBytes(*t.storage).empty() ||
          v->rank() != static_cast<int>(t.sizes.size())) {
        order.reset();
        continue;
      }
      for (const ir::Node* n : v->users()) {
        const std::optional<Ints> wanted = OrderOf(*n, v);
        if (!wanted || !order || (!wanted->empty() && !order->empty() && *wanted != *order))
          order.reset();
        else if (!wanted->empty())
          order = wanted;
      }
    }
    for (const auto& [key, order] : orders)
      if (order && !order->empty()) order_of_[key] = *order;
  }

  const ir::TensorRef* NumbersOf(const ir::Value* v) const {
    const auto it = spec_of_.find(v);
    if (it == spec_of_.end() || p_.input_specs[it->second].kind == InputSpec::kUser) return nullptr;
    const std::string& name = p_.input_specs[it->second].target;
    const auto w = p_.weights.find(name);
    return updated_.contains(name) || w == p_.weights.end() ? nullptr : &w->second;
  }

  // A weight of the model that is read in pieces, and that the pieces are again, is written itself.
  V Stacked(std::vector<ir::TensorRef> parts, const Ints& dims, std::string_view name) {
    const DType dtype = parts[0].dtype;
    for (size_t i = 0; o_.from_onnx && i < p_.input_specs.size(); ++i) {
      const auto w = p_.weights.find(p_.input_specs[i].target);
      if (!p_.input_specs[i].is_weight() || w == p_.weights.end() || !p_.graph->inputs()[i]->users().empty() ||
          w->second.dtype != dtype || w->second.sizes != dims || !IsStackOf(w->second, parts))
        continue;
      if (w->second.nbytes() <= kMostNamed)  // a constant of its name already
        if (auto bytes = ir::ReadDense(w->second); bytes.ok()) return emitter_.Const(dtype, dims, *std::move(bytes));
      return Weight(p_.graph->inputs()[i], std::nullopt);
    }
    std::pair<std::vector<WeightKey>, Ints> key{{}, dims};
    for (const ir::TensorRef& t : parts) key.first.push_back(KeyOf(t));
    std::string& known = stacked_[key];
    if (known.empty()) {
      known = emitter_.UniqueName(name);
      const ir::TensorRef first = parts[0];
      weights_.push_back({known, first, onnx_out::StoredForm{.dtype = dtype, .dims = dims, .parts = std::move(parts)}});
    }
    return {known, dtype, static_cast<int>(dims.size())};
  }

  // Whether the bytes of a tensor are those of others, one behind the other.
  static bool IsStackOf(const ir::TensorRef& whole, const std::vector<ir::TensorRef>& parts) {
    const absl::Span<const uint8_t> bytes = ir::MappedBytes(*whole.storage);
    if (bytes.empty() || !whole.is_contiguous()) return false;
    auto at = static_cast<uint64_t>(whole.offset);
    for (const ir::TensorRef& t : parts) {
      const auto n = static_cast<uint64_t>(t.nbytes());
      const auto part = ir::ReadDense(t);
      if (!part.ok() || at > bytes.size() || n > bytes.size() - at ||
          std::memcmp(bytes.data() + at, part->data(), n) != 0)
        return false;
      at += n;
    }
    return at == static_cast<uint64_t>(whole.offset) + static_cast<uint64_t>(whole.nbytes());
  }

  V TurnedWeight(const ir::Value* v, const Ints& perm) {
    const auto it = spec_of_.find(v);
    if (it == spec_of_.end()) return {};
    const auto w = p_.weights.find(p_.input_specs[it->second].target);
    if (w == p_.weights.end()) return {};
    const ir::TensorRef& t = w->second;
    const auto order = order_of_.find(KeyOf(t));
    if (order == order_of_.end() || order->second != perm) return {};
    onnx_out::StoredForm form{.dtype = t.dtype, .suffix = ".transposed"};
    for (int64_t d : perm) form.sizes.push_back(t.sizes[d]), form.strides.push_back(t.strides[d]);
    form.dims = form.sizes;
    return Weight(v, form);
  }

  // The user's in order, then the state's. Each is the result of a node of the graph and used once: that result is
  // renamed. What is none (an input or a weight handed through, a value returned twice) gets an Identity.
  void Outputs() {
    std::set<std::string> free;  // results of nodes that are no output yet
    for (const auto& n : graph_->node()) free.insert(n.output().begin(), n.output().end());
    absl::flat_hash_map<std::string, std::string> renamed;
    for (const bool state : {false, true}) {
      for (size_t i = 0; i < p_.graph->outputs.size(); ++i) {
        const auto name = output_name_.find(i);
        if (name == output_name_.end() || p_.output_specs[i].updates_state() != state) continue;
        const ir::Value* v = p_.graph->outputs[i].value();
        const V x = lowering_.Get(v);
        if (free.erase(x.name) > 0) {
          renamed[x.name] = name->second;
        } else {
          emitter_.SetScope("", name->second);
          emitter_.Op("Identity", {x});
          graph_->mutable_node(graph_->node_size() - 1)->set_output(0, name->second);
        }
        onnx_out::Describe(graph_->add_output(), name->second, v->type());
      }
    }
    // An output's type stands there.
    auto* infos = graph_->mutable_value_info();
    infos->erase(std::remove_if(infos->begin(), infos->end(),
                                [&](const onnx::ValueInfoProto& v) { return renamed.contains(v.name()); }),
                 infos->end());
    const std::set<std::string> kept = NameResults(free, &renamed);
    onnx_out::RenameValues(graph_, renamed);
    for (std::vector<std::string>& results : shared_.rule_results)
      for (std::string& name : results)
        if (const auto it = renamed.find(name); it != renamed.end()) name = it->second;
    // What has the program's name changes it no more (onnx_out::OrderGraph).
    for (auto& [stem, names] : shared_.names_of)
      std::erase_if(names, [&](const std::string& name) { return kept.contains(name); });
    for (const std::string& name : kept) shared_.stem_of.erase(name);
    // What gave way to one takes part in the order, whichever it was.
    for (const auto& [stem, name] : gave_way_) {
      shared_.stem_of[name] = stem;
      shared_.names_of[stem].push_back(name);
    }
  }

  // What a value of the program has become is called as it is there; what a lowering makes on the way gives way.
  // `free`: results of nodes that are no output. Gives the names that are the program's.
  std::set<std::string> NameResults(std::set<std::string> free,
                                    absl::flat_hash_map<std::string, std::string>* renamed) {
    const std::set<std::string> results = free;
    std::set<std::string> given;
    for (const ir::Node* n : *p_.graph) {
      for (const ir::Value* v : n->outputs()) {
        const V* x = v ? lowering_.Find(v) : nullptr;
        if (!x || !free.contains(x->name) || (!results.contains(v->name()) && shared_.names.contains(v->name())))
          continue;
        if (!given.insert(v->name()).second) continue;
        free.erase(x->name);
        shared_.names.insert(v->name());
        if (x->name != v->name()) (*renamed)[x->name] = v->name();
      }
    }
    for (const std::string& name : free) {
      if (!given.contains(name)) continue;
      const std::string& other = (*renamed)[name] = emitter_.UniqueName(name);
      const auto stem = shared_.stem_of.find(name);
      if (stem != shared_.stem_of.end()) gave_way_.emplace_back(stem->second, other);
    }
    for (const auto& [i, name] : output_name_) given.insert(name);
    return given;
  }

  absl::Status MissingWeights() {
    if (missing_.empty()) return absl::OkStatus();
    std::sort(missing_.begin(), missing_.end());
    missing_.erase(std::unique(missing_.begin(), missing_.end()), missing_.end());
    report_.missing_weights = missing_;
    return ListError(text::StrCat(missing_.size(), " weights have no values"), missing_);
  }

  // Nodes of the outermost graph whose results nothing reads: a Transpose that others were joined with, parts of a
  // rule.
  void DropUnused() {
    std::unordered_set<std::string> used;
    const auto use = [&](const auto& names) { used.insert(names.begin(), names.end()); };
    for (const onnx::ValueInfoProto& v : graph_->output()) used.insert(v.name());
    std::vector<bool> kept(graph_->node_size());
    for (int i = graph_->node_size() - 1; i >= 0; --i) {
      const onnx::NodeProto& n = graph_->node(i);
      if (std::none_of(n.output().begin(), n.output().end(),
                       [&](const std::string& name) { return used.contains(name); }))
        continue;
      kept[i] = true;
      use(n.input());
      for (const onnx::AttributeProto& a : n.attribute()) {
        if (a.has_g()) use(onnx_out::ReadValues(a.g()));
        for (const onnx::GraphProto& g : a.graphs()) use(onnx_out::ReadValues(g));
      }
    }
    int place = 0;
    for (int i = 0; i < graph_->node_size(); ++i)
      if (kept[i]) graph_->mutable_node()->SwapElements(place++, i);
    graph_->mutable_node()->DeleteSubrange(place, graph_->node_size() - place);
    auto* infos = graph_->mutable_value_info();
    infos->erase(std::remove_if(infos->begin(), infos->end(),
                                [&](const onnx::ValueInfoProto& v) { return !used.contains(v.name()); }),
                 infos->end());
  }

  void Tail() {
    DropUnused();
    report_.nodes_out = graph_->node_size();
    onnx_out::OrderGraph(graph_, &shared_);
    for (const std::string& key : shared_.constant_order) *graph_->add_initializer() = shared_.constants[key].second;
    // A rule may have asked for a weight and then gone another way. State, which is an input, comes first.
    absl::flat_hash_map<std::string, size_t> place;
    for (const onnx::ValueInfoProto& v : graph_->input()) place.emplace(v.name(), 0);
    for (const std::string& name : onnx_out::ReadValues(*graph_)) place.emplace(name, place.size());
    std::erase_if(weights_, [&](const onnx_out::WeightRef& w) { return !place.contains(w.name); });
    std::stable_sort(weights_.begin(), weights_.end(), [&](const onnx_out::WeightRef& a, const onnx_out::WeightRef& b) {
      return place[a.name] < place[b.name];
    });
    for (const onnx::FunctionProto& f : functions_.functions()) *model_.add_functions() = f;
    onnx_out::WorkAroundOnnxRuntime(&model_, shared_.opset);
    shared_.custom_domains.insert(functions_.domains().begin(), functions_.domains().end());
    for (const std::string& domain : shared_.custom_domains) {
      auto* opset = model_.add_opset_import();
      opset->set_domain(domain);
      opset->set_version(1);
    }
    auto meta = [this](const std::string& key, const std::string& value) {
      auto* m = model_.add_metadata_props();
      m->set_key(key);
      m->set_value(value);
    };
    for (const auto& [key, value] : o_.metadata) meta(key, value);
    std::vector<std::string> dims;
    for (const ir::SymbolInfo& s : p_.syms->symbols()) dims.push_back(RangeText(s));
    if (!dims.empty()) meta("slipway.dims", text::Join(dims, "; "));
  }

  static constexpr int64_t kMostNamed = 256;  // bytes of constants that keep their names

  const ir::Program& p_;
  const OnnxOptions& o_;
  const text::Set updated_ = ir::UpdatedWeights(p_);
  onnx::ModelProto model_;
  onnx::GraphProto* graph_;
  onnx_out::FunctionLibrary functions_;
  onnx_out::EmitterShared shared_;
  onnx_out::Emitter emitter_;
  onnx_out::GraphLowering lowering_{emitter_, nullptr};
  OnnxReport report_;
  std::vector<onnx_out::WeightRef> weights_;
  std::vector<std::string> missing_;                           // weights without values
  std::vector<std::pair<std::string, std::string>> gave_way_;  // stems and new names of values whose names others took
  absl::flat_hash_map<const ir::Value*, size_t> spec_of_;
  absl::flat_hash_map<size_t, std::string> output_name_;  // by the output's index
  using WeightKey = std::tuple<const ir::Storage*, int64_t, DType, std::vector<int64_t>, std::vector<int64_t>>;
  static WeightKey KeyOf(const ir::TensorRef& t) { return {t.storage.get(), t.offset, t.dtype, t.sizes, t.strides}; }
  std::map<WeightKey, std::string> name_of_;
  std::map<std::pair<std::vector<WeightKey>, Ints>, std::string> stacked_;  // names of what is made of several
  std::map<WeightKey, Ints> order_of_;  // of weights that are read in another order only
};

}  // namespace

absl::Status CheckNames(const ir::Program& p, const OnnxOptions& options) {
  size_t inputs = 0, outputs = 0;
  for (size_t i = 0; i < p.graph->inputs().size(); ++i) inputs += IsUserInput(p, i);
  for (size_t i = 0; i < p.graph->outputs.size(); ++i) outputs += IsUserOutput(p, i);
  std::set<std::string_view> seen;
  for (const auto& [names, count, flag] : {std::tuple(&options.input_names, inputs, "--input-names"),
                                           std::tuple(&options.output_names, outputs, "--output-names")}) {
    if (!names->empty() && names->size() != count)
      return absl::InvalidArgumentError(text::StrCat(flag, ": ", names->size(), " names for ", count));
    for (const std::string& name : *names) {
      if (name.empty()) return absl::InvalidArgumentError(text::StrCat(flag, ": an empty name"));
      if (!seen.insert(name).second)
        return absl::InvalidArgumentError(text::StrCat(flag, ": '", name, "' is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OnnxReport> ExportOnnx(const ir::Program& p, const std::string& path, const OnnxOptions& options,
                                      bool dry_run, OnnxReport* on_failure) {
  if (absl::Status s = CheckProgramNames(p); !s.ok()) return s;
  return Exporter(p, options).Run(path, dry_run, on_failure);
}

absl::StatusOr<uint64_t> ExportOnnxGraph(const ir::Program& p, const std::string& path) {
  std::vector<onnx_model::Weight> weights;
  auto model = onnx_model::ToModel(p, &weights);
  if (!model.ok()) return model.status();
  std::vector<onnx_out::WeightRef> refs;
  for (onnx_model::Weight& w : weights) refs.push_back({std::move(w.name), std::move(w.tensor), std::nullopt});
  return onnx_out::WriteModel(*model, refs, path, {});
}

}  // namespace slipway::exporters
