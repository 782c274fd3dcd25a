// Pages that commands write with --html: one file each, with its style, its script and its data. A page asks nothing of
// any network, and its policy forbids it to; the same data give the same bytes. What is drawn is a list of sections,
// each of a kind that the script knows (docs/pages.md); names from files are data to it, never markup.
#ifndef SLIPWAY_DRIVER_HTML_PAGE_H_
#define SLIPWAY_DRIVER_HTML_PAGE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"
#include "weights/histogram.h"

namespace slipway::driver {

// How the values of a column or an axis are shown.
enum class Unit : uint8_t {
  kText,
  kCode,
  kCount,
  kBytes,
  kOperations,
  kRate,
  kSeconds,
  kPercent,
  kNumber,
};

// A name as pages show it: of at most about 400 bytes, without control characters.
std::string PageText(std::string_view s);

struct PageTable {
  struct Column {
    std::string title;
    Unit unit = Unit::kText;
  };
  using Cell = std::variant<std::monostate, std::string, double>;
  std::string title, text;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::vector<std::optional<weights::Histogram>> histograms;  // by row; or empty: the table has none
};

// Bars in an order.
struct PageBars {
  struct Item {
    std::string name;
    double value = 0;
    int series = 0;  // into `series`
  };
  std::string title, text, x, y;
  Unit unit = Unit::kNumber;
  bool log = false;
  std::vector<Item> items;
  std::vector<std::string> series;
  std::vector<std::pair<std::string, double>> lines;  // across, each at a value
};

struct PageScatter {
  struct Axis {
    std::string label;
    Unit unit = Unit::kNumber;
    bool log = false;
  };
  struct Point {
    double x = 0, y = 0;
    std::string name;
    std::optional<double> area;  // 0 to 1
  };
  struct Series {
    std::string name;
    std::vector<Point> points;
  };
  std::string title, text;
  Axis x, y;
  std::vector<Series> series;
  std::vector<std::pair<std::string, std::vector<std::array<double, 2>>>> lines;
};

// Areas by module. A leaf lies in a module ("layers.3.mlp") and has a value for each measure.
struct PageTreemap {
  struct Leaf {
    std::string module, name;
    bool is_operator = false;
    std::vector<double> values;
  };
  std::string title, text;
  std::vector<std::pair<std::string, Unit>> measures;
  std::vector<Leaf> leaves;
};

class Page {
 public:
  // `title` is what the page is about: "slipway inspect: model.pt2".
  explicit Page(std::string_view title) : title_(PageText(title)) {}

  Page& Fact(std::string_view label, std::string_view text);
  Page& Note(std::string_view text);
  Page& Add(const PageTable& table);
  Page& Add(const PageBars& bars);
  Page& Add(const PageScatter& scatter);
  Page& Add(const PageTreemap& treemap);
  // A text as it is, of several lines.
  Page& AddText(std::string_view title, std::string_view text, std::string_view content);
  // A section of the given kind, the rest of whose members `members` writes: for those that are too large to hold
  // twice.
  template <typename F>
  Page& AddSection(std::string_view type, std::string_view title, std::string_view text, const F& members) {
    Begin(type, title, text);
    members(sections_);
    sections_.EndObject();
    return *this;
  }

  // The whole file.
  std::string Take();

 private:
  std::string title_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<std::string> notes_;
  json::Writer sections_;  // separated by commas

  void Begin(std::string_view type, std::string_view title, std::string_view text);
};

// Writes it where --html says; nothing for "".
absl::Status WritePage(const std::string& path, std::string html);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_HTML_PAGE_H_
