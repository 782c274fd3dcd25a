// Steps from one form of a weight to a smaller one, taken in the order of bytes saved for error added: what a
// Lagrangian would choose, but for the last step.
#include "driver/quantize/budget.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/quantize/quantize.h"
#include "io/io_error.h"
#include "quantizer/quantize.h"

namespace slipway::driver {
namespace {

// A form of a weight. The first of a weight is the float one.
struct Form {
  std::optional<quantizer::Config> config;
  uint64_t bytes = 0;
  double squares = 0;  // ||w - q||²
};
struct Weight {
  std::vector<Form> forms;
  double reference = 0;  // ||w||²
  size_t chosen = 0;
};

absl::Status Measure(const BudgetWeight& w, bool program, Weight& out) {
  out.forms.push_back({std::nullopt, static_cast<uint64_t>(w.tensor.nbytes()), 0});
  const std::string_view four = program ? "intx:bits=4,group=" : "int4-weight-only:group=";
  for (const std::string& name : {std::string("int8-weight-only"), text::StrCat(four, 32), text::StrCat(four, 128)}) {
    ASSIGN_OR_RETURN(const quantizer::Config config, quantizer::ParseShortName(name));
    auto scheme = quantizer::Scheme::Make(config, w.tensor.dtype, w.tensor.sizes[0], w.tensor.sizes[1], {});
    if (!scheme.ok()) continue;  // a group that does not fit
    auto error = quantizer::QuantizeWeight(
        w.tensor, **scheme, true, [](size_t, uint64_t, absl::Span<const uint8_t>) { return absl::OkStatus(); });
    if (!error.ok()) return io::Prefixed(text::StrCat("'", w.name, "': "), error.status());
    uint64_t bytes = 0;
    for (size_t i = 0; i < (*scheme)->parts().size(); ++i) {
      const quantizer::Part& p = (*scheme)->parts()[i];
      // Programs keep integers of 4 bits two in a byte, and no zero points of symmetric ones.
      const bool packed = program && config.bits == 4;
      if (!packed)
        bytes += p.nbytes();
      else if (i == 0)
        bytes += p.numel() / 2;
      else if (p.name == "scale")
        bytes += p.numel() * 4;
    }
    out.reference = error->reference;
    out.forms.push_back({config, bytes, error->relative * error->relative * error->reference});
  }
  return absl::OkStatus();
}

}  // namespace

std::string Percent(double share) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g%%", share * 100);
  return buffer;
}

absl::StatusOr<double> ParseErrorBudget(std::string_view given) {
  std::string_view number = given;
  const bool percent = text::ConsumeSuffix(&number, "%");
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || !(value > 0) || !std::isfinite(value))
    return UsageError(text::StrCat("--error-budget '", given, "'"), "a share such as 1% or 0.01");
  return percent ? value / 100 : value;
}

absl::StatusOr<quantizer::ConfigMap> ConfigsWithin(const ConvertOptions& o, absl::Span<const BudgetWeight> given,
                                                   uint64_t other_bytes, bool program, QuantizeChoice* choice) {
  if (o.error_budget.empty() && o.size_budget == 0)
    return UsageError("--config auto needs a budget", "--error-budget 1% or --size-budget 4GB");
  double most_error = 0;
  if (!o.error_budget.empty()) {
    ASSIGN_OR_RETURN(most_error, ParseErrorBudget(o.error_budget));
  }
  std::vector<Weight> weights(given.size());
  RETURN_IF_ERROR(quantizer::InParallel(Threads(o), given.size(),
                                        [&](size_t i) { return Measure(given[i], program, weights[i]); }));
  double reference = 0, squares = 0;
  uint64_t bytes = other_bytes;
  for (const Weight& w : weights) reference += w.reference, bytes += w.forms[0].bytes;
  const double allowed = most_error * most_error * reference;
  const auto error_of = [&] { return reference > 0 ? std::sqrt(std::max(squares, 0.0) / reference) : 0; };
  choice->error_budget = most_error, choice->size_budget = o.size_budget;
  choice->steps.push_back({"as it is", bytes, 0});

  for (;;) {
    if (o.size_budget > 0 && bytes <= o.size_budget) break;
    // The step that saves most for its error.
    Weight* best = nullptr;
    size_t to = 0;
    double value = 0;
    for (Weight& w : weights)
      for (size_t f = w.chosen + 1; f < w.forms.size(); ++f) {
        const Form &now = w.forms[w.chosen], &next = w.forms[f];
        if (next.bytes >= now.bytes) continue;
        const double added = std::max(next.squares - now.squares, 1e-300);
        if (o.size_budget == 0 && squares + added > allowed) continue;
        const double saves = static_cast<double>(now.bytes - next.bytes) / added;
        if (saves > value) best = &w, to = f, value = saves;
      }
    if (!best) break;
    squares += best->forms[to].squares - best->forms[best->chosen].squares;
    bytes -= best->forms[best->chosen].bytes - best->forms[to].bytes;
    best->chosen = to;
    choice->steps.push_back({text::StrCat(given[static_cast<size_t>(best - weights.data())].name, " to ",
                                          quantizer::ShortName(*best->forms[to].config)),
                             bytes, error_of()});
  }
  const double error = error_of();
  if (o.size_budget > 0 && bytes > o.size_budget)
    return AnswerIsNo(text::StrCat("--size-budget: the smallest that int8 and int4 make of it is ", bytes,
                                   " bytes, with an error of ", Percent(error)),
                      id::kNotQuantized);
  if (o.size_budget > 0 && most_error > 0 && error > most_error)
    return AnswerIsNo(text::StrCat("--error-budget: within the size the error is at least about ", Percent(error)),
                      id::kNotQuantized);
  for (size_t i = 0; i < weights.size(); ++i)
    for (const Form& f : weights[i].forms)
      choice->forms.push_back({given[i].name, f.config ? quantizer::ShortName(*f.config) : "", f.bytes,
                               weights[i].reference > 0 ? std::sqrt(f.squares / weights[i].reference) : 0,
                               &f == &weights[i].forms[weights[i].chosen]});
  quantizer::ConfigMap map;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string module(quantizer::ModuleOf(given[i].name));  // "": no layer's weight, such as in_proj_weight
    map.entries.push_back({module.empty() ? given[i].name : module, weights[i].forms[weights[i].chosen].config});
  }
  return map;
}

}  // namespace slipway::driver
