// Recurrent cells (rnn.h), a row of units at a time; gates are n apart. Part of rnn.cc.

template <typename F>
SLIPWAY_INLINE void OverUnits(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    f(
        [i](const float* p) __attribute__((always_inline)) { return Load(p + i); },
        [i](float* p, Vec v) __attribute__((always_inline)) { Store(p + i, v); });
  if (i == n) return;
  const int64_t left = n - i;
  f(
      [ i, left ](const float* p) __attribute__((always_inline)) {
        float rest[kLanes] = {};
        for (int64_t j = 0; j < left; ++j) rest[j] = p[i + j];
        return Load(rest);
      },
      [ i, left ](float* p, Vec v) __attribute__((always_inline)) {
        float rest[kLanes];
        Store(rest, v);
        for (int64_t j = 0; j < left; ++j) p[i + j] = rest[j];
      });
}
template <bool kBias, typename L>
SLIPWAY_INLINE Vec OwnGate(const RnnCellParams& c, int gate, L load) {
  const Vec own = load(c.own + gate * c.n);
  return kBias ? own + load(c.bias + gate * c.n) : own;
}
template <bool kBias>
SLIPWAY_INLINE void LstmUnits(const RnnCellParams& c) {
  OverUnits(
      c.n, [&c](auto load, auto store) __attribute__((always_inline)) {
        auto gate = [&](int g) __attribute__((always_inline)) {
          return load(c.x + g * c.n) + OwnGate<kBias>(c, g, load);
        };
        const Vec state = Sigmoid(gate(1)) * load(c.c) + Sigmoid(gate(0)) * Tanh(gate(2));
        store(c.c, state);
        store(c.out, Sigmoid(gate(3)) * Tanh(state));
      });
}
template <bool kBias>
SLIPWAY_INLINE void GruUnits(const RnnCellParams& c) {
  OverUnits(
      c.n, [&c](auto load, auto store) __attribute__((always_inline)) {
        const Vec reset = Sigmoid(load(c.x) + OwnGate<kBias>(c, 0, load));
        const Vec keep = Sigmoid(load(c.x + c.n) + OwnGate<kBias>(c, 1, load));
        const Vec fresh = Tanh(load(c.x + 2 * c.n) + reset * OwnGate<kBias>(c, 2, load));
        store(c.out, (load(c.h) - fresh) * keep + fresh);
      });
}
template <bool kBias, bool kTanh>
SLIPWAY_INLINE void PlainUnits(const RnnCellParams& c) {
  OverUnits(
      c.n, [&c](auto load, auto store) __attribute__((always_inline)) {
        const Vec v = load(c.x) + OwnGate<kBias>(c, 0, load);
        if constexpr (kTanh)
          store(c.out, Tanh(v));
        else
          store(c.out, v < 0.0f ? Vec{} : v);
      });
}
void CellRow(Cell cell, const RnnCellParams& c) {
  const bool bias = c.bias != nullptr;
  switch (cell) {
    case Cell::kLstm: return bias ? LstmUnits<true>(c) : LstmUnits<false>(c);
    case Cell::kGru: return bias ? GruUnits<true>(c) : GruUnits<false>(c);
    case Cell::kTanh: return bias ? PlainUnits<true, true>(c) : PlainUnits<false, true>(c);
    case Cell::kRelu: return bias ? PlainUnits<true, false>(c) : PlainUnits<false, false>(c);
  }
}
