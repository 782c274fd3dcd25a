// The loop over a weight's rows. Memory is what a chunk needs, the scales, and what the scheme keeps of them.
#include "quantizer/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "base/threads.h"

namespace slipway::quantizer {

using ir::DType;

absl::StatusOr<RowReader> RowReader::Open(const ir::ShardedTensor& w) {
  ASSIGN_OR_RETURN(ir::ElementReader reader, ir::ElementReader::Open(w));
  return RowReader(std::move(reader), w.dtype, w.sizes[1]);
}

absl::Span<const float> RowReader::Next() {
  const int64_t most = std::max(k_, kChunk / k_ * k_), count = std::min(most, reader_.left());
  floats_.resize(static_cast<size_t>(count));
  const Loops& loops = BestLoops();
  for (int64_t at = 0; at < count;) {
    const absl::Span<const uint8_t> bytes = reader_.NextDense(std::min(count - at, reader_.step()));
    const int64_t got = static_cast<int64_t>(bytes.size()) / reader_.item();
    float* to = floats_.data() + at;
    const auto* halves = reinterpret_cast<const uint16_t*>(bytes.data());
    if (dtype_ == DType::kBFloat16)
      loops.widen_bf16(halves, to, got);
    else if (dtype_ == DType::kFloat16)
      loops.widen_f16(halves, to, got);
    else
      std::memcpy(to, bytes.data(), bytes.size());
    at += got;
  }
  return floats_;
}

Error Error::Of(const ErrorSums& sums) {
  return {sums.reference > 0 ? std::sqrt(sums.difference / sums.reference) : 0, sums.max, sums.reference};
}

absl::Status NotFinite() {
  return absl::InvalidArgumentError("the weight has infinities or NaN, of which no scale can be made");
}

absl::StatusOr<int8_t*> PartWriter::Rows(int64_t count) {
  constexpr size_t kRun = size_t{1} << 16;  // codes
  const auto k = static_cast<size_t>(scheme_.shape().k);
  if ((static_cast<size_t>(rows_ + count)) * k > kRun) RETURN_IF_ERROR(Flush());
  const size_t at = static_cast<size_t>(rows_) * k;
  rows_ += count;
  if (codes_.size() < static_cast<size_t>(rows_) * k) codes_.resize(static_cast<size_t>(rows_) * k);
  return codes_.data() + at;
}

absl::Status PartWriter::Flush() {
  const int64_t row = std::exchange(row_, row_ + rows_), count = std::exchange(rows_, 0), k = scheme_.shape().k;
  if (count == 0) return absl::OkStatus();
  if (as_they_are_)
    return sink_(0, static_cast<uint64_t>(row * k),
                 {reinterpret_cast<const uint8_t*>(codes_.data()), static_cast<size_t>(count * k)});
  packed_.resize(static_cast<size_t>(count * scheme_.packed_row()));
  scheme_.Pack(codes_.data(), count, packed_.data());
  return sink_(0, static_cast<uint64_t>(row * scheme_.packed_row()), packed_);
}

absl::Status PartWriter::Finish() {
  RETURN_IF_ERROR(Flush());
  for (size_t i = 1; i < scheme_.parts().size(); ++i) {
    const std::string values = scheme_.Values(i);
    RETURN_IF_ERROR(sink_(i, 0, {reinterpret_cast<const uint8_t*>(values.data()), values.size()}));
  }
  return absl::OkStatus();
}

absl::StatusOr<Error> QuantizeWeight(const ir::ShardedTensor& w, Scheme& scheme, bool codes_as_they_are,
                                     const PartSink& sink, absl::Span<const float> columns) {
  const int64_t k = scheme.shape().k;
  scheme.Start();
  const absl::Cleanup finish = [&] { scheme.Finish(); };
  const Loops& loops = BestLoops();
  std::vector<float> scaled;
  // Rows as they are quantized.
  const auto prepare = [&](absl::Span<const float> rows) {
    if (columns.empty()) return rows.data();
    scaled.resize(rows.size());
    loops.times(rows.data(), columns.data(), static_cast<int64_t>(rows.size()) / k, k, scheme.shape().rounding(),
                scaled.data());
    return static_cast<const float*>(scaled.data());
  };
  if (scheme.observes()) {
    ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(w));
    int64_t row = 0;
    for (absl::Span<const float> rows = reader.Next(); !rows.empty(); rows = reader.Next()) {
      const int64_t count = static_cast<int64_t>(rows.size()) / k;
      scheme.Observe(prepare(rows), row, count);
      row += count;
    }
    scheme.Settle();
  }
  std::vector<float> inverse(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) inverse[i] = 1 / columns[i];
  ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(w));
  PartWriter writer(scheme, codes_as_they_are, sink);
  std::vector<float> numbers;
  ErrorSums sums;
  int64_t row = 0;
  for (absl::Span<const float> rows = reader.Next(); !rows.empty(); rows = reader.Next()) {
    const int64_t count = static_cast<int64_t>(rows.size()) / k;
    numbers.resize(rows.size());
    ASSIGN_OR_RETURN(int8_t* const codes, writer.Rows(count));
    if (!scheme.Quantize(prepare(rows), row, count, codes, numbers.data())) return NotFinite();
    if (!columns.empty()) loops.times(numbers.data(), inverse.data(), count, k, Rounding::kF32, numbers.data());
    loops.errors(rows.data(), numbers.data(), static_cast<int64_t>(rows.size()), &sums);
    row += count;
  }
  RETURN_IF_ERROR(writer.Finish());
  return Error::Of(sums);
}

absl::Status InParallel(int threads, size_t count, const std::function<absl::Status(size_t i)>& work) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  size_t failed = count;
  absl::Status status;
  const auto run = [&] {
    for (size_t i = next++; i < count && !stop; i = next++) {
      absl::Status s = work(i);
      if (s.ok()) continue;
      stop = true;
      const std::lock_guard lock(mutex);
      if (i < failed) failed = i, status = std::move(s);
    }
  };
  OnThreads(static_cast<int>(std::min<size_t>(static_cast<size_t>(std::max(threads, 1)), count)), run);
  return status;
}

}  // namespace slipway::quantizer
