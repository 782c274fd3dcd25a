// Three tables: bytes at a place, names within a zip archive, names of files. What each says is for people who took the
// file for another one.
#include "driver/edge/foreign_formats.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "io/zip_reader.h"

namespace slipway::driver {
namespace {

constexpr std::string_view
    kWeights = "give the safetensors or the torch.save checkpoint that it was made of",
    kProgram = "give the program that it was made of: torch.export.save(torch.export.export(model, args), 'model.pt2')",
    kOtherFramework = "slipway reads what PyTorch leaves: load the weights into a PyTorch model and export that",
    kArrays =
        "slipway reads what PyTorch leaves; weights also as .safetensors, .npz and .npy: save the arrays as one of "
        "those",
    kTorchScript = "export the model with torch.export, or torch.save its state_dict()",
    kDownload =
        "the download failed (a page of errors or licences in place of the file): look at it with a browser, and "
        "download the file itself";

struct Mark {
  size_t at;
  std::string_view bytes, title, help;
};
using namespace std::string_view_literals;
constexpr Mark kMarks[] = {
    {0, "GGUF"sv, "a GGUF file (llama.cpp)", kWeights},
    {0, "lmgg"sv, "a GGML file (llama.cpp)", kWeights},
    {0, "fmgg"sv, "a GGML file (llama.cpp)", kWeights},
    {0, "tjgg"sv, "a GGML file (llama.cpp)", kWeights},
    {0, "algg"sv, "a GGML adapter (llama.cpp)", kWeights},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file (Keras weights, h5)", kArrays},
    {4, "TFL3"sv, "a TensorFlow Lite (LiteRT) model", kOtherFramework},
    {4, "ET12"sv, "an ExecuTorch program (.pte)", kProgram},
    {4, "FT01"sv, "ExecuTorch data (.ptd)", kWeights},
    {4, "ORTM"sv, "an ONNX Runtime model (.ort)", "give the ONNX model that it was made of"},
    {0, "ptrt"sv, "a TensorRT engine", kProgram},
    {0, "ftrt"sv, "a TensorRT engine", kProgram},
    {0, "RKNN"sv, "an RKNN model", kProgram},
    {0, "7767517\n"sv, "an ncnn parameter file", kProgram},
    {0, "version https://git-lfs.github.com/spec/"sv, "a Git LFS pointer in place of the file",
     "git lfs pull brings the file itself"},
    {0, "oid sha256:"sv, "a Git LFS pointer in place of the file", "git lfs pull brings the file itself"},
    {0, "\x1f\x8b"sv, "a gzip archive", "decompress it first (gunzip, or tar -xzf)"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "an xz archive", "decompress it first (unxz, or tar -xJf)"},
    {0, "\x28\xb5\x2f\xfd"sv, "a Zstandard archive", "decompress it first (unzstd)"},
    {0, "BZh"sv, "a bzip2 archive", "decompress it first (bunzip2, or tar -xjf)"},
    {0, "\x04\x22\x4d\x18"sv, "an LZ4 archive", "decompress it first (unlz4)"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "unpack it first (7z x)"},
    {0, "Rar!\x1a\x07"sv, "a RAR archive", "unpack it first (unrar x)"},
    {0, "!<arch>\n"sv, "a static library or a Debian package", "unpack it first"},
    {0, "%PDF"sv, "a PDF document", kDownload},
};

// Zip archives by a member's name, or the end of one.
struct Member {
  std::string_view name, title, help;
};
constexpr Member kMembers[] = {
    {"/constants.pkl", "a TorchScript archive (torch.jit.save)", kTorchScript},
    {"/code/__torch__.py", "a TorchScript archive (torch.jit.save)", kTorchScript},
    {"model.weights.h5", "a Keras model (.keras)", kArrays},
    {"variables.h5", "a Keras model", kArrays},
    {"saved_model.pb", "a zip archive of a TensorFlow SavedModel", kOtherFramework},
    {"Manifest.json", "a zip archive of a Core ML package", kProgram},
    {"MAR-INF/MANIFEST.json", "a TorchServe archive (.mar)", "unpack it and give the checkpoint in it"},
    {"model_config.yaml", "an archive of NeMo", "unpack it and give the checkpoint in it"},
};

// Formats that begin with nothing of their own.
struct Suffix {
  std::string_view suffix, title, help;
};
constexpr Suffix kFormatSuffixes[] = {
    {"saved_model.pb", "a TensorFlow SavedModel's graph", kOtherFramework},
    {".pb", "a TensorFlow graph or another message of Protobuf", kOtherFramework},
    {".pbtxt", "a TensorFlow graph as text", kOtherFramework},
    {".msgpack", "a MessagePack file (Flax weights)", kArrays},
    {".ckpt.meta", "a TensorFlow checkpoint's graph", kOtherFramework},
    {".ckpt.index", "a TensorFlow checkpoint's index", kArrays},
    {".mlmodel", "a Core ML model", kProgram},
    {".engine", "a TensorRT engine", kProgram},
    {".plan", "a TensorRT engine", kProgram},
    {".mnn", "an MNN model", kProgram},
    {".pdmodel", "a PaddlePaddle program", kOtherFramework},
    {".pdparams", "PaddlePaddle weights", kArrays},
    {".pdiparams", "PaddlePaddle weights", kArrays},
    {".caffemodel", "Caffe weights", kArrays},
    {".prototxt", "a Caffe network", kOtherFramework},
    {".tflite", "a damaged TensorFlow Lite (LiteRT) model", kOtherFramework},
    {".pte", "a damaged ExecuTorch program", kProgram},
    {".gguf", "a damaged GGUF file", kWeights},
    {".h5", "a damaged HDF5 file", kArrays},
    {".py", "Python source", kProgram},
    {".ipynb", "a notebook", kProgram},
    {".yaml", "a configuration", "give the model or its weights"},
    {".yml", "a configuration", "give the model or its weights"},
    {".pkl", "a pickle that torch.save did not write", "torch.save what it holds; a state_dict() is best"},
    {".pickle", "a pickle that torch.save did not write", "torch.save what it holds; a state_dict() is best"},
    {".joblib", "a pickle of joblib", "torch.save what it holds; a state_dict() is best"},
};

absl::Status Foreign(const std::string& path, std::string_view title, std::string_view help) {
  return WithHelp(absl::InvalidArgumentError(text::StrCat(path, ": ", title, ", which slipway does not read")), help);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// What a text that begins so is, where it is none of a program's or of weights.
absl::Status CheckText(const std::string& path, std::string_view head) {
  text::ConsumePrefix(&head, "\xef\xbb\xbf");
  const std::string lower = Lower(text::StripLeft(head));
  if (lower.starts_with("<!doctype html") || lower.starts_with("<html") || lower.starts_with("<head") ||
      (lower.starts_with("<!--") && text::Contains(lower, "<html")))
    return Foreign(path, "a web page (HTML)", kDownload);
  if (lower.starts_with("<?xml") || lower.starts_with("<net ")) {
    if (text::Contains(lower, "<net ")) return Foreign(path, "an OpenVINO model (IR)", kProgram);
    if (text::Contains(lower, "<html")) return Foreign(path, "a web page (HTML)", kDownload);
    if (text::Contains(lower, "<error")) return Foreign(path, "an error message of a server", kDownload);
    return Foreign(path, "an XML document", "give the model or its weights");
  }
  if (lower.starts_with("{\"error\"") || lower.starts_with("{\"message\"") || lower.starts_with("{\"detail\""))
    return Foreign(path, "an error message of a server", kDownload);
  for (std::string_view answer : {"entry not found", "not found", "access denied", "access to model",
                                  "invalid username or password", "repository not found", "unauthorized", "forbidden"})
    if (lower.starts_with(answer)) return Foreign(path, "an error message of a server", kDownload);
  return absl::OkStatus();
}

// MessagePack of Flax: a map whose first key is a text and whose first value is a map or an array of NumPy's (an
// extension).
bool IsMessagePack(std::string_view data) {
  const auto byte = [&](size_t i) { return i < data.size() ? static_cast<uint8_t>(data[i]) : 0; };
  size_t at = byte(0) > 0x80 && byte(0) <= 0x8f ? 1 : byte(0) == 0xde ? 3 : byte(0) == 0xdf ? 5 : 0;
  if (at == 0) return false;
  size_t length = 0;
  if (byte(at) >= 0xa1 && byte(at) <= 0xbf)
    length = byte(at++) & 0x1f;
  else if (byte(at) == 0xd9)
    length = byte(at + 1), at += 2;
  if (length == 0 || at + length >= data.size()) return false;
  const std::string_view key = data.substr(at, length);
  if (!std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isprint(c); })) return false;
  const uint8_t value = byte(at + length);
  return (value >= 0x80 && value <= 0x8f) || value == 0xde || value == 0xdf || (value >= 0xc7 && value <= 0xc9) ||
         (value >= 0xd4 && value <= 0xd8);
}

// TensorFlow's tables (.index of a checkpoint) end with a number.
bool IsTensorFlowTable(std::string_view data) { return data.ends_with("\x57\xfb\x80\x8b\x24\x75\x47\xdb"); }

// A tar, but for those of torch.save before 0.4, which begin with one of these members; headers of other kinds may come
// first.
bool IsTar(std::string_view data) {
  static constexpr std::string_view kOfTorch[] = {"storages", "tensors", "pickle", "sys_info"};
  constexpr size_t kBlock = 512;
  const auto is_header = [&](size_t at) { return at + kBlock <= data.size() && data.substr(at + 257, 5) == "ustar"; };
  if (!is_header(0)) return false;
  size_t at = 0;
  for (int headers = 0; headers < 4 && is_header(at); ++headers) {
    std::string_view name = data.substr(at, 100), octal = data.substr(at + 124, 11);
    name = name.substr(0, name.find('\0'));
    text::ConsumePrefix(&name, "./");
    if (std::find(std::begin(kOfTorch), std::end(kOfTorch), name) != std::end(kOfTorch)) return false;
    size_t size = 0;
    for (char c : octal) {
      if (c < '0' || c > '7') break;
      size = size << 3 | static_cast<size_t>(c - '0');
    }
    if (size > data.size()) break;
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return true;
}

absl::Status CheckZip(const std::string& path, const std::shared_ptr<io::MappedFile>& file) {
  auto zip = io::ZipReader::Open(file);
  if (!zip.ok()) return absl::OkStatus();
  const auto entries = (*zip)->entries();
  for (const Member& m : kMembers)
    for (const io::ZipEntry& e : entries)
      if (std::string_view(e.name) == m.name || (m.name[0] == '/' && std::string_view(e.name).ends_with(m.name)))
        return Foreign(path, m.title, m.help);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckForeign(const std::string& path, const std::shared_ptr<io::MappedFile>& file, bool by_name) {
  const absl::Span<const uint8_t> bytes = file->data();
  const std::string_view data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (data.empty())
    return WithHelp(absl::InvalidArgumentError(text::StrCat(path, ": the file is empty")),
                    "it was not written to its end, or not downloaded");
  for (const Mark& m : kMarks)
    if (data.size() >= m.at && data.substr(m.at).starts_with(m.bytes)) return Foreign(path, m.title, m.help);
  constexpr size_t kHead = 4096;
  if (absl::Status s = CheckText(path, data.substr(0, kHead)); !s.ok()) return s;
  if (IsMessagePack(data)) return Foreign(path, "a MessagePack file (Flax weights)", kArrays);
  if (IsTensorFlowTable(data)) return Foreign(path, "a TensorFlow checkpoint's index", kArrays);
  if (IsTar(data)) return Foreign(path, "a tar archive", "unpack it first (tar -xf)");
  if (std::string_view head = data.substr(0, kHead); head.find_first_not_of('\0') == head.npos)
    return WithHelp(absl::InvalidArgumentError(
                        text::StrCat(path, ": the file begins with ", head.size(), " zero bytes and is of no format")),
                    "it was not written or downloaded to its end");
  if (data.starts_with("PK"))
    if (absl::Status s = CheckZip(path, file); !s.ok()) return s;
  if (!by_name) return absl::OkStatus();
  const std::string name = Lower(path);
  for (const Suffix& s : kFormatSuffixes)
    if (name.ends_with(s.suffix)) return Foreign(path, s.title, s.help);
  if (const size_t part = name.rfind(".data-"); part != name.npos && text::Contains(name.substr(part), "-of-"))
    return Foreign(path, "a part of a TensorFlow checkpoint", kArrays);
  if (data.starts_with("PK"))
    return Foreign(path, "a zip archive that torch.save and torch.export.save did not write",
                   "unpack it first, and give the model in it");
  return absl::OkStatus();
}

absl::Status CheckForeignFolder(const std::string& path, const std::set<std::string>& names) {
  const auto has_suffix = [&](std::string_view suffix) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& n) { return n.ends_with(suffix); });
  };
  if (names.contains("saved_model.pb") || names.contains("saved_model.pbtxt"))
    return Foreign(path, "a TensorFlow SavedModel", kOtherFramework);
  if (names.contains("Manifest.json") && names.contains("Data")) return Foreign(path, "a Core ML package", kProgram);
  if (names.contains("_METADATA") || names.contains("manifest.ocdbt"))
    return Foreign(path, "a checkpoint of Orbax (JAX)", kArrays);
  if (has_suffix(".index") &&
      std::any_of(names.begin(), names.end(), [](const std::string& n) { return text::Contains(n, ".data-"); }))
    return Foreign(path, "a TensorFlow checkpoint", kArrays);
  static constexpr Suffix kFiles[] = {{".gguf", "a folder of GGUF files", kWeights},
                                      {".h5", "a folder of HDF5 files", kArrays},
                                      {".msgpack", "a folder of MessagePack files (Flax weights)", kArrays},
                                      {".tflite", "a folder of TensorFlow Lite models", kOtherFramework}};
  for (const Suffix& f : kFiles)
    if (has_suffix(f.suffix)) return Foreign(path, f.title, f.help);
  return absl::OkStatus();
}

}  // namespace slipway::driver
