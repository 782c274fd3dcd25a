// What is asked of a mapped file besides its mapping, for rooms that know nothing of descriptors.
#ifndef SLIPWAY_IO_FILE_ACCESS_H_
#define SLIPWAY_IO_FILE_ACCESS_H_

#include <cstdint>

#include "io/mapped_file.h"

namespace slipway::io {

// Reads [offset, offset + size) into `to` without touching the mapping. False where that did not give all of it; the
// mapping has the bytes, or fails as mappings do.
bool ReadAt(const MappedFile& file, uint64_t offset, uint64_t size, uint8_t* to);

// Whether both were opened from the same file, whatever the paths.
bool IsSameFile(const MappedFile& a, const MappedFile& b);

}  // namespace slipway::io

#endif  // SLIPWAY_IO_FILE_ACCESS_H_
