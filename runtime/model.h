// The model inside this library: its payload, which is read once, its constants, and runs on it. Both C interfaces
// (c_api.cc for slipway_model.h, aoti.cc for PyTorch's loader) are made of this. It throws; they let no exception out.
#ifndef SLIPWAY_RUNTIME_MODEL_H_
#define SLIPWAY_RUNTIME_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/executor/execute.h"
#include "kernels/executor/plan_file.h"
#include "kernels/executor/plugin.h"

namespace slipway::runtime {

// New values of a constant: dense or not, of its dtype and sizes.
struct ConstantValue {
  size_t constant = 0;
  kernels::Tensor tensor;
  bool keep = false;  // use this memory itself, which the caller keeps alive; only where it lies as the constant does
};

// How a model is opened. What it names must outlive the model.
struct ModelOptions {
  // paths of shared libraries with kernels, asked before those inside the payload
  std::vector<std::string> plugins;
  int threads = 0;                              // as of SetThreads
  std::optional<kernels::Workers> workers;      // the caller's threads, in place of the library's own
  std::optional<kernels::Allocator> allocator;  // for temporaries
};

class Model {
 public:
  ~Model();
  // Null, with the reason, where this library has no payload or a damaged one, or a plugin that it needs cannot be
  // loaded.
  static std::unique_ptr<Model> Open(ModelOptions options, std::string* why);

  const kernels::NativeModel& about() const { return about_; }
  const kernels::Plan& plan() const { return about_.plan; }

  // Thread-safe. As Context::Run; the failure's text names the operator.
  kernels::Error Run(std::span<const kernels::Tensor> inputs, const kernels::AllocateOutput& allocate);

  // Thread-safe, as everything here: runs of a model with states wait for each other, and so do these. States grow
  // while it runs; what a run that failed on its way left in a state of fixed size is of no use: runs are refused until
  // it is reset.
  kernels::Error ResetState();
  int64_t StateLength(size_t i);  // -1: it does not grow
  kernels::Error TruncateState(int64_t length);
  kernels::Error GetState(size_t i, const std::function<void*(const kernels::Tensor& shape)>& allocate);
  kernels::Error SetState(size_t i, const kernels::Tensor& value);

  // Replaces values of constants, in those that runs use or, with `inactive`, in a second set that Swap() makes the
  // first. What is not named stays; with `full` every named constant must be. "" or what is wrong, and then nothing has
  // changed. Runs under way go on with the old ones.
  std::string SetConstants(std::span<const ConstantValue> values, bool inactive, bool full);
  std::string Swap();  // "" or why not
  void DropInactive();
  // Where a constant's values are now, laid out as the tensor says. Throws std::bad_alloc.
  const uint8_t* ConstantData(size_t constant, bool inactive);

  // Threads of later runs; 0: kernels::DefaultThreads(), which also holds before the first call. They are started by
  // the first run that can use them. Nothing where the caller's threads are used.
  void SetThreads(int threads);

  void Profile(bool on);
  struct Row {
    std::string op;
    std::string shapes;  // as of kernels::Context::ShapesOf()
    int64_t steps = 0;
    double seconds = 0;
    kernels::Work work;
    std::string place;  // of StepRows()
  };
  // Slowest first: by operator, or by operator and the shapes of its operands.
  std::vector<Row> ProfileRows(bool by_shapes);
  // A row for each step that ran, in the plan's order.
  std::vector<Row> StepRows();
  // Bytes that the latest run that is over had at once: of temporaries, and what kernels took to work. 0 before one.
  void Memory(uint64_t* temporaries, uint64_t* working);

 private:
  // A set of values for the constants, and what runs on it. Immutable but for `unpacked`, which mutex_ guards.
  struct Set {
    std::shared_ptr<const kernels::Executable> executable;
    std::vector<const uint8_t*> data;  // of constants, packed where they are packed
    // parallel; null where the values are the library's or the caller's
    std::vector<std::shared_ptr<const uint8_t[]>> owned;
    // parallel: not packed: the caller's own memory, or what does not fit
    std::vector<bool> plain;
    std::vector<std::shared_ptr<const uint8_t[]>> unpacked;  // parallel; made when the values are first asked for
  };
  struct Runner {
    std::shared_ptr<Set> set;
    std::shared_ptr<kernels::ThreadPool> pool;  // may be null
    std::unique_ptr<kernels::Context> context;
  };

  // The memory of a state.
  struct Held {
    kernels::Tensor tensor;  // dense; along the dim that grows as much as there is room for
    uint64_t bytes = 0;      // allocated
    int64_t length = 0;
  };

  explicit Model(ModelOptions options);
  Runner Take();
  void Return(Runner runner);
  kernels::Error RunOnce(std::span<const kernels::Tensor> inputs, const kernels::AllocateOutput& allocate);
  kernels::Error RunWithStates(std::span<const kernels::Tensor> inputs, const kernels::AllocateOutput& allocate);
  kernels::Error FirstState();
  bool AllocateState(Held* held, kernels::Tensor shape);
  void FreeState(Held& held);
  bool Reserve(size_t i, int64_t length);

  ModelOptions options_;
  kernels::Workers guarded_;  // around options_.workers: what a task throws does not pass through the caller
  std::vector<std::shared_ptr<const kernels::Plugin>> plugins_;  // before what holds pointers to their kernels
  kernels::NativeModel about_;
  std::mutex state_mutex_;    // of states_ and damaged_; before mutex_
  std::vector<Held> states_;  // empty: not made yet
  bool damaged_ = false;      // by a run that failed
  std::mutex mutex_;          // of what follows
  std::shared_ptr<Set> active_, inactive_;
  std::vector<Runner> idle_;
  int threads_ = 0;
  bool pool_made_ = false;
  std::shared_ptr<kernels::ThreadPool> pool_;
  bool profile_ = false;
  std::vector<int64_t> nanoseconds_, counts_;  // by step, of runs that are over
  std::vector<kernels::Work> work_;
  std::vector<std::string> shapes_;         // of the last run of each step
  uint64_t temporaries_ = 0, working_ = 0;  // of the latest run that was timed
};

}  // namespace slipway::runtime

#endif  // SLIPWAY_RUNTIME_MODEL_H_
