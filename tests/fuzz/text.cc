// The text form: what is read prints, reads again as the same program, and prints as the same text.
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/fuzz/target.h"

using namespace slipway;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto archive = ir::Parse({reinterpret_cast<const char*>(data), size});
  fuzz::PromiseInputError(archive.status());
  if (!archive.ok()) return 0;
  for (const auto& p : archive->programs) fuzz::PromiseInputError(ir::Verify(*p));
  const std::string text = ir::Print(*archive);
  auto again = ir::Parse(text);
  fuzz::Promise(again.ok(), "what is printed is read: " + again.status().ToString() + "\n" + text);
  fuzz::Promise(ir::Print(*again) == text, "printing is canonical\n" + text + "\n" + ir::Print(*again));
  return 0;
}
