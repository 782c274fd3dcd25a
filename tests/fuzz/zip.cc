// Zip archives: the directory, and every member read both ways.
#include "io/zip_reader.h"
#include "tests/fuzz/target.h"

using namespace slipway;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMost = 1 << 20;
  auto zip = io::ZipReader::Open(io::Bytes::Of(std::string(data, data + size)));
  fuzz::PromiseInputError(zip.status());
  if (!zip.ok()) return 0;
  for (const io::ZipEntry& e : (*zip)->entries()) {
    fuzz::Promise((*zip)->Find(e.name) == &e, "a member is found by its name");
    auto read = (*zip)->Read(e, kMost);
    fuzz::PromiseInputError(read.status());
    auto all = (*zip)->ReadAll(e, kMost);
    fuzz::PromiseInputError(all.status());
    if (read.ok() && all.ok())
      fuzz::Promise(read->size() == all->size() && all->size() == e.size, "both ways give the same size");
  }
  return 0;
}
