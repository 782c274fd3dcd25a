// A tensor as it is to be written.
#ifndef SLIPWAY_WEIGHTS_NAMED_TENSOR_H_
#define SLIPWAY_WEIGHTS_NAMED_TENSOR_H_

#include <string>

#include "ir/sharded.h"

namespace slipway::weights {

struct NamedTensor {
  std::string name;
  ir::ShardedTensor tensor;
  // that it is written as: the tensor's own, or one that FindCast() reaches from it
  ir::DType dtype = ir::DType::kUnknown;
  // The values are computed while the file is written: the tensor has sizes and a dtype, and no pieces.
  bool computed = false;
  int shard = -1;  // which file of a folder it goes to, where files are not made by size
};

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_NAMED_TENSOR_H_
