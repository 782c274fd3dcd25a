// Running plans. An Executable is a validated plan: every index is in range, and what follows from the tables is worked
// out (in which stage each number becomes known, how long buffers live, which results may take over the memory of an
// operand). It is immutable and may be shared. A Context holds the memory of one run at a time; sizes that were bound
// stay bound while inputs keep theirs.
#ifndef SLIPWAY_KERNELS_EXECUTOR_EXECUTE_H_
#define SLIPWAY_KERNELS_EXECUTOR_EXECUTE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/executor/arena.h"
#include "kernels/executor/plan.h"

namespace slipway::kernels {

// What went wrong, for people.
struct Error {
  enum Kind : uint8_t {
    kNone,
    kInput,   // an input is not what the plan takes
    kData,    // the numbers are wrong for an operator: an index out of range
    kMemory,  // over the limit, or the system has no more
    kPlan,    // the plan contradicts itself
  };
  Kind kind = kNone;
  std::string text;
  int32_t step = -1;  // where; -1: before the first
  explicit operator bool() const { return kind != kNone; }
};

class Executable {
 public:
  // Null where the plan is malformed; `why` says what is. Constants are not looked into: their bytes must be there.
  static std::shared_ptr<const Executable> Make(Plan plan, std::string* why);

  const Plan& plan() const { return plan_; }
  // The buffer whose memory a temporary has: itself, or the one it was written over.
  int32_t memory_of(int32_t buffer) const { return root_[buffer]; }
  Lifetime lifetime(int32_t buffer) const { return life_[buffer]; }

 private:
  friend class Context;

  // What can be settled at the same time: stage 0 when the inputs are known, the others when their symbol is.
  struct Stage {
    std::vector<int32_t> exprs, checks, outputs, views;
    std::vector<int32_t> callers_views;  // of `views`: those of the caller's memory
    std::vector<int32_t> temporaries;    // by first use; ~i: the scratch memory of step i
    std::vector<Lifetime> lifetimes;     // of temporaries
    std::vector<int32_t> deaths;         // positions in temporaries, by last use
  };

  std::string Validate();  // what is malformed, or ""
  bool WidenFilters();     // false where there is no memory
  std::string ValidateStates() const;
  bool ValidateChain(const Step& s) const;
  void FindLengths();
  void FindStages();
  void FindLifetimes();
  void ShareMemory();
  void FindOverlaps();
  void FillStages();

  Plan plan_;
  std::unique_ptr<float[]> widened_;  // filters that this processor's convolutions read as f32
  std::vector<Stage> stages_;
  std::vector<int32_t> symbol_stage_, expr_stage_, buffer_stage_, view_stage_;
  std::vector<Lifetime> life_;
  std::vector<int32_t> root_;
  std::vector<int32_t> overwritten_;    // by step: the operand whose memory the result has; -1: none
  std::vector<int32_t> lengths_;        // expressions behind the lengths of states after a run
  std::vector<int32_t> output_buffer_;  // by slot
  std::vector<uint8_t> fixed_;          // views whose sizes, strides and offset are constants
  std::vector<uint8_t> written_;        // views that are results of kernels
  std::vector<uint8_t> may_overlap_;    // steps of which a result lies in the same memory as another view of theirs
};

// The caller's memory for temporaries, aligned as asked for; null where there is none. Called from the thread that
// runs.
struct Allocator {
  void* (*allocate)(void* self, size_t bytes, size_t alignment) = nullptr;
  void (*deallocate)(void* self, void* memory, size_t bytes) = nullptr;
  void* self = nullptr;
};

struct RunOptions {
  uint64_t memory_limit = uint64_t{1} << 40;  // bytes of temporaries and results together, and of any one tensor
  uint64_t step_limit = std::numeric_limits<uint64_t>::max();  // steps of a run: for plans whose loops may not end
  bool profile = false;
  const Workers* workers = nullptr;      // null: the thread that runs does everything; must outlive the context
  const Allocator* allocator = nullptr;  // null: the C library's; must outlive the context
};

// Memory for result `slot`, of the sizes and dtype of `shape`, dense; null where there is none. Called once a run for
// each result, as soon as its sizes are known.
using AllocateOutput = std::function<void*(int32_t slot, const Tensor& shape)>;

// What a profiled step did; all but `memory` where it is products of matrices (kernels/gemm/product.h).
struct Work {
  double operations = 0;  // multiplications and additions
  double bytes = 0;       // of right matrices, once a product
  int64_t most_rows = 0;  // of the left matrix
  double memory = 0;      // bytes of operands and results, what is repeated along a dim counted once
};

// Not thread-safe: one per concurrent run.
class Context {
 public:
  explicit Context(std::shared_ptr<const Executable> executable, RunOptions options = {});

  // Runs on these inputs, in the plan's order. They may have any strides; what is not dense is copied. Outputs hold
  // nothing of use after a failure.
  Error Run(std::span<const Tensor> inputs, const AllocateOutput& allocate);

  // How long each state of the plan would be after a run on these inputs, whose states need no memory yet and may have
  // any size along the dim that grows; -1 for those that do not grow. Nothing is run.
  Error LengthsAfter(std::span<const Tensor> inputs, std::span<int64_t> lengths);

  // Nanoseconds in each step since the profile was reset, where options.profile asks for it.
  std::span<const int64_t> profile() const { return nanoseconds_; }
  std::span<const Work> work() const { return work_; }
  // Counts from now on.
  void ResetProfile();
  // Of a profiled kernel's operands and results, as it last ran: "1x3x224x224 64x3x7x7 -> 1x64x112x112"; "" where none
  // ran.
  std::string ShapesOf(int32_t step) const;
  // Bytes of temporaries now held, with the scratch memory of kernels that lies among them.
  uint64_t memory() const;
  // What temporaries alone would take, of the sizes that are bound.
  uint64_t tensor_memory() const;
  // Bytes of scratch memory beside memory(), which kernels took beyond what they counted.
  uint64_t unplanned_memory() const { return static_cast<uint64_t>(scratch_.own_bytes()); }

 private:
  struct Free {
    const Allocator* allocator;  // null: the C library's
    size_t bytes;
    void operator()(void* p) const;
  };
  struct Chunk {
    std::unique_ptr<void, Free> memory;
    int64_t bytes = 0;
  };
  // At least so many bytes, in place of what the chunk has; false where there are none.
  bool Grow(Chunk& chunk, int64_t bytes);

  Error Start(std::span<const Tensor> inputs);
  Error BindSymbols(std::span<const Tensor> inputs);
  Error BindStage(size_t stage, bool again);
  Error BindMemory(size_t stage);
  int64_t ScratchBytes(const Step& s);
  void BindView(int32_t view);
  Error Allocate(size_t stage, const AllocateOutput& allocate);
  Error Steps();
  Error Usable(const Step& s) const;
  bool Overlap(const Step& s) const;
  Error RunKernel(const Step& s);
  void CountWork(const Step& s, const Call& call);
  bool Numbers(const Step& s);                         // into ints_ and floats_; false where one has no value
  Call CallOf(const Step& s, Scratch* scratch) const;  // with those numbers
  bool Fits(int32_t view) const;
  Error SetSymbol(int32_t symbol, Scalar value);

  std::shared_ptr<const Executable> executable_;
  RunOptions options_;
  const AllocateOutput* allocate_ = nullptr;
  uint64_t outputs_bytes_ = 0;
  std::vector<Scalar> symbols_, last_symbols_, values_, lengths_;
  std::vector<Tensor> inputs_;                       // dense
  std::vector<Chunk> copies_;                        // of inputs that came otherwise
  std::vector<char*> base_;                          // of buffers
  std::vector<int64_t> bytes_;                       // of buffers
  std::vector<Tensor> tensors_;                      // of views
  std::vector<std::pair<int64_t, int64_t>> extent_;  // first and last byte of views, relative to their buffers
  std::vector<Chunk> chunks_;                        // of stages
  struct Block {
    char* at = nullptr;
    int64_t bytes = 0;
  };
  std::vector<Block> scratch_of_;            // of steps: among the temporaries
  std::vector<uint8_t> bound_, ever_bound_;  // stages: in this run, in any run
  std::vector<int64_t> nanoseconds_;
  std::vector<Work> work_;
  std::vector<int64_t> sizes_, offsets_, ints_;
  std::vector<double> floats_;
  Arena arena_;
  Scratch scratch_;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_EXECUTE_H_
