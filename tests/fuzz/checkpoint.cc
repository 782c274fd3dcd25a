// Checkpoints of torch.save in both forms, and the tensor subclasses of torchao in them: tensors listed, their storages
// touched.
#include "importers/checkpoint/state_dict.h"
#include "ir/tensor.h"
#include "tests/fuzz/target.h"

using namespace slipway;

namespace {

volatile uint8_t sink;

void Touch(const std::vector<std::pair<std::string, ir::TensorRef>>& tensors) {
  for (const auto& [name, t] : tensors) {
    fuzz::Promise(t.sizes.size() == t.strides.size(), "a stride for each size");
    const io::Bytes* bytes = t.storage ? std::get_if<io::Bytes>(&t.storage->bytes) : nullptr;
    if (!bytes || t.numel() <= 0) continue;
    int64_t last = 0;
    for (size_t d = 0; d < t.sizes.size(); ++d) last += (t.sizes[d] - 1) * t.strides[d];
    const int64_t end = t.offset + ((last + 1) * ir::BitSize(t.dtype) + 7) / 8;
    fuzz::Promise(t.offset >= 0 && end <= static_cast<int64_t>(bytes->size()), "a tensor lies in its storage");
    sink = bytes->data()[static_cast<size_t>(t.offset)];
    sink = bytes->data()[static_cast<size_t>(end - 1)];
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const io::Bytes bytes = io::Bytes::Of(std::string(data, data + size));
  for (const auto& read : {importers::ListCheckpoint(bytes), importers::ReadCheckpoint(bytes, ""),
                           importers::ReadCheckpoint(bytes, "model")}) {
    fuzz::PromiseInputError(read.status());
    if (read.ok()) Touch(read->tensors);
  }
  for (const auto& tensors : {importers::ReadTensorDict(bytes), importers::ReadTensorSubclass(bytes)}) {
    fuzz::PromiseInputError(tensors.status());
    if (tensors.ok()) Touch(*tensors);
  }
  fuzz::PromiseInputError(importers::CheckPickle(bytes));
  return 0;
}
