// How slipway and the program that runs a library of another processor for it (runtime/runner/) exchange tensors: a
// file of a request and one of a reply, made of these records. Each part begins at a multiple of 8 bytes; numbers lie
// as both processors have them, little-endian.
#ifndef SLIPWAY_BASE_LIBRARY_RUN_H_
#define SLIPWAY_BASE_LIBRARY_RUN_H_

#include <cstdint>

namespace slipway {

inline constexpr uint64_t kLibraryRunMagic = 0x31'4e'55'52'57'50'4c'53;  // "SLPWRUN1"
inline constexpr int64_t kLibraryRunAlignment = 8;

// The request: this, and for each set of inputs an int64_t, how many tensors there are, and the tensors.
struct LibraryRunRequest {
  uint64_t magic = kLibraryRunMagic;
  int64_t sets = 0;
  int64_t repeat = 1;       // runs of each set; outputs are those of the last
  int32_t threads = 0;      // as of slipway_model_set_threads()
  int32_t reset_state = 0;  // 1: before each set
};

// A tensor: this, its sizes (int64_t each), its elements, dense.
struct LibraryRunTensor {
  uint8_t code = 0, bits = 0;  // DLDataType's, of one lane
  uint16_t reserved = 0;
  int32_t rank = 0;
  int64_t bytes = 0;
};

// The reply: kLibraryRunMagic, and for each set this, the runs' seconds (double each), the text and the tensors.
struct LibraryRunResult {
  int64_t code = 0;  // of slipway_model_run(): SLIPWAY_MODEL_OK and so on
  int64_t runs = 0, text_bytes = 0, tensors = 0;
};

}  // namespace slipway

#endif  // SLIPWAY_BASE_LIBRARY_RUN_H_
