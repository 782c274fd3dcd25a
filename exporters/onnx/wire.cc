// See wire.h. Field numbers are those of onnx.proto (ModelProto.graph = 7, GraphProto.initializer = 5,
// TensorProto.raw_data = 9); the wire format is Protobuf's (varints, length-delimited fields).
#include "exporters/onnx/wire.h"

#include <algorithm>

#include "base/text.h"
#include "exporters/onnx/types.h"
#include "io/atomic_writer.h"

namespace slipway::exporters::onnx_out {
namespace {

constexpr uint64_t kMessageLimit = (uint64_t{1} << 31) - (uint64_t{1} << 20);  // Protobuf messages stay below 2 GB
constexpr uint64_t kPage = 4096;
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
  for (int64_t d : w.tensor.sizes) t.add_dims(d);
  t.set_data_type(OnnxType(w.tensor.dtype));
  t.set_name(w.name);
  return t;
}

// The dense bytes of a tensor, file to file where they lie dense in a file.
absl::Status WriteTensor(io::AtomicFile& out, const ir::TensorRef& t) {
  const uint64_t n = t.nbytes();
  if (n == 0) return absl::OkStatus();
  if (const io::Bytes* bytes = std::get_if<io::Bytes>(&t.storage->bytes); bytes && t.is_contiguous()) {
    io::Bytes part = bytes->Part(t.offset, n);
    if (const io::FileRange* range = part.file_range()) return out.CopyFrom(*range);
    return out.Write(part.data());
  }
  // Strided: by slices of the first dimension so that memory stays bounded.
  if (t.sizes.size() > 1 && t.sizes[0] > 1 && n > (uint64_t{64} << 20)) {
    ir::TensorRef row = t;
    row.sizes.erase(row.sizes.begin());
    row.strides.erase(row.strides.begin());
    for (int64_t i = 0; i < t.sizes[0]; ++i) {
      row.offset = t.offset + i * t.strides[0] * ir::ByteSize(t.dtype);
      if (absl::Status s = WriteTensor(out, row); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  auto dense = ir::ReadDense(t);
  if (!dense.ok()) return dense.status();
  return out.Write({reinterpret_cast<const uint8_t*>(dense->data()), dense->size()});
}

absl::Status WriteString(io::AtomicFile& out, const std::string& s) {
  return out.Write({reinterpret_cast<const uint8_t*>(s.data()), s.size()});
}

}  // namespace

absl::StatusOr<uint64_t> WriteModel(onnx::ModelProto& model, const std::vector<WeightRef>& weights,
                                    const std::string& path, const OnnxOptions& options) {
  uint64_t total = 0;
  for (const WeightRef& w : weights) {
    if (absl::Status s = ir::Validate(w.tensor); !s.ok())
      return absl::Status(s.code(), text::StrCat("weight '", w.name, "': ", s.message()));
    total += w.tensor.nbytes();
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
    const uint64_t n = weights[i].tensor.nbytes();
    onnx::TensorProto t = Header(weights[i]);
    outside[i] = split && n >= kExternalThreshold;
    if (outside[i]) {
      at = (at + kPage - 1) / kPage * kPage;
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
  if (absl::Status s = WriteString(out, front); !s.ok()) return s;
  if (absl::Status s = WriteString(out, skeleton); !s.ok()) return s;
  uint64_t done = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (absl::Status s = WriteString(out, heads[i]); !s.ok()) return s;
    if (outside[i])
      if (absl::Status s = data->WriteZeros((kPage - data->position() % kPage) % kPage); !s.ok()) return s;
    if (absl::Status s = WriteTensor(outside[i] ? *data : out, weights[i].tensor); !s.ok()) return s;
    done += weights[i].tensor.nbytes();
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
