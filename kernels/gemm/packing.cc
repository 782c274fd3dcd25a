// Packing and unpacking, and whether a step of a plan reads a constant as one whole matrix (CanUsePacked), which the
// planner asks to choose what is packed and Executable::Validate to check what a file says.
#include "kernels/gemm/packing.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/conv/filters.h"

namespace slipway::kernels {
namespace {

template <typename T>
void Pack(const T* from, int64_t row, int64_t column, int64_t k, int64_t n, T* to) {
  if (n < kPanel) std::fill_n(to, k * kPanel, T(0));
  if (row == 1) {  // rows of memory go down the panel: some of them together, so that both sides stay in the cache
    constexpr int64_t kRun = 16;
    for (int64_t p = 0; p < k; p += kRun)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = p; i < std::min(k, p + kRun); ++i) to[i * kPanel + j] = from[j * column + i];
    return;
  }
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < n; ++j) to[p * kPanel + j] = from[p * row + j * column];
}

template <typename T>
void Unpack(const T* from, int64_t k, int64_t n, T* to, int64_t row, int64_t column) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t p = 0; p < k; ++p) to[p * row + j * column] = from[(j / kPanel * k + p) * kPanel + j % kPanel];
}

bool IsNibbles(Packing p) { return p == Packing::kNr16Int4 || p == Packing::kNr16UInt4; }
bool IsByte(DType t) { return t == DType::kI8 || t == DType::kU8; }

// How much larger than the integer what is stored of it is.
int Shift(DType dtype, Packing packing) {
  switch (packing) {
    case Packing::kNr16: return dtype == DType::kU8 ? -128 : 0;
    case Packing::kNr16K4: return dtype == DType::kI8 ? 128 : 0;
    case Packing::kNr16Int4: return 8;
    default: return 0;
  }
}

// Rows of a column that are stored together, and the bytes of these for all columns of a panel.
constexpr int64_t kQuad = 4, kOctet = 8, kUnitBytes = 4 * kPanel;

// Adding 128 to a byte, or 8 to half of one, turns its highest bit: so `shift` is added to four bytes at once.
uint32_t Four(const uint8_t* from, int64_t row, int shift) {
  uint32_t x;
  if (row == 1) {
    std::memcpy(&x, from, 4);
  } else {
    const uint8_t bytes[4] = {from[0], from[row], from[2 * row], from[3 * row]};
    std::memcpy(&x, bytes, 4);
  }
  return x ^ static_cast<uint32_t>(shift) * 0x01010101u;
}
// Eight neighbours as four bytes of two nibbles.
uint32_t Eight(const uint8_t* from, uint64_t shift) {
  uint64_t x;
  std::memcpy(&x, from, 8);
  x = (x ^ shift) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<uint32_t>(x | x >> 28);
}
// The octets of a full panel whose columns are contiguous, which is what linear layers have. Some columns together, so
// that what is stored is dense and what is loaded stays in the first-level cache at any stride.
void PackContiguousOctets(const uint8_t* from, int64_t column, int64_t octets, int shift, uint8_t* to) {
  constexpr int64_t kTogether = 8;
  const uint64_t shifts = static_cast<uint64_t>(shift) * 0x0101010101010101u;
  for (int64_t j = 0; j < kPanel; j += kTogether)
    for (int64_t p = 0; p < octets; ++p)
      for (int64_t i = j; i < j + kTogether; ++i) {
        const uint32_t word = Eight(from + i * column + p * kOctet, shifts);
        std::memcpy(to + p * kUnitBytes + i * kQuad, &word, 4);
      }
}
// A panel of quads or nibbles.
void PackUnits(const uint8_t* from, int64_t row, int64_t column, int64_t k, int64_t n, int shift, bool nibbles,
               uint8_t* to) {
  const int64_t unit = nibbles ? kOctet : kQuad;
  if (nibbles && row == 1 && n == kPanel && k % kOctet == 0)
    return PackContiguousOctets(from, column, k / kOctet, shift, to);
  std::fill_n(to, (k + unit - 1) / unit * kUnitBytes, uint8_t{0});
  for (int64_t j = 0; j < n; ++j, from += column, to += kQuad) {
    int64_t p = 0;
    uint8_t* at = to;
    for (; p + unit <= k; p += unit, at += kUnitBytes) {
      uint32_t word = Four(from + p * row, row, shift);
      if (nibbles) word = (word & 0x0f0f0f0fu) | (Four(from + (p + kQuad) * row, row, shift) & 0x0f0f0f0fu) << 4;
      std::memcpy(at, &word, 4);
    }
    for (; p < k; ++p) {
      const int x = from[p * row] ^ shift;
      uint8_t& byte = at[p % kQuad];
      byte = static_cast<uint8_t>(byte | (!nibbles ? x : p % kOctet < kQuad ? x & 15 : (x & 15) << 4));
    }
  }
}
// The stored integer of row p of a panel's column.
int StoredAt(const uint8_t* panel, int64_t p, int64_t column, bool nibbles) {
  if (!nibbles) return panel[p / kQuad * kUnitBytes + column * kQuad + p % kQuad];
  const int byte = panel[p / kOctet * kUnitBytes + column * kQuad + p % kQuad];
  return p % kOctet < kQuad ? byte & 15 : byte >> 4;
}

}  // namespace

// CanUsePacked for the weights [o, c / groups, 1, height, width] of a convolution, where the step's result has channels
// last, as far as the plan can tell (`taps` not set), and for those of a transposed one, [c, o, 1, height, width].
static bool TakesFilters(const Plan& p, const Step& s, int operand, bool taps, WeightMatrix* m) {
  const View& v = p.views[s.first_view + operand];
  const int32_t groups_at = s.kernel->groups_at[operand];
  const bool halves = IsHalf(v.dtype) && !taps;
  if ((v.dtype != DType::kF32 && !halves) || s.compute != v.dtype || v.rank != 5 || s.ints <= groups_at ||
      s.outputs != 1)
    return false;
  const Buffer& b = p.buffers[v.buffer];
  auto known = [&](int32_t e) { return p.exprs[e].op == Expr::kInt; };
  auto value = [&](int32_t e) { return p.exprs[e].value; };
  const int32_t *sizes = p.dims.data() + v.first_dim, *strides = sizes + v.rank;
  if (b.kind != Buffer::kConstant || !known(v.offset) || value(v.offset) != 0 || !known(b.bytes)) return false;
  int64_t step = 1;
  for (int d = v.rank - 1; d >= 0; --d) {
    if (!known(sizes[d]) || !known(strides[d]) || value(sizes[d]) < 1 ||
        (value(sizes[d]) != 1 && value(strides[d]) != step) || __builtin_mul_overflow(step, value(sizes[d]), &step))
      return false;
  }
  const View &x = p.views[s.first_view], &out = p.views[s.first_view + s.inputs];
  if (value(sizes[2]) != 1 || ((taps || halves) && x.dtype != v.dtype) || out.rank != 5 || out.dtype != v.dtype)
    return false;
  int64_t groups = 1;
  if (groups_at >= 0) {
    const int32_t e = p.numbers[s.first_number + groups_at];
    if (!known(e) || value(e) < 1 || value(sizes[0]) % value(e) != 0) return false;
    groups = value(e);
  }
  const int64_t rest = step / value(sizes[0]), outs = taps ? value(sizes[1]) : value(sizes[0]);
  const int64_t of_taps = value(sizes[3]) * value(sizes[4]);
  const int32_t* of = p.dims.data() + out.first_dim;
  const bool last =
      known(of[1]) && known(of[5 + 1]) && value(of[5 + 1]) == 1 && known(of[5 + 4]) && value(of[5 + 4]) >= value(of[1]);
  if (taps) {
    if (groups != 1 || outs < MinTransposedOutputChannels(!last)) return false;
    *m = {DType::kF32, value(sizes[0]), rest, rest, 1, Packing::kTransposedConvFilters, 1, of_taps};
  } else {
    if (!last) return false;
    *m = {v.dtype, rest, outs, 1, rest, Packing::kConvFilters, groups, of_taps};
  }
  int64_t bytes;
  return !__builtin_mul_overflow(step, int64_t{ByteSize(v.dtype)}, &bytes) && bytes == value(b.bytes) &&
         PackedBytes(*m) >= 0;
}

bool CanUsePacked(const Plan& p, const Step& s, int operand, Packing packing, WeightMatrix* m) {
  if (s.kind != Step::kKernel || s.kernel == nullptr || operand < 0 || operand >= s.inputs ||
      operand >= static_cast<int>(std::size(s.kernel->packed)))
    return false;
  const View& v = p.views[s.first_view + operand];
  const Packable takes = s.kernel->packed[operand];
  for (auto [form, of] :
       {std::pair{Packing::kConvFilters, Packable::kFilters}, {Packing::kTransposedConvFilters, Packable::kTaps}})
    if (packing == form || takes == of)
      return packing == form && takes == of && TakesFilters(p, s, operand, form == Packing::kTransposedConvFilters, m);
  const bool byte = IsByte(v.dtype) || (IsFloat8(v.dtype) && packing == Packing::kNr16K4);
  if (packing == Packing::kNr16) {
    const bool wide = v.dtype == DType::kF32 || v.dtype == DType::kBF16 || v.dtype == DType::kF16;
    if (!(wide && (takes == Packable::kFloats || takes == Packable::kFloatsAndBytes)) &&
        !(byte && takes == Packable::kFloatsAndBytes))
      return false;
  } else if (!byte ||
             (takes != Packable::kBytesAndNibbles && !(takes == Packable::kBytes && packing == Packing::kNr16K4))) {
    return false;
  }
  const Buffer& b = p.buffers[v.buffer];
  auto known = [&](int32_t e) { return p.exprs[e].op == Expr::kInt; };
  auto value = [&](int32_t e) { return p.exprs[e].value; };
  const int32_t *sizes = p.dims.data() + v.first_dim, *strides = sizes + v.rank;
  if (b.kind != Buffer::kConstant || v.rank < 2 || !known(v.offset) || value(v.offset) != 0) return false;
  for (int d = 0; d < v.rank; ++d) {
    const bool matrix = d >= v.rank - 2;
    if (!known(strides[d]) || (matrix ? !known(sizes[d]) : value(strides[d]) != 0)) return false;
  }
  // Sums of what is narrower than f32 are f32, of its elements as they are.
  if (ComputeType(s.compute) != DType::kF32 || (v.dtype != s.compute && s.compute != DType::kF32)) return false;
  *m = {v.dtype,
        value(sizes[v.rank - 2]),
        value(sizes[v.rank - 1]),
        value(strides[v.rank - 2]),
        value(strides[v.rank - 1]),
        packing};
  int64_t bytes;
  return m->k > 0 && m->n > 0 && ((m->row == 1 && m->column == m->k) || (m->row == m->n && m->column == 1)) &&
         !__builtin_mul_overflow(m->k, m->n, &bytes) &&
         !__builtin_mul_overflow(bytes, int64_t{ByteSize(v.dtype)}, &bytes) && known(b.bytes) &&
         bytes == value(b.bytes);
}

bool FitsPacking(const void* integers, DType dtype, int64_t n, Packing packing) {
  if (!IsNibbles(packing)) return true;
  if (!IsByte(dtype)) return false;
  const auto [low, high] = NibbleRange(packing);
  auto all = [&, low = low, high = high](const auto* x) {
    return std::all_of(x, x + n, [&](int v) { return v >= low && v <= high; });
  };
  return dtype == DType::kI8 ? all(static_cast<const int8_t*>(integers)) : all(static_cast<const uint8_t*>(integers));
}

int64_t PanelBytes(int64_t k, int64_t n, DType dtype, Packing packing) {
  int64_t rows, bytes, columns;
  const int64_t unit = IsNibbles(packing) ? kOctet : packing == Packing::kNr16K4 ? kQuad : 1;
  if (k < 0 || n < 0 || __builtin_add_overflow(n, kPanel - 1, &columns) || __builtin_add_overflow(k, unit - 1, &rows) ||
      __builtin_mul_overflow(columns / kPanel * kPanel, rows / unit * (unit == 1 ? ByteSize(dtype) : kQuad), &bytes))
    return -1;
  return bytes;
}

void PackPanels(const MatrixRef& m, int64_t k, int64_t n, int64_t first, int64_t last, void* to, Packing packing) {
  const int64_t bytes = PanelBytes(k, kPanel, m.dtype, packing);
  const int shift = Shift(m.dtype, packing);
  for (int64_t panel = first; panel < last; ++panel, to = static_cast<char*>(to) + bytes) {
    const int64_t j = panel * kPanel, columns = std::min(kPanel, n - j);
    auto pack = [&]<typename T>(T) {
      Pack(static_cast<const T*>(m.data) + j * m.column, m.row, m.column, k, columns, static_cast<T*>(to));
    };
    const uint8_t* from = static_cast<const uint8_t*>(m.data) + j * m.column;  // of bytes
    if (IsNibbles(packing) || packing == Packing::kNr16K4) {
      PackUnits(from, m.row, m.column, k, columns, shift, IsNibbles(packing), static_cast<uint8_t*>(to));
    } else if (ByteSize(m.dtype) == 4) {
      pack(uint32_t{});
    } else if (ByteSize(m.dtype) == 2) {
      pack(uint16_t{});
    } else {
      pack(uint8_t{});
      if (shift != 0)
        std::for_each_n(static_cast<uint8_t*>(to), bytes, [&](uint8_t& x) { x = static_cast<uint8_t>(x + shift); });
    }
  }
}

int64_t Panels(const WeightMatrix& m) {
  if (m.packing == Packing::kConvFilters) return FiltersOf(m).panels();
  return m.packing == Packing::kTransposedConvFilters ? m.taps * PanelsPerElement(m.n / m.taps)
                                                      : (m.n - 1) / kPanel + 1;
}
int64_t PanelBytes(const WeightMatrix& m) {
  // An odd channel of each tap is filled up.
  int64_t rows = m.k;
  if (m.packing == Packing::kConvFilters && m.dtype == DType::kBF16 &&
      __builtin_mul_overflow(FiltersOf(m).filled_channels(), m.taps, &rows))
    return -1;
  return PanelBytes(rows, kPanel, m.dtype, m.packing);
}
int64_t PackedBytes(const WeightMatrix& m) {
  int64_t bytes;
  return m.k < 1 || m.n < 1 || PanelBytes(m) < 0 || __builtin_mul_overflow(PanelBytes(m), Panels(m), &bytes) ? -1
                                                                                                             : bytes;
}
void PackPanels(const void* from, const WeightMatrix& m, int64_t first, int64_t last, void* to) {
  if (m.packing == Packing::kConvFilters && IsHalf(m.dtype))
    return PackFilters(static_cast<const uint16_t*>(from), FiltersOf(m), first, last, static_cast<uint16_t*>(to));
  if (m.packing == Packing::kConvFilters)
    return PackFilters(static_cast<const float*>(from), FiltersOf(m), first, last, static_cast<float*>(to));
  if (m.packing == Packing::kTransposedConvFilters)
    return PackTransposedFilters(static_cast<const float*>(from), m.k, m.n / m.taps, m.taps, first, last,
                                 static_cast<float*>(to));
  PackPanels({from, m.dtype, m.row, m.column}, m.k, m.n, first, last, to, m.packing);
}
void UnpackPanels(const void* panels, const WeightMatrix& m, void* to) {
  if (m.packing == Packing::kConvFilters && IsHalf(m.dtype))
    return UnpackFilters(static_cast<const uint16_t*>(panels), FiltersOf(m), static_cast<uint16_t*>(to));
  if (m.packing == Packing::kConvFilters)
    return UnpackFilters(static_cast<const float*>(panels), FiltersOf(m), static_cast<float*>(to));
  if (m.packing == Packing::kTransposedConvFilters)
    return UnpackTransposedFilters(static_cast<const float*>(panels), m.k, m.n / m.taps, m.taps,
                                   static_cast<float*>(to));
  UnpackPanels(panels, m.dtype, m.k, m.n, to, m.row, m.column, m.packing);
}

void UnpackPanels(const void* panels, DType dtype, int64_t k, int64_t n, void* to, int64_t row, int64_t column,
                  Packing packing) {
  auto unpack = [&]<typename T>(T) { Unpack(static_cast<const T*>(panels), k, n, static_cast<T*>(to), row, column); };
  if (ByteSize(dtype) == 4) return unpack(uint32_t{});
  if (ByteSize(dtype) == 2) return unpack(uint16_t{});
  const int shift = Shift(dtype, packing);
  const bool nibbles = IsNibbles(packing), quads = packing == Packing::kNr16K4;
  const int64_t bytes = PanelBytes(k, kPanel, dtype, packing);
  auto* out = static_cast<uint8_t*>(to);
  for (int64_t j = 0; j < n; ++j) {
    const uint8_t* panel = static_cast<const uint8_t*>(panels) + j / kPanel * bytes;
    for (int64_t p = 0; p < k; ++p) {
      const int x = nibbles || quads ? StoredAt(panel, p, j % kPanel, nibbles) : panel[p * kPanel + j % kPanel];
      out[p * row + j * column] = static_cast<uint8_t>(x - shift);
    }
  }
}

}  // namespace slipway::kernels
