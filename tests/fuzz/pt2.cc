// PT2 archives, as a whole: the members' names, the configurations of weights, sample inputs. (The bytes of a program
// are under a checksum, so most changes of it end there: program.cc is for these.)
#include "importers/pt2/pt2.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/fuzz/target.h"

using namespace slipway;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::AsFile file({data, size});
  auto mapped = file.Open();
  if (!importers::LooksLikePt2(mapped)) return 0;
  auto archive = importers::ReadPt2(mapped);
  fuzz::PromiseInputError(archive.status());
  if (!archive.ok()) return 0;
  for (const auto& p : archive->programs) {
    const absl::Status s = ir::Verify(*p);
    fuzz::Promise(s.ok(), s.ToString());
  }
  fuzz::Promise(!ir::Print(*archive).empty(), "an archive prints");
  return 0;
}
