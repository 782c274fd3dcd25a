// Constants that rows make themselves.
#ifndef SLIPWAY_IMPORTERS_ONNX_LOWERINGS_STORED_H_
#define SLIPWAY_IMPORTERS_ONNX_LOWERINGS_STORED_H_

#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace slipway::importers::onnx_in {

// A tensor of these elements, whose type is that of `dtype`.
template <typename T>
ir::TensorRef StoredTensor(ir::DType dtype, std::vector<int64_t> sizes, const std::vector<T>& values) {
  return ir::OwnedTensor(dtype, std::move(sizes),
                         {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_LOWERINGS_STORED_H_
