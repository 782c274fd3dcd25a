// Depthwise convolutions: of NHWC images row by row in place, and of NCHW planes by way of panels of 16 channels, which
// are transposed while they are cache-resident.
#include <algorithm>
#include <utility>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {
namespace {

// The image rows that row y of the outputs reads and row y - 1 does not.
std::pair<int64_t, int64_t> RowsNewlyRead(const ConvProblem& c, int64_t y) {
  const int64_t extent = c.InputExtent(1, 1), end = y * c.shape.stride[1] - c.shape.pad[1] + extent,
                count = std::min(c.shape.stride[1], extent);
  return {std::clamp<int64_t>(end - count, 0, c.in_y), std::clamp<int64_t>(end, 0, c.in_y)};
}

}  // namespace

// Threads share the rows of the output, and a row that does not divide by its channels: each has about the rows that it
// has of the image, and as much work as the others.
void RunDepthwise(const ConvRun& run, Scratch& scratch) {
  if (scratch.querying()) return;
  const auto& [c, o] = run;
  const FilterShape& f = c.filter;
  const int64_t panels = f.panels(), row_floats = c.in_x * o.pixel_stride;
  const bool cold_input = c.in_y * c.in_x * c.channels >= kImageExceedsL2Floats,
             cold_output = c.out_y * c.out_x * f.output_channels >= kImageExceedsL2Floats;
  ParallelFor(o.workers, c.batch * c.out_y * panels, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin / panels, rows = Ceil(end, panels) - first;
    for (int64_t k = 0; k < rows; ++k) {
      const int64_t row = first + run.operands.RowAt(k, rows), n = row / run.problem.out_y, y = row % run.problem.out_y;
      const ConvProblem& c = run.problem;
      const ConvOperands& o = run.operands;
      const int64_t panel = std::max(begin - row * panels, int64_t{0}),
                    end_panel = std::min(end - row * panels, panels), c0 = panel * kPanel;
      const KernelRows kernel(c, y);
      const int64_t at = c.OutputOffset(n, y) + c0;
      DwconvNhwcParams t;
      t.x_stride = c.shape.dilation[1] * row_floats, t.x_pixel_stride = o.pixel_stride, t.columns = c.in_x;
      t.x = o.image + n * o.image_stride + kernel.from * row_floats + c0;
      t.rows = kernel.rows, t.width = f.width;
      t.stride = c.shape.stride[2], t.pad = c.shape.pad[2], t.dilation = c.shape.dilation[2];
      t.w = o.filters + (panel * f.kernel_size() + kernel.skip * f.width) * kPanel;
      t.w_panel_stride = f.depth() * kPanel;
      t.channels = std::min(f.output_channels, end_panel * kPanel) - c0, t.n = c.out_x;
      t.out = c.out.as<float>() + at, t.out_pixel_stride = c.out.strides[4];
      if (cold_input && t.channels == f.output_channels && k + 1 < rows) {
        const int64_t next = first + o.RowAt(k + 1, rows), next_n = next / c.out_y, next_y = next % c.out_y;
        const auto [from, to] = RowsNewlyRead(c, next_y);
        t.read = {o.image + next_n * o.image_stride + from * row_floats, (to - from) * row_floats};
        if (cold_output) t.written = {c.out.as<float>() + c.OutputOffset(next_n, next_y), c.out_x * c.out.strides[4]};
      }
      t.epilogue = o.epilogue.At(c0, at);
      c.ukernels.dwconv(t);
    }
  });
}

namespace {

class DepthwiseNchwPanels {
 public:
  DepthwiseNchwPanels(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s)
      : s_(s), f_{s.groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4]}, batch_(out.sizes[0]),
        channels_(x.sizes[1]), in_y_(x.sizes[3]), in_x_(x.sizes[4]), out_y_(out.sizes[3]), out_x_(out.sizes[4]) {
    possible_ = ConvProblem(x, w, out, s).supported() && f_.depthwise() && !w.is_packed() && x.is_contiguous() &&
                out.is_contiguous();
  }
  // A panel of few channels is as much work as a full one, and a short row is mostly padding.
  bool possible() const { return possible_ && 2 * channels_ >= kPanel && out_x_ >= 4; }

  void Run(const float* x, const float* w, float* out, const Epilogue& e, const Workers* workers,
           Scratch& scratch) const {
    if (static_cast<double>(batch_ * out_y_ * out_x_ * f_.output_channels * f_.kernel_size()) < kMinParallelWork)
      workers = nullptr;
    const int64_t panels = f_.panels(), wanted = workers != nullptr ? 2 * workers->threads : 1;
    const int64_t max_rows =
        std::clamp<int64_t>(kRowBlockFloats / ((in_x_ * s_.stride[1] + out_x_) * kPanel), 1, out_y_);
    const int64_t blocks = std::clamp<int64_t>(Ceil(wanted, batch_ * panels), Ceil(out_y_, max_rows), out_y_),
                  rows = Ceil(out_y_, blocks);
    const int64_t extent = (f_.height - 1) * s_.dilation[1],
                  in_rows = std::min(in_y_, (rows - 1) * s_.stride[1] + extent + 1);
    const auto transpose = BestIsa().elementwise.transpose;
    ParallelFor(scratch, workers, batch_ * panels * blocks, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float *const image = own.Take<float>(in_rows * in_x_ * kPanel), *const outputs =
                                                                          own.Take<float>(rows * out_x_ * kPanel);
      float* const filters = own.Take<float>(f_.kernel_size() * kPanel);
      if (own.querying()) return;
      int64_t packed = -1;  // the panel whose filters are in `filters`
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / blocks / panels, panel = i / blocks % panels, y0 = i % blocks * rows,
                      y1 = std::min(out_y_, y0 + rows);
        const int64_t c0 = panel * kPanel, count = std::min(kPanel, channels_ - c0);
        if (y0 >= y1) continue;
        if (std::exchange(packed, panel) != panel) PackFilters(w, f_, panel, panel + 1, filters);
        const int64_t r0 = std::clamp<int64_t>(y0 * s_.stride[1] - s_.pad[1], 0, in_y_);
        const int64_t r1 = std::clamp<int64_t>((y1 - 1) * s_.stride[1] - s_.pad[1] + extent + 1, r0, in_y_);
        transpose(reinterpret_cast<const uint32_t*>(x + ((n * channels_ + c0) * in_y_ + r0) * in_x_), in_y_ * in_x_,
                  reinterpret_cast<uint32_t*>(image), kPanel, (r1 - r0) * in_x_, count);
        DwconvNhwcParams t;
        t.x_pixel_stride = kPanel, t.x_stride = s_.dilation[1] * in_x_ * kPanel, t.columns = in_x_;
        t.width = f_.width, t.stride = s_.stride[2], t.pad = s_.pad[2], t.dilation = s_.dilation[2];
        t.w_panel_stride = f_.depth() * kPanel, t.channels = count, t.n = out_x_, t.out_pixel_stride = kPanel;
        t.epilogue.scale = e.scale != nullptr ? e.scale + c0 : nullptr,
        t.epilogue.bias = e.bias != nullptr ? e.bias + c0 : nullptr;
        if (e.residual == nullptr) t.epilogue.activation = e.activation, t.epilogue.min = e.min, t.epilogue.max = e.max;
        for (int64_t y = y0; y < y1; ++y) {
          const int64_t first = y * s_.stride[1] - s_.pad[1];
          const ValidKernelRange valid(first, in_y_, f_.height, s_.dilation[1]);
          t.rows = valid.count();
          t.x = t.rows > 0 ? image + (first + valid.first * s_.dilation[1] - r0) * in_x_ * kPanel : image;
          t.w = filters + valid.first * f_.width * kPanel;
          t.out = outputs + (y - y0) * out_x_ * kPanel;
          BestIsa().conv_nhwc.dwconv(t);
        }
        const int64_t plane = out_y_ * out_x_, at = (n * channels_ + c0) * plane + y0 * out_x_;
        transpose(reinterpret_cast<const uint32_t*>(outputs), kPanel, reinterpret_cast<uint32_t*>(out + at), plane,
                  count, (y1 - y0) * out_x_);
        if (e.residual == nullptr) continue;
        const Epilogue rest = e.AfterAffine();
        for (int64_t c = 0; c < count; ++c)
          BestIsa().elementwise.epilogue(out + at + c * plane, out + at + c * plane, (y1 - y0) * out_x_,
                                         rest.At(c0 + c, at + c * plane));
      }
    });
  }

 private:
  // Of a row block and its outputs: both of 56 × 56 pixels stay in the second-level cache.
  static constexpr int64_t kRowBlockFloats = 100 << 10;
  const ConvShape& s_;
  const FilterShape f_;
  const int64_t batch_, channels_, in_y_, in_x_, out_y_, out_x_;
  bool possible_ = false;
};

}  // namespace

bool DepthwiseNchwByPanels(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                           const Epilogue& epilogue, const Workers* workers, Scratch& scratch) {
  const DepthwiseNchwPanels conv(x, w, out, shape);
  if (!conv.possible()) return false;
  conv.Run(x.as<float>(), w.as<float>(), out.as<float>(), epilogue, workers, scratch);
  return true;
}

bool CanUseDepthwiseNchwByPanels(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  return DepthwiseNchwPanels(x, w, out, shape).possible();
}

}  // namespace slipway::kernels
