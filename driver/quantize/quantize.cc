// Which weights are quantized with what. What is hard here is to be sure that nothing asked for is silently skipped:
// every name in a configuration, an --include and an --exclude must have met a weight, and every weight has a row that
// says why.
#include "driver/quantize/quantize.h"
#include "driver/html/page.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "base/list_error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "io/atomic_writer.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "kernels/parallel.h"

namespace slipway::driver {
namespace {

using quantizer::Config;

absl::StatusOr<quantizer::ConfigMap> ReadConfigs(const std::string& text) {
  struct stat info;
  const bool file = text.ends_with(".json") || (stat(text.c_str(), &info) == 0 && S_ISREG(info.st_mode));
  if (file) {
    ASSIGN_OR_RETURN(const std::shared_ptr<io::MappedFile> mapped, io::MappedFile::Open(text));
    auto map =
        quantizer::ParseConfigJson({reinterpret_cast<const char*>(mapped->data().data()), mapped->data().size()});
    return map.ok() ? std::move(map) : WithPlace(map.status(), text);
  }
  auto config = quantizer::ParseShortName(text);
  if (!config.ok())
    return UsageError(std::string(config.status().message()),
                      "docs/quantize.md lists the names; a file of torchao's JSON is taken, too");
  return quantizer::ConfigMap::Of(*config);
}

absl::StatusOr<std::vector<weights::NameExpression>> Expressions(const std::vector<std::string>& texts) {
  std::vector<weights::NameExpression> out;
  for (const std::string& t : texts) {
    auto e = weights::NameExpression::Compile(t);
    if (!e.ok()) return UsageError(std::string(e.status().message()));
    out.push_back(*std::move(e));
  }
  return out;
}

// Whether any is found in the name; marks which.
bool FoundIn(const std::vector<weights::NameExpression>& expressions, std::vector<bool>& hit, const std::string& name) {
  bool any = false;
  for (size_t i = 0; i < expressions.size(); ++i)
    if (expressions[i].FoundIn(name)) any = hit[i] = true;
  return any;
}

QuantizedRow RowOf(const quantizer::Candidate& t) {
  QuantizedRow row;
  row.name = t.name;
  row.dtype = std::string(ir::Name(t.dtype));
  row.sizes = t.sizes;
  int64_t elements = 1;
  for (int64_t n : t.sizes) elements *= n;
  row.bytes_before = row.bytes_after =
      (static_cast<uint64_t>(elements) * static_cast<uint64_t>(ir::BitSize(t.dtype)) + 7) / 8;
  return row;
}

}  // namespace

int Threads(const ConvertOptions& o) { return o.threads > 0 ? o.threads : kernels::DefaultThreads(); }

absl::StatusOr<std::unique_ptr<Chooser>> Chooser::Make(const ConvertOptions& o) {
  // Until a budget has chosen: what finds out which weights there are to choose for.
  if (o.quantize == kAutomatic) return Make(o, quantizer::ConfigMap::Of(quantizer::Config()));
  if (!o.error_budget.empty() || o.size_budget > 0)
    return UsageError("--error-budget and --size-budget choose configurations themselves", "--config auto");
  ASSIGN_OR_RETURN(quantizer::ConfigMap configs, ReadConfigs(o.quantize));
  return Make(o, std::move(configs));
}

absl::StatusOr<std::unique_ptr<Chooser>> Chooser::Make(const ConvertOptions& o, quantizer::ConfigMap configs) {
  auto c = std::unique_ptr<Chooser>(new Chooser);
  c->configs_ = std::move(configs);
  c->automatic_ = o.quantize == kAutomatic;
  if (!o.embeddings.empty()) {
    auto config = quantizer::ParseEmbeddingName(o.embeddings);
    if (!config.ok())
      return UsageError(text::StrCat("--embeddings: ", std::string(config.status().message())),
                        "--embeddings int8, or int4:group=32; docs/quantize.md");
    c->embeddings_ = *config;
  }
  ASSIGN_OR_RETURN(auto matcher, quantizer::Matcher::Make(c->configs_));
  c->matcher_ = std::make_unique<quantizer::Matcher>(std::move(matcher));
  if (o.numerics != "0.18" && o.numerics != "0.14")
    return UsageError(text::StrCat("--numerics '", o.numerics, "'"), "0.18 or 0.14");
  c->options_.eps_of_0_14 = o.numerics == "0.14";
  ASSIGN_OR_RETURN(c->include_, Expressions(o.quantize_include));
  ASSIGN_OR_RETURN(c->exclude_, Expressions(o.quantize_exclude));
  c->include_hit_.resize(c->include_.size());
  c->exclude_hit_.resize(c->exclude_.size());
  return c;
}

void Chooser::Consider(size_t index, const quantizer::Candidate& t, const std::string& why_not, bool linear) {
  std::string module(quantizer::ModuleOf(t.name));
  std::string_view parameter = "weight";
  if (module.empty()) {  // MODULE.other, or a name without a module
    const size_t dot = t.name.rfind('.');
    module = dot == std::string::npos ? "" : t.name.substr(0, dot);
    parameter = dot == std::string::npos ? std::string_view(t.name) : std::string_view(t.name).substr(dot + 1);
  }
  QuantizedRow row = RowOf(t);
  const bool excluded = FoundIn(exclude_, exclude_hit_, t.name), included = FoundIn(include_, include_hit_, t.name);
  const quantizer::Match match = matcher_->Find(module, parameter);
  const bool by_name = match.entry && match.entry->key != "_default";
  const bool embedding = embeddings_ && t.embedding && !by_name;
  const Config* config = embedding ? &*embeddings_ : match.config;
  const bool experts = quantizer::IsOfExperts(t);
  const bool named = by_name || included;
  const std::string reason = experts ? text::StrCat("of experts, ", why_not) : why_not;
  row.asked = why_not.empty() || linear || embedding || experts || (named && config);
  if (excluded) {
    row.why = "excluded", row.asked = false;
  } else if (match.skipped) {
    row.why = "modules_to_not_convert", row.asked = false;
  } else if (!config) {
    row.why = automatic_    ? (named || why_not.empty() ? std::string(kAsBudgetChose) : reason)
              : match.entry ? "null in the configuration"
                            : "not in the configuration";
    row.asked = false;
  } else if (!why_not.empty() && !named && !embedding) {
    row.why = reason;
  } else if (t.sizes.size() != 2) {
    row.why = text::StrCat(t.sizes.size(), " dimensions");
    problems_[text::StrCat(t.sizes.size(), " dimensions, and weights of two are quantized")].push_back(t.name);
  } else if (t.embedding && !why_not.empty() && !quantizer::TakesEmbeddings(*config)) {
    row.why = "an embedding";
    problems_[text::StrCat("an embedding, which ", quantizer::ShortName(*config), " does not quantize")].push_back(
        t.name);
  } else {
    auto scheme = quantizer::Scheme::Make(*config, t.dtype, t.sizes[0], t.sizes[1], options_);
    if (scheme.ok()) {
      row.config = quantizer::ShortName(*config);
      row.bytes_after = 0;
      for (const quantizer::Part& p : (*scheme)->parts()) row.bytes_after += p.nbytes();
      chosen_.push_back({index, config, *std::move(scheme), report_.rows.size(),
                         embedding || (by_name && t.embedding && quantizer::TakesEmbeddings(*config))});
    } else {
      row.why = std::string(scheme.status().message());
      if (absl::IsInvalidArgument(scheme.status())) problems_[row.why].push_back(t.name);
    }
  }
  report_.rows.push_back(std::move(row));
}

void Chooser::Pass(uint64_t bytes) {
  report_.other_bytes += bytes;
  ++report_.other_tensors;
}

void Chooser::Leave(const quantizer::Candidate& t, const std::string& why) {
  QuantizedRow row = RowOf(t);
  row.why = why;
  // Names are marked as met all the same: the message for them would be the wrong one.
  const bool excluded = FoundIn(exclude_, exclude_hit_, t.name);
  if (quantizer::IsOfExperts(t) && !excluded)
    row.why = text::StrCat("of experts, ", t.sizes.size(), " dimensions"), row.asked = true;
  if (FoundIn(include_, include_hit_, t.name)) problems_[why].push_back(t.name);
  report_.rows.push_back(std::move(row));
}

absl::StatusOr<std::vector<ChosenWeight>> Chooser::Finish() {
  if (!problems_.empty()) {
    std::string all;
    for (const auto& [why, names] : problems_)
      all += text::StrCat(all.empty() ? "" : "; ", "'", names[0], "'",
                          names.size() > 1 ? text::StrCat(" and ", names.size() - 1, " more") : "", ": ", why);
    return WithHelp(absl::InvalidArgumentError(text::StrCat("the configuration does not fit: ", all)),
                    "--exclude them, or choose another group");
  }
  std::vector<std::string> unmet;
  for (const std::string& key : matcher_->Unmatched())
    unmet.push_back(text::StrCat("'", key, "' of the configuration"));
  for (size_t i = 0; i < include_.size(); ++i)
    if (!include_hit_[i]) unmet.push_back(text::StrCat("--include '", include_[i].text(), "'"));
  for (size_t i = 0; i < exclude_.size(); ++i)
    if (!exclude_hit_[i]) unmet.push_back(text::StrCat("--exclude '", exclude_[i].text(), "'"));
  if (!unmet.empty())
    return WithHelp(
        absl::InvalidArgumentError(text::StrCat(
            text::Join(unmet, ", "), unmet.size() == 1 ? " is the name of no weight" : " are the names of no weights")),
        "slipway inspect lists the weights");
  if (chosen_.empty()) {
    std::set<std::string> why;
    for (const QuantizedRow& r : report_.rows) why.insert(r.why);
    return WithHelp(absl::InvalidArgumentError(report_.rows.empty()
                                                   ? "there are no weights of two dimensions"
                                                   : text::StrCat("no weight is quantized: ", text::Join(why, ", "))),
                    "--include 'RE' chooses weights by name");
  }
  std::vector<quantizer::ConfigMap::Entry> named;
  for (const ChosenWeight& w : chosen_) {
    const std::string& name = report_.rows[w.row].name;
    const std::string module(quantizer::ModuleOf(name));
    if (w.config == embeddings()) named.push_back({module.empty() ? name : module, *w.config});
  }
  written_ = configs_;
  written_.entries.insert(written_.entries.begin(), named.begin(), named.end());
  report_.config_json = quantizer::ToJson(written_);
  return std::move(chosen_);
}

absl::StatusOr<std::unique_ptr<Chooser>> Choose(const ConvertOptions& o, bool program,
                                                const std::function<void(Chooser&)>& consider,
                                                const std::function<BudgetWeight(size_t)>& weight,
                                                std::vector<ChosenWeight>* chosen) {
  ASSIGN_OR_RETURN(std::unique_ptr<Chooser> chooser, Chooser::Make(o));
  consider(*chooser);
  ASSIGN_OR_RETURN(*chosen, chooser->Finish());
  if (o.quantize != kAutomatic) return chooser;
  std::vector<BudgetWeight> weights;
  uint64_t others = chooser->report().bytes_before();
  for (const ChosenWeight& w : *chosen) {
    const QuantizedRow& row = chooser->report().rows[w.row];
    if (w.config == chooser->embeddings()) {
      others -= row.bytes_before - std::min(row.bytes_before, row.bytes_after);
      continue;
    }
    weights.push_back(weight(w.index));
    others -= static_cast<uint64_t>(weights.back().tensor.nbytes());
  }
  QuantizeChoice choice;
  ASSIGN_OR_RETURN(quantizer::ConfigMap configs, ConfigsWithin(o, weights, others, program, &choice));
  ASSIGN_OR_RETURN(chooser, Chooser::Make(o, std::move(configs)));
  consider(*chooser);
  ASSIGN_OR_RETURN(*chosen, chooser->Finish());
  chooser->report().choice = std::move(choice);
  return chooser;
}

absl::Status CheckRequired(const ConvertOptions& o, const QuantizeReport& report) {
  if (!o.require_all) return absl::OkStatus();
  std::vector<std::string> left;
  for (const QuantizedRow* r : report.left()) left.push_back(text::StrCat("'", r->name, "' (", r->why, ")"));
  if (left.empty()) return absl::OkStatus();
  return AnswerIsNo(ListError(text::StrCat("--require-all: ", left.size(), " weights would stay in float"), left),
                    id::kNotQuantized);
}

absl::Status FinalizeReport(const ConvertOptions& o, const QuantizeReport& report) {
  if (!o.html.empty()) RETURN_IF_ERROR(WritePage(o.html, ToHtml(report)));
  return o.save_config.empty() ? absl::OkStatus() : io::WriteFile(o.save_config, report.config_json + "\n");
}

}  // namespace slipway::driver
