// Tensor references: size arithmetic and reading small ones.
#include "ir/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "base/floats.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace slipway::ir {

int64_t TensorRef::numel() const {
  int64_t n = 1;
  for (int64_t s : sizes)
    if (s == 0) return 0;  // whatever the others are: their product may not fit
  for (int64_t s : sizes) n *= s;
  return n;
}

std::vector<int64_t> ContiguousStrides(absl::Span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    // Of sizes whose product does not fit, the strides are what Validate() refuses.
    if (sizes[i] > 1 && __builtin_mul_overflow(step, sizes[i], &step)) step = std::numeric_limits<int64_t>::max();
  }
  return strides;
}

bool TensorRef::is_contiguous() const {
  int64_t step = 1;
  for (int64_t s : sizes)
    if (s == 0) return true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= sizes[i];
  }
  return true;
}

absl::Status Validate(const TensorRef& t) {
  if (!t.storage) return absl::InvalidArgumentError("tensor without storage");
  if (t.dtype == DType::kUnknown) return absl::InvalidArgumentError("tensor of unknown dtype");
  if (t.sizes.size() != t.strides.size())
    return absl::InvalidArgumentError(
        text::StrCat("tensor with ", t.sizes.size(), " sizes and ", t.strides.size(), " strides"));
  if (t.sizes.size() > 64) return absl::InvalidArgumentError("tensor of more than 64 dimensions");
  int64_t numel = 1, last = 0;
  bool empty = false;
  for (size_t i = 0; i < t.sizes.size(); ++i) {
    if (t.sizes[i] < 0 || t.strides[i] < 0) return absl::InvalidArgumentError("negative size or stride");
    if (t.sizes[i] == 0) empty = true;
  }
  for (size_t i = 0; i < t.sizes.size() && !empty; ++i) {
    int64_t reach;
    if (__builtin_mul_overflow(numel, t.sizes[i], &numel) ||
        __builtin_mul_overflow(t.sizes[i] - 1, t.strides[i], &reach) || __builtin_add_overflow(last, reach, &last))
      return absl::InvalidArgumentError("tensor size overflows");
  }
  if (t.offset < 0) return absl::InvalidArgumentError("negative storage offset");
  if (empty) return absl::OkStatus();
  int64_t bits;
  if (__builtin_mul_overflow(numel, BitSize(t.dtype), &bits))
    return absl::InvalidArgumentError("tensor size overflows");
  int64_t end;
  if (__builtin_add_overflow(last, 1, &end) || __builtin_mul_overflow(end, BitSize(t.dtype), &end) ||
      __builtin_add_overflow(end, 7, &end))
    return absl::InvalidArgumentError("tensor size overflows");
  end /= 8;
  if (__builtin_add_overflow(end, t.offset, &end)) return absl::InvalidArgumentError("tensor size overflows");
  if (static_cast<uint64_t>(end) > t.storage->size)
    return absl::InvalidArgumentError(
        text::StrCat("tensor reaches byte ", end, " of a storage of ", t.storage->size, " bytes"));
  return absl::OkStatus();
}

TensorRef OwnedTensor(DType dtype, std::vector<int64_t> sizes, std::string bytes) {
  TensorRef t;
  auto s = std::make_shared<Storage>();
  s->size = bytes.size();
  s->bytes = io::Bytes::Of(std::move(bytes));
  t.storage = std::move(s);
  t.dtype = dtype;
  t.strides = ContiguousStrides(sizes);
  t.sizes = std::move(sizes);
  return t;
}

absl::Span<const uint8_t> MappedBytes(const Storage& s) {
  if (auto b = std::get_if<io::Bytes>(&s.bytes)) return b->data();
  return {};
}

namespace {

// Stores `value` as one element of `dtype`. Only the dtypes a rule can fill.
absl::Status StoreElement(DType dtype, double value, char* out) {
  auto put = [&](auto x) { std::memcpy(out, &x, sizeof x); };
  switch (dtype) {
    case DType::kFloat32: put(static_cast<float>(value)); return absl::OkStatus();
    case DType::kFloat64: put(value); return absl::OkStatus();
    case DType::kBFloat16: put(BF16(static_cast<float>(value))); return absl::OkStatus();
    case DType::kFloat16: put(F16(static_cast<float>(value))); return absl::OkStatus();
    case DType::kInt64: put(static_cast<int64_t>(value)); return absl::OkStatus();
    case DType::kInt32: put(static_cast<int32_t>(value)); return absl::OkStatus();
    case DType::kInt16: put(static_cast<int16_t>(value)); return absl::OkStatus();
    case DType::kInt8: put(static_cast<int8_t>(value)); return absl::OkStatus();
    case DType::kUInt8: put(static_cast<uint8_t>(value)); return absl::OkStatus();
    case DType::kBool: put(static_cast<uint8_t>(value != 0)); return absl::OkStatus();
    default: return absl::UnimplementedError(text::StrCat("a rule cannot fill ", Name(dtype)));
  }
}

uint64_t SplitMix(uint64_t& s) {
  uint64_t z = (s += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

absl::StatusOr<std::string> ReadDense(const TensorRef& t, uint64_t limit) {
  if (absl::Status s = Validate(t); !s.ok()) return s;
  uint64_t n = t.nbytes();
  if (n > limit) return absl::ResourceExhaustedError(text::StrCat("tensor of ", n, " bytes"));
  std::string out(n, '\0');
  if (n == 0) return out;
  int64_t esize = ByteSize(t.dtype);
  if (std::holds_alternative<Splat>(t.storage->bytes) || std::holds_alternative<Random>(t.storage->bytes)) {
    const Splat* splat = std::get_if<Splat>(&t.storage->bytes);
    if (splat && splat->value == 0 && !std::signbit(splat->value)) return out;  // of any dtype
    if (esize == 0) return absl::UnimplementedError("a rule cannot fill a sub-byte dtype");
    uint64_t state = splat ? 0 : std::get<Random>(t.storage->bytes).seed;
    for (int64_t i = 0; i < t.numel(); ++i) {
      double v;
      if (splat) {
        v = splat->value;
      } else if (IsFloating(t.dtype)) {  // Box-Muller
        double u = (SplitMix(state) >> 11) * 0x1p-53, w = (SplitMix(state) >> 11) * 0x1p-53;
        v = std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * w);
      } else {
        v = static_cast<double>(SplitMix(state) % (IsBool(t.dtype) ? 2 : 10));
      }
      if (absl::Status s = StoreElement(t.dtype, v, out.data() + i * esize); !s.ok()) return s;
    }
    return out;
  }
  absl::Span<const uint8_t> src = MappedBytes(*t.storage);
  if (t.is_contiguous()) {
    std::memcpy(out.data(), src.data() + t.offset, n);
    return out;
  }
  if (esize == 0) return absl::UnimplementedError("strided sub-byte tensor");
  std::vector<int64_t> index(t.sizes.size(), 0);
  char* dst = out.data();
  const int64_t numel = t.numel();
  const int last = static_cast<int>(t.sizes.size()) - 1;
  for (int64_t done = 0; done < numel;) {
    int64_t base = t.offset;
    for (int d = 0; d < last; ++d) base += index[d] * t.strides[d] * esize;
    for (int64_t i = 0; i < t.sizes[last]; ++i, dst += esize)
      std::memcpy(dst, src.data() + base + i * t.strides[last] * esize, esize);
    done += t.sizes[last];
    for (int d = last - 1; d >= 0 && ++index[d] == t.sizes[d]; --d) index[d] = 0;
  }
  return out;
}

absl::StatusOr<std::vector<double>> ReadNumbers(const TensorRef& t) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadDense(t));
  const auto read = [&]<typename T>(T x) {
    std::vector<double> numbers(bytes.size() / sizeof x);
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
      numbers[i] = static_cast<double>(x);
    }
    return numbers;
  };
  switch (t.dtype) {
    case DType::kFloat32: return read(float{});
    case DType::kFloat64: return read(double{});
    case DType::kBFloat16: return read(BF16{});
    case DType::kFloat16: return read(F16{});
    case DType::kInt64: return read(int64_t{});
    case DType::kInt32: return read(int32_t{});
    case DType::kInt16: return read(int16_t{});
    case DType::kInt8: return read(int8_t{});
    case DType::kUInt8:
    case DType::kBool: return read(uint8_t{});
    default: return absl::UnimplementedError(text::StrCat("numbers of ", Name(t.dtype)));
  }
}

}  // namespace slipway::ir
