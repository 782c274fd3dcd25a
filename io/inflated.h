// Deflated members are held in memory: how much of it an archive may ask for.
#ifndef SLIPWAY_IO_INFLATED_H_
#define SLIPWAY_IO_INFLATED_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "io/byte_source.h"
#include "io/zip_reader.h"

namespace slipway::io {

// The most bytes that may be made of `held` ones without being told that more is wanted: weights may be cast, expanded
// and inflated, files of a few bytes that ask for a disk or a memory full are attacks or mistakes.
uint64_t MostMadeOf(uint64_t held);

// Reads members of an archive. Those that are deflated together take at most so many bytes.
class MembersWithin {
 public:
  MembersWithin(const ZipReader& zip, uint64_t most) : zip_(zip), left_(most) {}
  // As ZipReader::Read(); ResourceExhausted where too many bytes would be inflated.
  absl::StatusOr<Bytes> Read(const ZipEntry& entry);

 private:
  const ZipReader& zip_;
  uint64_t left_;
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_INFLATED_H_
