// Tensors that lie in pieces: what the ranks of a distributed job saved, each its part; and those that are computed
// from others as they are read. And the way through any tensor's elements in row-major order without holding them,
// wherever and however they lie.
#ifndef SLIPWAY_IR_SHARDED_H_
#define SLIPWAY_IR_SHARDED_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/derived.h"
#include "ir/tensor.h"

namespace slipway::ir {

// A box of a larger tensor: its elements, and where its first one is in each dimension.
struct Piece {
  TensorRef tensor;
  std::vector<int64_t> offsets;
};

// A tensor made of pieces; one that is whole is a single piece, one whose values are computed has none.
struct ShardedTensor {
  DType dtype = DType::kUnknown;
  std::vector<int64_t> sizes;
  std::vector<Piece> pieces;
  std::shared_ptr<const DerivedValues> derived;  // of `dtype`; null where the values are stored

  ShardedTensor() = default;
  ShardedTensor(TensorRef whole);  // NOLINT: a whole tensor stands for one of one piece
  // The tensor with its values computed in `to`, where they are computed and can be; else as it is.
  ShardedTensor In(DType to) const;

  int64_t numel() const;
  int64_t nbytes() const { return (numel() * BitSize(dtype) + 7) / 8; }  // of the dense tensor
  // The tensor, where it is one piece; nullptr otherwise.
  const TensorRef* whole() const { return pieces.size() == 1 ? &pieces[0].tensor : nullptr; }
};

// Checks that the pieces are valid tensors of the same dtype that cover the tensor: none reaches outside, none overlap,
// no element is missing. InvalidArgument says which piece; OutOfRange where there are too many to compare;
// Unimplemented for pieces of types below a byte.
absl::Status Validate(const ShardedTensor& t);

// The part [start, start + length) of dimension `dim`, by reference; the caller has checked that it lies inside.
// Unimplemented where it would begin within a byte.
absl::StatusOr<ShardedTensor> Narrow(const ShardedTensor& t, size_t dim, int64_t start, int64_t length);

// Elements that are equally far from each other.
struct Run {
  const uint8_t* data = nullptr;
  int64_t count = 0;   // elements
  int64_t stride = 0;  // bytes from one to the next; the element's size where they lie side by side
  // What they lie in, and their first byte in it.
  const Storage* storage = nullptr;
  int64_t offset = 0;
};

// Goes through a valid tensor's elements once, in row-major order. What is read through mappings is released on the
// way, so that a tensor of any size costs little memory. Types below a byte are gone through as bytes.
class ElementReader {
 public:
  // Errors as of ReadDense(), for tensors that are rules: those are held in memory.
  static absl::StatusOr<ElementReader> Open(ShardedTensor t);
  ~ElementReader() { Release(); }
  ElementReader(ElementReader&&) = default;
  ElementReader& operator=(ElementReader&&) = delete;

  int64_t item() const { return item_; }                       // bytes of one element; 1 for types below a byte
  int64_t left() const { return total_ - at_ - in_segment_; }  // elements not yet given

  // How many elements to ask NextDense() for: enough that what lies scattered is read in stretches worth the while, few
  // enough that they cost little memory (at most 16 MiB).
  int64_t step() const;

  // The longest run that comes next; its count is 0 at the tensor's end, and of tensors whose values are computed,
  // which lie nowhere. And: goes past `count` elements of it.
  Run Peek();
  void Skip(int64_t count) { in_segment_ += count; }

  // The next min(most, left()) elements side by side: where they lie, or gathered into a buffer of the reader that the
  // next call overwrites.
  absl::Span<const uint8_t> NextDense(int64_t most);

 private:
  // A piece with dimensions joined where one step of the outer is a whole inner.
  struct Part {
    std::vector<int64_t> sizes, strides;  // strides in bytes
    const uint8_t* data = nullptr;
    int64_t touched_from = 0, touched_to = 0;  // bytes of the storage read since the last release
    size_t next = 0;                           // the piece that followed last time
  };

  ElementReader() = default;
  void StartSegment();
  const uint8_t* Fetch(int64_t from, int64_t size, uint8_t* to);
  int64_t GatherTransposed(int64_t most, uint8_t* to);
  absl::Span<const uint8_t> NextDerived(int64_t most);
  void Touch(size_t part, int64_t from, int64_t to, int64_t bytes);
  void Release();

  ShardedTensor tensor_;
  std::vector<Part> parts_;
  int64_t item_ = 1, total_ = 0;
  // The segment: elements of one piece that follow each other in the tensor and, counted row-major, in the piece.
  size_t part_ = 0;
  int64_t at_ = 0;                        // of its first element in the tensor
  int64_t in_segment_ = 0, segment_ = 0;  // elements of it already given, and all of them
  int64_t local_ = 0;                     // of its first element in the piece
  int64_t given_ = 0, spanned_ = 0;       // since the last release: bytes given, and the bytes that they lie among
  int64_t window_ = 0, in_window_ = 0;    // of computed values: the first element of fetched_, and how many are there
  std::vector<uint8_t> gathered_, fetched_;
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_SHARDED_H_
