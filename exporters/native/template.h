// The libraries that exported models are copies of (runtime/), one a machine, and how a payload gets into one:
// docs/formats.md says which fields of the ELF file change.
#ifndef SLIPWAY_EXPORTERS_NATIVE_TEMPLATE_H_
#define SLIPWAY_EXPORTERS_NATIVE_TEMPLATE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/machine.h"

namespace slipway::exporters {

// The parts of the library around its payload: head, payload at `payload_offset` (the gap is zeros), tail.
struct LibraryFrame {
  std::string head, tail;
  uint64_t payload_offset = 0;
};

// Whether this slipway was built with the template for it. FrameFor() and TemplateId() are for such machines.
bool HasTemplate(const Machine& machine);

// The template for a payload of that many bytes, a multiple of 4096. `id` is 20 bytes that tell this library from every
// other; `soname` names it to the dynamic linker, at most 64 characters. Internal where the template is not as it must
// be.
absl::StatusOr<LibraryFrame> FrameFor(const Machine& machine, uint64_t payload_size, std::string_view id,
                                      std::string_view soname);

// The template's own build id: what its kernels are.
absl::StatusOr<std::string> TemplateId(const Machine& machine);

// The program of another machine that runs its libraries (runtime/runner/), as a file's bytes; empty where this slipway
// was built without.
std::string_view RunnerFor(const Machine& machine);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_NATIVE_TEMPLATE_H_
