// Rules are those of the explanations that results name, in the order of their ids.
#include "driver/edge/sarif.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "driver/edge/explanations.h"

namespace slipway::driver {
namespace {

const char* Level(Severity s) { return s == Severity::kError ? "error" : s == Severity::kWarning ? "warning" : "note"; }

// The bytes of a path as RFC 3986 has them in a URI.
std::string UriOf(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || kPlain.find(c) != kPlain.npos)
      out += c;
    else
      text::StrAppend(&out, "%", std::string(1, kHex[byte >> 4]), std::string(1, kHex[byte & 15]));
  }
  return out;
}

void WriteFile(std::string_view path, int64_t line, json::Writer& w) {
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string() + "/";
  if (!error && path.starts_with(folder)) path.remove_prefix(folder.size());
  w.Key("physicalLocation").BeginObject().Key("artifactLocation").BeginObject();
  w.Key("uri").String(path.starts_with('/') ? "file://" + UriOf(path) : UriOf(path));
  if (!path.starts_with('/')) w.Key("uriBaseId").String("%SRCROOT%");
  w.EndObject();
  if (line > 0) w.Key("region").BeginObject().Key("startLine").Int(line).EndObject();
  w.EndObject();
}

void WriteLocations(const Diagnostic& d, json::Writer& w) {
  struct stat info;
  const size_t colon = d.line.rfind(':');
  const int64_t line = colon == d.line.npos ? 0 : std::atoll(d.line.c_str() + colon + 1);
  const bool file = line == 0 && !d.place.empty() && stat(d.place.c_str(), &info) == 0;
  if (line == 0 && d.place.empty()) return;
  w.Key("locations").BeginArray().BeginObject();
  if (line > 0) WriteFile(std::string_view(d.line).substr(0, colon), line, w);
  if (file) WriteFile(d.place, 0, w);
  if (!file && !d.place.empty())
    w.Key("logicalLocations")
        .BeginArray()
        .BeginObject()
        .Key("fullyQualifiedName")
        .String(d.place)
        .EndObject()
        .EndArray();
  w.EndObject().EndArray();
}

void WriteRules(const std::vector<const Explanation*>& rules, json::Writer& w) {
  w.Key("rules").BeginArray();
  for (const Explanation* e : rules) {
    w.BeginObject().Key("id").String(e->id);
    w.Key("shortDescription").BeginObject().Key("text").String(e->means.substr(0, e->means.find(". "))).EndObject();
    w.Key("fullDescription").BeginObject().Key("text").String(e->means).EndObject();
    w.Key("help").BeginObject().Key("text").String(e->solution).EndObject();
    w.Key("defaultConfiguration").BeginObject().Key("level").String(e->exit_code == kDone ? "warning" : "error");
    w.EndObject().EndObject();
  }
  w.EndArray();
}

}  // namespace

std::string ToSarif(const Outcome& outcome) {
  std::vector<const Explanation*> rules;
  for (const Explanation& e : Explanations())
    if (std::any_of(outcome.diagnostics.begin(), outcome.diagnostics.end(),
                    [&](const Diagnostic& d) { return d.id == e.id; }))
      rules.push_back(&e);
  json::Writer w;
  w.BeginObject().Key("$schema").String("https://json.schemastore.org/sarif-2.1.0.json").Key("version").String("2.1.0");
  w.Key("runs").BeginArray().BeginObject().Key("tool").BeginObject().Key("driver").BeginObject();
  w.Key("name").String("slipway").Key("version").String(SLIPWAY_VERSION);
  WriteRules(rules, w);
  w.EndObject().EndObject();
  w.Key("invocations").BeginArray().BeginObject().Key("executionSuccessful").Bool(outcome.code == kDone);
  w.Key("exitCode").Int(outcome.code).EndObject().EndArray();
  w.Key("results").BeginArray();
  for (const Diagnostic& d : outcome.diagnostics) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const Explanation* e) { return e->id == d.id; });
    w.BeginObject().Key("ruleId").String(d.id);
    if (rule != rules.end()) w.Key("ruleIndex").Int(rule - rules.begin());
    w.Key("level").String(Level(d.severity)).Key("message").BeginObject().Key("text");
    w.String(d.help.empty() ? d.cause : text::StrCat(d.cause, "\nhelp: ", d.help)).EndObject();
    WriteLocations(d, w);
    w.EndObject();
  }
  w.EndArray().EndObject().EndArray().EndObject();
  return w.Take() + "\n";
}

}  // namespace slipway::driver
