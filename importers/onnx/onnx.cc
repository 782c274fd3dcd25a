// A model is read in two steps: first its messages by their lengths, in which the data of the main graph's initializers
// is found and left where it lies, then what is left by ONNX's Protobuf classes.
#include "importers/onnx/onnx.h"

#include <stdlib.h>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/list_error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/onnx/narrow_types.h"
#include "importers/onnx/to_aten.h"
#include "io/io_error.h"
#include "ir/tensor.h"
#include "onnx/onnx_pb.h"
#include "onnx_model/onnx_graph.h"
#include "onnx_model/types.h"

namespace slipway::importers {
namespace {

// Field numbers of onnx.proto.
constexpr uint32_t kIrVersion = 1, kGraph = 7, kOpsets = 8, kInitializer = 5, kRawData = 9, kLastField = 26;
constexpr uint64_t kKept = 1024;  // bytes of data that stay in the message: inference reads sizes from them

// One field of a message: its number, wire type, all its bytes, and those of its content where it has a length.
struct MessageField {
  uint32_t number = 0, type = 0;
  uint64_t begin = 0, content = 0, end = 0;
};

// The fields of a message, one after the other. False at the end and where it is malformed, which `good` tells.
class Fields {
 public:
  Fields(absl::Span<const uint8_t> data, uint64_t begin, uint64_t end) : data_(data), at_(begin), end_(end) {}
  bool good() const { return good_; }

  bool Next(MessageField* f) {
    if (at_ >= end_) return false;
    f->begin = at_;
    uint64_t key = 0, length = 0;
    if (!Varint(&key)) return Bad();
    f->number = static_cast<uint32_t>(key >> 3);
    f->type = static_cast<uint32_t>(key & 7);
    f->content = at_;
    switch (f->type) {
      case 0:
        if (!Varint(&length)) return Bad();
        break;
      case 1: at_ += 8; break;
      case 5: at_ += 4; break;
      case 2:
        if (!Varint(&length) || length > end_ - at_) return Bad();
        f->content = at_;
        at_ += length;
        break;
      default: return Bad();  // groups, which no message of ONNX has
    }
    if (at_ > end_ || f->number == 0 || key >> 3 > UINT32_MAX) return Bad();
    f->end = at_;
    return true;
  }

 private:
  absl::Span<const uint8_t> data_;
  uint64_t at_, end_;
  bool good_ = true;

  bool Bad() {
    good_ = false;
    return false;
  }
  bool Varint(uint64_t* out) {
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ >= end_) return false;
      const uint8_t byte = data_[at_++];
      *out |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
};

void PutVarint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
}
void PutMessage(std::string& out, uint32_t field, const std::string& content) {
  PutVarint(out, field << 3 | 2);
  PutVarint(out, content.size());
  out += content;
}

// Some exporters call every size that they do not know "?", which would make them one symbol.
void ForgetUnknownSizes(onnx::GraphProto& g) {
  for (auto* values : {g.mutable_input(), g.mutable_output(), g.mutable_value_info()})
    for (onnx::ValueInfoProto& v : *values) {
      if (!v.type().has_tensor_type() || !v.type().tensor_type().has_shape()) continue;
      for (auto& dim : *v.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
        if (dim.dim_param() == "?") dim.clear_dim_param();
    }
}

// Inputs that become initializers, all problems at once.
absl::Status MakeConstants(const std::map<std::string, ir::TensorRef>& constants, onnx::GraphProto& g) {
  std::vector<std::string> problems;
  for (const auto& [name, t] : constants) {
    const auto input = std::find_if(g.input().begin(), g.input().end(),
                                    [&name = name](const onnx::ValueInfoProto& v) { return v.name() == name; });
    if (input == g.input().end()) {
      std::vector<std::string> names;
      for (const onnx::ValueInfoProto& v : g.input()) names.push_back(v.name().substr(0, 100));
      problems.push_back(text::StrCat("'", name, "' is no input; those are ", text::Join(names, ", ")));
      continue;
    }
    const onnx::TypeProto::Tensor& type = input->type().tensor_type();
    bool fits = type.elem_type() == onnx_model::OnnxType(t.dtype) &&
                (!type.has_shape() || type.shape().dim_size() == static_cast<int>(t.sizes.size()));
    for (int d = 0; fits && d < type.shape().dim_size(); ++d)
      fits = !type.shape().dim(d).has_dim_value() || type.shape().dim(d).dim_value() == t.sizes[static_cast<size_t>(d)];
    if (!fits) {
      problems.push_back(text::StrCat("'", name, "' has another type or other sizes than the input"));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string bytes, ir::ReadDense(t));
    onnx::TensorProto* constant = g.add_initializer();
    constant->set_name(name);
    constant->set_data_type(type.elem_type());
    for (int64_t size : t.sizes) constant->add_dims(size);
    constant->set_raw_data(bytes);
    g.mutable_input()->erase(input);
  }
  return problems.empty() ? absl::OkStatus() : ListError("constants that do not fit the model", problems);
}

class Importer {
 public:
  explicit Importer(std::shared_ptr<io::MappedFile> file) : file_(std::move(file)), data_(file_->data()) {}

  using Constants = std::map<std::string, ir::TensorRef>;
  // With `constants`: these are initializers, and functions that the importer does not understand are replaced by their
  // bodies.
  absl::StatusOr<OnnxModel> Read(const Constants* constants) {
    ASSIGN_OR_RETURN(const std::string skeleton, Model());
    onnx::ModelProto model;
    google::protobuf::io::ArrayInputStream bytes(skeleton.data(), static_cast<int>(skeleton.size()));
    google::protobuf::io::CodedInputStream stream(&bytes);  // which reads messages in messages a hundred deep
    if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
      return Malformed("or nested too deeply");
    if (!model.has_graph()) return Malformed("without a graph");
    if (constants) {
      RETURN_IF_ERROR(MakeConstants(*constants, *model.mutable_graph()));
      ForgetUnknownSizes(*model.mutable_graph());
      RETURN_IF_ERROR(onnx_model::InlineFunctions(model, UnderstandsOnnx));
    }
    ASSIGN_OR_RETURN(const auto weights, Weights(model.graph()));
    OnnxModel out;
    ASSIGN_OR_RETURN(out.program,
                     onnx_model::ToProgram(model, weights, [&](const onnx::TensorProto& t) { return External(t); }));
    RETURN_IF_ERROR(onnx_model::InferTypes(*out.program, /*afresh=*/false));
    out.external = std::move(used_);
    return out;
  }

 private:
  struct Range {
    bool cut = false;  // out of the message
    uint64_t offset = 0, size = 0;
  };

  const std::shared_ptr<io::MappedFile> file_;
  const absl::Span<const uint8_t> data_;
  std::vector<Range> ranges_;  // of the main graph's initializers
  std::map<std::string, std::shared_ptr<io::MappedFile>> files_;
  std::map<std::string, uint64_t> used_;

  absl::Status Malformed(std::string_view why) const {
    return absl::InvalidArgumentError(text::StrCat("the ONNX model is malformed", why.empty() ? "" : ", ", why));
  }

  // ---- The message without the data of initializers

  absl::StatusOr<std::string> Model() { return Message(0, data_.size(), kGraph, &Importer::GraphMessage); }
  absl::StatusOr<std::string> GraphMessage(const MessageField& graph) {
    return Message(graph.content, graph.end, kInitializer, &Importer::TensorMessage);
  }
  // The fields from `begin` to `end`, those of this number as `part` makes them.
  absl::StatusOr<std::string> Message(uint64_t begin, uint64_t end, uint32_t number,
                                      absl::StatusOr<std::string> (Importer::*part)(const MessageField&)) {
    std::string out;
    Fields fields(data_, begin, end);
    for (MessageField f; fields.Next(&f);) {
      if (f.number == number && f.type == 2) {
        ASSIGN_OR_RETURN(const std::string content, (this->*part)(f));
        PutMessage(out, number, content);
      } else {
        Copy(f, out);
      }
      RETURN_IF_ERROR(Fits(out));
    }
    if (!fields.good()) return Malformed("");
    return out;
  }
  absl::StatusOr<std::string> TensorMessage(const MessageField& tensor) {
    std::string out;
    Range range;
    Fields fields(data_, tensor.content, tensor.end);
    for (MessageField f; fields.Next(&f);) {
      if (f.number == kRawData && f.type == 2 && f.end - f.content > kKept)
        range = {true, f.content, f.end - f.content};
      else
        Copy(f, out);
      RETURN_IF_ERROR(Fits(out));
    }
    if (!fields.good()) return Malformed("");
    ranges_.push_back(range);
    return out;
  }
  void Copy(const MessageField& f, std::string& out) const {
    out.append(reinterpret_cast<const char*>(data_.data()) + f.begin, f.end - f.begin);
  }
  // Bytes of data are not counted: only what Protobuf has to hold.
  absl::Status Fits(const std::string& s) const {
    constexpr uint64_t kMost = (uint64_t{1} << 31) - 1;
    if (s.size() <= kMost) return absl::OkStatus();
    return absl::UnimplementedError(
        "an ONNX model of 2 GB or more without its weights: Protobuf has no messages of that size");
  }

  // ---- Weights

  absl::StatusOr<std::vector<std::optional<ir::TensorRef>>> Weights(const onnx::GraphProto& g) {
    std::vector<std::optional<ir::TensorRef>> out(static_cast<size_t>(g.initializer_size()));
    for (size_t i = 0; i < out.size() && i < ranges_.size(); ++i) {
      const onnx::TensorProto& t = g.initializer(static_cast<int>(i));
      if (!ranges_[i].cut || t.data_location() == onnx::TensorProto::EXTERNAL) continue;
      ASSIGN_OR_RETURN(std::optional<ir::TensorRef> ref, onnx_model::ShapeOf(t));
      if (!ref) return NoType(t);
      if (static_cast<uint64_t>(ref->nbytes()) != ranges_[i].size)
        return onnx_model::SizeMismatch(t, ranges_[i].size, static_cast<uint64_t>(ref->nbytes()));
      Place(io::FileRange{file_, ranges_[i].offset, ranges_[i].size}, *ref);
      out[i] = std::move(ref);
    }
    return out;
  }
  static absl::Status NoType(const onnx::TensorProto& t) {
    return absl::UnimplementedError(
        text::StrCat("initializer '", t.name().substr(0, 200), "' of element type ", t.data_type()));
  }
  static void Place(io::FileRange range, ir::TensorRef& ref) {
    auto storage = std::make_shared<ir::Storage>();
    storage->size = range.size;
    storage->bytes = io::Bytes(std::move(range));
    ref.storage = std::move(storage);
  }

  absl::StatusOr<ir::TensorRef> External(const onnx::TensorProto& t) {
    const auto error = [&](std::string_view what) {
      return absl::InvalidArgumentError(text::StrCat("initializer '", t.name().substr(0, 200), "': ", what));
    };
    std::string location;
    uint64_t offset = 0;
    std::optional<uint64_t> length;
    for (const auto& e : t.external_data()) {
      uint64_t number = 0;
      if (e.key() == "location") location = e.value();
      if (e.key() != "offset" && e.key() != "length") continue;
      if (!text::ParseNumber(e.value(), &number)) return error(text::StrCat("its ", e.key(), " is no number"));
      if (e.key() == "offset")
        offset = number;
      else
        length = number;
    }
    ASSIGN_OR_RETURN(std::optional<ir::TensorRef> ref, onnx_model::ShapeOf(t));
    if (!ref) return NoType(t);
    ASSIGN_OR_RETURN(const auto file, Beside(location));
    const auto wanted = static_cast<uint64_t>(ref->nbytes());
    if (length && *length != wanted) return onnx_model::SizeMismatch(t, *length, wanted);
    if (offset > file->size() || wanted > file->size() - offset)
      return error(text::StrCat("its data is at ", offset, " to ", offset, "+", wanted, " of a file of ", file->size(),
                                " bytes"));
    used_[location] += wanted;
    Place(io::FileRange{file, offset, wanted}, *ref);
    return *std::move(ref);
  }

  // A file in the folder of the model or below, whatever links lead there.
  absl::StatusOr<std::shared_ptr<io::MappedFile>> Beside(const std::string& location) {
    std::shared_ptr<io::MappedFile>& entry = files_[location];
    if (entry) return entry;
    const auto outside = [&] {
      return absl::InvalidArgumentError(text::StrCat(
          "'", location.substr(0, 200), "', which weights are said to lie in, is no file below the model's folder"));
    };
    if (location.empty() || location[0] == '/' || location.find('\0') != std::string::npos) return outside();
    for (std::string_view part : text::Split(location, '/'))
      if (part == "..") return outside();
    const size_t slash = file_->path().rfind('/');
    const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : file_->path().substr(0, slash);
    const std::string path = text::StrCat(folder, "/", location);
    ASSIGN_OR_RETURN(auto file, io::MappedFile::Open(path));
    char real_folder[4096], real_file[4096];
    if (!realpath(folder.c_str(), real_folder) || !realpath(path.c_str(), real_file)) return io::IoError(errno, path);
    if (!std::string_view(real_file).starts_with(
            text::StrCat(real_folder, std::string_view(real_folder) == "/" ? "" : "/")))
      return outside();
    return entry = std::move(file);
  }
};

}  // namespace

bool LooksLikeOnnx(const io::MappedFile& file) {
  bool graph = false, version = false;
  Fields fields(file.data(), 0, file.size());
  for (MessageField f; fields.Next(&f);) {
    if (f.number > kLastField) return false;
    graph |= f.number == kGraph && f.type == 2;
    version |= (f.number == kIrVersion && f.type == 0) || (f.number == kOpsets && f.type == 2);
  }
  return fields.good() && graph && version;
}

absl::StatusOr<OnnxModel> ReadOnnx(const std::shared_ptr<io::MappedFile>& file) { return Importer(file).Read(nullptr); }

namespace {

absl::StatusOr<OnnxNotes> NotesOf(const ir::Program& p) {
  OnnxNotes notes;
  ASSIGN_OR_RETURN(const onnx::ModelProto frame, onnx_model::FrameOf(p));
  for (const onnx::StringStringEntryProto& m : frame.metadata_props()) notes.metadata[m.key()] = m.value();
  const auto look = [&](const ir::Value* v) {
    const ir::DType wide = v->type().is_tensor() ? onnx_in::ProgramType(v->dtype()) : ir::DType::kUnknown;
    if (v->type().is_tensor() && wide != v->dtype())
      notes.narrow.push_back(text::StrCat(v->name(), ": ", onnx_model::SchemaTypeName(v->dtype()), " as ",
                                          onnx_model::SchemaTypeName(wide)));
  };
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (!p.input_specs[i].is_weight()) look(p.graph->inputs()[i]);
  for (const ir::Arg& a : p.graph->outputs)
    if (const ir::Value* v = a.value()) look(v);
  return notes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ir::Program>> ReadOnnxProgram(const std::shared_ptr<io::MappedFile>& file,
                                                             const std::map<std::string, ir::TensorRef>& constants,
                                                             int written, OnnxNotes* notes) {
  ASSIGN_OR_RETURN(OnnxModel model, Importer(file).Read(&constants));
  if (notes) {
    ASSIGN_OR_RETURN(*notes, NotesOf(*model.program));
  }
  RETURN_IF_ERROR(OnnxToAten(*model.program, written));
  return std::move(model.program);
}

}  // namespace slipway::importers
