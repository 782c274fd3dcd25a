// What runs commands is listed by module. Of builtins only classes and plain functions pass: whatever is not listed
// there may run code.
#include "importers/checkpoint/pickle_names.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace slipway::importers {
namespace {

// Modules of Python's own by their whole name: a user's package may be called `code`, too. Packages count with their
// submodules.
constexpr std::string_view kModulesThatRun[] = {
    "os",           "posix",     "nt",         "sys",         "subprocess",     "_posixsubprocess",
    "pty",          "commands",  "popen2",     "shutil",      "socket",         "_socket",
    "socketserver", "ctypes",    "_ctypes",    "imp",         "pkgutil",        "runpy",
    "code",         "codeop",    "pickle",     "_pickle",     "cPickle",        "marshal",
    "shelve",       "timeit",    "pdb",        "bdb",         "cProfile",       "profile",
    "trace",        "doctest",   "webbrowser", "antigravity", "urllib.request", "ftplib",
    "smtplib",      "telnetlib", "pydoc",      "_testcapi",   "requests.api",
};
constexpr std::string_view kPackagesThatRun[] = {
    "importlib",
    "_frozen_importlib",
    "_frozen_importlib_external",
    "ctypes",
    "dill",
    "cloudpickle",
    "joblib",
    "asyncio",
    "pip",
    "venv",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "distutils",
    "setuptools",
    "numpy.testing",
    "torch.hub",
    "torch.package",
    "torch.utils.cpp_extension",
};
struct NamesOfModule {
  std::string_view module, name;
};
// clang-format off
constexpr NamesOfModule kNamesThatRun[] = {
    {"torch", "load"},          {"torch.storage", "_load_from_bytes"}, {"torch.serialization", "load"},
    {"torch._utils", "_import_dotted_name"},
    {"torch.jit", "load"},      {"torch.ops", "load_library"},         {"torch._ops", "load_library"},
    {"numpy", "load"},
    {"numpy", "loads"},         {"numpy", "fromfile"},                 {"numpy", "memmap"},
    {"types", "CodeType"},
    {"types", "FunctionType"},  {"io", "open"},                        {"_io", "open"},
    {"io", "FileIO"},
    {"_io", "FileIO"},          {"operator", "call"},                  {"_operator", "call"},
    {"logging.config", "listen"},
    // how protocols 0 and 1, which are not read, make objects: it calls what it is given
    {"copyreg", "_reconstructor"},
    {"copy_reg", "_reconstructor"},
};
// clang-format on
constexpr std::string_view kBuiltins[] = {
    "object",     "type",      "slice",      "range",      "xrange",   "str",          "unicode",
    "basestring", "bool",      "tuple",      "long",       "property", "staticmethod", "classmethod",
    "super",      "enumerate", "zip",        "reversed",   "len",      "abs",          "max",
    "min",        "sum",       "sorted",     "round",      "any",      "all",          "id",
    "hash",       "repr",      "isinstance", "issubclass", "callable", "iter",         "next",
    "print",      "pow",       "divmod",     "ord",        "chr",      "format",       "NotImplemented",
    "Ellipsis",   "NoneType",
};

bool IsPythonPath(std::string_view path, bool ascii) {
  bool first = true;  // of an identifier
  for (char c : path) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '.') {
      if (first) return false;
      first = true;
      continue;
    }
    const bool letter = c == '_' || (byte < 0x80 ? std::isalpha(byte) != 0 : !ascii);
    if (!letter && (first || byte >= 0x80 || !std::isdigit(byte))) return false;
    first = false;
  }
  return !first;
}

// Spaces, controls and marks that change the direction of writing, which no identifier has and which deceive whoever
// reads them.
bool Deceives(std::string_view name) {
  for (std::string_view mark : {"\xc2\x80", "\xe2\x80", "\xe2\x81", "\xef\xbb\xbf", "\xe3\x80\x80"})
    if (name.find(mark) != std::string_view::npos) return true;
  return false;
}

bool Runs(std::string_view module) {
  return std::find(std::begin(kModulesThatRun), std::end(kModulesThatRun), module) != std::end(kModulesThatRun) ||
         std::any_of(std::begin(kPackagesThatRun), std::end(kPackagesThatRun), [&](std::string_view p) {
           return module.substr(0, p.size()) == p && (module.size() == p.size() || module[p.size()] == '.');
         });
}

bool IsException(std::string_view name) {
  return name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Warning");
}

}  // namespace

bool IsHarmlessName(std::string_view module, std::string_view name) {
  if (!IsPythonPath(module, /*ascii=*/true) || !IsPythonPath(name, /*ascii=*/false) || Deceives(name) || Runs(module))
    return false;
  for (const auto& n : kNamesThatRun)
    if (n.module == module &&
        (name == n.name || (name.substr(0, n.name.size()) == n.name && name[n.name.size()] == '.')))
      return false;
  const std::string_view first = name.substr(0, name.find('.'));
  if (module == "builtins")
    return IsException(first) || std::find(std::begin(kBuiltins), std::end(kBuiltins), first) != std::end(kBuiltins);
  // A module that another one imports: torch.serialization, "os.system".
  return first.size() == name.size() || !Runs(first);
}

std::string DottedName(std::string_view name) {
  std::string dotted(name);
  std::replace(dotted.begin(), dotted.end(), ' ', '.');
  return dotted;
}

}  // namespace slipway::importers
