// Runs a native library of this processor on tensors from a file, for a slipway on another processor, which calls this
// program by an emulator (driver/run/emulated.cc). It is carried inside slipway, so it needs the C library alone.
//
//   run_library MODEL.so REQUEST REPLY       the files of base/library_run.h
//
// Exits with 1, and a line on standard error, where the library cannot be opened or the files not be read and written.
// What a run says is in the reply.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/library_run.h"
#include "slipway/slipway_model.h"

using namespace slipway;

namespace {

[[noreturn]] void Fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

void* Allocate(size_t count, size_t bytes) {
  void* const memory = calloc(count + 1, bytes);
  if (memory == nullptr) Fail("run_library", "no memory");
  return memory;
}

// The request, front to back. It is slipway's own; what is beyond its end is an error all the same.
class Reader {
 public:
  explicit Reader(const char* path) : path_(path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (file < 0 || fstat(file, &info) != 0) Fail(path, "cannot be read");
    left_ = static_cast<uint64_t>(info.st_size);
    void* const bytes = mmap(nullptr, left_, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) Fail(path, "cannot be read");
    at_ = static_cast<const char*>(bytes);
    close(file);
  }
  const void* Bytes(int64_t count) {
    const uint64_t n =
        (static_cast<uint64_t>(count) + kLibraryRunAlignment - 1) / kLibraryRunAlignment * kLibraryRunAlignment;
    if (count < 0 || n > left_) Fail(path_, "is cut off");
    const char* const bytes = at_;
    at_ += n, left_ -= n;
    return bytes;
  }
  template <typename T>
  const T& Get() {
    static_assert(sizeof(T) % kLibraryRunAlignment == 0);
    return *static_cast<const T*>(Bytes(sizeof(T)));
  }

 private:
  const char* path_;
  const char* at_;
  uint64_t left_;
};

class Writer {
 public:
  explicit Writer(const char* path) : path_(path), file_(fopen(path, "wb")) {
    if (file_ == nullptr) Fail(path, "cannot be written");
  }
  void Bytes(const void* bytes, int64_t count) {
    static constexpr char kZeros[kLibraryRunAlignment] = {};
    const size_t n = static_cast<size_t>(count), more = -n % kLibraryRunAlignment;
    if (fwrite(bytes, 1, n, file_) != n || fwrite(kZeros, 1, more, file_) != more) Fail(path_, "cannot be written");
  }
  template <typename T>
  void Put(const T& record) {
    static_assert(sizeof(T) % kLibraryRunAlignment == 0);
    Bytes(&record, sizeof(T));
  }
  void Close() {
    if (fclose(file_) != 0) Fail(path_, "cannot be written");
  }

 private:
  const char* path_;
  FILE* file_;
};

double Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <typename T>
void Find(void* library, const char* name, T* function) {
  *function = reinterpret_cast<T>(dlsym(library, name));
  if (*function == nullptr) Fail(name, "the library has no such function");
}

struct Library {
  explicit Library(const char* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) Fail("dlopen", dlerror());
    Find(library, "slipway_model_open", &open);
    Find(library, "slipway_model_error", &error);
    Find(library, "slipway_model_output_count", &output_count);
    Find(library, "slipway_model_run", &run);
    Find(library, "slipway_model_set_threads", &set_threads);
    Find(library, "slipway_model_reset_state", &reset_state);
    if (open(&model) != SLIPWAY_MODEL_OK) Fail(path, error());
  }
  decltype(&slipway_model_open) open;
  decltype(&slipway_model_error) error;
  decltype(&slipway_model_output_count) output_count;
  decltype(&slipway_model_run) run;
  decltype(&slipway_model_set_threads) set_threads;
  decltype(&slipway_model_reset_state) reset_state;
  slipway_model* model = nullptr;
};

int64_t BytesOf(const DLTensor& t) {
  int64_t bytes = t.dtype.bits / 8;
  for (int32_t d = 0; d < t.ndim; ++d) bytes *= t.shape[d];
  return bytes;
}

void RunSet(Library& library, const LibraryRunRequest& request, Reader& in, Writer& out) {
  const int64_t inputs = in.Get<int64_t>();
  DLTensor* const tensors = static_cast<DLTensor*>(Allocate(static_cast<size_t>(inputs), sizeof(DLTensor)));
  const DLTensor** const views =
      static_cast<const DLTensor**>(Allocate(static_cast<size_t>(inputs), sizeof(DLTensor*)));
  for (int64_t i = 0; i < inputs; ++i) {
    const LibraryRunTensor& record = in.Get<LibraryRunTensor>();
    const void* const sizes = in.Bytes(int64_t{record.rank} * static_cast<int64_t>(sizeof(int64_t)));
    const void* const data = in.Bytes(record.bytes);
    tensors[i] = {const_cast<void*>(data),
                  {kDLCPU, 0},
                  record.rank,
                  {record.code, record.bits, 1},
                  const_cast<int64_t*>(static_cast<const int64_t*>(sizes)),
                  nullptr,
                  0};
    views[i] = &tensors[i];
  }
  const size_t outputs = library.output_count(library.model);
  auto** const results = static_cast<DLManagedTensorVersioned**>(Allocate(outputs, sizeof(DLManagedTensorVersioned*)));
  auto* const seconds = static_cast<double*>(Allocate(static_cast<size_t>(request.repeat), sizeof(double)));
  const auto drop = [&] {
    for (size_t i = 0; i < outputs; ++i)
      if (results[i] != nullptr) results[i]->deleter(results[i]), results[i] = nullptr;
  };
  LibraryRunResult result;
  if (request.reset_state != 0) result.code = library.reset_state(library.model);
  for (; result.code == SLIPWAY_MODEL_OK && result.runs < request.repeat; ++result.runs) {
    drop();
    const double begin = Now();
    result.code = library.run(library.model, views, static_cast<size_t>(inputs), results, outputs);
    seconds[result.runs] = Now() - begin;
  }
  const bool done = result.code == SLIPWAY_MODEL_OK;
  const char* const text = done ? "" : library.error();
  result.text_bytes = static_cast<int64_t>(strlen(text));
  result.tensors = done ? static_cast<int64_t>(outputs) : 0;
  out.Put(result);
  out.Bytes(seconds, result.runs * static_cast<int64_t>(sizeof(double)));
  out.Bytes(text, result.text_bytes);
  for (int64_t i = 0; i < result.tensors; ++i) {
    const DLTensor& t = results[i]->dl_tensor;
    LibraryRunTensor record;
    record.code = static_cast<uint8_t>(t.dtype.code), record.bits = t.dtype.bits;
    record.rank = t.ndim, record.bytes = BytesOf(t);
    out.Put(record);
    out.Bytes(t.shape, int64_t{t.ndim} * static_cast<int64_t>(sizeof(int64_t)));
    out.Bytes(static_cast<const char*>(t.data) + t.byte_offset, record.bytes);
  }
  drop();
  free(seconds), free(results), free(views), free(tensors);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) Fail("usage", "run_library MODEL.so REQUEST REPLY");
  Library library(argv[1]);
  Reader in(argv[2]);
  Writer out(argv[3]);
  const LibraryRunRequest& request = in.Get<LibraryRunRequest>();
  if (request.magic != kLibraryRunMagic) Fail(argv[2], "is no request of this slipway");
  if (library.set_threads(library.model, request.threads) != SLIPWAY_MODEL_OK) Fail(argv[1], library.error());
  out.Put(kLibraryRunMagic);
  for (int64_t i = 0; i < request.sets; ++i) RunSet(library, request, in, out);
  out.Close();
  return 0;
}
