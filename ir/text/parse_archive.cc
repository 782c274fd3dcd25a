// The archive around the graphs: storages and the files that they lie in, dims, weights, objects, sources.
#include <limits>

#include "absl/strings/escaping.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "io/mapped_file.h"
#include "ir/text/internal.h"
#include "ir/text/parser.h"

namespace slipway::ir::text_form {

namespace {

constexpr uint64_t kMaxText = uint64_t{1} << 32;
constexpr size_t kMaxWeightRank = 64;

}  // namespace

absl::Status TextParser::ParseArchive() {
  if (text_.size() > kMaxText) return Error("the text is too long");
  if (!LooksLikeText(text_)) return Error(text::StrCat("the first line is not '", kHeader, "'"));
  at_ = kHeader.size();
  for (Space(); !AtEnd(); Space()) {
    const size_t at = at_;
    const std::string_view word = PeekWord();
    if (word.empty()) return Error("a statement is expected");
    at_ += word.size();
    if (!p_) {
      if (word == "producer") {
        ASSIGN_OR_RETURN(archive_.producer, String());
        continue;
      }
      if (word == "extra_file") {
        ASSIGN_OR_RETURN(std::string name, String());
        RETURN_IF_ERROR(Expect("="));
        ASSIGN_OR_RETURN(std::string content, String());
        if (!archive_.extra_files.emplace(std::move(name), std::move(content)).second)
          return ErrorAt(at, "the extra file is there already");
        continue;
      }
      if (word == "storages") {
        RETURN_IF_ERROR(ParseStorages());
        continue;
      }
    }
    if (word == "program") {
      RETURN_IF_ERROR(Finish());
      ASSIGN_OR_RETURN(std::string name, Word());
      RETURN_IF_ERROR(Start(std::move(name), at));
      continue;
    }
    if (!p_) RETURN_IF_ERROR(Start("model", at));
    RETURN_IF_ERROR(ParseStatement(word, at));
  }
  if (!p_) return Error("there is no program");
  return Finish();
}

absl::Status TextParser::ParseStorages() {
  RETURN_IF_ERROR(Expect("{"));
  while (!Eat("}")) {
    const size_t at = at_;
    ASSIGN_OR_RETURN(size_t id, StorageId());
    if (id != storages_.size()) return ErrorAt(at, text::StrCat("storage s", storages_.size(), " is expected"));
    RETURN_IF_ERROR(Expect("="));
    const size_t place = at_;
    ASSIGN_OR_RETURN(Storage s, Place());
    RETURN_IF_ERROR(Expect(":"));
    ASSIGN_OR_RETURN(uint64_t size, Integer<uint64_t>());
    RETURN_IF_ERROR(Fit(s, size, place));
    storages_.push_back(std::make_shared<const Storage>(std::move(s)));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> TextParser::StorageId() {
  RETURN_IF_ERROR(Expect("s"));
  return Integer<size_t>();
}

absl::StatusOr<std::shared_ptr<const Storage>> TextParser::UseStorage() {
  const size_t at = at_;
  ASSIGN_OR_RETURN(size_t id, StorageId());
  if (id >= storages_.size()) return ErrorAt(at, text::StrCat("there is no storage s", id));
  return storages_[id];
}

absl::StatusOr<std::shared_ptr<io::MappedFile>> TextParser::File(const std::string& path, size_t at) {
  std::shared_ptr<io::MappedFile>& file = files_[path];
  if (file) return file;
  if (!options_.allow_outside) {
    bool leaves = path.starts_with("/");
    for (std::string_view part : text::Split(path, '/')) leaves |= part == "..";
    if (leaves) return ErrorAt(at, text::StrCat("'", path, "' leaves the folder of the text"));
  }
  if (text::Contains(path, std::string_view("\0", 1))) return ErrorAt(at, "a path with a NUL");
  const bool relative = !path.starts_with("/") && !options_.base.empty();
  auto opened = io::MappedFile::Open(relative ? text::StrCat(options_.base, "/", path) : path);
  if (!opened.ok()) return ErrorAt(at, text::FromAbsl(opened.status().message()), opened.status().code());
  return file = *std::move(opened);
}

// Where bytes are. Their number is not known yet: Fit() follows.
absl::StatusOr<Storage> TextParser::Place() {
  Storage s;
  Space();
  const size_t at = at_;
  if (Peek() == '"') {
    ASSIGN_OR_RETURN(std::string path, String());
    RETURN_IF_ERROR(Expect("+"));
    ASSIGN_OR_RETURN(uint64_t offset, Integer<uint64_t>());
    ASSIGN_OR_RETURN(auto file, File(path, at));
    s.bytes = io::Bytes(io::FileRange{std::move(file), offset, 0});
  } else if (EatWord("splat")) {
    RETURN_IF_ERROR(Expect("("));
    ASSIGN_OR_RETURN(double value, Real());
    RETURN_IF_ERROR(Expect(")"));
    s.bytes = Splat{value};
  } else if (EatWord("random")) {
    RETURN_IF_ERROR(Expect("("));
    RETURN_IF_ERROR(Expect("seed"));
    RETURN_IF_ERROR(Expect("="));
    ASSIGN_OR_RETURN(uint64_t seed, Integer<uint64_t>());
    RETURN_IF_ERROR(Expect(")"));
    s.bytes = Random{seed};
  } else if (EatWord("base64")) {
    RETURN_IF_ERROR(Expect("("));
    ASSIGN_OR_RETURN(std::string coded, String());
    RETURN_IF_ERROR(Expect(")"));
    std::string bytes;
    if (!absl::Base64Unescape(coded, &bytes)) return ErrorAt(at, "the string is not base64");
    s.bytes = io::Bytes::Of(std::move(bytes));
  } else if (EatWord("elided")) {
    return ErrorAt(at, "the bytes were left out when this was printed");
  } else {
    return Error("a place of bytes is expected: \"FILE\"+OFFSET, splat(…), random(seed=…) or base64(…)");
  }
  return s;
}

absl::Status TextParser::Fit(Storage& s, uint64_t size, size_t at) {
  s.size = size;
  io::Bytes* b = std::get_if<io::Bytes>(&s.bytes);
  if (!b) return absl::OkStatus();
  if (const io::FileRange* r = b->file_range()) {
    if (r->offset > r->file->size() || size > r->file->size() - r->offset)
      return ErrorAt(at, text::StrCat("bytes ", r->offset, " + ", size, " run past the end of ", r->file->path(), " (",
                                      r->file->size(), " bytes)"));
    s.bytes = io::Bytes(io::FileRange{r->file, r->offset, size});
  } else if (b->size() != size) {
    return ErrorAt(at, text::StrCat("there are ", b->size(), " bytes, not ", size));
  }
  return absl::OkStatus();
}

absl::Status TextParser::Start(std::string name, size_t at) {
  for (const auto& other : archive_.programs)
    if (other->name == name) return ErrorAt(at, text::StrCat("there is a program '", name, "' already"));
  archive_.programs.push_back(std::make_unique<Program>());
  p_ = archive_.programs.back().get();
  p_->name = std::move(name);
  exprs_.clear();
  pending_.clear();
  graphs_.clear();
  devices_.clear();
  sources_.clear();
  has_main_ = false;
  return absl::OkStatus();
}

absl::Status TextParser::Finish() {
  if (!p_) return absl::OkStatus();
  if (!has_main_) return Error(text::StrCat("program '", p_->name, "' has no graph main"));
  const Pending* missing = nullptr;
  for (const auto& [name, pending] : pending_)
    if (!missing || pending.at < missing->at) missing = &pending;
  if (missing) return ErrorAt(missing->at, "the graph is mentioned and does not follow");
  return absl::OkStatus();
}

absl::Status TextParser::ParseStatement(std::string_view word, size_t at) {
  if (word == "graph") return ParseGraph(at);
  if (word == "dims") return ParseDims();
  if (word == "weights") return ParseWeights();
  if (word == "sources") return ParseSources();
  if (word == "object") return ParseObject(at);
  if (word == "form") {
    ASSIGN_OR_RETURN(std::string form, Word());
    return Choose(kForms, form, "form", &p_->form, at);
  }
  if (word == "schema") {
    ASSIGN_OR_RETURN(p_->schema_major, Integer<int>());
    ASSIGN_OR_RETURN(p_->schema_minor, Integer<int>());
    return absl::OkStatus();
  }
  if (word == "range") {
    ASSIGN_OR_RETURN(std::string key, String());
    RETURN_IF_ERROR(Expect("="));
    ASSIGN_OR_RETURN(Bounds b, Range());
    p_->range_constraints.emplace_back(std::move(key), RangeConstraint{b.min, b.max});
    return absl::OkStatus();
  }
  const std::pair<std::string_view, std::string*> fields[] = {
      {"torch", &p_->torch_version},
      {"dialect", &p_->verifier_dialect},
      {"in_spec", &p_->in_spec},
      {"out_spec", &p_->out_spec},
      {"module_calls", &p_->module_call_graph_json},
      {"namedtuples", &p_->namedtuple_fields_json},
  };
  for (auto [name, field] : fields) {
    if (word != name) continue;
    ASSIGN_OR_RETURN(*field, String());
    return absl::OkStatus();
  }
  if (word == "guard" || word == "forward_arg") {
    ASSIGN_OR_RETURN(std::string s, String());
    (word == "guard" ? p_->guards : p_->forward_arg_names).push_back(std::move(s));
    return absl::OkStatus();
  }
  return ErrorAt(at, text::StrCat("unknown statement '", word.substr(0, 100), "'"));
}

absl::Status TextParser::ParseDims() {
  RETURN_IF_ERROR(Expect("{"));
  while (!Eat("}")) {
    const size_t at = at_;
    SymbolInfo s;
    ASSIGN_OR_RETURN(s.name, Word());
    if (p_->syms->FindSymbol(s.name)) return ErrorAt(at, text::StrCat("dim '", s.name, "' is there already"));
    RETURN_IF_ERROR(Expect("="));
    ASSIGN_OR_RETURN(Bounds b, Range());
    if (b.min) s.range.min = *b.min;
    if (b.max) s.range.max = *b.max;
    if (s.range.min > s.range.max) return ErrorAt(at, "the range is empty");
    s.positive = EatWord("positive");
    absl::Status status = p_->syms->DeclareRange(s.name, s.range);
    if (status.ok() && s.positive) status = p_->syms->SetPositive(s.name);
    if (!status.ok()) return ErrorAt(at, text::FromAbsl(status.message()));
    if (EatWord("hint")) {
      ASSIGN_OR_RETURN(s.hint, Integer<int64_t>());
      p_->syms->SetHint(s.name, *s.hint);
    }
  }
  return absl::OkStatus();
}

absl::Status TextParser::ParseWeights() {
  RETURN_IF_ERROR(Expect("{"));
  while (!Eat("}")) {
    const size_t at = at_;
    ASSIGN_OR_RETURN(std::string name, Name('$'));
    RETURN_IF_ERROR(Expect(":"));
    TensorRef t;
    const std::string_view dtype = PeekWord();
    auto d = DTypeFromName(dtype);
    if (!d) return Error(text::StrCat("unknown dtype '", dtype.substr(0, 100), "'"));
    at_ += dtype.size();
    t.dtype = *d;
    RETURN_IF_ERROR(Naturals(&t.sizes));
    if (Eat("{")) {
      RETURN_IF_ERROR(Expect("strides="));
      RETURN_IF_ERROR(Naturals(&t.strides));
      RETURN_IF_ERROR(Expect("}"));
    }
    // Sizes are checked against unlimited room before any arithmetic on them.
    auto unlimited = std::make_shared<Storage>();
    unlimited->size = std::numeric_limits<uint64_t>::max();
    t.storage = unlimited;
    if (t.strides.empty()) {
      t.strides.assign(t.sizes.size(), 0);
      RETURN_IF_ERROR(Check(t, at));
      t.strides = ContiguousStrides(t.sizes);
    }
    RETURN_IF_ERROR(Check(t, at));
    RETURN_IF_ERROR(Expect("@"));
    Space();
    if (Peek() == 's' && Peek(1) >= '0' && Peek(1) <= '9') {
      ASSIGN_OR_RETURN(t.storage, UseStorage());
      RETURN_IF_ERROR(Expect("+"));
      ASSIGN_OR_RETURN(t.offset, Integer<int64_t>());
    } else {
      const size_t place = at_;
      ASSIGN_OR_RETURN(Storage s, Place());
      RETURN_IF_ERROR(Fit(s, static_cast<uint64_t>(t.nbytes()), place));
      t.storage = std::make_shared<const Storage>(std::move(s));
    }
    RETURN_IF_ERROR(Check(t, at));
    if (!p_->weights.emplace(std::move(name), std::move(t)).second) return ErrorAt(at, "the weight is there already");
  }
  return absl::OkStatus();
}

absl::Status TextParser::Check(const TensorRef& t, size_t at) {
  absl::Status s = Validate(t);
  return s.ok() ? s : ErrorAt(at, text::FromAbsl(s.message()));
}

absl::Status TextParser::Naturals(std::vector<int64_t>* out) {
  RETURN_IF_ERROR(Expect("["));
  return List("]", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(int64_t n, Integer<int64_t>());
    if (n < 0) return Error("a negative size");
    if (out->size() >= kMaxWeightRank) return Error("too many dimensions");
    out->push_back(n);
    return absl::OkStatus();
  });
}

absl::Status TextParser::ParseObject(size_t at) {
  ASSIGN_OR_RETURN(std::string name, Name('$'));
  RETURN_IF_ERROR(Expect("="));
  ASSIGN_OR_RETURN(auto storage, UseStorage());
  ASSIGN_OR_RETURN(std::string member, String());
  if (!p_->objects.emplace(std::move(name), std::pair(std::move(storage), std::move(member))).second)
    return ErrorAt(at, "the object is there already");
  return absl::OkStatus();
}

absl::Status TextParser::ParseSources() {
  RETURN_IF_ERROR(Expect("{"));
  while (!Eat("}")) {
    RETURN_IF_ERROR(Expect("#"));
    const size_t at = at_;
    ASSIGN_OR_RETURN(size_t id, Integer<size_t>());
    if (id != sources_.size()) return ErrorAt(at, text::StrCat("source #", sources_.size(), " is expected"));
    auto s = std::make_shared<Source>();
    RETURN_IF_ERROR(Expect("{"));
    RETURN_IF_ERROR(List("}", [&]() -> absl::Status {
      const bool quoted = (Space(), Peek() == '"');
      ASSIGN_OR_RETURN(std::string key, Word());
      RETURN_IF_ERROR(Expect("="));
      ASSIGN_OR_RETURN(std::string value, String());
      if (quoted)
        s->other.emplace_back(std::move(key), std::move(value));
      else if (key == "stack")
        s->stack_trace = std::move(value);
      else if (key == "modules")
        s->nn_module_stack = std::move(value);
      else if (key == "fn")
        s->torch_fn = std::move(value);
      else
        return Error(text::StrCat("unknown field '", key, "' of a source"));
      return absl::OkStatus();
    }));
    sources_.push_back(std::move(s));
  }
  return absl::OkStatus();
}

}  // namespace slipway::ir::text_form
