// `slipway completion`, `man`, `help` and `version`: what shells, man and people know of the commands, from the very
// table that parses them.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "driver/edge/explanations.h"

namespace slipway::cli {
namespace {

struct FlagPage {
  std::string names;               // "-o,--output"
  std::vector<std::string> words;  // what a shell completes
  std::string value, help;
  bool positional = false;
};

std::vector<FlagPage> FlagsOf(const CLI::App& app) {
  std::vector<FlagPage> flags;
  for (const CLI::Option* o : app.get_options()) {
    FlagPage page;
    for (const std::string& name : o->get_snames()) page.words.push_back("-" + name);
    for (const std::string& name : o->get_lnames()) page.words.push_back("--" + name);
    page.positional = page.words.empty();
    page.names = page.positional ? o->get_name() : text::Join(page.words, ", ");
    page.value = ValueName(*o);
    page.help = o->get_description();
    flags.push_back(std::move(page));
  }
  return flags;
}

std::vector<std::string> WordsOf(const CLI::App& app) {
  std::vector<std::string> words;
  for (const FlagPage& flag : FlagsOf(app)) words.insert(words.end(), flag.words.begin(), flag.words.end());
  return words;
}

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> Names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : Commands(app)) names.push_back(command->get_name());
  return names;
}

// What may stand behind a word of a command's line, where that is a fixed set.
struct ValuesAfter {
  std::string word;  // a flag, or the command itself for its argument
  std::string values;
};

std::vector<ValuesAfter> FixedValues(const CLI::App& command) {
  std::vector<ValuesAfter> out;
  for (const CLI::Option* o : command.get_options()) {
    const std::string values = text::Join(ValueChoices(*o), " ");
    if (values.empty()) continue;
    for (const std::string& name : o->get_snames()) out.push_back({"-" + name, values});
    for (const std::string& name : o->get_lnames()) out.push_back({"--" + name, values});
    if (!o->nonpositional()) out.push_back({command.get_name(), values});
  }
  if (command.get_name() == "help") out.push_back({"help", text::Join(Names(*command.get_parent()), " ")});
  return out;
}

// A case of the shell for each of them: "COMMAND WORD") does `before`, the values, `after`.
std::string CasesOfValues(const CLI::App& app, std::string_view before, std::string_view after) {
  std::string out;
  for (const CLI::App* command : Commands(app))
    for (const ValuesAfter& row : FixedValues(*command))
      text::StrAppend(&out, "    '", command->get_name(), " ", row.word, "') ", before, row.values, after,
                      "; return ;;\n");
  return out;
}

std::string Bash(const CLI::App& app) {
  std::string out = "# bash completion for slipway\n_slipway() {\n  local words\n  case \"${COMP_WORDS[1]}\" in\n";
  for (const CLI::App* command : Commands(app))
    text::StrAppend(&out, "    ", command->get_name(), ") words='", text::Join(WordsOf(*command), " "), "' ;;\n");
  text::StrAppend(&out, "    *) words='", text::Join(WordsOf(app), " "),
                  "' ;;\n  esac\n  local word=\"${COMP_WORDS[COMP_CWORD]}\" flag=\"${COMP_WORDS[COMP_CWORD - 1]}\"\n",
                  // bash divides --flag=value in three words
                  "  if [ \"$word\" = = ]; then word=; fi\n",
                  "  if [ \"$flag\" = = ]; then flag=\"${COMP_WORDS[COMP_CWORD - 2]}\"; fi\n",
                  "  case \"${COMP_WORDS[1]} $flag\" in\n",
                  CasesOfValues(app, "COMPREPLY=($(compgen -W '", "' -- \"$word\"))"), "  esac\n");
  text::StrAppend(&out, "  if [ \"$COMP_CWORD\" = 1 ] && [ \"${word#-}\" = \"$word\" ]; then words='",
                  text::Join(Names(app), " "), "'; fi\n");
  out +=
      "  if [ \"$COMP_CWORD\" = 1 ] || [ \"${word#-}\" != \"$word\" ]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n  fi\n}\ncomplete -o filenames -F _slipway slipway\n";
  return out;
}

// In single quotes, for zsh and fish.
std::string Quoted(std::string_view help) {
  std::string out = "'";
  for (char c : help) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string Zsh(const CLI::App& app) {
  const auto described = [](std::string_view word, std::string_view help) {
    return Quoted(text::StrCat(word, ":", help));
  };
  std::string out = "#compdef slipway\n_slipway() {\n  local -a known\n  if (( CURRENT == 2 )); then\n    known=(";
  for (const CLI::App* command : Commands(app))
    text::StrAppend(&out, "\n      ", described(command->get_name(), command->get_description()));
  out += ")\n    _describe command known\n    return\n  fi\n  case \"$words[2]\" in\n";
  for (const CLI::App* command : Commands(app)) {
    text::StrAppend(&out, "    ", command->get_name(), ") known=(");
    for (const FlagPage& flag : FlagsOf(*command))
      for (const std::string& word : flag.words) text::StrAppend(&out, "\n      ", described(word, flag.help));
    out += ") ;;\n";
  }
  return text::StrCat(
      out, "  esac\n  local flag=$words[CURRENT-1]\n",
      "  if [[ \"$PREFIX\" == --*=* ]]; then flag=${PREFIX%%=*}; compset -P '*='; fi\n  case \"$words[2] $flag\" in\n",
      CasesOfValues(app, "compadd -- ", ""),
      "  esac\n  if [[ \"$PREFIX\" == -* ]]; then _describe flag known; else _files; fi\n}\n"
      "compdef _slipway slipway\n");
}

std::string Fish(const CLI::App& app) {
  std::string out = "# fish completion for slipway\n";
  for (const CLI::App* command : Commands(app)) {
    text::StrAppend(&out, "complete -c slipway -n __fish_use_subcommand -f -a ", command->get_name(), " -d ",
                    Quoted(command->get_description()), "\n");
    for (const ValuesAfter& row : FixedValues(*command))
      if (row.word == command->get_name())
        text::StrAppend(&out, "complete -c slipway -n '__fish_seen_subcommand_from ", row.word, "' -f -a ",
                        Quoted(row.values), "\n");
    for (const CLI::Option* o : command->get_options()) {
      if (o->get_snames().empty() && o->get_lnames().empty()) continue;
      const std::string values = text::Join(ValueChoices(*o), " ");
      text::StrAppend(&out, "complete -c slipway -n '__fish_seen_subcommand_from ", command->get_name(), "'");
      for (const std::string& name : o->get_snames()) text::StrAppend(&out, " -s ", name);
      for (const std::string& name : o->get_lnames()) text::StrAppend(&out, " -l ", name);
      text::StrAppend(&out, o->get_items_expected_max() == 0 ? "" : " -r", values.empty() ? "" : " -f -a ",
                      values.empty() ? "" : Quoted(values), " -d ", Quoted(o->get_description()), "\n");
    }
  }
  return out;
}

// Text as roff takes it: no line is a request, and a hyphen is a minus.
std::string Roff(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out.starts_with(".") || out.starts_with("'") ? "\\&" + out : out;
}

std::string Man(const CLI::App& app) {
  std::string out = text::StrCat(
      ".TH SLIPWAY 1 \"\" \"slipway ", SLIPWAY_VERSION, "\"\n.SH NAME\nslipway \\- ", Roff(app.get_description()),
      "\n.SH SYNOPSIS\n.B slipway\n.I COMMAND\n[\\fIFLAG\\fR ...] [\\fIFILE\\fR ...]\n.SH COMMANDS\n");
  for (const CLI::App* command : Commands(app)) {
    text::StrAppend(&out, ".SS slipway ", command->get_name(), "\n", Roff(command->get_description()), "\n");
    for (const FlagPage& flag : FlagsOf(*command)) {
      text::StrAppend(&out, ".TP\n\\fB", Roff(flag.names), "\\fR",
                      flag.value.empty() || flag.positional ? "" : text::StrCat(" ", Roff(flag.value)), "\n",
                      Roff(flag.help), "\n");
    }
  }
  out += ".SH EXIT STATUS\n";
  for (const driver::ExitCodeMeaning& row : driver::ExitCodes())
    text::StrAppend(&out, ".TP\n", row.code, "\n", Roff(row.means), "\n");
  return out;
}

}  // namespace

void AddPages(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion", "Print what a shell completes: source it, or install it where the shell looks");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([&app, shell] {
    std::fputs((*shell == "bash" ? Bash(app) : *shell == "zsh" ? Zsh(app) : Fish(app)).c_str(), stdout);
  });
  CLI::App* man = app.add_subcommand("man", "Print the manual page, for man -l");
  man->callback([&app] { std::fputs(Man(app).c_str(), stdout); });
  CLI::App* version = app.add_subcommand("version", "Print what --version does");
  version->callback([] { std::printf("%s\n", VersionText().c_str()); });
  auto command = std::make_shared<std::string>();
  CLI::App* help = app.add_subcommand("help", "Print the help of a command, as COMMAND --help does");
  help->add_option("COMMAND", *command, "one of the commands; without it what slipway --help says")
      ->check([&app](const std::string& name) {
        const std::vector<std::string> names = Names(app);
        const std::vector<std::string_view> known(names.begin(), names.end());
        const bool found = std::find(names.begin(), names.end(), name) != names.end();
        return found ? "" : text::StrCat("'", name, "' is no command", text::Suggestion(name, known));
      });
  help->callback([&app, command] {
    const CLI::App& about = command->empty() ? app : *app.get_subcommand(*command);
    std::fputs(Help(about, HelpForm::kFull, HelpWidth()).c_str(), stdout);
  });
}

}  // namespace slipway::cli
