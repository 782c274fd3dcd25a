// The pickle machine on hand-made pickles: what torch writes, and what an attacker would.
#include "importers/checkpoint/unpickler.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "importers/checkpoint/torch_zip.h"
#include "zip_builder.h"

namespace slipway::importers {
namespace {

using ::slipway::testing::BuildZip;
using ::slipway::testing::Put;
using ::slipway::testing::WriteTemp;

// Pickle fragments, protocol 2.
std::string Str(const std::string& text) {
  std::string out = "X";
  Put(&out, text.size(), 4);
  return out + text;
}
std::string Int(int64_t value) {
  std::string out = "\x8a\x08";
  Put(&out, static_cast<uint64_t>(value), 8);
  return out;
}
std::string Global(const std::string& module, const std::string& name) {
  return absl::StrCat("c", module, "\n", name, "\n");
}
std::string Tuple(const std::string& items) { return absl::StrCat("(", items, "t"); }
std::string Call(const std::string& callee, const std::string& arguments) { return callee + Tuple(arguments) + "R"; }
std::string Ints(const std::vector<int64_t>& values) {
  std::string items;
  for (int64_t value : values) items += Int(value);
  return Tuple(items);
}
std::string Pickle(const std::string& body) { return "\x80\x02" + body + "."; }
const std::string kTrue = "\x88", kFalse = "\x89";
const std::string kHooks = Call(Global("collections", "OrderedDict"), "");

std::string Storage(const std::string& type, const std::string& key, int64_t elements) {
  return Tuple(Str("storage") + Global(type == "UntypedStorage" ? "torch.storage" : "torch", type) + Str(key) +
               Str("cpu") + Int(elements)) +
         "Q";
}
std::string Tensor(const std::string& storage, int64_t offset, const std::vector<int64_t>& sizes,
                   const std::vector<int64_t>& strides, const std::string& more = "") {
  return Call(Global("torch._utils", "_rebuild_tensor_v2"),
              storage + Int(offset) + Ints(sizes) + Ints(strides) + kFalse + kHooks + more);
}

absl::Span<const uint8_t> Span(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

UnpickleOptions WithStorage(uint64_t bytes) {
  UnpickleOptions options;
  options.storage_bytes = [bytes](std::string_view) { return bytes; };
  return options;
}

// Keeps the pickle alive with its result.
struct Read {
  std::string pickle;
  absl::StatusOr<Unpickled> result;
  explicit Read(std::string bytes, const UnpickleOptions& options = {})
      : pickle(std::move(bytes)), result(Unpickle(Span(pickle), options)) {}
  const PickleValue& root() { return result->root(); }
};

void ExpectRefused(const std::string& pickle, absl::StatusCode code, const std::string& message,
                   const UnpickleOptions& options = {}) {
  const absl::Status status = Unpickle(Span(pickle), options).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
}

constexpr auto kBad = absl::StatusCode::kInvalidArgument;
constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
constexpr auto kLimit = absl::StatusCode::kOutOfRange;

TEST(Unpickler, Scalars) {
  const struct {
    std::string code;
    int64_t value;
  } ints[] = {{std::string("K\xff", 2), 255},
              {std::string("M\xff\xff", 3), 65535},
              {std::string("J\xfe\xff\xff\xff", 5), -2},
              {std::string("\x8a\x00", 2), 0},
              {std::string("\x8a\x01\xff", 3), -1},
              {std::string("\x8a\x02\xff\x00", 4), 255},
              {std::string("\x8b\x01\x00\x00\x00\x80", 6), -128},
              {Int(INT64_MIN), INT64_MIN},
              {std::string("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x00", 11), INT64_MAX}};
  for (const auto& item : ints) {
    Read read(Pickle(item.code));
    ASSERT_TRUE(read.result.ok()) << read.result.status();
    EXPECT_EQ(read.root().kind(), PickleKind::kInt);
    EXPECT_EQ(read.root().integer(), item.value);
  }
  Read big(Pickle(std::string("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00", 11)));
  EXPECT_EQ(big.root().kind(), PickleKind::kBigInt);
  EXPECT_EQ(big.root().text().size(), 9u);
  Read real(Pickle(std::string("G\x3f\xf8\x00\x00\x00\x00\x00\x00", 9)));
  EXPECT_EQ(real.root().real(), 1.5);
  EXPECT_EQ(Read(Pickle("N")).root().kind(), PickleKind::kNone);
  EXPECT_TRUE(Read(Pickle(kTrue)).root().boolean());
  EXPECT_EQ(Read(Pickle(kFalse)).root().kind(), PickleKind::kBool);
  Read text(Pickle(Str("h\xc3\xa9")));
  EXPECT_EQ(text.root().text(), "h\xc3\xa9");
  Read bytes(Pickle(Call(Global("_codecs", "encode"), Str("h\xc3\xa9\xc2\x80") + Str("latin1"))));
  EXPECT_EQ(bytes.root().kind(), PickleKind::kBytes);
  EXPECT_EQ(bytes.root().text(), "h\xe9\x80");
}

TEST(Unpickler, ContainersAndMemo) {
  // {"l": [1, 2, 3], "t": (1, 2), "s": {1}, "again": the same list}
  Read read(Pickle("}q\x01(" + Str("l") +
                   "]q\x02(K\x01K\x02K\x03"
                   "e" +
                   Str("t") + "K\x01K\x02\x86" + Str("s") +
                   Call(Global("__builtin__", "set"),
                        "]K\x01"
                        "a") +
                   Str("again") +
                   "h\x02"
                   "u"));
  ASSERT_TRUE(read.result.ok()) << read.result.status();
  ASSERT_EQ(read.root().pairs(), 4u);
  EXPECT_EQ(read.root().key(0).text(), "l");
  EXPECT_EQ(read.root().Find("l")->items().size(), 3u);
  EXPECT_EQ(read.root().Find("l"), read.root().Find("again"));
  EXPECT_EQ(read.root().Find("t")->kind(), PickleKind::kTuple);
  EXPECT_EQ(read.root().Find("s")->kind(), PickleKind::kSet);
  EXPECT_EQ(read.root().Find("x"), nullptr);
}

TEST(Unpickler, NewerProtocols) {
  std::string body("\x80\x04\x95", 3);
  const std::string inner = std::string(
      "}\x94(\x8c\x01"
      "a\x94\x8f\x94(K\x01K\x02\x90\x8c\x01"
      "b(K\x05\x91\x8c\x01"
      "c"
      "C\x02xyu.");
  Put(&body, inner.size(), 8);
  Read read(body + inner);
  ASSERT_TRUE(read.result.ok()) << read.result.status();
  EXPECT_EQ(read.root().Find("a")->items().size(), 2u);
  EXPECT_EQ(read.root().Find("b")->kind(), PickleKind::kSet);
  EXPECT_EQ(read.root().Find("c")->text(), "xy");
  Read global(
      "\x80\x04\x8c\x0b"
      "collections\x8c\x0bOrderedDict\x93)\x81.");
  ASSERT_TRUE(global.result.ok()) << global.result.status();
  EXPECT_EQ(global.root().kind(), PickleKind::kDict);
}

TEST(Unpickler, Tensors) {
  Read read(Pickle(Tensor(Storage("BFloat16Storage", "7", 12), 2, {2, 3}, {1, 3})), WithStorage(24));
  ASSERT_TRUE(read.result.ok()) << read.result.status();
  const PickleTensor* tensor = read.root().tensor();
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dtype, "bfloat16");
  EXPECT_EQ(tensor->item_size, 2);
  EXPECT_EQ(tensor->storage.key, "7");
  EXPECT_EQ(tensor->storage.location, "cpu");
  EXPECT_EQ(tensor->storage.bytes, 24u);
  EXPECT_EQ(tensor->offset, 2);
  EXPECT_EQ(tensor->sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensor->strides, (std::vector<int64_t>{1, 3}));
  EXPECT_FALSE(tensor->is_parameter);

  Read parameter(Pickle(Call(Global("torch._utils", "_rebuild_parameter"),
                             Tensor(Storage("FloatStorage", "0", 4), 0, {4}, {1}) + kTrue + kHooks)));
  ASSERT_TRUE(parameter.result.ok()) << parameter.result.status();
  EXPECT_TRUE(parameter.root().tensor()->is_parameter);
  EXPECT_TRUE(parameter.root().tensor()->requires_grad);

  Read untyped(Pickle(Call(Global("torch._utils", "_rebuild_tensor_v3"), Storage("UntypedStorage", "0", 8) + Int(1) +
                                                                             Ints({3}) + Ints({2}) + kFalse + kHooks +
                                                                             Global("torch", "float8_e4m3fn"))));
  ASSERT_TRUE(untyped.result.ok()) << untyped.result.status();
  EXPECT_EQ(untyped.root().tensor()->dtype, "float8_e4m3fn");

  Read from_type(
      Pickle(Call(Global("torch._tensor", "_rebuild_from_type_v2"),
                  Global("torch._utils", "_rebuild_tensor_v2") + Global("torch", "Tensor") +
                      Tuple(Storage("LongStorage", "0", 1) + Int(0) + Ints({}) + Ints({}) + kFalse + kHooks) + "}" +
                      Str("note") + "K\x01s")));
  ASSERT_TRUE(from_type.result.ok()) << from_type.result.status();
  EXPECT_EQ(from_type.root().tensor()->dtype, "int64");

  // A state dict: OrderedDict with _metadata set on it.
  Read state(Pickle(Call(Global("collections", "OrderedDict"), "") + Str("w") +
                    Tensor(Storage("FloatStorage", "0", 4), 0, {0, 5}, {5, 1}) + "s}" + Str("_metadata") + "}sb"));
  ASSERT_TRUE(state.result.ok()) << state.result.status();
  EXPECT_EQ(state.root().Find("w")->tensor()->sizes[1], 5);
}

TEST(Unpickler, OtherTorchValues) {
  Read read(Pickle(
      Tuple(Call(Global("torch", "device"), Str("cuda") + Int(1)) + Global("torch", "bfloat16") +
            Call(Global("torch", "Size"), Ints({2, 3})) +
            Call(Global("torch.serialization", "_get_layout"), Str("torch.strided")) + Storage("FloatStorage", "0", 1) +
            Call(Global("collections", "defaultdict"), Global("__builtin__", "list")) +
            Call(Global("__builtin__", "complex"), std::string("G\x3f\xf8\0\0\0\0\0\0G\xbf\xf8\0\0\0\0\0\0", 18)))));
  ASSERT_TRUE(read.result.ok()) << read.result.status();
  const auto items = read.root().items();
  ASSERT_EQ(items.size(), 7u);
  EXPECT_EQ(items[0]->text(), "cuda:1");
  EXPECT_EQ(items[1]->kind(), PickleKind::kDtype);
  EXPECT_EQ(items[1]->text(), "bfloat16");
  EXPECT_EQ(items[2]->items().size(), 2u);
  EXPECT_EQ(items[3]->text(), "torch.strided");
  EXPECT_EQ(items[4]->storage()->bytes, 4u);
  EXPECT_EQ(items[5]->kind(), PickleKind::kDict);
  EXPECT_EQ(items[6]->real(), 1.5);
  EXPECT_EQ(items[6]->imag(), -1.5);
}

TEST(Unpickler, RefusesEveryOtherName) {
  ExpectRefused(
      "\x80\x02"
      "cos\nsystem\nX\x02\0\0\0ls\x85R.",
      kBad, "pickle byte 2: the name 'os.system'");
  for (const auto& [module, name] :
       std::vector<std::pair<std::string, std::string>>{{"builtins", "eval"},
                                                        {"builtins", "getattr"},
                                                        {"torch", "load"},
                                                        {"torch._utils", "_import_dotted_name"},
                                                        {"torch.jit", "load"},
                                                        {"torch", "FloatStorage.x"},
                                                        {"", ""}}) {
    ExpectRefused(Pickle(Global(module, name)), kBad, absl::StrCat("the name '", module, ".", name, "'"));
    ExpectRefused("\x80\x04" + Str(module) + Str(name) + "\x93.", kBad, absl::StrCat("'", module, ".", name, "'"));
  }
  for (const char* code : {"\x82\x01", "i", "o", "P1\n", "I1\n", "\x92", "\x97", "\xff"}) {
    ExpectRefused(Pickle(std::string("(NNN") + code), kBad, "opcode 0x");
  }
}

TEST(Unpickler, RefusesMalformedPrograms) {
  for (const char* body :
       {"",     "0",     "a",     "Na",     "NNa",    "s",    "NNNs", "e",    "(e",        "N(e", "u",   "(u",
        "}(Nu", "t",     "\x85",  "N\x86",  "R",      "NR",   "NNR",  "N)R",  "b",         "Nb",  "NNb", "NQ",
        ")Q",   "h\x05", "q\x01", "(q\x01", "NN\x93", "}]Ns", "}}Ns", "N(0a", "\x80\x09N", "Kx(."}) {
    EXPECT_EQ(Unpickle(Span(Pickle(body))).status().code(), kBad) << body;
  }
  ExpectRefused("", kBad, "ends too early");
  ExpectRefused("\x80\x02N", kBad, "ends too early");
  ExpectRefused(Pickle("X\xff\xff\xff\xff"
                       "abc"),
                kBad, "ends too early: 4294967295");
  ExpectRefused(std::string("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff", 11), kBad, "ends too early");
  ExpectRefused(std::string("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.", 12), kBad, "frame");
  ExpectRefused(
      "\x80\x02"
      "ctorch",
      kBad, "ends within a line");
  ExpectRefused(Pickle(Str("\xff")), kBad, "UTF-8");
  ExpectRefused(Pickle("}(" + Str("a") + "N" + Str("a") + "Nu"), kBad, "repeats the key 'a'");
  ExpectRefused(Pickle(Call(Global("_codecs", "encode"), Str("\xc4\x80") + Str("latin1"))), kBad, "above 255");
  ExpectRefused(Pickle(Call(Global("_codecs", "encode"), Str("x") + Str("rot13"))), kBad, "rot13");
}

TEST(Unpickler, EveryTruncationIsRefused) {
  const std::string pickle = Pickle(Tensor(Storage("FloatStorage", "0", 12), 0, {3, 4}, {4, 1}));
  ASSERT_TRUE(Unpickle(Span(pickle)).ok());
  for (size_t size = 0; size < pickle.size(); ++size) EXPECT_FALSE(Unpickle(Span(pickle.substr(0, size))).ok()) << size;
}

TEST(Unpickler, EveryFlippedByteIsReadOrRefused) {
  const std::string pickle =
      Pickle("}q\x01(" + Str("w") + Tensor(Storage("FloatStorage", "0", 12), 0, {3, 4}, {4, 1}) + Str("l") +
             "](K\x01NeuJ\1\0\0\0"
             "0");
  for (size_t at = 0; at < pickle.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = pickle;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      (void)Unpickle(Span(bad), WithStorage(48));
    }
  }
}

TEST(Unpickler, RefusesTensorsOutsideTheirStorage) {
  const auto tensor = [](int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    return Pickle(Tensor(Storage("FloatStorage", "0", 12), offset, sizes, strides));
  };
  const std::string outside = "does not lie inside its storage '0' of 48 bytes";
  EXPECT_TRUE(Unpickle(Span(tensor(0, {3, 4}, {4, 1})), WithStorage(48)).ok());
  EXPECT_TRUE(Unpickle(Span(tensor(11, {}, {})), WithStorage(48)).ok());
  EXPECT_TRUE(Unpickle(Span(tensor(12, {0}, {1})), WithStorage(48)).ok());
  EXPECT_TRUE(Unpickle(Span(tensor(0, {1 << 30}, {0})), WithStorage(48)).ok());
  ExpectRefused(tensor(1, {3, 4}, {4, 1}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(12, {}, {}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(-1, {1}, {1}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(0, {-1}, {1}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(5, {2}, {-1}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(0, {INT64_MAX}, {INT64_MAX}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(0, {INT64_MAX, 4}, {0, 0}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(INT64_MAX, {2}, {1}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(13, {0}, {1}), kBad, outside, WithStorage(48));
  ExpectRefused(tensor(0, {3}, {4, 1}), kBad, "1 sizes and 2 strides", WithStorage(48));
  ExpectRefused(tensor(0, std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1)), kBad, "65 sizes", WithStorage(48));
  ExpectRefused(tensor(0, {1}, {1}), kBad, "claims 48 bytes, but has 47", WithStorage(47));
  ExpectRefused(Pickle(Storage("DoubleStorage", "0", INT64_MAX)), kBad, "claims");
  ExpectRefused(Pickle(Storage("FloatStorage", "0", -1)), kBad, "persistent id");
  ExpectRefused(Pickle(Storage("Size", "0", 1)), kBad, "class");
  ExpectRefused(Pickle(Tensor("N", 0, {1}, {1})), kBad,
                "argument 0 of torch._utils _rebuild_tensor_v2 is not a storage");
  ExpectRefused(Pickle(Tensor(Storage("FloatStorage", "0", 1), 0, {1}, {1}, "}" + Str("conj") + kTrue + "s")), kUnknown,
                "lazy conj");
  UnpickleOptions missing;
  missing.storage_bytes = [](std::string_view) { return absl::InvalidArgumentError("no such storage"); };
  ExpectRefused(tensor(0, {1}, {1}), kBad, "no such storage", missing);
}

UnpickleOptions WithRecords() {
  UnpickleOptions options = WithStorage(48);
  options.records = true;
  return options;
}

TEST(Unpickler, UnknownNamesMakeRecords) {
  const std::string object =
      Global("my.models", "Net") + ")\x81}" + Str("w") + Tensor(Storage("FloatStorage", "0", 12), 0, {3}, {1}) + "sb";
  ExpectRefused(Pickle(object), kBad, "the name 'my.models.Net'", WithStorage(48));
  Read read(Pickle(object), WithRecords());
  ASSERT_TRUE(read.result.ok()) << read.result.status();
  EXPECT_EQ(read.root().kind(), PickleKind::kObject);
  EXPECT_EQ(read.root().text(), "my.models Net");
  EXPECT_EQ(read.root().arguments(), 0u);
  ASSERT_EQ(read.root().items().size(), 1u);
  EXPECT_NE(read.root().items()[0]->Find("w")->tensor(), nullptr);
  // A subclass of dict is filled, a call's result called, a class within a class named by getattr.
  Read dict(Pickle(Call(Global("my", "Dict"), "") + "(" + Str("a") + "K\x01u"), WithRecords());
  ASSERT_TRUE(dict.result.ok()) << dict.result.status();
  ASSERT_NE(dict.root().content(), nullptr);
  EXPECT_EQ(dict.root().content()->Find("a")->integer(), 1);
  Read called(Pickle(Call(Call(Global("functools", "partial"), Global("my", "f")), "K\x01")), WithRecords());
  ASSERT_TRUE(called.result.ok()) << called.result.status();
  EXPECT_EQ(called.root().arguments(), 1u);
  Read within(Pickle(Call(Global("__builtin__", "getattr"), Global("my", "Outer") + Str("Inner"))), WithRecords());
  ASSERT_TRUE(within.result.ok()) << within.result.status();
  EXPECT_EQ(within.root().text(), "my Outer.Inner");
}

TEST(Unpickler, RecordsDoNotTakeNamesThatRun) {
  for (const auto& [module, name] :
       std::vector<std::pair<std::string, std::string>>{{"os", "system"},
                                                        {"posix", "system"},
                                                        {"subprocess", "Popen"},
                                                        {"builtins", "eval"},
                                                        {"__builtin__", "__import__"},
                                                        {"runpy", "run_path"},
                                                        {"importlib.machinery", "SourceFileLoader"},
                                                        {"torch.hub", "load"},
                                                        {"torch.serialization", "os.system"},
                                                        {"collections", "OrderedDict.fromkeys"},
                                                        {"my models", "Net"},
                                                        {"my", ""},
                                                        {"my", "a..b"},
                                                        {"my",
                                                         "\xe2\x80\xae"
                                                         "evil"},
                                                        {"my", "1a"}})
    ExpectRefused("\x80\x04" + Str(module) + Str(name) + "\x93.", kBad, "is not one of those that rebuild tensors",
                  WithRecords());
  for (const auto& [module, name] :
       std::vector<std::pair<std::string, std::string>>{{"code.models", "Net"},
                                                        {"os_utils", "Net"},
                                                        {"my", "\xe7\xbd\x91"},
                                                        {"builtins", "ValueError"},
                                                        {"torch.nn.modules.linear", "Linear"}})
    EXPECT_TRUE(Read("\x80\x04" + Str(module) + Str(name) + "\x93.", WithRecords()).result.ok()) << module << name;
}

TEST(Unpickler, CirclesLeadThroughRecordsAlone) {
  const std::string object = Global("my", "Net") + ")\x81q\x01}" + Str("self") +
                             "]h\x01"
                             "asb";
  ASSERT_TRUE(Read(Pickle(object), WithRecords()).result.ok());
  EXPECT_TRUE(Read(Pickle("]q\x02" + Global("my", "Net") +
                          ")\x81h\x02"
                          "ba"),
                   WithRecords())
                  .result.ok());
  ExpectRefused(Pickle("]" + object +
                       "a]q\x03h\x03"
                       "aa"),
                kBad, "contains itself", WithRecords());
  UnpickleOptions named;
  named.inert_names = {"my Net"};
  ExpectRefused(Pickle(object), kBad, "contains itself", named);
}

std::string Array(const std::string& dtype, const std::string& order, const std::vector<int64_t>& shape, bool fortran,
                  const std::string& bytes) {
  const std::string type =
      Call(Global("numpy", "dtype"), Str(dtype) + kFalse + kTrue) + Tuple("K\x03" + Str(order) + "NNN") + "b";
  std::string raw = "B";
  Put(&raw, bytes.size(), 4);
  return Call(Global("numpy._core.multiarray", "_reconstruct"), Global("numpy", "ndarray") + Ints({0}) + Str("b")) +
         Tuple("K\x01" + Ints(shape) + type + (fortran ? kTrue : kFalse) + raw + bytes) + "b";
}

TEST(Unpickler, Arrays) {
  Read read(Pickle(Array("i2", ">", {2, 3}, true, std::string("\0\1\0\2\0\3\0\4\0\5\0\6", 12))), WithRecords());
  ASSERT_TRUE(read.result.ok()) << read.result.status();
  const PickleTensor* array = read.root().array();
  ASSERT_NE(array, nullptr);
  EXPECT_EQ(array->dtype, "int16");
  EXPECT_EQ(array->sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array->strides, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(read.root().text(), std::string("\1\0\2\0\3\0\4\0\5\0\6\0", 12));
  EXPECT_EQ(Read(Pickle(Array("O", "|", {1}, false, "x")), WithRecords()).root().kind(), PickleKind::kObject);
  ExpectRefused(Pickle(Array("f4", "<", {2}, false, "1234")), kBad, "an array of 2 elements of 4 bytes has 4 bytes",
                WithRecords());
  ExpectRefused(Pickle(Array("f4", "<", {INT64_MAX, 3}, false, "1234")), kBad, "the shape of an array", WithRecords());
}

TEST(Unpickler, RefusesCyclesAndBombs) {
  ExpectRefused(Pickle("]q\x01h\x01"
                       "a"),
                kBad, "contains itself");
  ExpectRefused(Pickle("}q\x01" + Str("k") +
                       "]h\x01"
                       "as"),
                kBad, "contains itself");
  // Sixty lists, each twice the one before.
  std::string bomb = "]q\x00", expect;
  bomb = std::string("]q\x00", 3);
  for (int i = 1; i < 60; ++i) {
    bomb += "](h" + std::string(1, static_cast<char>(i - 1)) + "h" + std::string(1, static_cast<char>(i - 1)) + "eq" +
            std::string(1, static_cast<char>(i));
  }
  ExpectRefused(Pickle(bomb), kLimit, "grow beyond the limit");
  // Depth, with and without the tuples being nested in the program.
  EXPECT_TRUE(Unpickle(Span(Pickle("N" + std::string(150, '\x85')))).ok());
  ExpectRefused(Pickle("N" + std::string(1'000'000, '\x85')), kLimit, "deeper than 200");
  ExpectRefused(Pickle("N" + std::string(300, '\x85') +
                       "q\x01"
                       "0]h\x01"
                       "a"),
                kLimit, "deeper than 200");
  // A long list copied again and again.
  std::string copies = "]q\x01(" + std::string(20'000, 'N') + "e](";
  for (int i = 0; i < 20'000; ++i) copies += Global("__builtin__", "set") + "h\x01\x85R";
  ExpectRefused(Pickle(copies + "e"), kLimit, "copies its own values");
  UnpickleOptions few;
  few.max_values = 100;
  ExpectRefused(Pickle(std::string(200, ']')), kLimit, "more than 100 values", few);
  few = {};
  few.max_stack = 100;
  ExpectRefused(Pickle(std::string(200, 'N')), kLimit, "on the stack", few);
  ExpectRefused(Pickle(std::string(200, '(')), kLimit, "marks", few);
  std::string nested = Tuple("");
  for (int i = 0; i < 20; ++i) {
    nested = Tuple(Global("torch._tensor", "_rebuild_from_type_v2") + Global("torch", "Tensor") + nested + "}");
  }
  ExpectRefused(Pickle(Global("torch._tensor", "_rebuild_from_type_v2") + nested + "R"), kBad, "too deeply");
}

TEST(TorchZip, FindsStoragesInTheFile) {
  const std::string pickle = Pickle("}(" + Str("a") + Tensor(Storage("FloatStorage", "0", 2), 1, {1}, {1}) + Str("b") +
                                    Tensor(Storage("ByteStorage", "1", 3), 0, {3}, {1}) + "u");
  const auto archive = [&](const std::string& order) {
    return BuildZip({{.name = "m/data.pkl", .data = pickle},
                     {.name = "m/byteorder", .data = order},
                     {.name = "m/data/0", .data = "01234567"},
                     {.name = "m/data/1", .data = "abcd", .deflated = true},
                     {.name = "m/data/2", .data = "unused"},
                     {.name = "m/version", .data = "3\n"}});
  };
  // Once as a file of its own, once inside another archive.
  for (bool nested : {false, true}) {
    const std::string whole = nested
                                  ? BuildZip({{.name = "x", .data = "y"}, {.name = "w.pt", .data = archive("little")}})
                                  : archive("little");
    auto file = io::MappedFile::Open(WriteTemp("m.pt", whole));
    ASSERT_TRUE(file.ok());
    io::Bytes bytes = io::Bytes::Of(*file);
    if (nested) bytes = bytes.Part(whole.find(archive("little")), archive("little").size());
    auto checkpoint = OpenTorchZip(bytes);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(checkpoint->storages.size(), 2u);
    const PickleTensor& a = *checkpoint->object.root().Find("a")->tensor();
    const io::Bytes a_bytes = checkpoint->BytesOf(a.storage);
    ASSERT_NE(a_bytes.file_range(), nullptr);
    EXPECT_EQ(a_bytes.file_range()->offset, whole.find("01234567"));
    EXPECT_EQ(a_bytes.size(), 8u);
    const PickleTensor& b = *checkpoint->object.root().Find("b")->tensor();
    const io::Bytes b_bytes = checkpoint->BytesOf(b.storage);
    EXPECT_EQ(b_bytes.file_range(), nullptr);
    EXPECT_EQ(std::string(b_bytes.data().begin(), b_bytes.data().end()), "abc");
  }
  EXPECT_EQ(OpenTorchZip(io::Bytes::Of(archive("big"))).status().code(), kUnknown);
}

TEST(TorchZip, Refusals) {
  const auto open = [](std::vector<testing::ZipMember> members, const TorchZipOptions& options = {}) {
    return OpenTorchZip(io::Bytes::Of(BuildZip(members)), options).status();
  };
  const std::string pickle = Pickle(Tensor(Storage("FloatStorage", "0", 2), 0, {2}, {1}));
  EXPECT_TRUE(absl::StrContains(open({{.name = "x", .data = ""}}).message(), "not a torch.save checkpoint"));
  EXPECT_EQ(open({{.name = "a/data.pkl", .data = pickle}, {.name = "b/data.pkl", .data = pickle}}).code(), kBad);
  EXPECT_TRUE(absl::StrContains(open({{.name = "a/data.pkl", .data = pickle}}).message(), "storage '0' is not in"));
  EXPECT_TRUE(absl::StrContains(
      open({{.name = "a/data.pkl", .data = pickle}, {.name = "a/data/0", .data = "1234567"}}).message(), "has 7"));
  EXPECT_TRUE(absl::StrContains(open({{.name = "a/data.pkl", .data = Pickle("N") + "N"}}).message(), "bytes follow"));
  EXPECT_EQ(open({{.name = "a/data.pkl", .data = pickle}, {.name = "a/constants.pkl", .data = ""}}).code(), kUnknown);
  EXPECT_EQ(open({{.name = "a/data.pkl", .data = pickle},
                  {.name = "a/data/0", .data = std::string(9000, 'x'), .deflated = true}},
                 {.max_inflated_bytes = 8999})
                .code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace slipway::importers
