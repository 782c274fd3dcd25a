// Lists and matrices of a few integers.
#include "importers/onnx/lowerings/elements.h"

#include <algorithm>

namespace slipway::importers::onnx_in {

bool IsConstant(const Elements& e) {
  return std::all_of(e.values.begin(), e.values.end(), [](const IntOrValue& x) { return x.value == nullptr; });
}

std::optional<Elements> Reshaped(const Elements& e, const Ints& shape) {
  const auto count = static_cast<int64_t>(e.values.size());
  if (shape.size() > 2) return std::nullopt;
  Ints sizes = shape;
  int64_t known = 1;
  int open = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) {
      if (e.scalar || d > (e.columns > 0 ? 1u : 0u) || count == 0) return std::nullopt;
      sizes[d] = d == 1 ? e.columns : e.columns > 0 ? count / e.columns : count;
    }
    if (sizes[d] == -1) {
      if (open >= 0) return std::nullopt;
      open = static_cast<int>(d);
    } else if (sizes[d] < 1 || sizes[d] > count) {
      return std::nullopt;
    } else {
      known *= sizes[d];
    }
  }
  if (open >= 0) {
    if (count % known != 0) return std::nullopt;
    sizes[static_cast<size_t>(open)] = count / known;
  } else if (known != count) {
    return std::nullopt;
  }
  Elements out = e;
  out.scalar = sizes.empty();
  out.columns = sizes.size() == 2 ? sizes[1] : 0;
  if (sizes.size() == 2 && sizes[1] < 1) return std::nullopt;
  return out;
}

Elements Transposed(const Elements& e) {
  if (e.columns == 0) return e;
  Elements out = e;
  const int64_t rows = static_cast<int64_t>(e.values.size()) / e.columns;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < e.columns; ++k)
      out.values[static_cast<size_t>(k * rows + r)] = e.values[static_cast<size_t>(r * e.columns + k)];
  out.columns = rows;
  return out;
}

std::optional<Elements> Sliced(const Elements& e, int64_t axis, int64_t start, int64_t end, int64_t step) {
  const int rank = e.scalar ? 0 : e.columns > 0 ? 2 : 1;
  if (axis < -rank || axis >= rank) return std::nullopt;
  if (axis < 0) axis += rank;
  if (rank == 2 && axis == 1) {
    const auto part = Sliced(Transposed(e), 0, start, end, step);
    return part && !part->values.empty() ? std::optional<Elements>(Transposed(*part)) : std::nullopt;
  }
  const auto width = std::max<int64_t>(e.columns, 1), n = static_cast<int64_t>(e.values.size()) / width;
  const auto from_front = [&](int64_t i) { return i < 0 ? (i < -n ? -1 : i + n) : i; };
  int64_t i = std::clamp<int64_t>(from_front(start), step < 0 ? -1 : 0, step < 0 ? n - 1 : n);
  const int64_t stop = std::clamp<int64_t>(from_front(end), step < 0 ? -1 : 0, n);
  Elements out{.dtype = e.dtype, .columns = e.columns};
  for (; step > 0 ? i < stop : i > stop; i += step)
    for (int64_t k = 0; i >= 0 && k < width; ++k) out.values.push_back(e.values[static_cast<size_t>(i * width + k)]);
  if (e.columns > 0 && out.values.empty()) return std::nullopt;
  return out;
}

}  // namespace slipway::importers::onnx_in
