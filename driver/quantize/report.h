// The proof that quantizing happened: what became of every weight, in how many bytes, with which error.
#ifndef SLIPWAY_DRIVER_QUANTIZE_REPORT_H_
#define SLIPWAY_DRIVER_QUANTIZE_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "driver/edge/diagnostic.h"

namespace slipway::driver {

struct QuantizedRow {
  std::string name;    // the parameter's FQN
  std::string config;  // short name of the configuration; "" where it stays as it is
  std::string why;     // why it stays, for people
  bool asked = false;  // a linear layer, or chosen by name: --require-all wants it quantized
  std::string dtype;   // before
  std::vector<int64_t> sizes;
  uint64_t bytes_before = 0, bytes_after = 0;
  double relative_error = 0;  // ||w - q|| / ||w||
  double max_error = 0;
  double squares = 0;     // ||w||²
  bool measured = false;  // whether the three are known: another process may have the weight
};

// Why a layer stays in float that a budget did not quantize.
inline constexpr std::string_view kAsBudgetChose = "as the budget chose";

// What a budget chose among (budget.h, layer_budget.h).
struct QuantizeChoice {
  // A form that a weight could have.
  struct Form {
    std::string weight, config;  // config "": as it is
    uint64_t bytes = 0;
    double relative_error = 0;  // where it alone has this form
    bool chosen = false;
  };
  // The whole as it was measured, in the order of the search; the last that is within the budget is taken.
  struct Step {
    std::string what;  // for people
    uint64_t bytes = 0;
    double relative_error = 0;
  };
  bool of_outputs = false;  // errors are of the program's outputs on calibration data; false: of weights
  double output_error = 0;  // of the choice, with of_outputs
  std::vector<Form> forms;
  std::vector<Step> steps;
  double error_budget = 0;   // 0: none
  uint64_t size_budget = 0;  // 0: none
};

struct QuantizeReport {
  std::vector<QuantizedRow> rows;  // weights of two and more dimensions, by name
  uint64_t other_bytes = 0;        // tensors that have no row
  int other_tensors = 0;
  std::string config_json;  // reproduces the run
  QuantizeChoice choice;    // of --config auto

  int quantized() const;
  uint64_t bytes_before() const;
  uint64_t bytes_after() const;
  // Of all quantized weights together.
  double relative_error() const;
  // Linears that stay in float without having been excluded.
  std::vector<const QuantizedRow*> left() const;
};

// For people: rows that differ only in numbers within their names are one line.
std::string ToTable(const QuantizeReport& r);
// One object of schemas/quantize.schema.json.
std::string ToJson(const QuantizeReport& r);
// JUnit XML: a test case a weight. Those that stay in float are skipped; with `required` they fail where they were
// asked for. `report` may be null, where there was an error before.
std::string ToJunit(const QuantizeReport* report, bool required, const Outcome& outcome);
// The page of --html (docs/pages.md): sizes before and after, errors by layer, what a budget chose among.
std::string ToHtml(const QuantizeReport& r);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_REPORT_H_
