// What `doctor` says to people: a line for each thing that was looked at, then the problems.
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_count.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/doctor/doctor.h"

namespace slipway::driver {
namespace {

std::string Line(std::string_view what, std::string_view value) {
  constexpr size_t kColumn = 12;
  return text::StrCat(what, std::string(kColumn - what.size(), ' '), text::Printable(value), "\n");
}

std::string PythonLine(const DoctorReport::Python& p) {
  if (p.path.empty()) return Line("python", text::StrCat(p.command, ": ", p.why_not));
  std::vector<std::string> packages;
  for (const auto& [name, version] : p.packages) packages.push_back(text::StrCat(name, " ", version));
  std::string out =
      Line("python", text::StrCat(p.path, ", ", p.version, packages.empty() ? "" : ": ", text::Join(packages, ", ")));
  return p.runs_onnx ? out : out + Line("", text::StrCat("does not run ONNX models: ", p.why_not));
}

}  // namespace

std::string ToTable(const DoctorReport& r) {
  const DoctorReport::Processor& p = r.processor;
  std::string out = Line("slipway", r.version) + Line("", r.path);
  out += Line("processor", p.name.empty() ? "of unknown name" : p.name);
  out += Line("", text::StrCat(p.threads, p.threads == 1 ? " thread" : " threads", "; kernels: ", p.used,
                               p.cap.empty() ? "" : text::StrCat(" (SLIPWAY_ISA=", p.cap, ")"), "; it has ",
                               text::Join(p.supported, ", ")));
  if (!p.built.empty())
    out += Line("", text::StrCat("this build has kernels for ", text::Join(p.built, ", "), " only"));
  if (r.memory > 0)
    out += Line("memory",
                text::StrCat(text::ByteCount(r.memory), ", ", text::ByteCount(r.memory_available), " available"));
  for (const DoctorReport::Python& python : r.pythons) out += PythonLine(python);
  out += Line("compiler", "not needed: libraries are made of the kernels in this program");
  out += Line("cache", !r.cache.exists ? text::StrCat(r.cache.path, ": none yet")
                                       : text::StrCat(r.cache.path, ": ", r.cache.files, " libraries, ",
                                                      text::ByteCount(r.cache.bytes)));
  out += Line("temporary", text::StrCat(r.temporary.path, ": ", text::ByteCount(r.temporary.free), " free"));
  for (const DoctorReport::Problem& problem : r.problems)
    text::StrAppend(&out, "problem: ", text::Printable(problem.cause), "\n  help: ", text::Printable(problem.help),
                    "\n");
  return out + (r.problems.empty() ? "no problems\n" : "");
}

}  // namespace slipway::driver
