// Each operator is a rule that says where the elements of its result come from. A rule that meets what it does not
// expect (a size that disagrees, an index out of range) gives nothing, and the node stays.
#include "exporters/onnx/fold.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "ir/dtype.h"

namespace slipway::exporters::onnx_out {
namespace {

using Operands = std::vector<const Known*>;

// The number of elements; -1 where it is too large for a result of that type.
int64_t Count(const Ints& dims, DType t) {
  int64_t n = 1;
  for (int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(n, d, &n) || n > kMostFolded) return -1;
  return n * ir::ByteSize(t) > kMostFolded ? -1 : n;
}

Ints Strides(const Ints& dims) {
  Ints strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

std::optional<Ints> Integers(const Known* k) {
  if (!k || k->dtype != DType::kInt64) return std::nullopt;
  Ints out(k->bytes.size() / sizeof(int64_t));
  if (!out.empty()) std::memcpy(out.data(), k->bytes.data(), out.size() * sizeof(int64_t));
  return out;
}
Known OfIntegers(const Ints& values, Ints dims) {
  return {DType::kInt64, std::move(dims),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t))};
}

template <typename T>
std::optional<T> Attribute(const Attrs& attrs, std::string_view name) {
  for (const auto& [key, value] : attrs)
    if (key == name)
      if (const T* v = std::get_if<T>(&value)) return *v;
  return std::nullopt;
}
int64_t Attribute(const Attrs& attrs, std::string_view name, int64_t otherwise) {
  return Attribute<int64_t>(attrs, name).value_or(otherwise);
}

// The result of these dims whose element at an index is x's at start + sum(index * strides).
std::optional<Known> Strided(const Known& x, Ints dims, const Ints& strides, int64_t start = 0) {
  const int64_t n = Count(dims, x.dtype), size = ir::ByteSize(x.dtype);
  if (n < 0 || size == 0) return std::nullopt;
  Known out{x.dtype, dims, std::string(static_cast<size_t>(n * size), '\0')};
  Ints at(dims.size(), 0);
  for (int64_t i = 0, from = start; i < n; ++i) {
    std::memcpy(out.bytes.data() + i * size, x.bytes.data() + from * size, static_cast<size_t>(size));
    for (size_t d = dims.size(); d-- > 0;) {
      from += strides[d];
      if (++at[d] < dims[d]) break;
      from -= strides[d] * dims[d];
      at[d] = 0;
    }
  }
  return out;
}

std::optional<Known> Shaped(const Known& x, Ints dims) {
  Known out = x;
  out.dims = std::move(dims);
  return out;
}

std::optional<Known> Expand(const Known& x, const Ints& to) {
  Ints dims = to, strides(to.size(), 0);
  if (x.dims.size() > dims.size())
    dims.insert(dims.begin(), x.dims.size() - dims.size(), 1), strides.resize(dims.size(), 0);
  const Ints own = Strides(x.dims);
  const size_t more = dims.size() - x.dims.size();
  for (size_t d = 0; d < x.dims.size(); ++d) {
    int64_t& size = dims[more + d];
    if (x.dims[d] != 1 && size != 1 && size != x.dims[d]) return std::nullopt;
    if (x.dims[d] != 1) size = x.dims[d], strides[more + d] = own[d];
  }
  return Strided(x, std::move(dims), strides);
}

std::optional<Known> Unsqueeze(const Known& x, Ints axes) {
  Ints dims = x.dims;
  const auto rank = static_cast<int64_t>(dims.size() + axes.size());
  for (int64_t& a : axes)
    if (a += a < 0 ? rank : 0; a < 0 || a >= rank) return std::nullopt;
  std::sort(axes.begin(), axes.end());
  for (int64_t a : axes) {
    if (a > static_cast<int64_t>(dims.size())) return std::nullopt;
    dims.insert(dims.begin() + a, 1);
  }
  return Shaped(x, std::move(dims));
}

std::optional<Known> Squeeze(const Known& x, Ints axes) {
  Ints dims;
  const auto rank = static_cast<int64_t>(x.dims.size());
  for (int64_t& a : axes) a += a < 0 ? rank : 0;
  for (int64_t d = 0; d < rank; ++d) {
    const bool gone = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (gone && x.dims[d] != 1) return std::nullopt;
    if (!gone) dims.push_back(x.dims[d]);
  }
  return Shaped(x, std::move(dims));
}

std::optional<Known> Reshape(const Known& x, Ints dims, bool zeros) {
  int64_t n = 1, all = 1, open = -1;
  for (int64_t d : x.dims) all *= d;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0 && !zeros) {
      if (d >= x.dims.size()) return std::nullopt;
      dims[d] = x.dims[d];
    }
    if (dims[d] == -1) {
      if (open >= 0) return std::nullopt;
      open = static_cast<int64_t>(d);
    } else if (__builtin_mul_overflow(n, dims[d], &n)) {
      return std::nullopt;
    }
  }
  if (open >= 0) {
    if (n <= 0 || all % n != 0) return std::nullopt;
    dims[open] = all / n;
  } else if (n != all) {
    return std::nullopt;
  }
  return Shaped(x, std::move(dims));
}

std::optional<Known> Concat(const Operands& in, int64_t axis) {
  const auto rank = static_cast<int64_t>(in[0]->dims.size());
  if (axis += axis < 0 ? rank : 0; axis < 0 || axis >= rank) return std::nullopt;
  Ints dims = in[0]->dims;
  dims[axis] = 0;
  int64_t before = 1;
  for (int64_t d = 0; d < axis; ++d) before *= dims[d];
  for (const Known* k : in) {
    Ints other = k->dims;
    if (other.size() != dims.size() || k->dtype != in[0]->dtype) return std::nullopt;
    dims[axis] += other[axis];
    other[axis] = dims[axis];
    if (other != dims) return std::nullopt;
  }
  if (Count(dims, in[0]->dtype) < 0) return std::nullopt;
  Known out{in[0]->dtype, dims, ""};
  for (int64_t i = 0; i < before; ++i)
    for (const Known* k : in) {
      const size_t part = k->bytes.size() / static_cast<size_t>(before);
      out.bytes += k->bytes.substr(static_cast<size_t>(i) * part, part);
    }
  return out;
}

std::optional<Known> Transpose(const Known& x, const Ints& perm) {
  if (perm.size() != x.dims.size()) return std::nullopt;
  const Ints own = Strides(x.dims);
  Ints dims, strides;
  for (int64_t d : perm) dims.push_back(x.dims[d]), strides.push_back(own[d]);
  return Strided(x, std::move(dims), strides);
}

// One element, or a list of them, of a dim.
std::optional<Known> Gather(const Known& x, const Known& index, int64_t axis) {
  const auto at = Integers(&index);
  const auto rank = static_cast<int64_t>(x.dims.size());
  if (axis += axis < 0 ? rank : 0; !at || axis < 0 || axis >= rank || index.dims.size() > 1) return std::nullopt;
  Operands parts;
  std::vector<Known> made;
  const Ints strides = Strides(x.dims);
  Ints dims = x.dims;
  dims[axis] = 1;
  for (int64_t i : *at) {
    if (i += i < 0 ? x.dims[axis] : 0; i < 0 || i >= x.dims[axis]) return std::nullopt;
    auto part = Strided(x, dims, strides, i * strides[axis]);
    if (!part) return std::nullopt;
    made.push_back(*std::move(part));
  }
  if (made.empty() || made.size() > 1024) return std::nullopt;
  for (const Known& k : made) parts.push_back(&k);
  auto out = Concat(parts, axis);
  if (out && index.dims.empty()) out->dims.erase(out->dims.begin() + axis);
  return out;
}

std::optional<Known> Slice(const Known& x, const Operands& in) {
  const auto starts = Integers(in[1]), ends = Integers(in[2]), axes = in.size() > 3 ? Integers(in[3]) : std::nullopt;
  if (!starts || !ends || !axes || in.size() > 4 || starts->size() != axes->size() || ends->size() != axes->size())
    return std::nullopt;
  Ints dims = x.dims;
  const Ints strides = Strides(x.dims);
  int64_t start = 0;
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t axis = (*axes)[i];
    if (axis < 0 || axis >= static_cast<int64_t>(dims.size())) return std::nullopt;
    const int64_t size = x.dims[axis];
    const auto place = [&](int64_t p) { return std::clamp<int64_t>(p < 0 ? p + size : p, 0, size); };
    const int64_t from = place((*starts)[i]), to = place((*ends)[i]);
    dims[axis] = std::max<int64_t>(to - from, 0);
    start += from * strides[axis];
  }
  return Strided(x, std::move(dims), strides, start);
}

std::optional<Known> Range(const Operands& in) {
  const auto start = Integers(in[0]), limit = Integers(in[1]), step = Integers(in[2]);
  constexpr int64_t kSafe = int64_t{1} << 40;
  if (!start || !limit || !step || step->size() != 1 || (*step)[0] != 1 || std::abs((*start)[0]) > kSafe ||
      std::abs((*limit)[0]) > kSafe)
    return std::nullopt;
  const int64_t n = std::max<int64_t>((*limit)[0] - (*start)[0], 0);
  if (Count({n}, DType::kInt64) < 0) return std::nullopt;
  Ints values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = (*start)[0] + i;
  return OfIntegers(values, {n});
}

// Of numbers of one element each; results that do not fit stay nodes.
std::optional<Known> Arithmetic(std::string_view type, const Known& x, const Known& y) {
  const auto a = Integers(&x), b = Integers(&y);
  if (!a || !b || a->size() != 1 || b->size() != 1) return std::nullopt;
  int64_t r = 0;
  bool over = false;
  if (type == "Add")
    over = __builtin_add_overflow((*a)[0], (*b)[0], &r);
  else if (type == "Sub")
    over = __builtin_sub_overflow((*a)[0], (*b)[0], &r);
  else
    over = __builtin_mul_overflow((*a)[0], (*b)[0], &r);
  if (over) return std::nullopt;
  return OfIntegers({r}, x.dims.size() >= y.dims.size() ? x.dims : y.dims);
}

}  // namespace

std::optional<Known> FoldNode(std::string_view type, const std::vector<const Known*>& in, const Attrs& attrs,
                              DType out) {
  if (in.empty() || std::find(in.begin(), in.end(), nullptr) != in.end()) return std::nullopt;
  const Known& x = *in[0];
  if (ir::ByteSize(x.dtype) == 0) return std::nullopt;
  if (type == "Shape") {
    const auto rank = static_cast<int64_t>(x.dims.size());
    const int64_t start = Attribute(attrs, "start", 0), end = Attribute(attrs, "end", rank);
    if (start < 0 || end > rank || start > end) return std::nullopt;
    return OfIntegers(Ints(x.dims.begin() + start, x.dims.begin() + end), {end - start});
  }
  if (out != x.dtype) return std::nullopt;
  if (type == "Concat") return Concat(in, Attribute(attrs, "axis", 0));
  if (type == "Transpose") {
    const auto perm = Attribute<Ints>(attrs, "perm");
    return perm ? Transpose(x, *perm) : std::nullopt;
  }
  if (in.size() < 2) return std::nullopt;
  const auto second = Integers(in[1]);
  if (!second) return std::nullopt;
  if (type == "Expand") return Expand(x, *second);
  if (type == "Unsqueeze") return Unsqueeze(x, *second);
  if (type == "Squeeze") return Squeeze(x, *second);
  if (type == "Reshape") return Reshape(x, *second, Attribute(attrs, "allowzero", 0) != 0);
  if (type == "Gather") return Gather(x, *in[1], Attribute(attrs, "axis", 0));
  if (type == "Slice" && in.size() > 2) return Slice(x, in);
  if (type == "Range" && in.size() == 3) return Range(in);
  if (type == "Add" || type == "Sub" || type == "Mul") return Arithmetic(type, x, *in[1]);
  return std::nullopt;
}

}  // namespace slipway::exporters::onnx_out
