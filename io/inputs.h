// What other processes may do to the files that this one has mapped: cut them short, rewrite them. Neither may pass
// unnoticed, since weights are read from the mappings until the last byte of an output is written.
#ifndef SLIPWAY_IO_INPUTS_H_
#define SLIPWAY_IO_INPUTS_H_

#include "absl/status/status.h"

namespace slipway::io {

class MappedFile;

// Called by MappedFile when it has mapped its file, and before it unmaps it.
void AddInput(const MappedFile& file);
void RemoveInput(const MappedFile& file);

// DataLoss where a file that this process has mapped is of another size, or was written to, since it was opened, be it
// this thread or another one that reads it. CommitAll() (io/atomic_writer.h) asks before outputs get their names; what
// writes none asks by itself when it has read all.
absl::Status InputsUnchanged();

// A mapped file whose bytes could not be had: SIGBUS.
struct LostInput {
  const char* path;
  bool changed;  // since it was opened; otherwise the system could not read it
};

// The mapped file that `address` lies in, else one that is shorter than when it was opened: the dynamic linker has
// mapped it too, to a place that nobody tells. For signal handlers, of which the first that asks ends the process:
// async-signal-safe, and the files are not known to InputsUnchanged() afterwards. False where there is none.
bool FindLostInput(const void* address, LostInput* lost);

}  // namespace slipway::io

#endif  // SLIPWAY_IO_INPUTS_H_
