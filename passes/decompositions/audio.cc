// torchaudio's operators: filters whose results depend on what they gave before, as scans over time.
#include "passes/decompositions/loop_builder.h"
#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

// Time first.
Value* ByTime(Decomposer& d, Value* x) { return d.b.Call("aten.movedim.int", {x, -1, 0}); }
Value* TimeLast(Decomposer& d, Value* x) { return d.b.Call("aten.movedim.int", {x, 0, -1}); }

// y[t] = x[t] - sum over k of a[k] y[t + k - K + 1], for [batch, channels, time] and coefficients [channels, K]; y
// begins K - 1 places in front of x and is read before it is written, at t too.
void Lfilter(Decomposer& d) {
  Value *x = d.tensor("input_signal_windows"), *a = d.tensor("a_coeff_flipped"),
        *y = d.tensor("padded_output_waveform");
  const auto taps = a->rank() == 2 ? a->sizes()[1].constant() : std::nullopt;
  if (x->rank() != 3 || y->rank() != 3 || a->rank() != 2) return d.Fail("the ranks are not those of the operator");
  if (!taps || *taps < 1) return d.Unsupported("a number of coefficients that is not known");
  const int64_t before = *taps - 1;
  Value* start = Slice(d, y, 2, 0, before);
  x = d.Sub(x, d.Mul(Slice(d, y, 2, before), Slice(d, a, 1, before)));
  if (before == 0) return d.Return(x);
  Values state, coefficients;
  for (int64_t k = 0; k < before; ++k) {
    state.push_back(Select(d, y, 2, k));
    coefficients.push_back(Select(d, a, 1, k));
  }
  const Values out =
      Scan(d, state, {ByTime(d, x)}, [&](Decomposer& d, const Values& state, const Values& at, Captures& in) {
        Value* now = at[0];
        for (size_t k = 0; k < state.size(); ++k) now = d.Sub(now, d.Mul(state[k], in(coefficients[k])));
        Values next(state.begin() + 1, state.end());
        next.insert(next.end(), {now, now});
        return next;
      });
  if (!out.empty()) d.Return(Cat(d, {start, TimeLast(d, out.back())}, 2));
}

// The leaky integral of the changes of `temp`, added to the waveform.
void Overdrive(Decomposer& d) {
  Value *x = d.tensor("waveform"), *changed = d.tensor("temp");
  const Values start = {d.tensor("last_in"), d.tensor("last_out")};
  if (!d.ok()) return;
  Values out = Scan(d, start, {ByTime(d, changed), ByTime(d, x)},
                    [](Decomposer& d, const Values& state, const Values& at, Captures&) {
                      Value* last = d.Add(d.Sub(at[0], state[0]), d.Mul(state[1], 0.995));
                      return Values{at[0], last, d.Add(d.Mul(at[1], 0.5), d.Mul(last, 0.75))};
                    });
  if (out.empty()) return;
  out.back() = TimeLast(d, out.back());
  d.Return(std::move(out));
}

constexpr DecomposeRow kAudioRows[] = {
    {"torchaudio._lfilter_core_loop_functional.default", Lfilter, false},
    {"torchaudio._overdrive_core_loop_functional.default", Overdrive, false},
};

}  // namespace

absl::Span<const DecomposeRow> AudioDecompositions() { return kAudioRows; }

}  // namespace slipway::passes
