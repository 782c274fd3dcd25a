// Native libraries, read without being run: ELF's tables, the payload's header, the plan.
#include "importers/native/native_file.h"
#include "tests/fuzz/target.h"

using namespace slipway;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::AsFile file({data, size});
  auto mapped = file.Open();
  if (!importers::LooksNative(mapped)) return 0;
  fuzz::PromiseInputError(importers::ReadNative(mapped).status());
  return 0;
}
