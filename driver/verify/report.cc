// What `slipway verify` says: a line for each output, and one object for machines.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/edge/junit.h"
#include "driver/verify/verify.h"

namespace slipway::driver {
namespace {

std::string ShownInReport(std::string_view text) { return text::Printable(text::Shortened(text, 400)); }

std::string NumberText(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g", v);
  return buffer;
}

std::string Differs(const weights::Difference& d) {
  std::string out = text::StrCat("max abs ", NumberText(d.max_abs), ", rel ", NumberText(d.max_rel));
  if (d.has_ulp) text::StrAppend(&out, ", ", d.max_ulp, " ulp");
  if (d.unequal > 0) text::StrAppend(&out, ", ", d.unequal, " of ", d.elements, " differ");
  if (d.one_nan > 0) text::StrAppend(&out, ", ", d.one_nan, " NaN in one only");
  return out;
}

std::string SetTitle(const VerifySet& s) {
  std::vector<std::string> sizes;
  for (const auto& [name, value] : s.sizes) sizes.push_back(text::StrCat(ShownInReport(name), " = ", value));
  return text::StrCat("inputs: ", ShownInReport(s.source), sizes.empty() ? "" : " · ", text::Join(sizes, ", "),
                      s.inputs.empty() ? "" : " · ", ShownInReport(text::Join(s.inputs, ", ")), "\n");
}

std::string OutputLine(const VerifyOutput& o, size_t widest) {
  const std::string name = ShownInReport(o.name);
  std::string out = text::StrCat("  ", o.agree ? "agrees   " : "DIFFERS  ", name,
                                 std::string(widest - std::min(widest, name.size()) + 2, ' '));
  if (!o.difference) return text::StrCat(out, o.a_type, " in A, ", o.b_type, " in B\n");
  text::StrAppend(&out, o.a_type, "  ", Differs(*o.difference));
  if (o.difference->first >= 0)
    text::StrAppend(&out, ", first at [", text::Join(o.first, ","), "]: ", NumberText(o.difference->first_a), " in A, ",
                    NumberText(o.difference->first_b), " in B");
  out += '\n';
  if (o.a_error && o.b_error)
    text::StrAppend(&out, "           from the f64 reference: A ", NumberText(*o.a_error), ", B ",
                    NumberText(*o.b_error), "\n");
  return out;
}

std::string LayersText(const VerifyLayers& l) {
  std::string out = text::StrCat("layers: ", l.compared, " values, ", l.how, "\n");
  if (l.unmatched > 0) text::StrAppend(&out, "  ", l.unmatched, " values of A have no counterpart in B\n");
  if (l.first) {
    const VerifyLayers::Node& n = *l.first;
    text::StrAppend(&out, "  first to differ: %", ShownInReport(n.value), " = ", ShownInReport(n.op));
    if (!n.b_op.empty()) text::StrAppend(&out, " (", ShownInReport(n.b_op), " in B)");
    if (n.difference)
      text::StrAppend(&out, "  ", n.a_type, "  ", Differs(*n.difference));
    else
      text::StrAppend(&out, "  ", n.a_type, " in A, ", n.b_type, " in B");
    out += '\n';
    if (!n.place.empty()) text::StrAppend(&out, "    at ", ShownInReport(n.place), "\n");
  }
  if (!l.note.empty()) text::StrAppend(&out, "  ", ShownInReport(l.note), "\n");
  return out;
}

void WriteDifference(const weights::Difference& d, json::Writer& w) {
  w.Key("elements").Int(d.elements).Key("unequal").Int(d.unequal).Key("one_nan").Int(d.one_nan);
  w.Key("max_abs").Double(d.max_abs).Key("max_rel").Double(d.max_rel).Key("max_ulp");
  if (d.has_ulp)
    w.Int(static_cast<int64_t>(std::min<uint64_t>(d.max_ulp, INT64_MAX)));
  else
    w.Null();
}

void WriteOutput(const VerifyOutput& o, json::Writer& w) {
  w.BeginObject().Key("name").String(o.name).Key("a").String(o.a_type).Key("b").String(o.b_type).Key("agree").Bool(
      o.agree);
  if (o.difference) {
    w.Key("rtol").Double(o.tolerance.rtol).Key("atol").Double(o.tolerance.atol);
    WriteDifference(*o.difference, w);
    if (o.difference->first >= 0) {
      w.Key("first").BeginArray();
      for (int64_t i : o.first) w.Int(i);
      w.EndArray().Key("first_a").Double(o.difference->first_a).Key("first_b").Double(o.difference->first_b);
    }
  }
  if (o.a_error && o.b_error)
    w.Key("reference").BeginObject().Key("a").Double(*o.a_error).Key("b").Double(*o.b_error).EndObject();
  w.EndObject();
}

void WriteLayers(const VerifyLayers& l, json::Writer& w) {
  w.BeginObject()
      .Key("compared")
      .Int(l.compared)
      .Key("unmatched")
      .Int(l.unmatched)
      .Key("how")
      .String(l.how)
      .Key("first");
  if (l.first) {
    const VerifyLayers::Node& n = *l.first;
    w.BeginObject().Key("value").String(n.value).Key("op").String(n.op).Key("place").String(n.place);
    if (!n.b_op.empty()) w.Key("b_op").String(n.b_op);
    w.Key("a").String(n.a_type).Key("b").String(n.b_type);
    if (n.difference) WriteDifference(*n.difference, w);
    w.EndObject();
  } else {
    w.Null();
  }
  w.Key("note").String(l.note).EndObject();
}

}  // namespace

std::string NameOfB(const VerifyOptions& o) { return o.b.empty() ? "a native library of A" : o.b; }

std::string ToTable(const VerifyReport& r, const VerifyOptions& o) {
  std::string out = text::StrCat("A  ", ShownInReport(o.a), "\nB  ", ShownInReport(NameOfB(o)), "\n");
  for (const VerifySet& s : r.sets) {
    out += SetTitle(s);
    size_t widest = 0;
    for (const VerifyOutput& row : s.outputs) widest = std::max(widest, ShownInReport(row.name).size());
    for (const VerifyOutput& row : s.outputs) out += OutputLine(row, widest);
    if (!s.reason.empty())
      text::StrAppend(&out, "  ", s.agree ? "skipped: " : "DIFFERS  ", ShownInReport(s.reason), "\n");
  }
  if (!r.reference_note.empty()) text::StrAppend(&out, "note: ", ShownInReport(r.reference_note), "\n");
  for (const std::string& note : r.notes) text::StrAppend(&out, "note: ", ShownInReport(note), "\n");
  if (r.layers) out += LayersText(*r.layers);
  const auto differ = std::count_if(r.sets.begin(), r.sets.end(), [](const VerifySet& s) { return !s.agree; });
  if (r.agree) return out + "they agree\n";
  return text::StrCat(out, "they differ",
                      r.sets.size() > 1 ? text::StrCat(" on ", differ, " of ", r.sets.size(), " sets of inputs") : "",
                      "\n");
}

std::string ToJunit(const VerifyReport* r, const Outcome& outcome) {
  std::vector<TestCase> cases;
  for (const VerifySet& s : r ? r->sets : std::vector<VerifySet>()) {
    std::vector<std::string> sizes;
    for (const auto& [name, value] : s.sizes) sizes.push_back(text::StrCat(name, "=", value));
    const std::string group = text::StrCat(s.source, sizes.empty() ? "" : ", ", text::Join(sizes, ", "));
    for (const VerifyOutput& o : s.outputs) {
      const std::string line(text::Strip(OutputLine(o, 0)));
      const std::string why =
          o.difference ? Differs(*o.difference) : text::StrCat(o.a_type, " in A, ", o.b_type, " in B");
      cases.push_back({group, o.name, o.agree ? TestCase::kPassed : TestCase::kFailed, o.agree ? "" : id::kDiffers,
                       o.agree ? "" : why, line});
    }
    if (!s.reason.empty())
      cases.push_back({group, "inputs", s.agree ? TestCase::kSkipped : TestCase::kFailed, s.agree ? "" : id::kDiffers,
                       s.reason, s.reason});
  }
  if (r && r->layers) {
    const std::optional<VerifyLayers::Node>& n = r->layers->first;
    cases.push_back({"layers", "values", n ? TestCase::kFailed : TestCase::kPassed, n ? id::kDiffers : "",
                     n ? text::StrCat("first to differ: ", n->value, n->place.empty() ? "" : " at ", n->place) : "",
                     std::string(text::Strip(LayersText(*r->layers)))});
  }
  return ToJunit("slipway verify", std::move(cases), outcome);
}

std::string ToJson(const VerifyReport& r, const VerifyOptions& o) {
  json::Writer w;
  w.BeginObject()
      .Key("version")
      .Int(1)
      .Key("a")
      .String(o.a)
      .Key("b")
      .String(NameOfB(o))
      .Key("agree")
      .Bool(r.agree)
      .Key("sets")
      .BeginArray();
  for (const VerifySet& s : r.sets) {
    w.BeginObject().Key("source").String(s.source).Key("sizes").BeginObject();
    for (const auto& [name, value] : s.sizes) w.Key(name).Int(value);
    w.EndObject().Key("inputs").BeginArray();
    for (const std::string& type : s.inputs) w.String(type);
    w.EndArray().Key("agree").Bool(s.agree).Key("reason").String(s.reason).Key("outputs").BeginArray();
    for (const VerifyOutput& row : s.outputs) WriteOutput(row, w);
    w.EndArray().EndObject();
  }
  w.EndArray().Key("reference_note").String(r.reference_note).Key("notes").BeginArray();
  for (const std::string& note : r.notes) w.String(note);
  w.EndArray();
  if (r.layers) {
    w.Key("layers");
    WriteLayers(*r.layers, w);
  }
  w.EndObject();
  return w.Take() + "\n";
}

}  // namespace slipway::driver
