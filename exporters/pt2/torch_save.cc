// The pickle is written opcode by opcode, with the memo numbering of Python's own pickler, and storages follow as
// members in the order of their keys.
#include "exporters/pt2/torch_save.h"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/dtypes.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "exporters/output_limit.h"
#include "io/atomic_writer.h"

namespace slipway::exporters {
namespace {

// The class of a typed storage; newer element types have none and are stated at the tensor.
std::string_view StorageClass(ir::DType t) { return kElementTypes[static_cast<size_t>(t)].storage_class; }

// The stack operations that are needed, of pickle protocol 2.
class Pickle {
 public:
  Pickle() { out_ = "\x80\x02"; }
  void Op(char op) { out_ += op; }
  void Global(std::string_view module, std::string_view name) { text::StrAppend(&out_, "c", module, "\n", name, "\n"); }
  void String(std::string_view s) {
    out_ += 'X';
    Little(s.size(), 4);
    out_ += s;
  }
  void Int(int64_t v) {
    if (v >= 0 && v < 256) {
      out_ += 'K';
      Little(v, 1);
    } else if (v == static_cast<int32_t>(v)) {
      out_ += 'J';
      Little(v, 4);
    } else {
      out_ += '\x8a';
      Little(8, 1);
      Little(v, 8);
    }
  }
  void Bool(bool v) { out_ += v ? '\x88' : '\x89'; }
  void Tuple(const std::vector<int64_t>& items) {
    out_ += '(';
    for (int64_t i : items) Int(i);
    out_ += 't';
  }
  void EmptyOrderedDict() {
    Global("collections", "OrderedDict");
    out_ += ")R";
  }
  std::string Finish() {
    out_ += '.';
    return std::move(out_);
  }

 private:
  std::string out_;
  void Little(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(v >> (8 * i));
  }
};

absl::Status AddTensor(Pickle& p, const NamedTensor& t, const PlacedTensors& placed,
                       const PlacedTensors::Place& place) {
  const std::string_view storage = StorageClass(t.tensor.dtype);
  const std::string_view dtype = ir::Info(t.tensor.dtype).torch_name;
  if (dtype.empty())
    return absl::UnimplementedError(text::StrCat("'", t.name, "': elements of type ", ir::Name(t.tensor.dtype)));
  if (t.is_parameter) {
    p.Global("torch._utils", "_rebuild_parameter");
    p.Op('(');
  }
  p.Global("torch._utils", storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  p.Op('(');
  p.Op('(');
  p.String("storage");
  if (storage.empty())
    p.Global("torch.storage", "UntypedStorage");
  else
    p.Global("torch", storage);
  p.String(std::to_string(place.payload));
  p.String("cpu");
  p.Int(static_cast<int64_t>(placed.payloads[place.payload].bytes.size() /
                             (storage.empty() ? 1 : ir::ByteSize(t.tensor.dtype))));
  p.Op('t');
  p.Op('Q');  // the storage of that id
  p.Int(place.offset);
  p.Tuple(t.tensor.sizes);
  p.Tuple(t.tensor.strides);
  p.Bool(t.requires_grad && !t.is_parameter);
  p.EmptyOrderedDict();  // hooks
  if (storage.empty()) p.Global("torch", dtype);
  p.Op('t');
  p.Op('R');
  if (t.is_parameter) {
    p.Bool(t.requires_grad);
    p.EmptyOrderedDict();
    p.Op('t');
    p.Op('R');
  }
  return absl::OkStatus();
}

// Into a ZipLayout or by a ZipWriter.
template <typename Zip>
absl::Status AddMembers(std::string pickle, const PlacedTensors& placed, Zip& zip) {
  RETURN_IF_ERROR(zip.Add("archive/data.pkl", io::Bytes::Of(std::move(pickle))));
  RETURN_IF_ERROR(zip.Add("archive/byteorder", io::Bytes::Of("little")));
  for (size_t i = 0; i < placed.payloads.size(); ++i)
    RETURN_IF_ERROR(zip.Add(text::StrCat("archive/data/", i), placed.payloads[i].bytes, placed.payloads[i].crc32));
  return zip.Add("archive/version", io::Bytes::Of("3\n"));
}

absl::StatusOr<io::ZipLayout> LayOut(std::string pickle, const PlacedTensors& placed) {
  io::ZipLayout zip;
  RETURN_IF_ERROR(AddMembers(std::move(pickle), placed, zip));
  return zip;
}

absl::StatusOr<std::string> DictPickle(const std::vector<NamedTensor>& tensors, const PlacedTensors& placed) {
  Pickle p;
  p.EmptyOrderedDict();
  p.Op('(');
  for (size_t i = 0; i < tensors.size(); ++i) {
    p.String(tensors[i].name);
    if (absl::Status s = AddTensor(p, tensors[i], placed, placed.places[i]); !s.ok()) return s;
  }
  p.Op('u');
  return p.Finish();
}

}  // namespace

absl::StatusOr<io::ZipLayout> TorchSaveDict(const std::vector<NamedTensor>& tensors, const PlacedTensors& placed) {
  ASSIGN_OR_RETURN(std::string pickle, DictPickle(tensors, placed));
  return LayOut(std::move(pickle), placed);
}

absl::StatusOr<TorchSaveReport> ExportTorchSave(const std::vector<NamedTensor>& tensors, const std::string& path,
                                                uint64_t max_output, bool dry_run) {
  ASSIGN_OR_RETURN(const PlacedTensors placed, PlaceTensors(tensors));
  TorchSaveReport report;
  for (const Payload& payload : placed.payloads) report.tensor_bytes += payload.bytes.size();
  RETURN_IF_ERROR(CheckOutput(report.tensor_bytes, max_output));
  ASSIGN_OR_RETURN(std::string pickle, DictPickle(tensors, placed));
  if (dry_run) return report;
  ASSIGN_OR_RETURN(const std::unique_ptr<io::AtomicFile> file, io::AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Reserve(report.tensor_bytes));
  io::ZipWriter zip(file.get());
  RETURN_IF_ERROR(AddMembers(std::move(pickle), placed, zip));
  RETURN_IF_ERROR(zip.Finish());
  report.file_bytes = file->position();
  RETURN_IF_ERROR(file->Commit());
  return report;
}

absl::StatusOr<std::string> TorchSaveArguments(const std::vector<SampleArgument>& arguments) {
  std::vector<NamedTensor> tensors;
  for (const SampleArgument& a : arguments)
    if (!a.number) tensors.push_back({text::StrCat("argument ", tensors.size()), a.tensor});
  auto placed = PlaceTensors(tensors);
  if (!placed.ok()) return placed.status();
  Pickle p;
  p.Op('(');
  size_t next = 0;
  for (const SampleArgument& a : arguments) {
    if (!a.number) {
      if (absl::Status s = AddTensor(p, tensors[next], *placed, placed->places[next]); !s.ok()) return s;
      ++next;
      continue;
    }
    auto bytes = ir::ReadDense(a.tensor);
    if (!bytes.ok()) return bytes.status();
    int64_t number = 0;
    if (bytes->size() != sizeof number) return absl::InvalidArgumentError("a number that is no i64");
    std::memcpy(&number, bytes->data(), sizeof number);
    p.Int(number);
  }
  p.Op('t');
  p.Op('}');
  p.Op('\x86');
  auto zip = LayOut(p.Finish(), *placed);
  if (!zip.ok()) return zip.status();
  std::string out;
  for (const io::ZipLayout::Piece& piece : zip->Finish()) {
    const auto data = piece.bytes.data();
    out.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return out;
}

}  // namespace slipway::exporters
