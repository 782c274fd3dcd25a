// The loop over a weight's rows. Memory is what a chunk needs, the scales, and what the scheme keeps of them.
#include "quantizer/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"

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

absl::StatusOr<Error> QuantizeWeight(const ir::ShardedTensor& w, Scheme& scheme, bool codes_as_they_are, const PartSink& sink) {
  const int64_t k = scheme.shape().k;
  scheme.Start();
  const absl::Cleanup finish = [&] { scheme.Finish(); };
  if (scheme.observes()) {
    ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(w));
    int64_t row = 0;
    for (absl::Span<const float> rows = reader.Next(); !rows.empty(); rows = reader.Next()) {
      const int64_t count = static_cast<int64_t>(rows.size()) / k;
      scheme.Observe(rows.data(), row, count);
      row += count;
    }
    scheme.Settle();
  }
  ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(w));
  std::vector<int8_t> codes;
  std::vector<float> numbers;
  std::vector<uint8_t> packed;
  ErrorSums sums;
  int64_t row = 0;
  for (absl::Span<const float> rows = reader.Next(); !rows.empty(); rows = reader.Next()) {
    const int64_t count = static_cast<int64_t>(rows.size()) / k;
    codes.resize(rows.size());
    numbers.resize(rows.size());
    if (!scheme.Quantize(rows.data(), row, count, codes.data(), numbers.data()))
      return absl::InvalidArgumentError("the weight has infinities or NaN, of which no scale can be made");
    BestLoops().errors(rows.data(), numbers.data(), static_cast<int64_t>(rows.size()), &sums);
    const auto* bytes = reinterpret_cast<const uint8_t*>(codes.data());
    if (codes_as_they_are) {
      RETURN_IF_ERROR(sink(0, static_cast<uint64_t>(row * k), {bytes, codes.size()}));
    } else {
      packed.resize(static_cast<size_t>(count * scheme.packed_row()));
      scheme.Pack(codes.data(), count, packed.data());
      RETURN_IF_ERROR(sink(0, static_cast<uint64_t>(row * scheme.packed_row()), packed));
    }
    row += count;
  }
  for (size_t i = 1; i < scheme.parts().size(); ++i) {
    const std::string values = scheme.Values(i);
    RETURN_IF_ERROR(sink(i, 0, {reinterpret_cast<const uint8_t*>(values.data()), values.size()}));
  }
  return Error{sums.reference > 0 ? std::sqrt(sums.difference / sums.reference) : 0, sums.max};
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
  std::vector<std::thread> others;
  for (int t = 1; t < threads && static_cast<size_t>(t) < count; ++t) others.emplace_back(run);
  run();
  for (std::thread& t : others) t.join();
  return status;
}

}  // namespace slipway::quantizer
