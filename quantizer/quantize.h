// Runs weights through schemes: file to file, in chunks of rows, one tensor in flight a thread.
#ifndef SLIPWAY_QUANTIZER_QUANTIZE_H_
#define SLIPWAY_QUANTIZER_QUANTIZE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/sharded.h"
#include "quantizer/scheme.h"

namespace slipway::quantizer {

// Where the parts of a quantized weight go: bytes of parts()[part] from `offset` on.
using PartSink = std::function<absl::Status(size_t part, uint64_t offset, absl::Span<const uint8_t> bytes)>;

// What quantizing did to a weight.
struct Error {
  double relative = 0;   // ||w - q|| / ||w||, Frobenius; 0 for a weight of zeros
  double max = 0;        // largest |w - q|
  double reference = 0;  // ||w||²
  static Error Of(const ErrorSums& sums);
};

// Quantizes a weight of the scheme's shape and dtype, whose elements are read in order, twice where the scheme
// observes. `codes_as_they_are` gives part 0 as one code a byte instead of packed. InvalidArgument for a weight that is
// not finite; errors of reading and of the sink.
//
// With `columns`, k factors, W · diag(columns) is quantized, each product rounded to the weight's dtype; the error is
// then that of what is quantized divided by them again.
absl::StatusOr<Error> QuantizeWeight(const ir::ShardedTensor& w, Scheme& scheme, bool codes_as_they_are,
                                     const PartSink& sink, absl::Span<const float> columns = {});

// The error for such a weight.
absl::Status NotFinite();

// Gives the parts of a weight to a sink, rows as they are done.
class PartWriter {
 public:
  PartWriter(const Scheme& scheme, bool codes_as_they_are, const PartSink& sink)
      : scheme_(scheme), as_they_are_(codes_as_they_are), sink_(sink) {}
  // Where to put the codes, one a byte, of the next `count` rows; valid until the next call. Given to the sink some
  // chunks at a time.
  absl::StatusOr<int8_t*> Rows(int64_t count);
  // The last of them and the other parts, after the last row.
  absl::Status Finish();

 private:
  const Scheme& scheme_;
  const bool as_they_are_;
  const PartSink& sink_;
  int64_t row_ = 0, rows_ = 0;  // given to the sink, and held
  std::vector<int8_t> codes_;
  std::vector<uint8_t> packed_;
  absl::Status Flush();
};

// The elements of a weight of f32, bf16 or f16 as floats, in chunks of whole rows of about kChunk elements.
class RowReader {
 public:
  static constexpr int64_t kChunk = int64_t{1} << 13;  // so that what is made of it stays in the caches
  static absl::StatusOr<RowReader> Open(const ir::ShardedTensor& w);
  // The next rows; empty at the end. Valid until the next call.
  absl::Span<const float> Next();

 private:
  RowReader(ir::ElementReader reader, ir::DType dtype, int64_t k) : reader_(std::move(reader)), dtype_(dtype), k_(k) {}
  ir::ElementReader reader_;
  ir::DType dtype_;
  int64_t k_;
  std::vector<float> floats_;
};

// Calls work(i) for i < count on `threads` threads, lowest first, until all are done or one has failed; the error of
// the lowest that failed.
absl::Status InParallel(int threads, size_t count, const std::function<absl::Status(size_t i)>& work);

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_QUANTIZE_H_
