// Named tensors: what a file of weights holds.
#ifndef SLIPWAY_IR_TENSOR_SET_H_
#define SLIPWAY_IR_TENSOR_SET_H_

#include <map>
#include <string>
#include <vector>

#include "ir/sharded.h"
#include "ir/tensor.h"

namespace slipway::ir {

struct TensorSet {
  std::map<std::string, TensorRef> tensors;
  std::map<std::string, ShardedTensor> sharded;  // those that lie in several pieces; other names than `tensors`
  // Tensors that are there and have no plain form, each with what it is ("a sparse tensor"): refused by name where they
  // are wanted.
  std::map<std::string, std::string> unreadable;
  // Of programs: parameters and persistent buffers of which the file holds no values.
  std::vector<std::string> without_values;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> notes;  // what was left out, for people
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_TENSOR_SET_H_
