// Looks without changing anything: Pythons are asked in processes of their own, with a limit of time.
#include "driver/doctor/doctor.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/json.h"
#include "base/text.h"
#include "driver/edge/version.h"
#include "driver/verify/onnx_runtime.h"
#include "importers/json.h"
#include "io/subprocess.h"
#include "kernels/isa/names.h"
#include "kernels/parallel.h"

namespace slipway::driver {
namespace {

constexpr double kPythonSeconds = 60;
constexpr uint64_t kLeastTemporary = uint64_t{1} << 30;
constexpr char kPackages[] = "torch torchao transformers onnx onnxruntime numpy";
// Versions are of the packages' metadata, since torch takes seconds to import; what verify needs is imported.
constexpr char kAsk[] = R"(
import json, platform, sys
from importlib import metadata
packages = {}
for name in sys.argv[1:]:
    try:
        packages[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
error = ""
try:
    import numpy
    import onnxruntime
    packages["onnxruntime"] = onnxruntime.__version__
except Exception as e:
    error = f"{type(e).__name__}: {e}"
print(json.dumps({"path": sys.executable, "version": platform.python_version(), "packages": packages, "error": error}))
)";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The value of the first line "KEY  : VALUE" of one of the system's files.
std::string ValueIn(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon != line.npos) return std::string(text::Strip(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

std::string TextOf(const importers::json::Value& object, std::string_view key) {
  const importers::json::Value* v = object.Find(key);
  if (!v) return "";
  const auto s = v->AsString();
  return s.ok() ? std::string(*s) : "";
}

DoctorReport::Python AskPython(const std::string& command) {
  DoctorReport::Python python;
  python.command = command;
  std::vector<std::string> argv = {command, "-c", kAsk};
  for (std::string_view name : text::Split(kPackages, ' ')) argv.emplace_back(name);
  io::SubprocessOptions options;
  options.timeout_seconds = kPythonSeconds;
  options.max_output = size_t{1} << 20;
  const auto done = io::RunSubprocess(argv, options);
  if (!done.ok()) {
    python.why_not = std::string(done.status().message());
    return python;
  }
  const auto reply = importers::json::Document::Parse(done->output);
  if (!reply.ok()) {
    python.why_not = done->timed_out ? text::StrCat("gave no answer within ", kPythonSeconds, " s") : "gave no answer";
    return python;
  }
  const importers::json::Value& root = reply->root();
  python.path = TextOf(root, "path");
  python.version = TextOf(root, "version");
  python.why_not = TextOf(root, "error");
  python.runs_onnx = python.why_not.empty();
  if (const importers::json::Value* packages = root.Find("packages"))
    for (std::string_view name : text::Split(kPackages, ' '))
      if (const std::string version = TextOf(*packages, name); !version.empty()) python.packages.emplace(name, version);
  return python;
}

DoctorReport::Processor LookAtProcessor(std::vector<DoctorReport::Problem>* problems) {
  DoctorReport::Processor p;
  p.name = ValueIn("/proc/cpuinfo", "model name");
  p.threads = kernels::DefaultThreads();
  p.used = kernels::BestIsaName();
  p.cap = Variable("SLIPWAY_ISA");
  std::vector<std::string> known;
  for (int i = 0; const char* name = kernels::IsaName(i); ++i) {
    known.emplace_back(name);
    if (kernels::IsaPresent(i)) p.supported.emplace_back(name);
  }
  if (!kernels::HasAllIsas()) p.built = known;
  if (const char* error = kernels::IsaError()) problems->push_back({error, "do as the line says"});
  if (!p.cap.empty() && std::find(known.begin(), known.end(), p.cap) == known.end())
    problems->push_back({text::StrCat("SLIPWAY_ISA is '", p.cap, "', which is no instruction set and caps nothing"),
                         text::StrCat("unset it, or set it to one of ", text::Join(known, ", "))});
  return p;
}

// As slipway.compile() of the Python package has it.
DoctorReport::Cache LookAtCache(std::vector<DoctorReport::Problem>* problems) {
  DoctorReport::Cache c;
  const std::string base = Variable("XDG_CACHE_HOME");
  c.path = (base.starts_with('/') ? base : Variable("HOME") + "/.cache") + "/slipway";
  struct stat info;
  if (stat(c.path.c_str(), &info) != 0) return c;
  c.exists = true;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(c.path, error)) {
    if (file.path().extension() != ".so") continue;
    const auto size = file.file_size(error);
    if (error) continue;
    ++c.files;
    c.bytes += size;
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022) != 0 ||
      access(c.path.c_str(), W_OK) != 0)
    problems->push_back(
        {text::StrCat("nothing is cached in ", c.path, ": it is no folder that this user alone can write to"),
         text::StrCat("chown it to yourself and chmod go-w ", c.path, ", or set XDG_CACHE_HOME")});
  return c;
}

DoctorReport::Temporary LookAtTemporary(std::vector<DoctorReport::Problem>* problems) {
  DoctorReport::Temporary t;
  t.path = Variable("TMPDIR");
  if (t.path.empty()) t.path = "/tmp";
  struct statvfs info;
  if (statvfs(t.path.c_str(), &info) == 0) t.free = uint64_t{info.f_bavail} * info.f_frsize;
  t.writable = std::filesystem::is_directory(t.path) && access(t.path.c_str(), W_OK) == 0;
  if (!t.writable)
    problems->push_back(
        {text::StrCat("the temporary folder ", t.path, " cannot be written to"), "set TMPDIR to a folder that can"});
  else if (t.free < kLeastTemporary)
    problems->push_back({text::StrCat("the temporary folder ", t.path, " has less than 1 GiB of room"),
                         "free room, or set TMPDIR to a folder on another disk"});
  return t;
}

uint64_t KilobytesOf(std::string_view key) {
  return uint64_t{1024} * std::strtoull(ValueIn("/proc/meminfo", key).c_str(), nullptr, 10);
}

}  // namespace

DoctorReport Doctor(const DoctorOptions& o) {
  DoctorReport r;
  r.version = VersionText();
  r.path = o.self;
  r.processor = LookAtProcessor(&r.problems);
  r.memory = KilobytesOf("MemTotal");
  r.memory_available = KilobytesOf("MemAvailable");
  for (const std::string& command : o.python.empty() ? UsualPythons() : std::vector{o.python})
    r.pythons.push_back(AskPython(command));
  if (std::none_of(r.pythons.begin(), r.pythons.end(), [](const auto& p) { return p.runs_onnx; }))
    r.problems.push_back({"no Python has onnxruntime and numpy: verify, run and minify cannot run ONNX models",
                          "pip install onnxruntime numpy, and name that Python by --python"});
  r.cache = LookAtCache(&r.problems);
  r.temporary = LookAtTemporary(&r.problems);
  return r;
}

std::string ToJson(const DoctorReport& r) {
  json::Writer w;
  w.BeginObject().Key("version").Int(1).Key("slipway").String(r.version).Key("path").String(r.path);
  w.Key("processor").BeginObject().Key("name").String(r.processor.name).Key("threads").Int(r.processor.threads);
  w.Key("supported").BeginArray();
  for (const std::string& name : r.processor.supported) w.String(name);
  w.EndArray().Key("built").BeginArray();
  for (const std::string& name : r.processor.built) w.String(name);
  w.EndArray().Key("used").String(r.processor.used).Key("cap").String(r.processor.cap).EndObject();
  w.Key("memory").BeginObject().Key("bytes").Int(static_cast<int64_t>(r.memory));
  w.Key("available").Int(static_cast<int64_t>(r.memory_available)).EndObject().Key("pythons").BeginArray();
  for (const DoctorReport::Python& p : r.pythons) {
    w.BeginObject().Key("command").String(p.command).Key("path").String(p.path).Key("version").String(p.version);
    w.Key("packages").BeginObject();
    for (const auto& [name, version] : p.packages) w.Key(name).String(version);
    w.EndObject().Key("runs_onnx").Bool(p.runs_onnx).Key("why_not").String(p.why_not).EndObject();
  }
  w.EndArray().Key("cache").BeginObject().Key("path").String(r.cache.path).Key("exists").Bool(r.cache.exists);
  w.Key("files").Int(r.cache.files).Key("bytes").Int(static_cast<int64_t>(r.cache.bytes)).EndObject();
  w.Key("temporary").BeginObject().Key("path").String(r.temporary.path).Key("writable").Bool(r.temporary.writable);
  w.Key("free").Int(static_cast<int64_t>(r.temporary.free)).EndObject().Key("problems").BeginArray();
  for (const DoctorReport::Problem& p : r.problems)
    w.BeginObject().Key("cause").String(p.cause).Key("help").String(p.help).EndObject();
  w.EndArray().EndObject();
  return w.Take() + "\n";
}

}  // namespace slipway::driver
