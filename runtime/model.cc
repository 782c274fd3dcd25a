// Reading the payload once, and packed weights: a constant that a caller sets is packed again, one that it reads is
// unpacked and kept.
#include "runtime/model.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <new>

#include "kernels/isa/names.h"

extern "C" {
// Where the exporter puts the plan and the weights (payload.S, exporters/native/).
extern const unsigned char slipway_payload[] __attribute__((visibility("hidden")));
}

namespace slipway::runtime {

using kernels::Constant;
using kernels::Error;

namespace {

// What a context holds.
void TakeMemory(const kernels::Context& context, uint64_t* temporaries, uint64_t* working) {
  *temporaries = context.tensor_memory();
  const uint64_t all = context.memory() + context.unplanned_memory();
  *working = all - std::min(all, *temporaries);
}

// One loop on the caller's threads.
struct Loop {
  void (*task)(void* context, int64_t i);
  void* context;
  std::mutex mutex;
  std::exception_ptr thrown;
};

void OnCallersThreads(void* self, int64_t tasks, void (*task)(void* context, int64_t i), void* context) {
  const auto& workers = *static_cast<const kernels::Workers*>(self);
  Loop loop{task, context, {}, nullptr};
  workers.run(
      workers.self, tasks,
      [](void* p, int64_t i) {
        Loop& l = *static_cast<Loop*>(p);
        try {
          l.task(l.context, i);
        } catch (...) {
          std::lock_guard lock(l.mutex);
          l.thrown = std::current_exception();
        }
      },
      &loop);
  if (loop.thrown) std::rethrow_exception(loop.thrown);
}

}  // namespace

Model::Model(ModelOptions options) : options_(std::move(options)), threads_(options_.threads) {
  if (options_.workers) guarded_ = {options_.workers->threads, OnCallersThreads, &*options_.workers};
}

std::unique_ptr<Model> Model::Open(ModelOptions options, std::string* why) {
  if (const char* error = kernels::IsaError()) {
    *why = error;
    return nullptr;
  }
  const unsigned char* payload = slipway_payload;
  asm("" : "+r"(payload));  // what the compiler sees there is not what will be there
  kernels::PayloadHeader header;
  std::memcpy(&header, payload, sizeof header);
  if (std::memcmp(header.magic, kernels::kPayloadMagic, sizeof header.magic) != 0) {
    *why = "no model is inside this library";
    return nullptr;
  }
  auto inside = [&](uint64_t offset, uint64_t size) { return offset <= header.size && size <= header.size - offset; };
  if (!inside(header.plan_offset, header.plan_size) || !inside(header.weights_offset, header.weights_size)) {
    *why = "the library is damaged";
    return nullptr;
  }
  std::unique_ptr<Model> model(new Model(std::move(options)));
  auto& loaded = model->plugins_;
  for (const std::string& path : model->options_.plugins) {
    loaded.push_back(kernels::Plugin::Open(path, why));
    if (!loaded.back()) return nullptr;
  }
  bool embedded = false;
  const kernels::FindOther find = [&](std::string_view name, const kernels::NativeModel& about, std::string* reason) {
    for (;; embedded = true) {
      for (const auto& p : loaded)
        if (const kernels::Kernel* k = p->Find(name)) return k;
      if (embedded) return static_cast<const kernels::Kernel*>(nullptr);
      for (const kernels::EmbeddedPlugin& e : about.plugins) {
        auto p = kernels::Plugin::OpenBytes(e.bytes, e.name, reason);
        if (p) loaded.push_back(std::move(p));
      }
    }
  };
  if (!kernels::ReadPlanFile({payload + header.plan_offset, header.plan_size},
                             {payload + header.weights_offset, header.weights_size}, &model->about_, why, find))
    return nullptr;
  auto set = std::make_shared<Set>();
  set->executable = kernels::Executable::Make(model->about_.plan, why);
  if (!set->executable) return nullptr;
  for (const Constant& c : model->about_.constants) set->data.push_back(c.data);
  set->owned.resize(set->data.size());
  set->plain.resize(set->data.size());
  set->unpacked.resize(set->data.size());
  model->active_ = std::move(set);
  model->nanoseconds_.resize(model->about_.plan.steps.size());
  model->counts_.resize(model->about_.plan.steps.size());
  model->work_.resize(model->about_.plan.steps.size());
  model->shapes_.resize(model->about_.plan.steps.size());
  return model;
}

Error Model::Run(std::span<const kernels::Tensor> inputs, const kernels::AllocateOutput& allocate) {
  return plan().states.empty() ? RunOnce(inputs, allocate) : RunWithStates(inputs, allocate);
}

Error Model::RunOnce(std::span<const kernels::Tensor> inputs, const kernels::AllocateOutput& allocate) {
  Runner runner = Take();
  Error failure = runner.context->Run(inputs, allocate);
  if (failure.step >= 0) failure.text = about_.origins[plan().steps[failure.step].origin].op + ": " + failure.text;
  Return(std::move(runner));
  return failure;
}

// A context with memory that was used before, where there is one.
Model::Runner Model::Take() {
  Runner runner;
  bool profile;
  {
    std::lock_guard lock(mutex_);
    profile = profile_;
    if (!idle_.empty()) {
      runner = std::move(idle_.back());
      idle_.pop_back();
    } else {
      if (!pool_made_ && !options_.workers)
        pool_ = kernels::ThreadPool::Make(threads_ > 0 ? threads_ : kernels::DefaultThreads());
      pool_made_ = true;
      runner.set = active_;
      runner.pool = pool_;
    }
  }
  if (!runner.context)
    runner.context = std::make_unique<kernels::Context>(
        runner.set->executable, kernels::RunOptions{.profile = profile,
                                                    .workers = options_.workers ? &guarded_
                                                               : runner.pool    ? &runner.pool->workers()
                                                                                : nullptr,
                                                    .allocator = options_.allocator ? &*options_.allocator : nullptr});
  return runner;
}

// Contexts keep their memory for the next run, as long as the constants are theirs.
void Model::Return(Runner runner) {
  std::lock_guard lock(mutex_);
  const auto times = runner.context->profile();
  if (!times.empty()) {
    for (size_t i = 0; i < times.size(); ++i) {
      nanoseconds_[i] += times[i];
      counts_[i] += times[i] > 0;
      const kernels::Work& work = runner.context->work()[i];
      work_[i].operations += work.operations, work_[i].bytes += work.bytes, work_[i].memory += work.memory;
      work_[i].most_rows = std::max(work_[i].most_rows, work.most_rows);
      // Now, though few ask for it: the next run takes this context and its sizes, or the context goes.
      if (times[i] > 0) shapes_[i] = runner.context->ShapesOf(static_cast<int32_t>(i));
    }
    TakeMemory(*runner.context, &temporaries_, &working_);
    runner.context->ResetProfile();
  }
  if (runner.set == active_ && runner.pool == pool_ && profile_ != times.empty()) idle_.push_back(std::move(runner));
}

std::string Model::SetConstants(std::span<const ConstantValue> values, bool inactive, bool full) {
  std::lock_guard lock(mutex_);
  auto set = std::make_shared<Set>(*(inactive && inactive_ ? inactive_ : active_));
  std::vector<bool> given(about_.constants.size());
  for (const ConstantValue& v : values) {
    const Constant& c = about_.constants[v.constant];
    const kernels::Tensor& t = v.tensor;
    auto named = [&](const char* what) { return "constant '" + c.name + "': " + what; };
    if (t.dtype != c.dtype) return named("another dtype");
    if (t.rank != static_cast<int>(c.sizes.size()) || !std::equal(c.sizes.begin(), c.sizes.end(), t.sizes))
      return named("other sizes");
    given[v.constant] = true;
    set->unpacked[v.constant] = nullptr;
    set->plain[v.constant] = v.keep;
    if (v.keep) {
      for (int d = 0; d < t.rank; ++d)
        if (t.sizes[d] > 1 && t.strides[d] != c.strides[d]) return named("lies otherwise in memory than the model's");
      set->data[v.constant] = static_cast<const uint8_t*>(t.data);
      set->owned[v.constant] = nullptr;
      continue;
    }
    std::shared_ptr<uint8_t[]> bytes(new uint8_t[std::max<uint64_t>(c.bytes, 1)]());
    const int64_t item = kernels::ByteSize(c.dtype);
    int64_t at[kernels::kMaxRank] = {};
    for (int64_t n = t.numel(); n > 0; --n) {
      int64_t from = 0, to = 0;
      for (int d = 0; d < t.rank; ++d) {
        from += at[d] * t.strides[d];
        to += at[d] * c.strides[d];
      }
      std::memcpy(bytes.get() + to * item, static_cast<const uint8_t*>(t.data) + from * item,
                  static_cast<size_t>(item));
      for (int d = t.rank - 1; d >= 0 && ++at[d] == t.sizes[d]; --d) at[d] = 0;
    }
    if (c.packed)  // other numbers may not fit
      set->plain[v.constant] =
          !kernels::FitsPacking(bytes.get(), c.dtype, static_cast<int64_t>(c.bytes), c.packed->packing);
    if (c.packed && !set->plain[v.constant]) {
      const kernels::WeightMatrix& m = *c.packed;
      std::shared_ptr<uint8_t[]> panels(new uint8_t[static_cast<size_t>(kernels::PackedBytes(m))]);
      kernels::PackPanels(bytes.get(), m, 0, kernels::Panels(m), panels.get());
      bytes = std::move(panels);
    }
    set->data[v.constant] = bytes.get();
    set->owned[v.constant] = std::move(bytes);
  }
  std::string missing;
  for (size_t i = 0; full && i < given.size(); ++i)
    if (!given[i] && !about_.constants[i].name.empty())
      missing += (missing.empty() ? "" : ", ") + about_.constants[i].name;
  if (!missing.empty()) return "constants without values: " + missing;
  kernels::Plan plan = about_.plan;
  for (size_t i = 0; i < about_.constants.size(); ++i)
    for (int32_t b : about_.constants[i].buffers) {
      plan.buffers[b].constant = set->data[i];
      if (set->plain[i]) plan.buffers[b].packed.reset();
    }
  std::string why;
  set->executable = kernels::Executable::Make(std::move(plan), &why);
  if (!set->executable) return why;
  if (inactive) {
    inactive_ = std::move(set);
  } else {
    active_ = std::move(set);
    idle_.clear();
  }
  return "";
}

std::string Model::Swap() {
  std::lock_guard lock(mutex_);
  if (!inactive_) return "there is no second set of constants to take";
  active_.swap(inactive_);
  idle_.clear();
  return "";
}

void Model::DropInactive() {
  std::lock_guard lock(mutex_);
  inactive_ = nullptr;
}

const uint8_t* Model::ConstantData(size_t constant, bool inactive) {
  std::lock_guard lock(mutex_);
  Set& set = *(inactive && inactive_ ? inactive_ : active_);
  const Constant& c = about_.constants[constant];
  if (!c.packed || set.plain[constant]) return set.data[constant];
  if (!set.unpacked[constant]) {
    const kernels::WeightMatrix& m = *c.packed;
    std::shared_ptr<uint8_t[]> bytes(new uint8_t[c.bytes]);
    kernels::UnpackPanels(set.data[constant], m, bytes.get());
    set.unpacked[constant] = std::move(bytes);
  }
  return set.unpacked[constant].get();
}

void Model::SetThreads(int threads) {
  std::lock_guard lock(mutex_);
  threads_ = threads;
  pool_made_ = false;
  pool_ = nullptr;
  idle_.clear();
}

void Model::Profile(bool on) {
  std::lock_guard lock(mutex_);
  profile_ = on;
  idle_.clear();
  if (on) {
    std::fill(nanoseconds_.begin(), nanoseconds_.end(), 0);
    std::fill(counts_.begin(), counts_.end(), 0);
    std::fill(work_.begin(), work_.end(), kernels::Work{});
  }
}

void Model::Memory(uint64_t* temporaries, uint64_t* working) {
  std::lock_guard lock(mutex_);
  *temporaries = temporaries_, *working = working_;
  if (!idle_.empty()) TakeMemory(*idle_.back().context, temporaries, working);
}

std::vector<Model::Row> Model::ProfileRows(bool by_shapes) {
  std::lock_guard lock(mutex_);
  std::map<std::pair<std::string, std::string>, Row> rows;
  for (size_t i = 0; i < nanoseconds_.size(); ++i) {
    if (counts_[i] == 0) continue;
    const std::string& op = about_.origins[plan().steps[i].origin].op;
    const std::string shapes = by_shapes ? shapes_[i] : "";
    Row& row = rows[{op, shapes}];
    row.op = op;
    row.shapes = shapes;
    row.steps += counts_[i];
    row.seconds += static_cast<double>(nanoseconds_[i]) * 1e-9;
    row.work.operations += work_[i].operations, row.work.bytes += work_[i].bytes;
    row.work.most_rows = std::max(row.work.most_rows, work_[i].most_rows);
    row.work.memory += work_[i].memory;
  }
  std::vector<Row> out;
  for (auto& [key, row] : rows) out.push_back(std::move(row));
  std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return out;
}

std::vector<Model::Row> Model::StepRows() {
  std::lock_guard lock(mutex_);
  std::vector<Row> out;
  for (size_t i = 0; i < nanoseconds_.size(); ++i) {
    if (counts_[i] == 0) continue;
    const kernels::Origin& origin = about_.origins[plan().steps[i].origin];
    out.push_back(
        {origin.op, shapes_[i], counts_[i], static_cast<double>(nanoseconds_[i]) * 1e-9, work_[i], origin.place});
  }
  return out;
}

}  // namespace slipway::runtime
