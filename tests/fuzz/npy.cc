// NumPy's files, .npy and .npz: the header, and every byte that it says an array has.
#include "importers/npy/npy.h"
#include "tests/fuzz/target.h"

using namespace slipway;

namespace {
volatile uint8_t sink;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::AsFile file({data, size});
  auto mapped = file.Open();
  (void)importers::LooksLikeNpy(mapped->data());
  (void)importers::LooksLikeNpz(mapped);
  for (const auto& read : {importers::ReadNpy(mapped), importers::ReadNpz(mapped)}) {
    fuzz::PromiseInputError(read.status());
    if (!read.ok()) continue;
    for (const auto& [name, t] : read->tensors) {
      fuzz::Promise(ir::Validate(t).ok(), "an array lies in its bytes");
      for (uint8_t byte : ir::MappedBytes(*t.storage)) sink = sink ^ byte;
    }
  }
  return 0;
}
