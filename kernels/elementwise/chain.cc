// How a chain runs. Dims that all operands can walk as one are joined, and the last two that are left are cut into
// tiles of a few KiB. What does not lie as rows of the compute type is loaded into a buffer first; a value that another
// operation reads stays in the buffer of its slot. Which loads and operations there are is worked out once a call
// (Make) and then run for each tile (Run).
#include "kernels/elementwise/chain.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kBufferBytes = 4096;               // of a block
constexpr int64_t kBufferStep = kBufferBytes + 128;  // buffers begin at different places of a page
constexpr int kMaxLoads = ChainOp::kMaxInputs * kMaxChainOps;

// Of a block: `rows` rows of `columns` elements, steps in bytes.
struct Tile {
  int64_t rows, columns;
};

template <typename W>
void Spread(void* row, int64_t n) {
  W* p = static_cast<W*>(row);
  const W x = *p;
  for (int64_t i = 1; i < n; ++i) p[i] = x;
}

void LoadAs(DType type, const void* from, DType dtype, int64_t stride, int64_t n, DType as, void* to) {
  if (type == DType::kF32)
    LoadRow<float>(from, dtype, stride, n, as, static_cast<float*>(to));
  else if (type == DType::kF64)
    LoadRow<double>(from, dtype, stride, n, as, static_cast<double*>(to));
  else
    LoadRow<int64_t>(from, dtype, stride, n, as, static_cast<int64_t*>(to));
}
void StoreAs(DType type, const void* from, int64_t n, void* to, DType dtype) {
  if (type == DType::kF32)
    StoreRow<float>(static_cast<const float*>(from), n, to, dtype, 1);
  else if (type == DType::kF64)
    StoreRow<double>(static_cast<const double*>(from), n, to, dtype, 1);
  else
    StoreRow<int64_t>(static_cast<const int64_t*>(from), n, to, dtype, 1);
}

// Dense rows of `type` from a tile of another layout or dtype.
void LoadTile(const char* from, DType dtype, int64_t row, int64_t column, Tile t, DType as, DType type, char* to) {
  const int64_t size = ByteSize(dtype), wide = ByteSize(type);
  if (column == 0) {
    const int64_t lines = row == 0 ? 1 : t.rows, n = row == 0 ? t.rows * t.columns : t.columns;
    for (int64_t i = 0; i < lines; ++i, from += row, to += n * wide) {
      LoadAs(type, from, dtype, 0, 1, as, to);
      if (wide == 4)
        Spread<uint32_t>(to, n);
      else
        Spread<uint64_t>(to, n);
    }
    return;
  }
  if (row == column * t.columns) t = {1, t.rows * t.columns};
  const bool same = dtype == type && as == type && column == size;
  for (int64_t i = 0; i < t.rows; ++i, from += row, to += t.columns * wide) {
    if (same)
      std::memcpy(to, from, static_cast<size_t>(t.columns * size));
    else
      LoadAs(type, from, dtype, column / size, t.columns, as, to);
  }
}

// The same words in another layout.
void MoveTile(const char* from, int64_t from_stride, int64_t from_column, char* to, int64_t to_stride,
              int64_t to_column, Tile t, DType dtype) {
  const int64_t size = ByteSize(dtype);
  if (from_column == size && to_column == size) {
    if (from_stride == t.columns * size && to_stride == from_stride) t = {1, t.rows * t.columns};
    for (int64_t i = 0; i < t.rows; ++i, from += from_stride, to += to_stride)
      if (from != to) std::memcpy(to, from, static_cast<size_t>(t.columns * size));
    return;
  }
  if (size == 4 && from_stride == size && to_column == size) {
    BestIsa().elementwise.transpose(reinterpret_cast<const uint32_t*>(from), from_column / size,
                                    reinterpret_cast<uint32_t*>(to), to_stride / size, t.rows, t.columns);
    return;
  }
  if (size == 4 && from_column == size && to_stride == size) {
    BestIsa().elementwise.transpose(reinterpret_cast<const uint32_t*>(from), from_stride / size,
                                    reinterpret_cast<uint32_t*>(to), to_column / size, t.columns, t.rows);
    return;
  }
  WithWord(dtype, [&]<typename W>() {
    for (int64_t i = 0; i < t.rows; ++i, from += from_stride, to += to_stride)
      for (int64_t j = 0; j < t.columns; ++j)
        *reinterpret_cast<W*>(to + j * to_column) = *reinterpret_cast<const W*>(from + j * from_column);
  });
}

// A chain whose operands are checked.
class Chain {
 public:
  // What is wrong, or null.
  const char* Make(const Call& c);
  int64_t tiles() const { return tiles_; }
  int64_t scratch() const { return buffers_ * kBufferStep; }
  // Runs tiles [first, last) with scratch() bytes of memory.
  const char* Run(int64_t first, int64_t last, char* scratch) const;

 private:
  // A value as rows of a compute type.
  struct Load {
    int tensor;  // -1: of `op`
    int op;
    DType dtype, as, type;
    bool direct;  // it lies so already
    int buffer;
  };
  struct Op {
    enum Kind : uint8_t { kRow, kMove, kWiden, kNarrow };  // the last three are copies
    Kind kind;
    RowFn row;
    DType type, result;
    int inputs, in[ChainOp::kMaxInputs];  // loads; of kMove and kWiden a tensor, or ~operation
    int tensor;                           // that it is written to, or -1
    bool in_place;                        // the value lies in that tensor, else in `buffer`
    int buffer;
    bool rounds;  // the result is not of `type`
    bool unsigned64;
    int32_t first_int, ints, first_float, floats;
  };
  struct Instruction {
    bool load;
    int index;
  };

  void Join();
  void Cut(int64_t most);
  bool IsDense(int tensor) const {
    const int64_t size = ByteSize(tensors_[tensor]->dtype);
    return (tile_.columns == 1 || column_[tensor] == size) &&
           (tile_.rows == 1 || (tile_.columns == columns_ && row_[tensor] == columns_ * size));
  }
  int LoadOf(int source, DType as);
  bool TakesRowsAsTheyLie(std::span<const ChainOp> chain) const;
  DType TypeOf(int source) const { return source >= 0 ? tensors_[outputs_ + source]->dtype : ops_[~source].result; }

  int count_ = 0, outputs_ = 0;  // of tensors: results first
  const Tensor* tensors_[kMaxChainTensors];
  int rank_ = 0;  // of joined dims
  int64_t sizes_[kMaxRank];
  int64_t steps_[kMaxChainTensors][kMaxRank];  // bytes
  int64_t row_[kMaxChainTensors], column_[kMaxChainTensors];
  int64_t rows_ = 1, columns_ = 1;
  Tile tile_ = {1, 1};
  int64_t row_tiles_ = 1, column_tiles_ = 1, tiles_ = 0;
  std::span<const int64_t> ints_;
  std::span<const double> floats_;
  int ops_count_ = 0, loads_count_ = 0, code_count_ = 0;
  Op ops_[kMaxChainOps];
  Load loads_[kMaxLoads];
  Instruction code_[kMaxLoads + kMaxChainOps];
  int buffers_ = 0, wide_ = 0;
  bool by_rows_ = false;  // the one operation is called for each row, where it lies
  bool copies_ = false;   // the one operation is a copy from a tensor to a tensor, without a buffer between them
};

void Chain::Join() {
  rank_ = JoinDims({tensors_, static_cast<size_t>(count_)}, sizes_, steps_);
  columns_ = rank_ > 0 ? sizes_[rank_ - 1] : 1;
  rows_ = rank_ > 1 ? sizes_[rank_ - 2] : 1;
  for (int t = 0; t < count_; ++t) {
    column_[t] = rank_ > 0 ? steps_[t][rank_ - 1] : 0;
    row_[t] = rank_ > 1 ? steps_[t][rank_ - 2] : 0;
  }
}

// Tiles of up to `most` elements: parts of a row, or rows.
void Chain::Cut(int64_t most) {
  bool transposed = false;  // something lies densely along the rows' dim only
  for (int t = 0; t < count_; ++t) {
    const int64_t size = ByteSize(tensors_[t]->dtype);
    transposed |= row_[t] == size && column_[t] > size && rows_ > 1;
  }
  auto even = [](int64_t n, int64_t part) {  // parts of about the same length
    const int64_t parts = (n + part - 1) / part;
    return std::min(n, ((n + parts - 1) / parts + 15) / 16 * 16);
  };
  tile_.columns = transposed ? std::min<int64_t>(columns_, 32) : columns_ <= most ? columns_ : even(columns_, most);
  tile_.rows = std::min(rows_, tile_.columns < columns_ && !transposed ? 1 : most / tile_.columns);
  row_tiles_ = (rows_ + tile_.rows - 1) / tile_.rows;
  column_tiles_ = (columns_ + tile_.columns - 1) / tile_.columns;
  tiles_ = row_tiles_ * column_tiles_;
  for (int d = 0; d + 2 < rank_; ++d) tiles_ *= sizes_[d];
}

// One operation whose operands and result lie densely along their rows, but not from row to row (parts of channels):
// rows of some length take less time each than being copied together.
bool Chain::TakesRowsAsTheyLie(std::span<const ChainOp> chain) const {
  constexpr int64_t kMinColumns = 32;
  if (chain.size() != 1 || chain[0].kernel->row == nullptr || chain[0].output < 0 || tile_.columns < kMinColumns ||
      tile_.rows == 1)
    return false;
  const DType type = ComputeType(chain[0].compute);
  bool all = chain[0].result == type && chain[0].compute == type;
  for (int i = 0; i < chain[0].inputs; ++i) all = all && chain[0].in[i] >= 0;
  bool dense = true;
  for (int t = 0; t < count_; ++t)
    all = all && tensors_[t]->dtype == type && column_[t] == ByteSize(type), dense = dense && IsDense(t);
  return all && !dense;
}

int Chain::LoadOf(int source, DType as) {
  Load l;
  l.tensor = source >= 0 ? outputs_ + source : -1;
  l.op = source >= 0 ? -1 : ~source;
  for (int i = 0; i < loads_count_; ++i)
    if (loads_[i].tensor == l.tensor && loads_[i].op == l.op && loads_[i].as == as) return i;
  l.dtype = TypeOf(source);
  l.as = as;
  l.type = ComputeType(as);
  l.direct = l.dtype == l.type && as == l.type && (l.tensor < 0 || by_rows_ || IsDense(l.tensor));
  l.buffer = l.direct ? -1 : buffers_++;
  loads_[loads_count_] = l;
  code_[code_count_++] = {true, loads_count_};
  return loads_count_++;
}

const char* Chain::Make(const Call& c) {
  ints_ = c.ints, floats_ = c.floats;
  count_ = 0;
  outputs_ = static_cast<int>(c.out.size());
  ops_count_ = static_cast<int>(c.chain.size());
  if (ops_count_ < 1 || ops_count_ > kMaxChainOps || outputs_ < 1 ||
      c.in.size() + c.out.size() > static_cast<size_t>(kMaxChainTensors))
    return "the chain is malformed";
  for (const Tensor& t : c.out) tensors_[count_++] = &t;
  for (const Tensor& t : c.in) tensors_[count_++] = &t;
  for (int t = 1; t < count_; ++t)
    if (!SameSizes(*tensors_[t], *tensors_[0])) return kSizesDiffer;
  for (int d = 0; d < tensors_[0]->rank; ++d)
    if (tensors_[0]->sizes[d] == 0) return nullptr;
  Join();
  bool eight = false;
  for (const ChainOp& op : c.chain) {
    eight |= ByteSize(ComputeType(op.compute)) == 8 || ByteSize(op.result) == 8;
    if (!op.kernel->row) eight |= ByteSize(ComputeType(op.compute)) == 8;
  }
  for (int t = 0; t < count_; ++t) eight |= ByteSize(ComputeType(tensors_[t]->dtype)) == 8;
  Cut(kBufferBytes / (eight ? 8 : 4));
  by_rows_ = TakesRowsAsTheyLie(c.chain);
  const ChainOp& one = c.chain[0];
  copies_ = ops_count_ == 1 && one.kernel->row == nullptr && one.output >= 0 && one.in[0] >= 0 &&
            TypeOf(one.in[0]) == one.result;
  buffers_ = 1;  // `wide_`
  for (const ChainOp& op : c.chain) buffers_ = std::max(buffers_, 2 + op.slot);
  size_t ints = 0, floats = 0;
  for (int k = 0; k < ops_count_; ++k) {
    const ChainOp& from = c.chain[k];
    Op& op = ops_[k];
    op.row = from.kernel->row;
    op.result = from.result;
    op.type = ComputeType(from.compute);
    op.kind = Op::kRow;
    op.inputs = from.inputs;
    op.unsigned64 = from.compute == DType::kU64;
    if (!op.row) {  // a copy, of one operand
      const DType source = TypeOf(from.in[0]);
      const bool byte = source == DType::kI8 || source == DType::kU8;
      // f32 has all bytes; of u64 the bits are not enough.
      const DType as = source == DType::kU64 && IsFloating(op.result) ? ComputeType(op.result) : source;
      op.type = byte && op.result == DType::kF32 ? op.result : ComputeType(as);
      op.kind = source == op.result ? Op::kMove : op.result == op.type ? Op::kWiden : Op::kNarrow;
      op.inputs = 1;
      op.in[0] = op.kind == Op::kNarrow ? LoadOf(from.in[0], as) : from.in[0];
    } else {
      for (int i = 0; i < from.inputs; ++i) op.in[i] = LoadOf(from.in[i], from.compute);
    }
    op.tensor = from.output;
    op.in_place = from.output >= 0 && (by_rows_ || copies_ || IsDense(from.output));
    op.buffer = 1 + from.slot;
    op.rounds = op.result != op.type;
    if (ints + from.ints > c.ints.size() || floats + from.floats > c.floats.size()) return kAttributesMalformed;
    op.first_int = static_cast<int32_t>(ints), op.ints = from.ints;
    op.first_float = static_cast<int32_t>(floats), op.floats = from.floats;
    ints += from.ints, floats += from.floats;
    code_[code_count_++] = {false, k};
  }
  return nullptr;
}

// Tiles [first, last): for each, loads and operators in the order of code_, then the stores. One loop nest, whose state
// (addresses, what was loaded already) moves from tile to tile.
const char* Chain::Run(int64_t first, int64_t last, char* scratch) const {
  // Where tile `first` is.
  int64_t column_tile = first % column_tiles_, row_tile = first / column_tiles_ % row_tiles_;
  int64_t rest = first / column_tiles_ / row_tiles_, index[kMaxRank] = {};
  char* base[kMaxChainTensors];
  for (int t = 0; t < count_; ++t) base[t] = static_cast<char*>(tensors_[t]->data);
  for (int d = rank_ - 3; d >= 0; --d) {
    index[d] = rest % sizes_[d];
    rest /= sizes_[d];
    for (int t = 0; t < count_; ++t) base[t] += index[d] * steps_[t][d];
  }
  char *at[kMaxChainTensors], *values[kMaxChainOps];
  const void* loaded[kMaxLoads];
  struct {
    const char* from;
    Tile tile;
  } kept[kMaxLoads];
  for (int i = 0; i < loads_count_; ++i) kept[i].from = nullptr;
  auto buffer = [&](int b) { return scratch + b * kBufferStep; };
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t row = row_tile * tile_.rows, column = column_tile * tile_.columns;
    const Tile t = {std::min(tile_.rows, rows_ - row), std::min(tile_.columns, columns_ - column)};
    const int64_t n = t.rows * t.columns;
    for (int k = 0; k < count_; ++k) at[k] = base[k] + row * row_[k] + column * column_[k];
    for (int i = 0; i < code_count_; ++i) {
      if (code_[i].load) {
        const int k = code_[i].index;
        const Load& l = loads_[k];
        if (l.direct) {
          loaded[k] = l.tensor >= 0 ? at[l.tensor] : values[l.op];
          continue;
        }
        loaded[k] = buffer(l.buffer);
        if (l.tensor < 0) {
          LoadAs(l.type, values[l.op], l.dtype, 1, n, l.as, buffer(l.buffer));
        } else {
          auto& had = kept[k];
          if (had.from == at[l.tensor] && had.tile.rows >= t.rows && had.tile.columns == t.columns) continue;
          had = {at[l.tensor], t};
          LoadTile(at[l.tensor], l.dtype, row_[l.tensor], column_[l.tensor], t, l.as, l.type, buffer(l.buffer));
        }
        continue;
      }
      const int k = code_[i].index;
      const Op& op = ops_[k];
      char* value = values[k] = op.in_place ? at[op.tensor] : buffer(op.buffer);
      switch (op.kind) {
        case Op::kRow: {
          const void* in[ChainOp::kMaxInputs];
          for (int j = 0; j < op.inputs; ++j) in[j] = loaded[op.in[j]];
          char* to = op.rounds ? buffer(wide_) : value;
          if (by_rows_) {
            for (int64_t i = 0; i < t.rows; ++i, to += row_[op.tensor]) {
              if (const char* why = op.row({op.type, in, to, t.columns, ints_.subspan(op.first_int, op.ints),
                                            floats_.subspan(op.first_float, op.floats), op.unsigned64}))
                return why;
              for (int j = 0; j < op.inputs; ++j)
                in[j] = static_cast<const char*>(in[j]) + row_[loads_[op.in[j]].tensor];
            }
            break;
          }
          if (const char* why = op.row({op.type, in, to, n, ints_.subspan(op.first_int, op.ints),
                                        floats_.subspan(op.first_float, op.floats), op.unsigned64}))
            return why;
          if (op.rounds) StoreAs(op.type, to, n, value, op.result);
          break;
        }
        case Op::kMove: {
          const int64_t size = ByteSize(op.result);
          if (const int s = op.in[0]; copies_)
            MoveTile(at[outputs_ + s], row_[outputs_ + s], column_[outputs_ + s], value, row_[op.tensor],
                     column_[op.tensor], t, op.result);
          else if (s >= 0)
            MoveTile(at[outputs_ + s], row_[outputs_ + s], column_[outputs_ + s], value, t.columns * size, size, t,
                     op.result);
          else
            MoveTile(values[~s], t.columns * size, size, value, t.columns * size, size, t, op.result);
          break;
        }
        case Op::kWiden:
          if (const int s = op.in[0]; s >= 0)
            LoadTile(at[outputs_ + s], TypeOf(s), row_[outputs_ + s], column_[outputs_ + s], t, TypeOf(s), op.type,
                     value);
          else
            LoadAs(op.type, values[~s], TypeOf(s), 1, n, TypeOf(s), value);
          break;
        case Op::kNarrow: StoreAs(op.type, loaded[op.in[0]], n, value, op.result); break;
      }
      if (op.tensor >= 0 && !op.in_place) {
        const int64_t size = ByteSize(op.result);
        MoveTile(value, t.columns * size, size, at[op.tensor], row_[op.tensor], column_[op.tensor], t, op.result);
      }
    }
    if (++column_tile < column_tiles_) continue;
    column_tile = 0;
    if (++row_tile < row_tiles_) continue;
    row_tile = 0;
    NextPosition(rank_ - 2, sizes_, index, static_cast<size_t>(count_), base, steps_);
  }
  return nullptr;
}

}  // namespace

const char* RunChain(const Call& c) {
  Chain chain;
  if (const char* why = chain.Make(c)) return why;
  if (chain.tiles() == 0) return nullptr;
  // Parts of equal size, so that a thread has about the part of a tensor that it has of others.
  constexpr int64_t kSmall = 16, kMinimum = 4;  // tiles that one thread takes alone; of a part
  const int64_t tiles = chain.tiles();
  const Workers* const workers = tiles < kSmall ? nullptr : c.workers;
  const int64_t parts = workers != nullptr ? std::min(MostParts(*workers), tiles / kMinimum) : 1;
  std::atomic<const char*> wrong = nullptr;
  ParallelFor(*c.scratch, workers, parts, 1, [&](int64_t first, int64_t last, Scratch& scratch) {
    char* const buffers = scratch.Take<char>(chain.scratch());
    if (scratch.querying()) return;
    if (const char* why = chain.Run(tiles * first / parts, tiles * last / parts, buffers)) wrong = why;
  });
  return wrong;
}

const char* RunCopy(const Call& c) {
  static constexpr Kernel kKernel = {.name = "", .run = nullptr};
  ChainOp op;
  op.kernel = &kKernel;
  op.result = c.out[0].dtype;
  op.inputs = 1;
  op.output = 0;
  Call one = c;
  one.chain = {&op, 1};
  return RunChain(one);
}

namespace {
constexpr Kernel kKernels[] = {{.name = "chain", .run = RunChain, .elementwise = true, .any_type = true}};
}  // namespace

std::span<const Kernel> ChainKernels() { return kKernels; }

}  // namespace slipway::kernels
