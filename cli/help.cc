// Two columns: names and value, then what the flag is for. Widths are counted in code points.
#include "cli/help.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/flag_table.h"
#include "driver/convert/options.h"
#include "quantizer/config.h"
#include "quantizer/pt2e/recipe.h"

namespace slipway::cli {
namespace {

constexpr int kLeastWidth = 80, kUsualWidth = 100, kMostWidth = 120, kMostNames = 32;

size_t Columns(std::string_view s) {
  return std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

// Lines of words, each of at most `width` columns unless one word is longer.
std::vector<std::string> Wrapped(std::string_view s, size_t width) {
  std::vector<std::string> lines(1);
  for (std::string_view word : text::Split(s, ' ')) {
    std::string& line = lines.back();
    if (line.empty())
      line = word;
    else if (Columns(line) + 1 + Columns(word) <= width)
      text::StrAppend(&line, " ", word);
    else
      lines.emplace_back(word);
  }
  return lines;
}

std::string Paragraph(std::string_view s, size_t width) {
  return text::StrCat(text::Join(Wrapped(s, width), "\n"), "\n");
}

// As many whole clauses from the beginning as fit, else as many words.
std::string Cut(std::string_view s, size_t width) {
  if (Columns(s) <= width) return std::string(s);
  size_t clause = 0, word = 0;
  for (size_t i = 1; i + 1 < s.size() && Columns(s.substr(0, i)) < width; ++i) {
    if (s[i] == ' ') word = i;
    if ((s[i] == ';' || s[i] == ',' || s[i] == ':' || s[i] == '.') && s[i + 1] == ' ') clause = i;
  }
  return clause > width / 3 ? std::string(s.substr(0, clause)) : text::StrCat(s.substr(0, word), "…");
}

void AppendPadded(std::string* out, std::string_view left, size_t width) {
  text::StrAppend(out, left, std::string(width > Columns(left) ? width - Columns(left) : 1, ' '));
}

std::string NameOf(const CLI::Option& o) { return o.get_lnames().empty() ? o.get_name() : o.get_lnames().front(); }

// "-o, --output OUT"
std::string NamesAndValue(const CLI::Option& o) {
  std::string out;
  if (o.nonpositional()) {
    out = o.get_snames().empty() ? "    " : text::StrCat("-", o.get_snames().front(), ", ");
    text::StrAppend(&out, "--", NameOf(o));
    if (const std::string value = ValueName(o); !value.empty()) text::StrAppend(&out, " ", value);
  } else {
    out = o.get_name();
  }
  return out + (o.get_items_expected_max() > 1 ? "…" : "");
}

const FlagRow* RowOf(std::string_view command, std::string_view flag) {
  const FlagRow* found = nullptr;
  for (const FlagRow& row : kFlagRows)
    if (row.flag == flag && (row.command == command || (row.command.empty() && !found))) found = &row;
  return found;
}

struct HelpLine {
  const CLI::Option* option;
  size_t row;  // of kFlagRows
  std::string_view group, brief;
};

// Where the table has a group first.
size_t OrderOf(std::string_view group) {
  return std::find_if(std::begin(kFlagRows), std::end(kFlagRows), [&](const FlagRow& r) { return r.group == group; }) -
         std::begin(kFlagRows);
}

// "  -o, --output OUT", with the first words of a long list of values.
std::string BriefNames(const CLI::Option& o) {
  std::string out = text::StrCat("  ", NamesAndValue(o));
  const size_t first = out.find('|');
  while (Columns(out) > kMostNames && first != out.npos) {
    const size_t bar = out.rfind('|');
    if (bar == first && out.ends_with("|…")) break;
    if (out.ends_with("|…")) out.resize(bar);
    out.resize(out.rfind('|'));
    out += "|…";
  }
  return out;
}

// The options in the order of the table, without those of help itself.
std::vector<HelpLine> LinesOf(const CLI::App& command) {
  std::vector<HelpLine> lines;
  for (const CLI::Option* o : command.get_options()) {
    const std::string name = NameOf(*o);
    if (o == command.get_help_ptr() || o == command.get_help_all_ptr() || name == "version") continue;
    if (const FlagRow* row = RowOf(command.get_name(), name))
      lines.push_back({o, static_cast<size_t>(row - kFlagRows), row->group, row->brief});
    else
      lines.push_back({o, std::size(kFlagRows), kLastGroup, kDescription});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const HelpLine& a, const HelpLine& b) {
    return std::pair(OrderOf(a.group), a.row) < std::pair(OrderOf(b.group), b.row);
  });
  return lines;
}

std::string UsageLine(const CLI::App& command) {
  std::string out = text::StrCat("Usage: slipway ", command.get_name());
  for (const CLI::Option* o : command.get_options())
    if (!o->nonpositional())
      text::StrAppend(&out, " ", o->get_required() ? NamesAndValue(*o) : text::StrCat("[", NamesAndValue(*o), "]"));
  for (const CLI::Option* o : command.get_options())
    if (o->nonpositional() && o->get_required())
      text::StrAppend(
          &out, " ",
          o->get_snames().empty() ? text::StrCat("--", NameOf(*o)) : text::StrCat("-", o->get_snames().front()), " ",
          ValueName(*o));
  return out + " [FLAG…]\n";
}

// Where the documents and schemas that messages name lie: installed, in a wheel, or in a build below the sources.
std::string Documents() {
  struct Kind {
    std::string_view name, installed, source;
  };
  constexpr Kind kKinds[] = {{"docs/", "share/doc/slipway/docs", "docs"},
                             {"schemas/", "share/slipway/schemas", "schemas"}};
  std::string prefix = Self();
  for (int i = 0; i < 2; ++i) prefix.resize(std::min(prefix.size(), prefix.rfind('/')));
  std::string out;
  for (const Kind& kind : kKinds) {
    for (std::string_view folder : {kind.installed, kind.source}) {
      const std::string path = text::StrCat(prefix, "/", folder);
      struct stat info;
      if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
      text::StrAppend(&out, kind.name, std::string(10 - kind.name.size(), ' '), path, "\n");
      break;
    }
  }
  return out.empty() ? "" : "\nWhere messages name docs/ and schemas/:\n" + out;
}

std::string OfProgram(const CLI::App& app, HelpForm form, size_t width) {
  std::string out =
      text::StrCat("Usage: slipway COMMAND …\n", Paragraph(app.get_description(), width), "\nCommands:\n");
  constexpr size_t kNames = 14;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::string left = text::StrCat("  ", command->get_name());
    std::string description = command->get_description();
    if (form == HelpForm::kBrief) description = Cut(description, width - kNames);
    for (const std::string& line : Wrapped(description, width - kNames)) {
      AppendPadded(&out, left, kNames);
      text::StrAppend(&out, line, "\n");
      left.clear();
    }
  }
  return text::StrCat(out, "\n",
                      Paragraph("`slipway COMMAND -h` has the flags of a command, `slipway COMMAND --help` what each "
                                "does; `slipway explain ID` says what an error means, `slipway -V` the version.",
                                width),
                      form == HelpForm::kFull ? Documents() : "");
}

std::string Brief(const CLI::App& command, const std::vector<HelpLine>& lines, size_t width) {
  std::string out;
  size_t names = Columns("  -h, --help");
  for (const HelpLine& line : lines)
    if (!line.brief.empty()) names = std::max(names, Columns(BriefNames(*line.option)));
  for (size_t i = 0; i < lines.size();) {
    const std::string_view group = lines[i].group;
    text::StrAppend(&out, group, ":\n");
    std::string also;
    for (; i < lines.size() && lines[i].group == group; ++i) {
      const HelpLine& line = lines[i];
      if (line.brief.empty()) {
        text::StrAppend(&also, also.empty() ? "--" : " --", NameOf(*line.option));
        continue;
      }
      const size_t before = out.size();
      AppendPadded(&out, BriefNames(*line.option), names + 2);
      const size_t left = width - std::min(width, Columns(std::string_view(out).substr(before)));
      text::StrAppend(&out, Cut(line.brief == kDescription ? line.option->get_description() : line.brief, left), "\n");
    }
    if (also.empty()) continue;
    for (const std::string& line : Wrapped("also " + also, width - 6)) text::StrAppend(&out, "      ", line, "\n");
  }
  AppendPadded(&out, "  -h, --help", names + 2);
  return text::StrCat(UsageLine(command), Paragraph(command.get_description(), width), out,
                      "-h: this page; --help: what each flag does\n");
}

std::string Full(const CLI::App& command, const std::vector<HelpLine>& lines, size_t width) {
  constexpr size_t kNames = 28;
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i == 0 || lines[i].group != lines[i - 1].group) text::StrAppend(&out, "\n", lines[i].group, ":\n");
    const CLI::Option& o = *lines[i].option;
    std::string left = text::StrCat("  ", NamesAndValue(o)), description = o.get_description();
    if (!o.get_default_str().empty()) text::StrAppend(&description, " (", o.get_default_str(), ")");
    if (Columns(left) > kNames - 2) {
      text::StrAppend(&out, left, "\n");
      left.clear();
    }
    for (const std::string& line : Wrapped(description, width - kNames)) {
      AppendPadded(&out, left, kNames);
      text::StrAppend(&out, line, "\n");
      left.clear();
    }
  }
  AppendPadded(&out, "  -h, --help", kNames);
  return text::StrCat(UsageLine(command), Paragraph(command.get_description(), width), out,
                      "-h: a line a flag; --help: this page\n\n"
                      "A value in parentheses is taken where the flag is not given.\n");
}

}  // namespace

int HelpWidth() {
  int columns = 0;
  winsize size{};
  if (const char* given = std::getenv("COLUMNS")) columns = std::atoi(given);
  if (columns <= 0 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns <= 0 ? kUsualWidth : std::clamp(columns, kLeastWidth, kMostWidth);
}

std::string Help(const CLI::App& command, HelpForm form, int width) {
  if (form == HelpForm::kBrief) width = std::min(width, kUsualWidth);
  if (command.get_parent() == nullptr) return OfProgram(command, form, width);
  const std::vector<HelpLine> lines = LinesOf(command);
  return form == HelpForm::kBrief ? Brief(command, lines, width) : Full(command, lines, width);
}

std::string ValueName(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string name = option.get_type_name();
  // CLI11 puts the conditions on a value behind its name, as in TEXT:{text,json} and N:INT in [0 - 4096].
  const size_t set = name.find(":{");
  if (set != name.npos && name.ends_with('}')) {
    std::string words = name.substr(set + 2, name.size() - set - 3);
    std::replace(words.begin(), words.end(), ',', '|');
    return words;
  }
  for (std::string_view condition : {":INT in ", ":FLOAT in ", ":UINT in ", ":NONNEGATIVE", ":POSITIVE", ":SIZE"})
    if (const size_t at = name.find(condition); at != name.npos) return name.substr(0, at);
  return name;
}

std::vector<std::string> ValueChoices(const CLI::Option& option) {
  std::vector<std::string> choices;
  const std::string value = ValueName(option), name = NameOf(option);
  if (text::Contains(value, "|"))
    for (std::string_view word : text::Split(value, '|'))
      if (!text::Contains(word, "=")) choices.emplace_back(word);
  if (name == "opset")
    for (int opset = driver::kOldestOpset; opset <= driver::kNewestOpset; ++opset)
      choices.push_back(text::StrCat(opset));
  if (name == "quantize" || name == "config") {
    choices.emplace_back("auto");
    for (const quantizer::ShortNameRow& row : quantizer::ShortNames()) choices.emplace_back(row.name);
    for (const quantizer::ShortNameRow& row : quantizer::pt2e::RecipeNames()) choices.emplace_back(row.name);
  }
  return choices;
}

}  // namespace slipway::cli
