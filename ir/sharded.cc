// Walking a tensor in row-major order over pieces of any layout. Runs of elements that are dense in the source are read
// at once; transposed layouts are read several columns at a time, so that each page of the source is touched once.
#include "ir/sharded.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <variant>

#include "base/text.h"
#include "io/file_access.h"

namespace slipway::ir {
namespace {

// Mapped memory is released when what was read spans so many bytes, but not for every few elements that lie far apart.
constexpr int64_t kMaxResident = int64_t{32} << 20, kLeastWork = int64_t{1} << 20;
constexpr int64_t kDenseStep = int64_t{1} << 20, kScatteredStep = int64_t{16} << 20;
constexpr int64_t kReadFrom = 512;  // bytes of a stretch among others from which on it is read, not mapped
constexpr uint64_t kMaxComparisons = 50'000'000;  // of pieces with each other

bool Overlap(const Piece& a, const Piece& b) {
  for (size_t d = 0; d < a.offsets.size(); ++d)
    if (a.offsets[d] >= b.offsets[d] + b.tensor.sizes[d] || b.offsets[d] >= a.offsets[d] + a.tensor.sizes[d])
      return false;
  return true;
}

std::string Place(const Piece& p) {
  return text::StrCat("the piece at [", text::Join(p.offsets, ","), "] of [", text::Join(p.tensor.sizes, ","), "]");
}

template <typename T>
void CopyAs(const uint8_t* from, int64_t from_stride, int64_t count, uint8_t* to, int64_t to_stride) {
  for (int64_t i = 0; i < count; ++i, from += from_stride, to += to_stride) std::memcpy(to, from, sizeof(T));
}

struct Sixteen {
  uint8_t bytes[16];
};

// Copies `count` elements that are `from_stride` bytes apart to places that are `to_stride` bytes apart.
void CopyElements(const uint8_t* from, int64_t from_stride, int64_t count, int64_t item, uint8_t* to,
                  int64_t to_stride) {
  if (from_stride == item && to_stride == item) {
    std::memcpy(to, from, static_cast<size_t>(count * item));
    return;
  }
  switch (item) {
    case 1: return CopyAs<uint8_t>(from, from_stride, count, to, to_stride);
    case 2: return CopyAs<uint16_t>(from, from_stride, count, to, to_stride);
    case 4: return CopyAs<uint32_t>(from, from_stride, count, to, to_stride);
    case 8: return CopyAs<uint64_t>(from, from_stride, count, to, to_stride);
    default: return CopyAs<Sixteen>(from, from_stride, count, to, to_stride);  // c128
  }
}

}  // namespace

ShardedTensor::ShardedTensor(TensorRef whole) : dtype(whole.dtype), sizes(whole.sizes) {
  std::vector<int64_t> offsets(whole.sizes.size(), 0);
  pieces.push_back({std::move(whole), std::move(offsets)});
}

ShardedTensor ShardedTensor::In(DType to) const {
  ShardedTensor out = *this;
  if (!derived || to == dtype) return out;
  if (auto values = derived->As(to)) out.derived = std::move(values), out.dtype = to;
  return out;
}

int64_t ShardedTensor::numel() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, [](int64_t a, int64_t b) { return a * b; });
}

absl::Status Validate(const ShardedTensor& t) {
  // The whole must be countable before anything is counted.
  int64_t bytes = std::max<int64_t>(BitSize(t.dtype), 1);
  const bool empty = std::find(t.sizes.begin(), t.sizes.end(), 0) != t.sizes.end();
  for (int64_t n : t.sizes) {
    if (n < 0) return absl::InvalidArgumentError("negative size");
    if (!empty && __builtin_mul_overflow(bytes, n, &bytes)) return absl::InvalidArgumentError("tensor size overflows");
  }
  if (t.pieces.size() > 1 && ByteSize(t.dtype) == 0)
    return absl::UnimplementedError(text::StrCat("pieces of ", Name(t.dtype)));
  if (t.derived) return absl::OkStatus();
  int64_t covered = 0;
  std::vector<const Piece*> order;
  for (const Piece& p : t.pieces) {
    if (p.tensor.dtype != t.dtype)
      return absl::InvalidArgumentError(
          text::StrCat(Place(p), " is ", Name(p.tensor.dtype), ", the tensor ", Name(t.dtype)));
    if (p.tensor.sizes.size() != t.sizes.size() || p.offsets.size() != t.sizes.size())
      return absl::InvalidArgumentError(text::StrCat(Place(p), " has another number of dimensions than the tensor"));
    for (size_t d = 0; d < t.sizes.size(); ++d)
      if (p.offsets[d] < 0 || p.tensor.sizes[d] < 0 || p.offsets[d] > t.sizes[d] ||
          p.tensor.sizes[d] > t.sizes[d] - p.offsets[d])
        return absl::InvalidArgumentError(
            text::StrCat(Place(p), " reaches outside the tensor of [", text::Join(t.sizes, ","), "]"));
    if (absl::Status s = Validate(p.tensor); !s.ok())
      return absl::Status(s.code(), text::StrCat(Place(p), ": ", text::FromAbsl(s.message())));
    const int64_t n = p.tensor.numel();
    if (n == 0) continue;
    if (__builtin_add_overflow(covered, n, &covered)) return absl::InvalidArgumentError("the pieces overlap");
    order.push_back(&p);
  }
  std::sort(order.begin(), order.end(), [](const Piece* a, const Piece* b) { return a->offsets < b->offsets; });
  uint64_t comparisons = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i + 1; j < order.size(); ++j) {
      if (!t.sizes.empty() && order[j]->offsets[0] >= order[i]->offsets[0] + order[i]->tensor.sizes[0]) break;
      if (++comparisons > kMaxComparisons)
        return absl::OutOfRangeError(text::StrCat("a tensor of ", order.size(), " pieces"));
      if (Overlap(*order[i], *order[j]))
        return absl::InvalidArgumentError(text::StrCat(Place(*order[i]), " and ", Place(*order[j]), " overlap"));
    }
  }
  const int64_t wanted = empty ? 0 : t.numel();
  if (covered != wanted)
    return absl::InvalidArgumentError(
        text::StrCat("the pieces leave a hole: they hold ", covered, " of ", wanted, " elements"));
  return absl::OkStatus();
}

absl::StatusOr<ShardedTensor> Narrow(const ShardedTensor& t, size_t dim, int64_t start, int64_t length) {
  ShardedTensor out;
  out.dtype = t.dtype;
  out.sizes = t.sizes;
  out.sizes[dim] = length;
  if (t.derived) {
    out.derived = NarrowValues(t.derived, t.dtype, t.sizes, dim, start, length);
    return out;
  }
  for (const Piece& p : t.pieces) {
    const int64_t from = std::max(start, p.offsets[dim]),
                  to = std::min(start + length, p.offsets[dim] + p.tensor.sizes[dim]);
    if (from >= to && t.pieces.size() > 1) continue;
    Piece part = p;
    part.offsets[dim] = std::max<int64_t>(from - start, 0);
    part.tensor.sizes[dim] = std::max<int64_t>(to - from, 0);
    // Elements of empty tensors lie nowhere.
    if (p.tensor.numel() > 0) {
      const int64_t bits = (from - p.offsets[dim]) * p.tensor.strides[dim] * BitSize(t.dtype);
      if (bits % 8 != 0 || (ByteSize(t.dtype) == 0 && !(part.tensor.is_contiguous() && p.tensor.is_contiguous())))
        return absl::UnimplementedError(
            text::StrCat("a part of a tensor of ", Name(t.dtype), " that begins within a byte"));
      part.tensor.offset += bits / 8;
    }
    out.pieces.push_back(std::move(part));
  }
  return out;
}

absl::StatusOr<ElementReader> ElementReader::Open(ShardedTensor t) {
  ElementReader r;
  r.tensor_ = std::move(t);
  r.item_ = ByteSize(r.tensor_.dtype);
  r.total_ = r.tensor_.numel();
  if (r.item_ == 0) {  // contiguous, as Validate() and Check() of the writers see to
    r.item_ = 1;
    r.total_ = r.tensor_.nbytes();
  }
  for (Piece& p : r.tensor_.pieces) {
    if (std::holds_alternative<Splat>(p.tensor.storage->bytes) ||
        std::holds_alternative<Random>(p.tensor.storage->bytes)) {
      auto bytes = ReadDense(p.tensor);
      if (!bytes.ok()) return bytes.status();
      p.tensor = OwnedTensor(p.tensor.dtype, p.tensor.sizes, *std::move(bytes));
    }
    Part part;
    part.data = MappedBytes(*p.tensor.storage).data() + p.tensor.offset;
    if (ByteSize(r.tensor_.dtype) == 0) {
      if (!p.tensor.is_contiguous()) return absl::UnimplementedError("a strided tensor of parts of bytes");
      part.sizes = {r.total_};
      part.strides = {1};
    } else {
      for (size_t d = 0; d < p.tensor.sizes.size(); ++d) {
        const int64_t n = p.tensor.sizes[d], stride = p.tensor.strides[d] * r.item_;
        if (n == 1) continue;
        if (!part.sizes.empty() && part.strides.back() == stride * n) {
          part.sizes.back() *= n;
          part.strides.back() = stride;
        } else {
          part.sizes.push_back(n);
          part.strides.push_back(stride);
        }
      }
      if (part.sizes.empty()) part.sizes = {1}, part.strides = {r.item_};
    }
    part.next = r.parts_.size() + 1;
    r.parts_.push_back(std::move(part));
  }
  if (!r.parts_.empty()) r.parts_.back().next = 0;
  return r;
}

int64_t ElementReader::step() const {
  if (tensor_.derived) return kDenseStep / item_;
  const bool dense = parts_.size() == 1 && parts_[0].sizes.size() == 1 && parts_[0].strides[0] == item_;
  return (dense ? kDenseStep : kScatteredStep) / item_;
}

// Finds the piece that holds the element at_ and how far it goes.
void ElementReader::StartSegment() {
  at_ += in_segment_;
  in_segment_ = 0;
  if (tensor_.pieces.size() == 1) {
    local_ = at_;
    segment_ = total_ - at_;
    return;
  }
  const size_t rank = tensor_.sizes.size();
  std::vector<int64_t> index(rank);
  for (size_t d = rank, rest = static_cast<size_t>(at_); d-- > 0; rest /= static_cast<size_t>(tensor_.sizes[d]))
    index[d] = static_cast<int64_t>(rest % static_cast<size_t>(tensor_.sizes[d]));
  const auto holds = [&](size_t i) {
    const Piece& p = tensor_.pieces[i];
    for (size_t d = 0; d < rank; ++d)
      if (index[d] < p.offsets[d] || index[d] >= p.offsets[d] + p.tensor.sizes[d]) return false;
    return true;
  };
  // Mostly the one that came next in the row before, or the one behind it.
  size_t found = parts_[part_].next;
  for (size_t tried = 0; !holds(found) && tried < parts_.size(); ++tried) found = (part_ + tried) % parts_.size();
  parts_[part_].next = found;
  part_ = found;
  const Piece& p = tensor_.pieces[found];
  // The piece's elements follow each other from the last dimension that it does not span.
  int64_t inner = 1;
  size_t d = rank;
  while (d > 0 && p.tensor.sizes[d - 1] == tensor_.sizes[d - 1]) inner *= tensor_.sizes[--d];
  segment_ = d == 0 ? inner : (p.offsets[d - 1] + p.tensor.sizes[d - 1] - index[d - 1]) * inner;
  local_ = 0;
  for (size_t i = 0; i < rank; ++i) local_ = local_ * p.tensor.sizes[i] + (index[i] - p.offsets[i]);
}

Run ElementReader::Peek() {
  if (tensor_.derived) return {};
  if (in_segment_ == segment_) {
    if (left() == 0) return {};
    StartSegment();
  }
  const Part& part = parts_[part_];
  const TensorRef& tensor = tensor_.pieces[part_].tensor;
  const int64_t linear = local_ + in_segment_;
  const size_t last = part.sizes.size() - 1;
  int64_t byte = 0, rest = linear / part.sizes[last];
  const int64_t column = linear % part.sizes[last];
  for (size_t d = last; d-- > 0; rest /= part.sizes[d]) byte += rest % part.sizes[d] * part.strides[d];
  byte += column * part.strides[last];
  Run run;
  run.count = std::min(segment_ - in_segment_, part.sizes[last] - column);
  run.stride = part.strides[last];
  run.data = part.data + byte;
  run.storage = tensor.storage.get();
  run.offset = tensor.offset + byte;
  return run;
}

// The bytes [from, from + size) of the storage of the part that is being read: in `to` or, where that is null, in a
// buffer, where reading them costs less than mapping their surroundings would (the kernel may map megabytes around a
// touched byte); otherwise where they lie.
const uint8_t* ElementReader::Fetch(int64_t from, int64_t size, uint8_t* to) {
  const TensorRef& tensor = tensor_.pieces[part_].tensor;
  const auto* bytes = std::get_if<io::Bytes>(&tensor.storage->bytes);
  if (const io::FileRange* range = bytes ? bytes->file_range() : nullptr; range && size >= kReadFrom) {
    if (to == nullptr) {
      fetched_.resize(static_cast<size_t>(size));
      to = fetched_.data();
    }
    if (io::ReadAt(*range->file, range->offset + static_cast<uint64_t>(from), static_cast<uint64_t>(size), to))
      return to;
  }
  Touch(part_, from, from + size, size);
  return parts_[part_].data + (from - tensor.offset);
}

void ElementReader::Touch(size_t i, int64_t from, int64_t to, int64_t bytes) {
  if (spanned_ >= kMaxResident && given_ >= kLeastWork) Release();
  Part& part = parts_[i];
  given_ += bytes;
  spanned_ -= part.touched_to - part.touched_from;
  part.touched_from = part.touched_to == 0 ? from : std::min(part.touched_from, from);
  part.touched_to = std::max(part.touched_to, to);
  spanned_ += part.touched_to - part.touched_from;
}

// Where elements that lie side by side are not the last dimension's (a transposed matrix): several of them are read at
// a time and dealt out to where they belong.
int64_t ElementReader::GatherTransposed(int64_t most, uint8_t* to) {
  if (in_segment_ == segment_) return 0;
  const Part& part = parts_[part_];
  const size_t rank = part.sizes.size();
  size_t dense = rank - 1;
  if (part.strides[dense] == item_) return 0;
  int64_t inner = 1;  // elements below the dense dimension
  while (part.strides[dense] != item_) {
    if (dense == 0 || __builtin_mul_overflow(inner, part.sizes[dense], &inner)) return 0;
    --dense;
  }
  const int64_t linear = local_ + in_segment_;
  if (linear % inner != 0) return 0;
  int64_t rest = linear / inner;
  const int64_t row = rest % part.sizes[dense];
  const int64_t rows = std::min({most / inner, (segment_ - in_segment_) / inner, part.sizes[dense] - row});
  if (rows < 2) return 0;
  int64_t byte = row * item_;
  rest /= part.sizes[dense];
  for (size_t d = dense; d-- > 0; rest /= part.sizes[d]) byte += rest % part.sizes[d] * part.strides[d];
  const int64_t base = tensor_.pieces[part_].tensor.offset;
  std::vector<int64_t> index(rank, 0);
  for (int64_t i = 0; i < inner; ++i) {
    CopyElements(Fetch(base + byte, rows * item_, nullptr), item_, rows, item_, to + i * item_, inner * item_);
    for (size_t d = rank; d-- > dense + 1;) {
      byte += part.strides[d];
      if (++index[d] < part.sizes[d]) break;
      byte -= part.sizes[d] * part.strides[d];
      index[d] = 0;
    }
  }
  in_segment_ += rows * inner;
  return rows * inner;
}

// Computes a window of values when the one before has been given.
absl::Span<const uint8_t> ElementReader::NextDerived(int64_t most) {
  const DerivedValues& values = *tensor_.derived;
  const int64_t step = std::max<int64_t>(values.step(), 1);
  for (int64_t done = 0; done < most;) {
    const int64_t at = at_ + done;
    if (at >= window_ + in_window_ || at < window_) {
      window_ = at / step * step;
      in_window_ = std::min(step, total_ - window_);
      fetched_.resize(static_cast<size_t>(in_window_ * item_));
      values.Read(window_, in_window_, fetched_.data());
    }
    const int64_t n = std::min(most - done, window_ + in_window_ - at);
    const uint8_t* from = fetched_.data() + (at - window_) * item_;
    if (n == most) {
      at_ += n;
      return {from, static_cast<size_t>(n * item_)};
    }
    gathered_.resize(static_cast<size_t>(most * item_));
    std::memcpy(gathered_.data() + done * item_, from, static_cast<size_t>(n * item_));
    done += n;
  }
  at_ += most;
  return gathered_;
}

absl::Span<const uint8_t> ElementReader::NextDense(int64_t most) {
  most = std::min(most, left());
  if (most <= 0) return {};
  if (tensor_.derived) return NextDerived(most);
  for (int64_t done = 0; done < most;) {
    Peek();
    if (done == 0 && segment_ - in_segment_ >= most && parts_[part_].sizes.size() == 1 &&
        parts_[part_].strides[0] == item_) {
      const Run run = Peek();
      Touch(part_, run.offset, run.offset + most * item_, most * item_);
      Skip(most);
      return absl::MakeConstSpan(run.data, static_cast<size_t>(most * item_));
    }
    gathered_.resize(static_cast<size_t>(most * item_));
    if (const int64_t n = GatherTransposed(most - done, gathered_.data() + done * item_); n > 0) {
      done += n;
      continue;
    }
    Run run = Peek();
    run.count = std::min(run.count, most - done);
    uint8_t* to = gathered_.data() + done * item_;
    if (run.stride == item_) {
      if (const uint8_t* at = Fetch(run.offset, run.count * item_, to); at != to)
        std::memcpy(to, at, static_cast<size_t>(run.count * item_));
    } else {
      Touch(part_, run.offset, run.offset + (run.count - 1) * run.stride + item_, run.count * item_);
      CopyElements(run.data, run.stride, run.count, item_, to, item_);
    }
    Skip(run.count);
    done += run.count;
  }
  return gathered_;
}

void ElementReader::Release() {
  spanned_ = given_ = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.touched_to == 0) continue;
    const auto* bytes = std::get_if<io::Bytes>(&tensor_.pieces[i].tensor.storage->bytes);
    if (const io::FileRange* range = bytes ? bytes->file_range() : nullptr)
      range->file->Release(range->offset + static_cast<uint64_t>(part.touched_from),
                           static_cast<uint64_t>(part.touched_to - part.touched_from));
    part.touched_from = part.touched_to = 0;
  }
}

}  // namespace slipway::ir
