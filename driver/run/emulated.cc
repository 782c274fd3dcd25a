// The process runs the program that slipway carries for that machine (runtime/runner/) and exchanges tensors by files
// (base/library_run.h). What comes back was made by the library: sizes are checked as those of any file.
#include "driver/run/emulated.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/library_run.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/run/library.h"
#include "exporters/native/template.h"
#include "importers/dlpack/dlpack.h"
#include "importers/native/native_file.h"
#include "io/atomic_writer.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "io/subprocess.h"
#include "io/temp_folder.h"
#include "ir/tensor.h"
#include "slipway/slipway_model.h"

namespace slipway::driver {
namespace {

template <typename T>
std::string_view RecordBytes(const T& record) {
  static_assert(sizeof(T) % kLibraryRunAlignment == 0);
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

absl::Status WriteRequest(const std::string& path, absl::Span<const Tensors> sets, const EmulatorOptions& o) {
  ASSIGN_OR_RETURN(const auto out, io::AtomicFile::Create(path));
  LibraryRunRequest request;
  request.sets = static_cast<int64_t>(sets.size());
  request.repeat = o.repeat, request.threads = o.threads, request.reset_state = o.reset_state;
  RETURN_IF_ERROR(out->Write(RecordBytes(request)));
  for (const Tensors& inputs : sets) {
    RETURN_IF_ERROR(out->Write(RecordBytes(static_cast<int64_t>(inputs.size()))));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::TensorRef& t = inputs[i];
      const std::optional<DLDataType> type = importers::DlpackType(t.dtype);
      if (!type)
        return absl::UnimplementedError(
            text::StrCat("input ", i, " is ", ir::Name(t.dtype), ", which libraries do not take"));
      ASSIGN_OR_RETURN(const std::string dense, ir::ReadDense(t, uint64_t{1} << 40));
      LibraryRunTensor record;
      record.code = static_cast<uint8_t>(type->code), record.bits = type->bits;
      record.rank = static_cast<int32_t>(t.sizes.size()), record.bytes = static_cast<int64_t>(dense.size());
      RETURN_IF_ERROR(out->Write(RecordBytes(record)));
      for (const int64_t size : t.sizes) RETURN_IF_ERROR(out->Write(RecordBytes(size)));
      RETURN_IF_ERROR(out->Write(dense));
      RETURN_IF_ERROR(out->WriteZeros(-dense.size() % kLibraryRunAlignment));
    }
  }
  return out->Commit();
}

// The reply, front to back.
class ReplyReader {
 public:
  explicit ReplyReader(absl::Span<const uint8_t> bytes) : left_(bytes) {}

  // The next `count` bytes, and those up to a multiple of the alignment are skipped.
  absl::StatusOr<absl::Span<const uint8_t>> Bytes(int64_t count) {
    if (count < 0 || static_cast<uint64_t>(count) > left_.size()) return CutOff();
    const auto n = static_cast<size_t>(count), more = -n % kLibraryRunAlignment;
    if (more > left_.size() - n) return CutOff();
    const absl::Span<const uint8_t> bytes = left_.first(n);
    left_.remove_prefix(n + more);
    return bytes;
  }
  template <typename T>
  absl::StatusOr<T> Get() {
    ASSIGN_OR_RETURN(const auto bytes, Bytes(sizeof(T)));
    T record;
    std::memcpy(&record, bytes.data(), sizeof record);
    return record;
  }
  // `count` numbers.
  template <typename T>
  absl::StatusOr<std::vector<T>> Several(int64_t count) {
    if (count < 0 || static_cast<uint64_t>(count) > left_.size() / sizeof(T)) return CutOff();
    ASSIGN_OR_RETURN(const auto bytes, Bytes(count * static_cast<int64_t>(sizeof(T))));
    std::vector<T> numbers(static_cast<size_t>(count));
    if (count > 0) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

 private:
  static absl::Status CutOff() { return absl::InvalidArgumentError("the library's reply is cut off"); }
  absl::Span<const uint8_t> left_;
};

absl::StatusOr<ir::TensorRef> ReadTensor(ReplyReader& in) {
  ASSIGN_OR_RETURN(const auto record, in.Get<LibraryRunTensor>());
  ASSIGN_OR_RETURN(std::vector<int64_t> sizes, in.Several<int64_t>(record.rank));
  ASSIGN_OR_RETURN(const auto bytes, in.Bytes(record.bytes));
  const std::optional<ir::DType> dtype = importers::DTypeFromDlpack({record.code, record.bits, 1});
  if (!dtype) return absl::InvalidArgumentError("the library's reply has a tensor of an unknown type");
  int64_t wanted = record.bits / 8;
  for (const int64_t s : sizes)
    if (s < 0 || __builtin_mul_overflow(wanted, s, &wanted)) wanted = -1;
  if (wanted != record.bytes) return absl::InvalidArgumentError("the library's reply has a tensor not of its size");
  return ir::OwnedTensor(*dtype, std::move(sizes),
                         std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::Status Failure(int64_t code, std::string why) {
  switch (code) {
    case SLIPWAY_MODEL_BAD_INPUT: return absl::InvalidArgumentError(why);
    case SLIPWAY_MODEL_UNSUPPORTED: return absl::UnimplementedError(why);
    case SLIPWAY_MODEL_NO_MEMORY: return absl::ResourceExhaustedError(why);
    default: return absl::InternalError(why);
  }
}

absl::StatusOr<std::vector<EmulatedRun>> ReadReply(const std::string& path, size_t sets) {
  ASSIGN_OR_RETURN(const auto file, io::MappedFile::Open(path));
  ReplyReader in(file->data());
  ASSIGN_OR_RETURN(const auto magic, in.Get<uint64_t>());
  if (magic != kLibraryRunMagic) return absl::InvalidArgumentError("the library's reply is none");
  std::vector<EmulatedRun> runs;
  for (size_t i = 0; i < sets; ++i) {
    ASSIGN_OR_RETURN(const auto result, in.Get<LibraryRunResult>());
    ASSIGN_OR_RETURN(std::vector<double> seconds, in.Several<double>(result.runs));
    ASSIGN_OR_RETURN(const auto text, in.Bytes(result.text_bytes));
    Tensors outputs;
    for (int64_t k = 0; k < result.tensors; ++k) {
      ASSIGN_OR_RETURN(outputs.emplace_back(), ReadTensor(in));
    }
    EmulatedRun run{std::move(outputs), std::move(seconds)};
    if (result.code != SLIPWAY_MODEL_OK)
      run.outputs = Failure(result.code, {reinterpret_cast<const char*>(text.data()), text.size()});
    runs.push_back(std::move(run));
  }
  return runs;
}

// The last line of what a process wrote that is not empty.
std::string LastLine(std::string_view text) {
  std::string last;
  for (std::string_view line : text::Split(text, '\n'))
    if (!line.empty()) last = line;
  return last;
}

}  // namespace

const Machine* ForeignMachine(const Source& source) {
  const Machine* const machine = FindMachine(importers::NativeMachine(source.file));
  return machine == &kThisMachine ? nullptr : machine;
}

absl::StatusOr<std::vector<EmulatedRun>> RunEmulated(const std::string& library, const Machine& machine,
                                                     absl::Span<const Tensors> sets, const EmulatorOptions& o) {
  const std::string_view runner = exporters::RunnerFor(machine);
  if (runner.empty())
    return WithHelp(absl::UnimplementedError(text::StrCat("the library is for ", machine.name,
                                                          ", and this slipway does not run those by an emulator")),
                    text::StrCat("run it on such a machine; docs/native.md says how slipway is built to do more"));
  ASSIGN_OR_RETURN(const auto whole, OpenWholeLibrary(library));
  ASSIGN_OR_RETURN(const auto folder, io::TempFolder::Make());
  const std::string program = folder->path() + "/run_library", request = folder->path() + "/request",
                    reply = folder->path() + "/reply";
  RETURN_IF_ERROR(io::WriteFile(program, runner));
  if (chmod(program.c_str(), S_IRWXU) != 0) return io::IoError(errno, program);  // qemu-user asks for that
  RETURN_IF_ERROR(WriteRequest(request, sets, o));
  std::vector<std::string> command = {o.emulator.empty() ? std::string(machine.emulator) : o.emulator};
  struct stat info;
  const std::string sysroot(machine.sysroot);
  if (stat(sysroot.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) command.insert(command.end(), {"-L", sysroot});
  // A name without a slash is looked for in folders of libraries.
  const std::string place = library.find('/') == std::string::npos ? "./" + library : library;
  command.insert(command.end(), {program, place, request, reply});
  auto done = io::RunSubprocess(command, {});
  if (!done.ok() && (absl::IsNotFound(done.status()) || absl::IsPermissionDenied(done.status())))
    return WithHelp(absl::UnimplementedError(text::StrCat("the library is for ", machine.name, ", and there is no ",
                                                          command[0], " to run it")),
                    text::StrCat("install qemu-user, or give --emulator its path"));
  if (!done.ok()) return done.status();
  if (done->signal != 0)
    return absl::InvalidArgumentError(text::StrCat(library, ": ended by signal ", done->signal, " (",
                                                   std::string(strsignal(done->signal)), ") under ", command[0], ": ",
                                                   LastLine(done->error)));
  struct stat made;
  if (done->exit_code != 0 || stat(reply.c_str(), &made) != 0) {
    std::string why = LastLine(done->error);
    if (why.empty())
      why =
          done->exit_code != 0 ? text::StrCat("it ended with exit code ", done->exit_code) : "it ended without a reply";
    return WithHelp(absl::UnimplementedError(text::StrCat(library, ": not run under ", command[0], ": ", why)),
                    text::StrCat("the C library of ", machine.name, " has to be in ", machine.sysroot,
                                 " (Debian: libc6-arm64-cross), or where QEMU_LD_PREFIX says"));
  }
  auto runs = ReadReply(reply, sets.size());
  if (!runs.ok()) return WithPlace(runs.status(), library);
  return runs;
}

}  // namespace slipway::driver
