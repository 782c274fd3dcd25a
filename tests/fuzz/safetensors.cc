// Safetensors files: the header, and every byte that it says a tensor has.
#include "importers/safetensors/safetensors.h"
#include "tests/fuzz/target.h"

using namespace slipway;

namespace {
volatile uint8_t sink;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::AsFile file({data, size});
  auto mapped = file.Open();
  (void)importers::LooksLikeSafetensors(mapped->data());
  auto read = importers::ReadSafetensors(mapped);
  fuzz::PromiseInputError(read.status());
  if (!read.ok()) return 0;
  for (const auto& [name, t] : read->tensors) {
    const io::Bytes* bytes = t.storage ? std::get_if<io::Bytes>(&t.storage->bytes) : nullptr;
    if (!bytes) continue;
    for (uint8_t byte : bytes->data()) sink = sink ^ byte;
  }
  return 0;
}
