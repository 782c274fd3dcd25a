// Loading plugins, and turning the numbers of a step back into the arguments that slipway_kernel.h declares. The
// numbers come from a plan and are checked; the library itself is code and is trusted once it is opened.
#include "kernels/executor/plugin.h"

#include <algorithm>
#include <deque>

#include "kernels/dtype_codes.h"
#include "slipway/slipway_kernel.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kMaxArgs = 1 << 16, kMaxText = 1 << 20;
constexpr size_t kErrorText = 512;

// A view of the tensor, whose sizes and strides stay its own.
DLTensor Dlpack(const Tensor& t) {
  return {t.data,
          {kDLCPU, 0},
          t.rank,
          DlpackTypeOf(t.dtype),
          const_cast<int64_t*>(t.sizes),
          const_cast<int64_t*>(t.strides),
          0};
}

// A step's numbers turned back into arguments. They are data from anywhere.
class Args {
 public:
  explicit Args(const Call& c) : c_(c) {}

  // False where they make no sense.
  bool Read() {
    int64_t n;
    if (!Next(&n) || n < 0 || n > kMaxArgs) return false;
    for (; n > 0; --n) {
      slipway_kernel_arg arg{};
      const std::string* name = Text();
      int64_t kind;
      if (!name || !Next(&kind) || kind < 0 || kind > static_cast<int64_t>(PluginArg::kDType)) return false;
      arg.name = name->c_str();
      arg.kind = static_cast<int32_t>(kind);
      if (!Value(static_cast<PluginArg>(kind), &arg)) return false;
      args_.push_back(arg);
    }
    return true;
  }
  bool Next(int64_t* x) {
    if (at_ >= c_.ints.size()) return false;
    *x = c_.ints[at_++];
    return true;
  }
  const std::vector<slipway_kernel_arg>& args() const { return args_; }

 private:
  bool Value(PluginArg kind, slipway_kernel_arg* arg) {
    int64_t n = 0;
    switch (kind) {
      case PluginArg::kNone: return true;
      case PluginArg::kTensor: return (arg->value.tensor = Operand()) != nullptr;
      case PluginArg::kInt:
      case PluginArg::kBool: return Next(&arg->value.i);
      case PluginArg::kFloat: {
        if (float_ >= c_.floats.size()) return false;
        arg->value.f = c_.floats[float_++];
        return true;
      }
      case PluginArg::kString: {
        const std::string* text = Text();
        if (!text) return false;
        arg->value.string = text->c_str();
        arg->count = text->size();
        return true;
      }
      case PluginArg::kInts: return Several(c_.ints, &at_, &arg->value.ints, &arg->count);
      case PluginArg::kFloats: return Several(c_.floats, &float_, &arg->value.floats, &arg->count);
      case PluginArg::kTensors: {
        if (!Next(&n) || n < 0 || n > kMaxArgs) return false;
        std::vector<const DLTensor*>& list = lists_.emplace_back();
        for (int64_t i = 0, given; i < n; ++i) {
          if (!Next(&given)) return false;
          list.push_back(given ? Operand() : nullptr);
          if (given && !list.back()) return false;
        }
        arg->value.tensors = list.data();
        arg->count = list.size();
        return true;
      }
      case PluginArg::kDType:
        if (!Next(&n) || n < 0 || n >= kDTypes) return false;
        arg->value.dtype = DlpackTypeOf(static_cast<DType>(n));
        return true;
    }
    return false;
  }
  // As many numbers as the next one says, from `*at` on.
  template <typename T>
  bool Several(std::span<const T> numbers, size_t* at, const T** list, size_t* count) {
    int64_t n;
    if (!Next(&n) || n < 0 || static_cast<uint64_t>(n) > numbers.size() - *at) return false;
    *list = numbers.data() + *at;
    *count = static_cast<size_t>(n);
    *at += *count;
    return true;
  }
  const std::string* Text() {
    int64_t n;
    if (!Next(&n) || n < 0 || n > kMaxText) return nullptr;
    std::string& text = texts_.emplace_back();
    for (int64_t word = 0; n > 0; --n, word >>= 8) {
      if (text.size() % 8 == 0 && !Next(&word)) return nullptr;
      text += static_cast<char>(word & 0xff);
    }
    return &text;
  }
  const DLTensor* Operand() {
    if (operand_ >= c_.in.size() || !c_.in[operand_].is_contiguous()) return nullptr;
    const Tensor& t = c_.in[operand_++];
    return &tensors_.emplace_back(Dlpack(t));
  }

  const Call& c_;
  size_t at_ = 0, float_ = 0, operand_ = 0;
  std::vector<slipway_kernel_arg> args_;
  std::deque<std::string> texts_;
  std::deque<DLTensor> tensors_;
  std::deque<std::vector<const DLTensor*>> lists_;
};

// Where a failure's text stays until the executor has copied it.
thread_local char error_text[kErrorText];

constexpr const char* kMalformed = "a plugin's kernel is called with arguments that make no sense";

const char* Sizes(const slipway_kernel& k, const Args& args, const std::vector<DLTensor>& outputs,
                  const std::vector<int64_t*>& sizes) {
  const slipway_kernel_call call{args.args().data(), args.args().size(), outputs.data(), outputs.size(), k.user,
                                 error_text,         kErrorText};
  return k.shape(&call, sizes.data());
}

const char* RunPlugin(const Call& c) {
  const slipway_kernel& k = *static_cast<const slipway_kernel*>(c.user);
  Args args(c);
  if (!args.Read()) return kMalformed;
  std::vector<DLTensor> outputs;
  if (k.shape) {
    // The program's sizes beside the library's.
    std::vector<std::vector<int64_t>> found;
    std::vector<int64_t*> sizes;
    for (const Tensor& t : c.out) {
      found.emplace_back(static_cast<size_t>(t.rank) + 1, -1);
      outputs.push_back({nullptr, {kDLCPU, 0}, t.rank, DlpackTypeOf(t.dtype), nullptr, nullptr, 0});
    }
    for (auto& f : found) sizes.push_back(f.data());
    if (const char* why = Sizes(k, args, outputs, sizes)) return why;
    for (size_t i = 0; i < found.size(); ++i)
      if (!std::equal(c.out[i].sizes, c.out[i].sizes + c.out[i].rank, found[i].data()))
        return "the plugin gives other sizes than the program declares";
    outputs.clear();
  }
  for (const Tensor& t : c.out) outputs.push_back(Dlpack(t));
  const slipway_kernel_call call{args.args().data(), args.args().size(), outputs.data(), outputs.size(), k.user,
                                 error_text,         kErrorText};
  return k.run(&call);
}

const char* RunSizes(const Call& c) {
  const slipway_kernel& k = *static_cast<const slipway_kernel*>(c.user);
  Args args(c);
  int64_t n, dtype, rank, all = 0;
  if (!args.Read() || !args.Next(&n) || n < 0 || n > kMaxArgs) return kMalformed;
  const Tensor& to = c.out[0];
  if (to.dtype != DType::kI64 || to.rank != 1 || !to.is_contiguous()) return kMalformed;
  std::vector<DLTensor> outputs;
  std::vector<int64_t*> sizes;
  for (; n > 0; --n) {
    if (!args.Next(&dtype) || !args.Next(&rank) || dtype < 0 || dtype >= kDTypes || rank < 0 || rank > kMaxRank ||
        rank > to.sizes[0] - all)
      return kMalformed;
    outputs.push_back({nullptr,
                       {kDLCPU, 0},
                       static_cast<int32_t>(rank),
                       DlpackTypeOf(static_cast<DType>(dtype)),
                       nullptr,
                       nullptr,
                       0});
    sizes.push_back(to.as<int64_t>() + all);
    all += rank;
  }
  std::fill_n(to.as<int64_t>(), to.sizes[0], -1);
  if (const char* why = Sizes(k, args, outputs, sizes)) return why;
  for (int64_t i = 0; i < all; ++i)
    if (to.as<int64_t>()[i] < 0) return "the plugin gives a size that is negative";
  return nullptr;
}

}  // namespace

std::vector<int64_t> PackText(std::string_view text) {
  std::vector<int64_t> out = {static_cast<int64_t>(text.size())};
  for (size_t i = 0; i < text.size(); ++i) {
    if (i % 8 == 0) out.push_back(0);
    out.back() |= static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint8_t>(text[i])) << (i % 8 * 8));
  }
  return out;
}

struct Plugin::Row {
  std::string name, sizes_name;
  slipway_kernel kernel;
};

Plugin::Plugin() = default;
Plugin::~Plugin() = default;

std::shared_ptr<const Plugin> Plugin::Load(SharedLibrary library, const std::string& name, std::string* why) {
  if (!library.loaded()) return nullptr;  // and `why` says it
  std::shared_ptr<Plugin> p(new Plugin);
  p->library_ = std::move(library);
  auto no = [&](const char* what) {
    *why = name + ": " + what;
    return nullptr;
  };
  auto* get = reinterpret_cast<decltype(&slipway_kernels)>(p->library_.Find("slipway_kernels"));
  if (!get) return no("a library, but no plugin: it has no function slipway_kernels");
  const slipway_kernel_library* found = get();
  if (!found) return no("slipway_kernels() gives nothing");
  if (found->abi != SLIPWAY_KERNEL_ABI || found->kernel_size < sizeof(slipway_kernel))
    return no("a plugin of another version of slipway_kernel.h");
  const char* at = reinterpret_cast<const char*>(found->kernels);
  for (size_t i = 0; i < found->count; ++i, at += found->kernel_size) {
    auto row = std::make_unique<Row>();
    row->kernel = *reinterpret_cast<const slipway_kernel*>(at);
    if (!row->kernel.op || !row->kernel.run) return no("a kernel without a name or a function");
    row->name = row->kernel.op;
    const size_t space = row->name.find("::");
    if (space == std::string::npos || space == 0) return no("a kernel's name is not as in mylib::blend");
    if (row->name.find('.', space) == std::string::npos) row->name += ".default";
    row->sizes_name = row->name + "/sizes";
    if (p->Find(row->name)) return no("two kernels of one name");
    p->kernels_.push_back({.name = row->name, .run = RunPlugin, .outputs = 0, .any_type = true, .user = &row->kernel});
    if (row->kernel.shape)
      p->kernels_.push_back(
          {.name = row->sizes_name, .run = RunSizes, .outputs = 1, .any_type = true, .user = &row->kernel});
    p->rows_.push_back(std::move(row));
  }
  return p;
}

std::shared_ptr<const Plugin> Plugin::Open(const std::string& path, std::string* why) {
  return Load(SharedLibrary::Open(path, why), path, why);
}

std::shared_ptr<const Plugin> Plugin::OpenBytes(std::span<const uint8_t> bytes, const std::string& name,
                                                std::string* why) {
  return Load(SharedLibrary::OpenBytes(bytes, name, why), name, why);
}

const Kernel* Plugin::Find(std::string_view name) const {
  for (const Kernel& k : kernels_)
    if (k.name == name) return &k;
  return nullptr;
}

}  // namespace slipway::kernels
