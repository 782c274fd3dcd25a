// The algorithms of NHWC convolutions, the choice among them, and the layout changes they share. Each algorithm is a
// function over a const problem and const operands in the file of its name; `scratch` provides workspace, and where it
// only queries, allocations are all that happens.
#ifndef SLIPWAY_KERNELS_CONV_NHWC_ALGORITHMS_H_
#define SLIPWAY_KERNELS_CONV_NHWC_ALGORITHMS_H_

#include "kernels/conv/nhwc/problem.h"
#include "kernels/scratch.h"

namespace slipway::kernels {

enum class NhwcAlgorithm : uint8_t {
  kWinograd,    // winograd.cc: F(4 × 4, 3 × 3)
  kDepthwise,   // depthwise.cc
  kPointwise,   // pointwise.cc: GEMM over pixels
  kDirectNchw,  // direct_nchw.cc: few channels, read from planes
  kGrouped,     // grouped.cc
  kIm2col,      // im2col.cc: GEMM over copied patches
  kDirect,      // direct.cc: indirect GEMM over the image in place
  kRowBlocked,  // direct.cc: indirect GEMM over padded copies of row blocks
};

NhwcAlgorithm SelectAlgorithm(const ConvProblem& c);
const char* AlgorithmName(const ConvProblem& c);
// Whether every output is stored once, after its residual has been read: no partial sums in memory.
bool StoresOnce(const ConvProblem& c);

// What selection and the algorithms both ask.
bool ReordersInRowBlocks(const ConvProblem& c);
bool ReadsPlanesInPlace(const ConvProblem& c);
bool GroupsReadInPlace(const ConvProblem& c);
// Whether a pointwise convolution over so many pixels is a GEMV: each panel is read once, all accumulators in
// registers.
inline bool UseSkinnyGemm(const ConvProblem& c, int64_t pixels) {
  return pixels <= 3 && c.out.strides[4] >= c.filter.output_channels;
}
// Winograd tiles whose transforms are held at once.
int64_t WinogradBlockTiles(const ConvProblem& c);

void RunWinograd(const ConvRun& run, Scratch& scratch);
void RunDepthwise(const ConvRun& run, Scratch& scratch);
void RunPointwise(const ConvRun& run, Scratch& scratch);
void RunGrouped(const ConvRun& run, Scratch& scratch);
void RunIm2col(const ConvRun& run, Scratch& scratch);
void RunDirect(const ConvRun& run, Scratch& scratch);
void RunRowBlocked(const ConvRun& run, Scratch& scratch);
// Writes NHWC into problem.out or, where `out` is dense planes, reorders each row block while it is cache-resident and
// applies `epilogue` to it; operands.epilogue has then no residual.
void RunDirectNchw(const ConvRun& run, const Tensor& out, const Epilogue& epilogue, Scratch& scratch);

// ---- direct.cc, for grouped.cc as well.

// A part of the outputs: rows [y0, y1) of image n, m pixels from x0 on, column units [unit, end_unit).
struct OutputPart {
  int64_t n, y0, y1, x0, m, unit, end_unit;
};
// Segments of an image whose rows are row_stride and, for NCHW, planes plane_stride floats apart.
SegmentOffsets SegmentsOf(const ConvProblem& c, int64_t pixel_stride, int64_t row_stride, int64_t plane_stride,
                          Scratch& scratch);
// Computes a part. `image` is the first element that its first output reads, of channel 0.
void IgemmPart(const ConvRun& run, const OutputPart& p, const float* image, int64_t pixel_stride, int64_t row_stride,
               const SegmentOffsets& segments);
// Where a part's first output begins to read an image without padding.
const float* FirstElement(const ConvRun& run, const OutputPart& p);
// Computes rows [y0, y1) × unit u over the image in place; `cold`: the rows have not been read yet.
void IgemmInPlace(const ConvRun& run, int64_t n, int64_t y0, int64_t y1, int64_t u, bool cold,
                  const SegmentOffsets& segments);

// ---- reorder.cc.

// Copies the channels of pixels from_stride floats apart to pixels to_stride apart.
void CopyPixels(const float* from, int64_t from_stride, int64_t pixels, int64_t channels, float* to, int64_t to_stride);
// The filters packed, in the model or here.
const float* PackedFilters(const ConvProblem& c, Scratch& scratch);
// An NHWC copy of the input; null where it is NHWC already.
float* ReorderToNhwc(const ConvProblem& c, const Workers* workers, Scratch& scratch);
// A dense NCHW copy of the input; null where it is that already.
float* ReorderToNchw(const ConvProblem& c, Scratch& scratch);
// The pixels that a strided pointwise convolution reads, as a dense NHWC image.
float* GatherStrided(const ConvProblem& c, const ConvOperands& o, Scratch& scratch);
// Padded rows of an NHWC image, `rows` from those of output row y0 on: per row `width` pixels from padded column x0 on,
// of these channels [c0, c1), pixels pixel_stride floats apart, zeros in the padding. Rows above and below the image
// are left as they are: no kernel row reads them. With reorders_in_row_blocks, planes are transposed in whole vectors
// where that stays within a plane: memory for a vector of pixels more must follow the last row.
void PadRows(const ConvRun& run, int64_t n, int64_t y0, int64_t rows, int64_t x0, int64_t width, int64_t c0, int64_t c1,
             int64_t pixel_stride, float* to);
// Padded planes of an NCHW image, `rows` rows of `width` columns per channel from those of output row y0 on.
void PadPlanes(const ConvRun& run, int64_t n, int64_t y0, int64_t rows, int64_t width, float* to);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_NHWC_ALGORITHMS_H_
