// What tests of convolutions share: images in several layouts, whose memory ends with the last element, and threads.
#ifndef SLIPWAY_TESTS_UNIT_CONV_IMAGE_H_
#define SLIPWAY_TESTS_UNIT_CONV_IMAGE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

inline const Workers* ThreeThreads() {
  static const std::unique_ptr<ThreadPool> pool = ThreadPool::Make(3);
  return pool ? &pool->workers() : nullptr;
}

enum Layout { kPlanes, kLast, kPartOfLast };

// An image [n, c, 1, h, w] in a layout, in memory that ends with its last element.
template <typename T>
struct Image {
  Image(Layout layout, DType dtype, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t pixel = layout == kPartOfLast ? c + 5 : c;
    t.rank = 5, t.dtype = dtype;
    const int64_t sizes[] = {n, c, 1, h, w};
    std::copy_n(sizes, 5, t.sizes);
    const int64_t planes[] = {c * h * w, h * w, h * w, w, 1}, last[] = {h * w * pixel, 1, 0, w * pixel, pixel};
    std::copy_n(layout == kPlanes ? planes : last, 5, t.strides);
    data.resize(static_cast<size_t>(n * h * w * pixel - (layout == kPartOfLast ? 5 : 0)));
    t.data = data.data();
  }
  T& at(int64_t n, int64_t c, int64_t y, int64_t x) {
    return data[static_cast<size_t>(n * t.strides[0] + c * t.strides[1] + y * t.strides[3] + x * t.strides[4])];
  }
  std::vector<T> data;
  Tensor t;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_TESTS_UNIT_CONV_IMAGE_H_
