// Field numbers are those of onnx.proto (ModelProto.graph = 7, GraphProto.initializer = 5,
// TensorProto.raw_data = 9); the wire format is Protobuf's (varints, length-delimited fields).
#include "exporters/onnx/wire.h"

#include <algorithm>

#include "base/text.h"
#include "exporters/onnx/types.h"
#include "io/atomic_writer.h"
#include "io/io_error.h"
#include "ir/storage_check.h"

namespace slipway::exporters::onnx_out {
namespace {

constexpr uint64_t kMessageLimit = (uint64_t{1} << 31) - (uint64_t{1} << 20);  // Protobuf messages stay below 2 GB
constexpr uint64_t kExternalDataPage = 4096;
constexpr uint64_t kExternalThreshold = 1024;  // smaller weights stay inline even with --external-data always

void PutVarint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
}
void PutLengthKey(std::string& out, int field, uint64_t length) {
  PutVarint(out, static_cast<uint64_t>(field) << 3 | 2);
  PutVarint(out, length);
}

onnx::TensorProto Header(const WeightRef& w) {
  onnx::TensorProto t;
  for (int64_t d : w.dims()) t.add_dims(d);
  t.set_data_type(OnnxType(w.dtype()));
  t.set_name(w.name);
  return t;
}

// Part of a matrix whose elements lie `down` and `across` apart (in elements), as rows one behind the other. In tiles,
// so that both sides go through whole cache lines whichever way the matrix lies.
template <typename T>
void CopyRows(const T* from, int64_t down, int64_t across, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kTile = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r)
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) to[r * columns + c] = from[r * down + c * across];
}

// A strided matrix, some rows at a time: the memory of a batch is what it takes, and what was read of the file is let
// go after each, so that a transposed weight of gigabytes is written like one that lies as it is.
template <typename T>
absl::Status WriteMatrix(io::AtomicFile& out, const ir::TensorRef& t) {
  constexpr int64_t kBatchBytes = int64_t{8} << 20, kFewRows = 32;
  const int64_t rows = t.sizes[0], columns = t.sizes[1];
  const auto* from = reinterpret_cast<const T*>(ir::MappedBytes(*t.storage).data() + t.offset);
  const int64_t batch =
      std::max(kFewRows, kBatchBytes / (columns * static_cast<int64_t>(sizeof(T))) / kFewRows * kFewRows);
  std::vector<T> dense(static_cast<size_t>(std::min(batch, rows) * columns));
  const auto* bytes = std::get_if<io::Bytes>(&t.storage->bytes);
  for (int64_t r = 0; r < rows; r += batch) {
    const int64_t count = std::min(batch, rows - r);
    CopyRows(from + r * t.strides[0], t.strides[0], t.strides[1], count, columns, dense.data());
    if (absl::Status s = out.Write(
            {reinterpret_cast<const uint8_t*>(dense.data()), static_cast<size_t>(count * columns) * sizeof(T)});
        !s.ok())
      return s;
    if (const io::FileRange* file = bytes ? bytes->file_range() : nullptr) file->Release();
  }
  return absl::OkStatus();
}

// The dense bytes of a tensor, file to file where they lie dense in a file.
absl::Status WriteTensor(io::AtomicFile& out, const ir::TensorRef& t, ir::StorageCheck& check) {
  const uint64_t n = t.nbytes();
  if (n == 0) return absl::OkStatus();
  if (std::holds_alternative<io::Bytes>(t.storage->bytes) && t.is_contiguous())
    return check.Copy(*t.storage, static_cast<uint64_t>(t.offset), n, out);
  if (absl::Status s = check.Read(t); !s.ok()) return s;
  const bool aligned =
      (reinterpret_cast<uintptr_t>(ir::MappedBytes(*t.storage).data()) + static_cast<uintptr_t>(t.offset)) %
          static_cast<uintptr_t>(std::max<int64_t>(ir::ByteSize(t.dtype), 1)) ==
      0;
  if (t.sizes.size() == 2 && !t.is_contiguous() && aligned && !ir::MappedBytes(*t.storage).empty()) {
    switch (ir::ByteSize(t.dtype)) {
      case 1: return WriteMatrix<uint8_t>(out, t);
      case 2: return WriteMatrix<uint16_t>(out, t);
      case 4: return WriteMatrix<uint32_t>(out, t);
      case 8: return WriteMatrix<uint64_t>(out, t);
      default: break;
    }
  }
  // Strided: by slices of the first dimension so that memory stays bounded.
  if (t.sizes.size() > 1 && t.sizes[0] > 1 && n > (uint64_t{64} << 20)) {
    ir::TensorRef row = t;
    row.sizes.erase(row.sizes.begin());
    row.strides.erase(row.strides.begin());
    for (int64_t i = 0; i < t.sizes[0]; ++i) {
      row.offset = t.offset + i * t.strides[0] * ir::ByteSize(t.dtype);
      if (absl::Status s = WriteTensor(out, row, check); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  auto dense = ir::ReadDense(t);
  if (!dense.ok()) return dense.status();
  return out.Write({reinterpret_cast<const uint8_t*>(dense->data()), dense->size()});
}

// Pairs of bytes as bytes of 4 bits each; what does not fit is seen in the result's upper bits. Whole blocks become
// vectors.
uint8_t PackPairs(const uint8_t* from, int64_t pairs, uint8_t add, uint8_t to_unsigned, uint8_t* to) {
  uint8_t outside = 0;
  const auto pack = [&](int64_t i) {
    const uint8_t low = from[2 * i], high = from[2 * i + 1];
    outside |= static_cast<uint8_t>(low + to_unsigned) | static_cast<uint8_t>(high + to_unsigned);
    to[i] = static_cast<uint8_t>(((low + add) & 15) | (high + add) << 4);
  };
  constexpr int64_t kBlock = 64;
  for (; pairs >= kBlock; pairs -= kBlock, from += 2 * kBlock, to += kBlock)
    for (int64_t i = 0; i < kBlock; ++i) pack(i);
  for (int64_t i = 0; i < pairs; ++i) pack(i);
  return outside;
}

// A tensor of bytes, each with something added, in 8 or 4 bits, a batch at a time.
absl::Status WriteIntegers(io::AtomicFile& out, const ir::TensorRef& t, const StoredForm& form,
                           ir::StorageCheck& check) {
  if (absl::Status s = check.Read(t); !s.ok()) return s;
  constexpr int64_t kBatch = int64_t{1} << 20;  // elements, even
  const int64_t n = t.numel(), row = form.row > 0 ? form.row : std::max<int64_t>(n, 1);
  const auto* bytes = std::get_if<io::Bytes>(&t.storage->bytes);
  const bool mapped = bytes && t.is_contiguous();
  std::string dense;
  if (!mapped) {
    auto read = ir::ReadDense(t);
    if (!read.ok()) return read.status();
    dense = *std::move(read);
  }
  const uint8_t* from = mapped ? bytes->data().data() + t.offset : reinterpret_cast<const uint8_t*>(dense.data());
  const auto add = static_cast<uint8_t>(form.add), to_unsigned = form.dtype == ir::DType::kInt4 ? uint8_t{8} : add;
  std::vector<uint8_t> packed;
  for (int64_t at = 0; at < n;) {
    const int64_t count = std::min(row - at % row, kBatch), start = static_cast<int64_t>(packed.size());
    packed.resize(start + (form.nibbles ? (count + 1) / 2 : count));
    if (!form.nibbles)
      std::transform(from + at, from + at + count, packed.begin() + start,
                     [add](uint8_t b) { return static_cast<uint8_t>(b + add); });
    uint8_t outside = form.nibbles ? PackPairs(from + at, count / 2, add, to_unsigned, packed.data() + start) : 0;
    if (form.nibbles && count % 2 != 0) {
      const uint8_t last[2] = {from[at + count - 1], static_cast<uint8_t>(-add)};  // filled up by a 0
      outside |= PackPairs(last, 1, add, form.dtype == ir::DType::kInt4 ? 8 : add, packed.data() + start + count / 2);
    }
    if ((outside & ~15) != 0)
      return absl::InvalidArgumentError("integers that do not fit 4 bits, as the program says they do");
    at += count;
    if (static_cast<int64_t>(packed.size()) < kBatch / 2 && at < n) continue;
    if (absl::Status s = out.Write(packed); !s.ok()) return s;
    packed.clear();
    if (mapped) {
      const io::Bytes done = bytes->Part(static_cast<uint64_t>(t.offset), static_cast<uint64_t>(at));
      if (const io::FileRange* file = done.file_range()) file->Release();
    }
  }
  return absl::OkStatus();
}

absl::Status WriteString(io::AtomicFile& out, const std::string& s) {
  return out.Write({reinterpret_cast<const uint8_t*>(s.data()), s.size()});
}

}  // namespace

uint64_t WeightRef::nbytes() const {
  if (form && !form->parts.empty()) {
    uint64_t sum = 0;
    for (const ir::TensorRef& t : form->parts) sum += static_cast<uint64_t>(t.nbytes());
    return sum;
  }
  const auto n = static_cast<uint64_t>(tensor.numel()), row = form ? static_cast<uint64_t>(form->row) : 0;
  if (!form || !form->nibbles) return static_cast<uint64_t>(tensor.nbytes());
  return row > 0 ? n / row * ((row + 1) / 2) : (n + 1) / 2;
}

absl::StatusOr<uint64_t> WriteModel(onnx::ModelProto& model, const std::vector<WeightRef>& weights,
                                    const std::string& path, const OnnxOptions& options) {
  uint64_t total = 0;
  for (const WeightRef& w : weights) {
    for (const ir::TensorRef& t : w.parts())
      if (absl::Status s = ir::Validate(t); !s.ok()) return io::Prefixed(text::StrCat("weight '", w.name, "': "), s);
    total += w.nbytes();
  }
  const uint64_t skeleton_size = model.ByteSizeLong();
  bool split = options.external_data == ExternalData::kAlways;
  if (skeleton_size + total + weights.size() * 256 > kMessageLimit) {
    if (options.external_data == ExternalData::kNever)
      return absl::FailedPreconditionError(
          text::StrCat("the weights take ", total, " bytes; an ONNX file holds less than 2 GB"));
    split = true;
  }

  auto file = io::AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  std::unique_ptr<io::AtomicFile> data;
  std::string data_name;
  if (split) {
    auto created = io::AtomicFile::Create(path + ".data");
    if (!created.ok()) return created.status();
    data = *std::move(created);
    size_t slash = path.rfind('/');
    data_name = (slash == std::string::npos ? path : path.substr(slash + 1)) + ".data";
  }

  // Each weight's TensorProto without its bytes, then the whole file's lengths.
  std::vector<std::string> heads;
  std::vector<bool> outside(weights.size(), false);
  uint64_t inits = 0, at = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint64_t n = weights[i].nbytes();
    onnx::TensorProto t = Header(weights[i]);
    outside[i] = split && n >= kExternalThreshold;
    if (outside[i]) {
      at = (at + kExternalDataPage - 1) / kExternalDataPage * kExternalDataPage;
      t.set_data_location(onnx::TensorProto::EXTERNAL);
      auto entry = [&](const char* key, std::string value) {
        auto* e = t.add_external_data();
        e->set_key(key);
        e->set_value(std::move(value));
      };
      entry("location", data_name);
      entry("offset", text::StrCat(at));
      entry("length", text::StrCat(n));
      at += n;
    }
    std::string head = t.SerializeAsString();
    uint64_t body = head.size();
    std::string raw_key;
    if (!outside[i]) {
      PutLengthKey(raw_key, 9, n);
      body += raw_key.size() + n;
    }
    std::string key;
    PutLengthKey(key, 5, body);
    inits += key.size() + body;
    heads.push_back(key + head + raw_key);
  }
  onnx::GraphProto graph;
  graph.Swap(model.mutable_graph());
  model.clear_graph();
  std::string front = model.SerializeAsString();
  std::string skeleton = graph.SerializeAsString();
  model.mutable_graph()->Swap(&graph);
  PutLengthKey(front, 7, skeleton.size() + inits);

  io::AtomicFile& out = **file;
  if (absl::Status s = (data ? *data : out).Reserve(data ? at : skeleton_size + total); !s.ok()) return s;
  ir::StorageCheck check;
  if (absl::Status s = WriteString(out, front); !s.ok()) return s;
  if (absl::Status s = WriteString(out, skeleton); !s.ok()) return s;
  uint64_t done = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (absl::Status s = WriteString(out, heads[i]); !s.ok()) return s;
    if (outside[i])
      if (absl::Status s =
              data->WriteZeros((kExternalDataPage - data->position() % kExternalDataPage) % kExternalDataPage);
          !s.ok())
        return s;
    io::AtomicFile& to = outside[i] ? *data : out;
    const WeightRef& w = weights[i];
    const bool changed = w.form && (w.form->nibbles || w.form->add != 0);
    for (const ir::TensorRef& t : w.parts())
      if (absl::Status s = changed ? WriteIntegers(to, t, *w.form, check) : WriteTensor(to, t, check); !s.ok())
        return io::Prefixed(text::StrCat("weight '", w.name, "': "), s);
    done += weights[i].nbytes();
    if (options.progress) options.progress(done, total);
  }
  const uint64_t written = out.position() + (data ? data->position() : 0);
  std::vector<io::AtomicFile*> files;
  if (data) files.push_back(data.get());
  files.push_back(&out);
  if (absl::Status s = io::CommitAll(absl::MakeSpan(files)); !s.ok()) return s;
  return written;
}

}  // namespace slipway::exporters::onnx_out
