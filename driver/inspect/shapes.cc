// Flags become a Spec, the Spec changes programs, and the ledger says what came of it.
#include "driver/inspect/shapes.h"

#include <algorithm>
#include <limits>

#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/diagnostic.h"
#include "dynamic_shapes/generalize_dims.h"
#include "dynamic_shapes/spec.h"
#include "ir/clone.h"

namespace slipway::driver {
namespace {

using dynamic_shapes::DimFact;
using dynamic_shapes::Ledger;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

absl::Status Usage(std::string_view flag, const absl::Status& s) {
  if (!absl::IsInvalidArgument(s)) return s;
  return UsageError(text::StrCat(flag, ": ", text::FromAbsl(s.message())), "docs/shapes.md shows what it takes");
}

// "x:0"
absl::Status CheckRequired(const ConvertOptions& o, const Ledger& ledger) {
  for (const std::string& required : o.require_dynamic) {
    const size_t at = required.rfind(':');
    int axis = 0;
    if (at == std::string::npos || !text::ParseNumber(std::string_view(required).substr(at + 1), &axis))
      return UsageError(text::StrCat("--require-dynamic: '", required, "' is no INPUT:AXIS"));
    const std::string input = required.substr(0, at);
    auto f = std::find_if(ledger.dims.begin(), ledger.dims.end(),
                          [&](const DimFact& d) { return d.input == input && d.axis == axis; });
    if (f == ledger.dims.end())
      return UsageError(text::StrCat("--require-dynamic: the program has no dimension ", required));
    if (f->kind != DimFact::kStatic) continue;
    return WithHelp(
        absl::UnimplementedError(text::StrCat("--require-dynamic ", required, ": it is static, ", f->size.ToString(),
                                              f->cause.empty() ? "" : text::StrCat(": ", f->cause))),
        f->help);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ir::Program>> ReadOne(const std::string& path, const Reader& reader,
                                                     passes::PassContext& context) {
  auto read = reader.Programs(path, /*written=*/0);
  if (!read.ok()) return WithPlace(read.status(), path);
  if (read->programs.size() != 1)
    return WithPlace(absl::UnimplementedError(
                         text::StrCat("--unify takes archives of one program; this has ", read->programs.size())),
                     path);
  std::unique_ptr<ir::Program> p = std::move(read->programs[0]);
  if (absl::Status s = passes::RunPasses(passes::kPlainNodes, *p, context); !s.ok()) return WithPlace(s, path);
  return p;
}

// The sample inputs of an archive have the sizes of the export: they are none of a program that was pinned to others.
void DropOtherSamples(ir::Program& p, Ledger* ledger) {
  const bool other = std::any_of(ledger->dims.begin(), ledger->dims.end(), [](const DimFact& f) {
    return f.kind == DimFact::kStatic && f.example >= 0 && !f.size.is(f.example);
  });
  if (!other || !p.sample_inputs) return;
  p.sample_inputs = nullptr;
  ledger->notes.push_back("the sample inputs have the sizes of the export and are left out");
}

absl::StatusOr<Ledger> ApplyTo(ir::Program& p, const ConvertOptions& o, const Reader& reader,
                               passes::PassContext& context) {
  RETURN_IF_ERROR(passes::RunPasses(passes::kPlainNodes, p, context));
  Ledger ledger;
  if (!o.unify.empty()) {
    std::vector<std::unique_ptr<ir::Program>> others;
    std::vector<ir::Program*> pointers;
    for (const std::string& path : o.unify) {
      ASSIGN_OR_RETURN(auto other, ReadOne(path, reader, context));
      pointers.push_back(other.get());
      others.push_back(std::move(other));
    }
    auto unified = dynamic_shapes::Unify(p, pointers);
    if (absl::IsInvalidArgument(unified.status()))
      return WithHelp(
          absl::UnimplementedError(text::StrCat("--unify: not the same model at several sizes: ",
                                                text::FromAbsl(unified.status().message()))),
          "export the same module with the same weights twice; sizes that make it branch cannot be unified");
    if (!unified.ok()) return unified.status();
    ledger = *std::move(unified);
  }
  if (!o.dynamic.empty()) {
    auto spec = dynamic_shapes::ParseSpec(o.dynamic);
    if (!spec.ok()) return Usage("--dynamic", spec.status());
    auto applied = dynamic_shapes::ApplySpec(p, *spec);
    if (!applied.ok()) return Usage("--dynamic", applied.status());
    ledger = *std::move(applied);
  }
  if (!o.dim_names.empty()) {
    if (absl::Status s = dynamic_shapes::NameSymbols(p, o.dim_names); !s.ok()) return Usage("--dim-names", s);
  }
  if (ledger.dims.empty())
    ledger = dynamic_shapes::LedgerOf(p);
  else
    dynamic_shapes::Restate(p, &ledger);
  DropOtherSamples(p, &ledger);
  RETURN_IF_ERROR(CheckRequired(o, ledger));
  return ledger;
}

std::string ShownRange(ir::SymRange r) {
  return text::StrCat(r.min == std::numeric_limits<int64_t>::min() ? std::string("-inf") : std::to_string(r.min), "..",
                      r.max == kMost ? std::string("inf") : std::to_string(r.max));
}
void Pad(std::string& s, size_t width) {
  if (s.size() < width) s.append(width - s.size(), ' ');
}

}  // namespace

absl::StatusOr<std::vector<Ledger>> ApplyShapes(ir::Archive& archive, const ConvertOptions& o, const Reader& reader,
                                                passes::PassContext& context) {
  std::vector<Ledger> out;
  if (o.dynamic.empty() && o.unify.empty() && o.dim_names.empty() && o.require_dynamic.empty()) return out;
  if (!o.unify.empty() && archive.programs.size() != 1)
    return WithHelp(
        absl::UnimplementedError(text::StrCat("--unify with an archive of ", archive.programs.size(), " programs")),
        "slipway unpack divides it");
  for (auto& p : archive.programs) {
    ASSIGN_OR_RETURN(Ledger ledger, ApplyTo(*p, o, reader, context));
    out.push_back(std::move(ledger));
  }
  return out;
}

std::string LostDim(const DimFact& f) {
  if (!f.asked || f.kind != DimFact::kStatic || f.cause == dynamic_shapes::kPinned) return "";
  return text::StrCat(f.input, ".", f.axis, " stays ", f.size.ToString(),
                      f.cause.empty() ? "" : text::StrCat(": ", f.cause),
                      f.help.empty() ? "" : text::StrCat(". ", f.help));
}

absl::StatusOr<ShapesReport> Shapes(const ConvertOptions& o, const Reader& reader) {
  auto archive = reader.Programs(o.inputs[0], /*written=*/0);
  if (!archive.ok()) return WithPlace(archive.status(), o.inputs[0]);
  ShapesReport out;
  out.archive = *std::move(archive);
  ConversionContext context;
  auto ledgers = ApplyShapes(out.archive, o, reader, context);
  if (!ledgers.ok()) return WithPlace(ledgers.status(), o.inputs[0]);
  for (size_t i = 0; i < out.archive.programs.size(); ++i) {
    ir::Program& p = *out.archive.programs[i];
    ShapesReport::Program program;
    program.name = p.name;
    program.guards = p.guards;
    if (!ledgers->empty()) {
      program.ledger = std::move((*ledgers)[i]);
    } else {
      if (absl::Status s = passes::RunPasses(passes::kPlainNodes, p, context); !s.ok())
        return WithPlace(s, o.inputs[0]);
      program.ledger = dynamic_shapes::LedgerOf(p);
    }
    for (size_t k = 0; k < p.graph->outputs.size(); ++k) {
      const ir::Value* v = p.graph->outputs[k].value();
      if (v && (k >= p.output_specs.size() || p.output_specs[k].kind == ir::OutputSpec::kUser))
        program.outputs.push_back(text::StrCat(v->name(), ": ", v->type().ToString()));
    }
    out.programs.push_back(std::move(program));
  }
  return out;
}

std::string ToTable(const ShapesReport& r) {
  std::string out;
  for (const ShapesReport::Program& p : r.programs) {
    if (!out.empty()) out += "\n";
    text::StrAppend(&out, "program ", p.name, "\n");
    size_t place = 4, size = 4;
    for (const DimFact& f : p.ledger.dims) {
      place = std::max(place, f.input.size() + 1 + std::to_string(f.axis).size());
      size = std::max(size, f.size.ToString().size() + (f.kind == DimFact::kRelated ? 2 : 0));
    }
    for (const DimFact& f : p.ledger.dims) {
      std::string line = text::StrCat("  ", f.input, ".", f.axis);
      Pad(line, place + 4);
      const size_t begin = line.size();
      text::StrAppend(&line, f.kind == DimFact::kRelated ? "= " : "", f.size.ToString());
      Pad(line, begin + size + 2);
      line += f.kind == DimFact::kStatic ? "static" : ShownRange(f.range);
      if (f.kind != DimFact::kStatic && f.example >= 0) text::StrAppend(&line, " (", f.example, " at export)");
      text::StrAppend(&out, line, "\n");
      if (!f.cause.empty()) text::StrAppend(&out, "      ", f.cause, "\n");
      if (!f.help.empty() && f.kind == DimFact::kStatic) text::StrAppend(&out, "      help: ", f.help, "\n");
    }
    for (const std::string& output : p.outputs) text::StrAppend(&out, "  -> ", output, "\n");
    for (const auto& [condition, node] : p.ledger.conditions)
      text::StrAppend(&out, "  must hold: ", condition, " (", node, ")\n");
    for (const std::string& note : p.ledger.notes) text::StrAppend(&out, "  note: ", note, "\n");
  }
  return out;
}

std::string ToJson(const ShapesReport& r) {
  json::Writer w;
  w.BeginObject().Key("version").Int(1).Key("programs").BeginArray();
  const auto range = [&](ir::SymRange s) {
    w.BeginArray().Int(s.min);
    s.max == kMost ? w.Null() : w.Int(s.max);
    w.EndArray();
  };
  for (const ShapesReport::Program& p : r.programs) {
    w.BeginObject().Key("name").String(p.name).Key("dims").BeginArray();
    for (const DimFact& f : p.ledger.dims) {
      w.BeginObject().Key("input").String(f.input).Key("axis").Int(f.axis);
      w.Key("kind").String(f.kind == DimFact::kStatic ? "static" : f.kind == DimFact::kFree ? "dynamic" : "related");
      w.Key("size").String(f.size.ToString()).Key("range");
      range(f.range);
      w.Key("example");
      f.example < 0 ? w.Null() : w.Int(f.example);
      w.Key("asked").Bool(f.asked).Key("cause").String(f.cause).Key("help").String(f.help);
      w.Key("needs").String(f.needs).Key("needs_range");
      range(f.needs_range);
      w.EndObject();
    }
    w.EndArray().Key("outputs").BeginArray();
    for (const std::string& output : p.outputs) w.String(output);
    w.EndArray().Key("conditions").BeginArray();
    for (const auto& [condition, node] : p.ledger.conditions)
      w.BeginObject().Key("condition").String(condition).Key("node").String(node).EndObject();
    w.EndArray().Key("notes").BeginArray();
    for (const std::string& note : p.ledger.notes) w.String(note);
    w.EndArray().EndObject();
  }
  w.EndArray().EndObject();
  return w.Take() + "\n";
}

}  // namespace slipway::driver
