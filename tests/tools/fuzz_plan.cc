// Plans that are not what they say: those of good libraries, changed at random in the file or in the tables that were
// read, then read, looked at and run on random numbers. Whatever comes of it must come as a text: no crash, no memory
// but the tensors' own, no memory beyond the limit, no end of the wait.
//
//   fuzz_plan SEED FIRST COUNT MODEL.so…
//
// Runs cases FIRST to FIRST + COUNT - 1 of SEED, in processes of their own, and names those that went wrong; one case
// alone runs in this process, for a debugger. Sanitized builds see more. tests/hostile/native_file_test.py runs some.
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/convert.h"
#include "kernels/executor/execute.h"
#include "kernels/executor/plan_file.h"
#include "kernels/parallel.h"
#include "payload.h"

using namespace slipway::kernels;

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 22;  // of temporaries and results
constexpr uint64_t kSteps = 1000;
constexpr int64_t kMaxElements = 1 << 16;  // of an input
constexpr int kSeconds = 10;               // of a processor's time, for a case

using Random = std::mt19937_64;

int64_t Below(Random& random, int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

int64_t Interesting(Random& random) {
  // clang-format off
  constexpr int64_t kNumbers[] = {-1, 0, 1, 2, 3, 4, 7, 16, 64, 1000, 65536, INT32_MAX, INT32_MIN, INT64_MAX,
   INT64_MIN, int64_t{1} << 32,
                                  int64_t{1} << 40, int64_t{1} << 62, -2, -16, -(int64_t{1} << 40)};
  // clang-format on
  return kNumbers[Below(random, std::size(kNumbers))];
}

// Changes some bytes: words of the flat tables more often than not, since they are most of the file.
void ChangeBytes(Random& random, std::vector<uint8_t>& bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < 16) return;
  for (int64_t n = 1 + Below(random, 4); n > 0; --n) {
    const int64_t at = Below(random, size / 4 - 1) * 4, from = Below(random, size / 4 - 1) * 4;
    int32_t word;
    std::memcpy(&word, bytes.data() + at, 4);
    switch (Below(random, 6)) {
      case 0: bytes[Below(random, size)] = static_cast<uint8_t>(random()); continue;
      case 1: word = static_cast<int32_t>(Interesting(random)); break;
      case 2: word = static_cast<int32_t>(int64_t{word} + Below(random, 33) - 16); break;
      case 3: std::memcpy(&word, bytes.data() + from, 4); break;
      case 4: {
        const int64_t wide = Interesting(random);
        if (at + 8 <= size) std::memcpy(bytes.data() + at, &wide, 8);
        continue;
      }
      default:
        const int64_t length = std::min({Below(random, 16) * 4, size - at, size - from});
        std::memmove(bytes.data() + at, bytes.data() + from, static_cast<size_t>(length));
        continue;
    }
    std::memcpy(bytes.data() + at, &word, 4);
  }
}

template <typename T>
void Nudge(Random& random, T& x, int64_t limit) {
  const int64_t near = Below(random, 5);
  x = static_cast<T>(near == 0 ? Interesting(random)
                     : near <= 2
                         ? static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(Below(random, 5) - 2))
                         : Below(random, std::max<int64_t>(limit, 1)));
}

template <typename T>
T* One(Random& random, std::vector<T>& table) {
  return table.empty() ? nullptr : &table[Below(random, static_cast<int64_t>(table.size()))];
}

// Changes some fields of what was read, most to what is in range. What ReadPlanFile promises of constants stays.
void ChangeTables(Random& random, const std::vector<const Kernel*>& kernels, Plan& p) {
  const Plan good = p;
  auto expr = [&](int32_t& e) { Nudge(random, e, static_cast<int64_t>(p.exprs.size())); };
  for (int64_t n = 1 + Below(random, 4); n > 0; --n) {
    switch (Below(random, 12)) {
      case 0:
        if (Expr* e = One(random, p.exprs)) {
          const int64_t field = Below(random, 4);
          if (field == 0) e->op = static_cast<Expr::Op>(Below(random, Expr::kOps + 1));
          if (field == 1) Nudge(random, e->value, 64);
          if (field == 2) expr(e->a);
          if (field == 3) expr(e->b);
        }
        break;
      case 1:
        if (Symbol* s = One(random, p.symbols)) Nudge(random, Below(random, 2) ? s->min : s->max, 64);
        break;
      case 2:
        if (Input* i = One(random, p.inputs)) {
          if (Below(random, 3) == 0) i->dtype = static_cast<DType>(Below(random, kDTypes + 1));
          if (Below(random, 3) == 0) i->kind = static_cast<Input::Kind>(Below(random, 4));
          if (int32_t* e = One(random, i->sizes)) expr(*e);
        }
        break;
      case 3:
        if (Output* o = One(random, p.outputs)) {
          if (Below(random, 3) == 0) o->dtype = static_cast<DType>(Below(random, kDTypes + 1));
          if (int32_t* e = One(random, o->sizes)) expr(*e);
        }
        break;
      case 4:
        if (Binding* b = One(random, p.bindings)) {
          if (Below(random, 2)) Nudge(random, b->dim, 4);
          if (Below(random, 2)) Nudge(random, b->scale, 4);
          if (Below(random, 2)) Nudge(random, b->shift, 4);
        }
        break;
      case 5:
        if (Buffer* b = One(random, p.buffers)) {
          if (b->kind == Buffer::kConstant) break;
          if (Below(random, 2)) b->kind = static_cast<Buffer::Kind>(Below(random, 4) == 1 ? 0 : Below(random, 5));
          if (b->kind == Buffer::kConstant) b->kind = Buffer::kTemporary;
          if (Below(random, 2)) expr(b->bytes);
          if (Below(random, 2)) Nudge(random, b->slot, 3);
        }
        break;
      case 6:
        if (int32_t* d = One(random, p.dims)) expr(*d);
        break;
      case 7:
        if (View* v = One(random, p.views)) {
          const int64_t field = Below(random, 5);
          if (field == 0) Nudge(random, v->buffer, static_cast<int64_t>(p.buffers.size()));
          if (field == 1) v->dtype = static_cast<DType>(Below(random, kDTypes + 1));
          if (field == 2) Nudge(random, v->rank, 6);
          if (field == 3) expr(v->offset);
          if (field == 4) Nudge(random, v->first_dim, static_cast<int64_t>(p.dims.size()));
        }
        break;
      case 8:
        if (int32_t* e = One(random, p.numbers)) expr(*e);
        break;
      case 9:
      case 10:
        if (Step* s = One(random, p.steps)) {
          const int64_t field = Below(random, 11);
          if (field == 0) s->kind = static_cast<Step::Kind>(Below(random, 7));
          if (field <= 1) s->kernel = kernels[Below(random, static_cast<int64_t>(kernels.size()))];
          if (field == 2) s->compute = static_cast<DType>(Below(random, kDTypes + 1));
          if (field == 3) Nudge(random, s->first_view, static_cast<int64_t>(p.views.size()));
          if (field == 4) Nudge(random, s->inputs, 4);
          if (field == 5) Nudge(random, s->outputs, 3);
          if (field == 6) Nudge(random, s->first_number, static_cast<int64_t>(p.numbers.size()));
          if (field == 7) Nudge(random, s->ints, 8);
          if (field == 8) Nudge(random, s->floats, 3);
          if (field == 9) Nudge(random, Below(random, 2) ? s->symbol : s->expr, 8);
          if (field == 10) Nudge(random, Below(random, 2) ? s->first_op : s->ops, 8);
        }
        break;
      default:
        if (ChainOp* o = One(random, p.ops)) {
          const int64_t field = Below(random, 7);
          if (field == 0) o->kernel = kernels[Below(random, static_cast<int64_t>(kernels.size()))];
          if (field == 1) o->compute = static_cast<DType>(Below(random, kDTypes + 1));
          if (field == 2) o->result = static_cast<DType>(Below(random, kDTypes + 1));
          if (field == 3) Nudge(random, o->inputs, 4);
          if (field == 4) Nudge(random, o->in[Below(random, ChainOp::kMaxInputs)], 4);
          if (field == 5 && Below(random, 2))
            Nudge(random, o->slot, 4);
          else if (field == 5)
            Nudge(random, o->ints, 4);
          if (field == 6) Nudge(random, o->output, 3);
        }
    }
  }
  for (const Buffer& b : p.buffers)
    if (b.kind == Buffer::kConstant) p.exprs[b.bytes] = good.exprs[b.bytes];
}

// Numbers that kernels may not like.
void Fill(Random& random, const Tensor& t) {
  const int64_t range = Below(random, 3) ? 4 : 1000;
  for (int64_t i = 0; i < t.numel(); ++i) {
    const int64_t k = Below(random, 50) == 0 ? Interesting(random) : Below(random, range) - Below(random, 2);
    const double x = Below(random, 50) == 0   ? HUGE_VAL
                     : Below(random, 50) == 0 ? NAN
                                              : static_cast<double>(Below(random, 2001) - 1000) / 500;
    WithAnyType(t.dtype, [&]<typename T>() { t.as<T>()[i] = IsFloating(t.dtype) ? Convert<T>(x) : Convert<T>(k); });
  }
}

// What came of it, for people.
std::string RunPlan(Random& random, const Plan& plan) {
  std::string why;
  auto executable = Executable::Make(plan, &why);
  if (!executable) return why;
  std::unique_ptr<ThreadPool> pool = Below(random, 4) == 0 ? ThreadPool::Make(2) : nullptr;
  Context context(executable,
                  {.memory_limit = kMemory, .step_limit = kSteps, .workers = pool ? &pool->workers() : nullptr});
  std::string said;
  for (int round = 0; round < 2; ++round) {
    std::vector<Scalar> symbols(plan.symbols.size()), values(plan.exprs.size());
    for (const Binding& b : plan.bindings) {
      const Symbol& s = plan.symbols[b.symbol];
      const int64_t n = Below(random, 8);
      symbols[b.symbol] = s.real ? Scalar::Real(2) : Scalar::Int(n < s.min ? s.min : n > s.max ? s.max : n);
    }
    for (size_t i = 0; i < values.size(); ++i) values[i] = Evaluate(plan.exprs[i], values, symbols);
    std::vector<std::unique_ptr<char[]>> memory;
    std::vector<Tensor> inputs;
    for (const Input& in : plan.inputs) {
      Tensor t;
      t.dtype = in.dtype;
      t.rank = static_cast<int>(in.sizes.size());
      int64_t step = 1;
      for (int d = t.rank - 1; d >= 0; --d) {
        const Scalar& n = values[in.sizes[d]];
        t.sizes[d] = n.known && n.bits >= 0 && n.bits <= kMaxElements / step ? n.bits : Below(random, 3);
        t.strides[d] = step;
        step *= std::max<int64_t>(t.sizes[d], 1);
      }
      memory.emplace_back(new char[static_cast<size_t>(t.numel()) * ByteSize(t.dtype)]);
      t.data = memory.back().get();
      Fill(random, t);
      inputs.push_back(t);
    }
    const Error failure = context.Run(inputs, [&](int32_t, const Tensor& shape) -> void* {
      memory.emplace_back(new char[static_cast<size_t>(shape.numel()) * ByteSize(shape.dtype)]);
      return memory.back().get();
    });
    said = failure ? "run: " + failure.text : "runs";
  }
  return said;
}

std::string Case(uint64_t seed, uint64_t number, const std::vector<Payload>& payloads,
                 const std::vector<const Kernel*>& kernels) {
  std::seed_seq seeds{seed, number};
  Random random(seeds);
  const Payload& payload = payloads[Below(random, static_cast<int64_t>(payloads.size()))];
  std::vector<uint8_t> bytes(payload.plan.begin(), payload.plan.end());
  const bool in_file = Below(random, 3) == 0;
  if (in_file) ChangeBytes(random, bytes);
  NativeModel model;
  std::string why;
  if (!ReadPlanFile(bytes, payload.weights, &model, &why)) return why;
  if (!in_file) ChangeTables(random, kernels, model.plan);
  return RunPlan(random, model.plan);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: fuzz_plan SEED FIRST COUNT MODEL.so...\n");
    return 2;
  }
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10), first = std::strtoull(argv[2], nullptr, 10),
                 count = std::strtoull(argv[3], nullptr, 10);
  std::vector<Payload> payloads(static_cast<size_t>(argc - 4));
  for (size_t i = 0; i < payloads.size(); ++i)
    if (std::string why = ReadPayload(argv[4 + i], &payloads[i]); !why.empty()) {
      std::fprintf(stderr, "%s: %s\n", argv[4 + i], why.c_str());
      return 2;
    }
  std::vector<const Kernel*> kernels;
  for (auto table : {UnaryKernels(), BinaryKernels(), ChainKernels(), MoveKernels(), IndexKernels(), ReduceKernels(),
                     MatmulKernels(), AttentionKernels(), NormalizeKernels(), ConvKernels(), RecurrentKernels(),
                     PoolKernels(), SampleKernels(), TransformKernels(), OrderKernels()})
    for (const Kernel& k : table) kernels.push_back(FindKernel(k.name));
  if (count == 1) {
    std::printf("%s\n", Case(seed, first, payloads, kernels).c_str());
    return 0;
  }
  auto* at = static_cast<std::atomic<uint64_t>*>(
      mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (at == MAP_FAILED) return 2;
  int wrong = 0;
  std::fflush(stdout);
  for (at->store(first); at->load() < first + count;) {
    const pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
      std::map<std::string, uint64_t> seen;
      const itimerval limit = {{0, 0}, {kSeconds, 0}}, none = {};
      for (; at->load() < first + count; at->fetch_add(1)) {
        setitimer(ITIMER_PROF, &limit, nullptr);
        alarm(20 * kSeconds);
        ++seen[Case(seed, at->load(), payloads, kernels)];
      }
      setitimer(ITIMER_PROF, &none, nullptr);
      alarm(0);
      for (const auto& [text, n] : seen) std::printf("%8llu  %s\n", static_cast<unsigned long long>(n), text.c_str());
      std::fflush(stdout);
      _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 2;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    ++wrong;
    std::printf("case %llu: %s %d\n", static_cast<unsigned long long>(at->load()),
                WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    std::fflush(stdout);
    at->fetch_add(1);
  }
  std::printf("%d of %llu went wrong\n", wrong, static_cast<unsigned long long>(count));
  return wrong == 0 ? 0 : 1;
}
