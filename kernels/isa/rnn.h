// Recurrent cells of an instruction set: what follows the products of a step. rnn.inc.h is their source.
#ifndef SLIPWAY_KERNELS_ISA_RNN_H_
#define SLIPWAY_KERNELS_ISA_RNN_H_

#include <cstdint>

namespace slipway::kernels {

// A step of a recurrent cell for one row of n units. Gates are n apart, in torch's order: LSTM i f g o, GRU r z n.
enum class Cell : uint8_t { kLstm, kGru, kTanh, kRelu };
inline constexpr int kCells = 4;
constexpr int Gates(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
struct RnnCellParams {
  const float *x, *own, *bias;  // gates from the input; gates from the state; bias of the latter, or null
  const float* h;               // the state, for kGru
  float* c;                     // the cell state of kLstm, updated in place
  float* out;                   // the next state, which does not overlap h
  int64_t n;
};

struct RnnMicrokernels {
  void (*cell)(Cell cell, const RnnCellParams& c);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_RNN_H_
