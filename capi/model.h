// What the handles of the C API are, and how its functions report. No exception and no Status leaves this room.
#ifndef SLIPWAY_CAPI_MODEL_H_
#define SLIPWAY_CAPI_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/convert/convert.h"
#include "driver/edge/diagnostic.h"
#include "driver/inspect/inspect.h"
#include "io/mapped_file.h"
#include "ir/graph.h"
#include "ir/tensor_set.h"
#include "slipway/slipway.h"

// One value as slipway_value_get() shows it: the strings and arrays that a slipway_value points to.
struct ValueRow {
  slipway::driver::TensorRow row;
  slipway::ir::DType dtype = slipway::ir::DType::kUnknown;
  std::vector<int64_t> sizes, mins, maxs;
  std::vector<const char*> exprs;  // into row.shape
};

struct slipway_archive {
  std::string path;                               // as it was opened; "" of a model made in memory
  std::string format;                             // as `inspect` calls it
  uint64_t bytes = 0;                             // of the file
  std::shared_ptr<slipway::io::MappedFile> file;  // null for folders and for what is not from a file
  bool weights_alone = false;
  slipway::ir::Archive archive;    // the programs
  std::set<size_t> typed;          // those whose types were checked against their operators
  slipway::ir::TensorSet tensors;  // of weights alone

  // What the latest call left.
  std::vector<slipway::driver::Diagnostic> diagnostics;
  std::string error;
  bool no_memory = false;

  std::string json, text, report;  // what slipway_inspect(), slipway_text() and slipway_export_report() returned
  // Made when asked for, by program and role; dropped by Changed().
  mutable std::map<std::pair<size_t, int>, std::vector<ValueRow>> values;

  void Changed() { values.clear(); }
  // The program, or null where there is none of this index.
  slipway::ir::Program* Program(size_t index) const {
    return index < archive.programs.size() ? archive.programs[index].get() : nullptr;
  }
};

struct slipway_options {
  slipway::driver::ConvertOptions convert;
  std::string error;
};

namespace slipway::capi {

inline driver::Outcome Usage(std::string_view cause) { return driver::Fail(driver::UsageError(cause)); }
// Remarks as diagnostics.
void AddNotes(const std::vector<std::string>& lines, driver::Outcome* outcome);

// Keeps an outcome as the model's latest and gives its status.
int Record(slipway_archive* model, driver::Outcome outcome);

// Calls `f`, which gives an Outcome, and records it; exceptions become statuses.
template <typename F>
int Call(slipway_archive* model, F f) noexcept {
  if (!model) return SLIPWAY_USAGE;
  model->no_memory = false;
  try {
    return Record(model, f());
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& e) {
    try {
      return Record(model, {driver::kBug, {{driver::Severity::kError, driver::id::kInternal, e.what(), "", ""}}});
    } catch (...) {
    }
  } catch (...) {
    return SLIPWAY_BUG;
  }
  model->diagnostics.clear();
  model->error.clear();
  model->no_memory = true;
  return SLIPWAY_NO_MEMORY;
}

// Fills the caller's structure as far as it knows it; false where it says no size.
template <typename T>
bool Fill(T* out, const T& from) {
  if (!out || out->struct_size < sizeof(size_t)) return false;
  const size_t size = std::min(out->struct_size, sizeof(T)) - sizeof(size_t);
  std::memcpy(reinterpret_cast<char*>(out) + sizeof(size_t), reinterpret_cast<const char*>(&from) + sizeof(size_t),
              size);
  return true;
}

}  // namespace slipway::capi

#endif  // SLIPWAY_CAPI_MODEL_H_
