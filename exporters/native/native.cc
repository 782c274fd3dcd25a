// A library is, in order: the template's head, zeros up to the payload, the payload (header, plan, constants),
// and the template's tail. All of it is laid out before the first byte is written.
#include "exporters/native/native.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include "base/json.h"
#include "base/text.h"
#include "exporters/native/template.h"
#include "exporters/program_names.h"
#include "exporters/pt2/program.h"
#include "exporters/pt2/pt2.h"
#include "io/atomic_writer.h"
#include "io/digest.h"
#include "io/zip_writer.h"
#include "kernels/executor/plan_file.h"
#include "plan_generated.h"
#include "planner/lowering/rules.h"

namespace slipway::exporters {
namespace {

namespace file = plan_file;
using flatbuffers::Offset;

constexpr uint64_t kPlanPage = 4096;
constexpr uint64_t kLarge = uint64_t{2} << 20;
constexpr int64_t kPacked = 1 << 20;  // bytes packed at a time

// What a plan file says of a packed weight.
std::vector<int64_t> NumbersOf(const kernels::WeightMatrix& m) {
  std::vector<int64_t> n = {m.k, m.n, m.row, m.column, static_cast<int64_t>(m.packing)};
  if (m.packing == kernels::Packing::kConvFilters || m.packing == kernels::Packing::kTransposedConvFilters)
    n.insert(n.end(), {m.groups, m.taps});
  return n;
}

uint64_t RoundUp(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

// The constants of a plan and where each comes to lie. Equal ranges of a storage are one.
struct Constant {
  std::string name;
  ir::DType dtype;
  std::vector<int64_t> sizes, strides;
  io::Bytes bytes;
  uint32_t crc = 0;  // of these
  std::optional<kernels::WeightMatrix> packed;
  uint64_t size = 0;    // in the library
  uint64_t offset = 0;  // in the weights
};

// The bytes from a tensor's first element to its last.
int64_t Reach(const ir::TensorRef& t) {
  int64_t last = 0;
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    if (t.sizes[d] == 0) return 0;
    last += (t.sizes[d] - 1) * t.strides[d];
  }
  return (last + 1) * ir::ByteSize(t.dtype);
}

absl::StatusOr<io::Bytes> BytesOf(const ir::TensorRef& t) {
  const uint64_t n = static_cast<uint64_t>(Reach(t));
  if (const auto* b = std::get_if<io::Bytes>(&t.storage->bytes)) return b->Part(static_cast<uint64_t>(t.offset), n);
  const absl::Span<const uint8_t> mapped = ir::MappedBytes(*t.storage);
  if (mapped.size() < n) return absl::InternalError("a constant without memory");
  return io::Bytes::Of(std::string(reinterpret_cast<const char*>(mapped.data()) + t.offset, n));
}

class Library {
 public:
  Library(const ir::Program& program, const planner::PlannedProgram& planned, const NativeOptions& options)
      : program_(program), planned_(planned), plan_(planned.plan), options_(options) {}

  absl::Status Prepare() {
    if (absl::Status s = PlaceConstants(); !s.ok()) return s;
    for (const auto& [name, bytes] : options_.plugins) {
      plugin_offsets_.push_back(RoundUp(weights_size_, kernels::kConstantAlignment));
      weights_size_ = plugin_offsets_.back() + bytes.size();
    }
    const std::string plan = MakePlanFile();
    kernels::PayloadHeader header{};
    std::memcpy(header.magic, kernels::kPayloadMagic, sizeof header.magic);
    header.plan_offset = sizeof header;
    header.plan_size = plan.size();
    const uint64_t begin = sizeof header + plan.size();
    header.weights_offset = RoundUp(begin, weights_size_ >= kLarge ? kLarge : kPlanPage);
    header.weights_size = weights_size_;
    header.size = RoundUp(header.weights_offset + weights_size_, kPlanPage);

    auto template_id = TemplateId(*options_.machine);
    if (!template_id.ok()) return template_id.status();
    io::Sha256 digest;
    digest.Update(*template_id);
    digest.Update(plan);
    for (const Constant& c : constants_) digest.Update(text::StrCat(c.crc, " ", c.size, "\n"));
    for (const auto& [name, bytes] : options_.plugins)
      digest.Update(text::StrCat(io::Crc32Of(bytes), " ", bytes.size(), "\n"));
    const io::Sha256Digest id = digest.Finish();
    auto frame = FrameFor(*options_.machine, header.size, {reinterpret_cast<const char*>(id.data()), 20},
                          text::StrCat("slipway-", io::ToHex(id).substr(0, 32), ".so"));
    if (!frame.ok()) return frame.status();

    Add(std::move(frame->head));
    Zeros(frame->payload_offset - size_);
    Add(std::string(reinterpret_cast<const char*>(&header), sizeof header) + plan);
    Zeros(header.weights_offset - begin);
    const uint64_t weights = size_;
    for (const Constant& c : constants_) {
      if (c.size == 0) continue;
      Zeros(weights + c.offset - size_);
      Add({c.bytes, c.crc, c.packed, c.size});
    }
    for (size_t i = 0; i < plugin_offsets_.size(); ++i) {
      Zeros(weights + plugin_offsets_[i] - size_);
      const io::Bytes& bytes = options_.plugins[i].second;
      Add({bytes, std::nullopt, std::nullopt, bytes.size()});
    }
    Zeros(frame->payload_offset + header.size - size_);
    Add(std::move(frame->tail));
    return absl::OkStatus();
  }

  uint64_t size() const { return size_; }
  uint64_t weights_size() const { return weights_size_; }

  // `append` takes (bytes, CRC-32 where it is known).
  template <typename F>
  absl::Status Write(F append) {
    uint64_t done = 0;
    for (const Piece& piece : pieces_) {
      if (absl::Status s = piece.packed ? Pack(piece, append) : append(piece.bytes, piece.crc); !s.ok()) return s;
      done += piece.size;
      if (options_.progress) options_.progress(done, size_);
    }
    return absl::OkStatus();
  }

 private:
  struct Piece {
    io::Bytes bytes;
    std::optional<uint32_t> crc;  // of them
    std::optional<kernels::WeightMatrix> packed;
    uint64_t size = 0;  // as written
  };
  void Add(Piece piece) {
    size_ += piece.size;
    pieces_.push_back(std::move(piece));
  }
  void Add(std::string bytes) {
    const uint64_t n = bytes.size();
    if (n > 0) Add({io::Bytes::Of(std::move(bytes)), std::nullopt, std::nullopt, n});
  }

  // Some panels at a time.
  template <typename F>
  static absl::Status Pack(const Piece& piece, F append) {
    const kernels::WeightMatrix& m = *piece.packed;
    const int64_t panels = kernels::Panels(m), bytes = kernels::PanelBytes(m);
    const int64_t step = std::max<int64_t>(1, kPacked / bytes);
    const absl::Span<const uint8_t> all = piece.bytes.data();
    // Panels of a matrix whose columns are contiguous are read one after the other, and checked and given back so.
    const bool in_order = m.row == 1 && m.column == m.k && m.groups <= 1;
    uint32_t crc = 0;
    uint64_t read = 0;
    auto done_until = [&](uint64_t end) {
      if (piece.crc) crc = io::Crc32(crc, all.subspan(read, end - read));
      if (const io::FileRange* range = piece.bytes.file_range()) range->file->Release(range->offset + read, end - read);
      read = end;
    };
    for (int64_t first = 0; first < panels; first += step) {
      const int64_t last = std::min(panels, first + step);
      std::string out(static_cast<size_t>((last - first) * bytes), '\0');
      kernels::PackPanels(all.data(), m, first, last, out.data());
      if (absl::Status s = append(io::Bytes::Of(std::move(out)), std::nullopt); !s.ok()) return s;
      if (in_order && last < panels)
        done_until(static_cast<uint64_t>(last * kernels::kPanel * m.k * kernels::ByteSize(m.dtype)));
    }
    done_until(all.size());
    return piece.crc ? io::CheckCrc(crc, *piece.crc) : absl::OkStatus();
  }
  void Zeros(uint64_t n) { Add(std::string(n, '\0')); }  // less than two large pages

  absl::Status PlaceConstants() {
    std::map<int, const planner::PlannedProgram::Weight*> weights;
    for (const auto& w : planned_.weights) weights[w.buffer] = &w;
    std::map<
        std::tuple<const ir::Storage*, int64_t, ir::DType, std::vector<int64_t>, std::vector<int64_t>, std::string>,
        int>
        seen;
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const kernels::Buffer& buffer = plan_.buffers[b];
      if (buffer.kind != kernels::Buffer::kConstant) continue;
      Constant c;
      auto weight = weights.find(static_cast<int>(b));
      if (weight != weights.end()) {
        const ir::TensorRef& t = weight->second->tensor;
        auto [it, fresh] =
            seen.try_emplace({t.storage.get(), t.offset, t.dtype, t.sizes, t.strides, weight->second->name},
                             static_cast<int>(constants_.size()));
        if (!fresh) {
          constant_of_[static_cast<int>(b)] = it->second;
          continue;
        }
        auto bytes = BytesOf(t);
        if (!bytes.ok()) return bytes.status();
        c = {weight->second->name, t.dtype, t.sizes, t.strides, *std::move(bytes)};
        const bool whole = t.offset == 0 && c.bytes.size() == t.storage->size;
        c.crc = whole && t.storage->crc32 ? *t.storage->crc32 : io::Crc32Of(c.bytes);
        c.packed = weight->second->packed;
      } else {
        const auto n = static_cast<uint64_t>(plan_.exprs[buffer.bytes].value);
        std::string bytes(static_cast<const char*>(buffer.constant), buffer.constant ? n : 0);
        if (bytes.size() != n) return absl::InternalError("a constant of the plan without memory");
        c = {"", ir::DType::kUInt8, {static_cast<int64_t>(n)}, {1}, io::Bytes::Of(std::move(bytes))};
        c.crc = io::Crc32Of(c.bytes);
      }
      constant_of_[static_cast<int>(b)] = static_cast<int>(constants_.size());
      c.size = c.packed ? static_cast<uint64_t>(kernels::PackedBytes(*c.packed)) : c.bytes.size();
      // Tensors of one range of a file are written once: tied weights.
      const io::FileRange* range = c.bytes.file_range();
      if (range) {
        auto [it, fresh] = ranges_.try_emplace({range->file.get(), range->offset, range->size}, constants_.size());
        if (!fresh) {
          c.offset = constants_[it->second].offset;
          c.bytes = io::Bytes();
          c.size = 0;
          constants_.push_back(std::move(c));
          continue;
        }
      }
      c.offset = RoundUp(weights_size_, kernels::kConstantAlignment);
      weights_size_ = c.offset + c.size;
      constants_.push_back(std::move(c));
    }
    return absl::OkStatus();
  }

  uint64_t ReachOf(const Constant& c) const {
    ir::TensorRef t;
    t.dtype = c.dtype, t.sizes = c.sizes, t.strides = c.strides;
    return static_cast<uint64_t>(Reach(t));
  }

  // The plan as a FlatBuffer of schemas/plan.fbs, table by table. What is written into it has a statement of its own:
  // of arguments, each compiler would write them in another order.
  std::string MakePlanFile() {
    flatbuffers::FlatBufferBuilder b(1 << 16);
    auto strings = [&](const std::vector<std::string>& list) { return b.CreateVectorOfStrings(list); };
    std::vector<std::string> kernels;
    std::map<const kernels::Kernel*, uint16_t> kernel_index;
    std::vector<file::Step> steps;
    auto index_of = [&](const kernels::Kernel* k) -> uint16_t {
      if (!k) return 0;
      auto [it, fresh] = kernel_index.try_emplace(k, static_cast<uint16_t>(kernels.size()));
      if (fresh) kernels.emplace_back(k->name);
      return it->second;
    };
    std::vector<file::ChainOp> ops;
    for (const kernels::ChainOp& o : plan_.ops)
      ops.emplace_back(index_of(o.kernel), static_cast<uint8_t>(o.compute), static_cast<uint8_t>(o.result), o.inputs,
                       o.output, o.slot, o.in[0], o.in[1], o.in[2], o.ints, o.floats);
    for (const kernels::Step& s : plan_.steps) {
      const uint16_t k = index_of(s.kernel);
      steps.emplace_back(s.kind, static_cast<uint8_t>(s.compute), k, s.first_view, s.inputs, s.outputs, s.first_number,
                         s.ints, s.floats, s.symbol, s.expr, s.target, s.origin, s.first_op, s.ops);
    }
    std::vector<Offset<file::Symbol>> symbols;
    for (const auto& s : plan_.symbols)
      symbols.push_back(file::CreateSymbol(b, b.CreateString(s.name), s.min, s.max, s.real));
    std::vector<file::Expr> exprs;
    for (const auto& e : plan_.exprs) exprs.emplace_back(e.op, e.a, e.b, e.c, e.value);
    auto dims = [](const ir::Type& t) {
      std::vector<std::string> out;
      if (t.is_tensor())
        for (ir::Sym s : t.sizes) out.push_back(s.ToString());
      return out;
    };
    std::vector<Offset<file::Input>> inputs;
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const auto& in = plan_.inputs[i];
      const auto name = b.CreateString(in.name);
      const auto sizes = b.CreateVector(in.sizes);
      const auto texts = strings(dims(planned_.inputs[i].type));
      inputs.push_back(file::CreateInput(b, name, in.kind, static_cast<uint8_t>(in.dtype), sizes, in.value, texts));
    }
    std::vector<Offset<file::Output>> outputs;
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const auto& o = plan_.outputs[i];
      const auto name = b.CreateString(planned_.outputs[i].name);
      const auto sizes = b.CreateVector(o.sizes);
      const auto texts = strings(dims(planned_.outputs[i].type));
      outputs.push_back(file::CreateOutput(b, name, static_cast<uint8_t>(o.dtype), o.number, sizes, texts));
    }
    std::vector<file::Binding> bindings;
    for (const auto& x : plan_.bindings) bindings.emplace_back(x.symbol, x.input, x.dim, x.scale, x.shift);
    std::vector<Offset<file::Check>> checks;
    for (const auto& c : plan_.checks) checks.push_back(file::CreateCheck(b, c.expr, b.CreateString(c.text)));
    std::vector<file::Buffer> buffers;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const auto& x = plan_.buffers[i];
      auto constant = constant_of_.find(static_cast<int>(i));
      buffers.emplace_back(x.kind, x.bytes, x.slot, constant == constant_of_.end() ? -1 : constant->second);
    }
    std::vector<file::View> views;
    for (const auto& v : plan_.views)
      views.emplace_back(static_cast<uint8_t>(v.dtype), v.buffer, v.rank, v.offset, v.first_dim);
    std::vector<Offset<file::Constant>> constants;
    for (const Constant& c : constants_) {
      const auto name = b.CreateString(c.name);
      const auto sizes = b.CreateVector(c.sizes), strides = b.CreateVector(c.strides);
      const auto packed = c.packed ? b.CreateVector(NumbersOf(*c.packed)) : 0;
      constants.push_back(file::CreateConstant(
          b, name, c.offset, ReachOf(c), static_cast<uint8_t>(*planner::NativeType(c.dtype)), sizes, strides, packed));
    }
    std::vector<Offset<file::Origin>> origins;
    for (size_t i = 0; i < planned_.origins.size(); ++i) {
      const auto origin = b.CreateSharedString(planned_.origins[i]), place = b.CreateSharedString(planned_.places[i]);
      origins.push_back(file::CreateOrigin(b, origin, place));
    }
    std::vector<Offset<file::Pair>> metadata;
    for (const auto& [key, value] : options_.metadata) {
      const auto name = b.CreateString(key), text = b.CreateString(value);
      metadata.push_back(file::CreatePair(b, name, text));
    }
    std::vector<Offset<file::Plugin>> plugins;
    for (size_t i = 0; i < plugin_offsets_.size(); ++i)
      plugins.push_back(file::CreatePlugin(b, b.CreateString(options_.plugins[i].first), plugin_offsets_[i],
                                           options_.plugins[i].second.size()));
    const std::string in_spec = program_.in_spec.empty() ? PlainInputSpec(program_) : program_.in_spec;
    const std::string out_spec = program_.out_spec.empty() ? PlainOutputSpec(program_) : program_.out_spec;
    const auto leaves = Leaves(b);
    std::vector<file::State> states;
    for (const auto& s : plan_.states) states.emplace_back(s.input, s.dim, s.length, s.after, s.initial);
    // Braces: their elements are written in this order.
    const std::tuple fields{b.CreateString(program_.name),
                            strings(kernels),
                            b.CreateVector(symbols),
                            b.CreateVectorOfStructs(exprs),
                            b.CreateVector(inputs),
                            b.CreateVector(outputs),
                            b.CreateVectorOfStructs(bindings),
                            b.CreateVector(checks),
                            b.CreateVectorOfStructs(buffers),
                            b.CreateVector(plan_.dims),
                            b.CreateVectorOfStructs(views),
                            b.CreateVector(plan_.numbers),
                            b.CreateVectorOfStructs(steps),
                            strings(plan_.texts),
                            b.CreateVector(constants),
                            b.CreateVector(origins),
                            b.CreateVector(leaves),
                            b.CreateString(in_spec),
                            b.CreateString(out_spec),
                            b.CreateVector(metadata),
                            b.CreateVectorOfStructs(ops),
                            b.CreateVector(plugins),
                            b.CreateVectorOfStructs(states)};
    b.Finish(
        std::apply([&](auto... field) { return file::CreatePlan(b, kernels::kPlanFileVersion, field...); }, fields),
        file::PlanIdentifier());
    return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
  }

  std::vector<Offset<file::Leaf>> Leaves(flatbuffers::FlatBufferBuilder& b) const {
    std::vector<Offset<file::Leaf>> out;
    int next = 0;
    for (size_t i = 0; i < program_.graph->outputs.size(); ++i) {
      const ir::Arg& a = program_.graph->outputs[i];
      const bool update = i < program_.output_specs.size() && program_.output_specs[i].updates_state();
      if (update && !plan_.states.empty()) continue;  // of a state
      if (a.value()) {
        out.push_back(file::CreateLeaf(b, next++));
        continue;
      }
      kernels::DType dtype = kernels::DType::kI64;
      int64_t bits = 0;
      bool none = false;
      if (auto i = a.get<int64_t>())
        bits = *i;
      else if (auto x = a.get<double>())
        dtype = kernels::DType::kF64, std::memcpy(&bits, &*x, sizeof bits);
      else if (auto t = a.get<bool>())
        dtype = kernels::DType::kBool, bits = *t;
      else
        none = true;
      out.push_back(file::CreateLeaf(b, -1, static_cast<uint8_t>(dtype), bits, none));
    }
    return out;
  }

  const ir::Program& program_;
  const planner::PlannedProgram& planned_;
  const kernels::Plan& plan_;
  const NativeOptions& options_;
  std::vector<Constant> constants_;
  std::map<int, int> constant_of_;  // by buffer
  std::map<std::tuple<const io::MappedFile*, uint64_t, uint64_t>, size_t> ranges_;
  uint64_t weights_size_ = 0;
  std::vector<Piece> pieces_;
  std::vector<uint64_t> plugin_offsets_;  // in the weights, behind the constants
  uint64_t size_ = 0;
};

// The members that torch's AOT loader looks for, torch 2.6 … 2.13. `folder` is that of all members of the archive.
absl::Status AddLibrary(Library& library, const ir::Program& program, io::ZipWriter& zip, const std::string& folder) {
  const std::string stem = folder + "data/aotinductor/model/model.wrapper";
  if (absl::Status s = zip.Begin(stem + ".so", library.size()); !s.ok()) return s;
  if (absl::Status s =
          library.Write([&](const io::Bytes& bytes, std::optional<uint32_t> crc) { return zip.Append(bytes, crc); });
      !s.ok())
    return s;
  if (absl::Status s = zip.End(); !s.ok()) return s;
  json::Writer metadata;
  metadata.BeginObject().Key("AOTI_DEVICE_KEY").String("cpu").Key("slipway.program").String(program.name).EndObject();
  if (absl::Status s = zip.Add(stem + "_metadata.json", metadata.text()); !s.ok()) return s;
  return zip.Add(stem + ".cpp", "// The library beside this was not compiled from C++ of its own.\n");
}

// A package of the library alone: the first two members tell the loader the folder.
absl::Status WritePackage(Library& library, const ir::Program& program, io::AtomicFile* out) {
  io::ZipWriter zip(out);
  const std::string folder = "model/";
  if (absl::Status s = AddLibrary(library, program, zip, folder); !s.ok()) return s;
  for (const auto& [name, content] : {std::pair{"archive_format", "pt2"},
                                      {"archive_version", "0"},
                                      {".data/version", "6\n"},
                                      {"byteorder", "little"}})
    if (absl::Status s = zip.Add(folder + name, std::string_view(content)); !s.ok()) return s;
  return zip.Finish();
}

}  // namespace

absl::StatusOr<NativeReport> ExportNative(const ir::Program& program, const planner::PlannedProgram& planned,
                                          const std::string& path, const NativeOptions& options, bool dry_run) {
  if (absl::Status s = CheckProgramNames(program); !s.ok()) return s;
  Library library(program, planned, options);
  if (absl::Status s = library.Prepare(); !s.ok()) return s;
  if (absl::Status s = CheckOutput(library.size(), options.max_output); !s.ok()) return s;
  NativeReport report;
  report.steps = static_cast<int>(planned.plan.steps.size());
  report.weight_bytes = library.weights_size();
  if (options.package && options.with_program) {
    Pt2Options pt2;
    pt2.more = [&](io::ZipWriter& zip, const std::string& folder) { return AddLibrary(library, program, zip, folder); };
    const Pt2File file{options.with_program, path};
    auto written = ExportPt2({&file, 1}, pt2, dry_run);
    if (!written.ok()) return written.status();
    report.weight_bytes += written->weight_bytes;
    report.file_bytes = written->file_bytes;
    return report;
  }
  if (dry_run) return report;
  auto out = io::AtomicFile::Create(path);
  if (!out.ok()) return out.status();
  if (absl::Status s = (*out)->Reserve(library.size()); !s.ok()) return s;
  const absl::Status s = options.package ? WritePackage(library, program, out->get())
                                         : library.Write([&](const io::Bytes& bytes, std::optional<uint32_t> crc) {
                                             return (*out)->Append(bytes, crc);
                                           });
  if (!s.ok()) return s;
  report.file_bytes = (*out)->position();
  if (absl::Status committed = (*out)->Commit(); !committed.ok()) return committed;
  return report;
}

}  // namespace slipway::exporters
