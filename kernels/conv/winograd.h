// Winograd's minimal filtering for convolutions of 3 × 3 with stride 1 (Lavin & Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015): tiles of m × m results are made of tiles d of t × t elements, t = m + 2, as
//
//   Y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A,
//
// so the sums over channels become t² products of matrices, [o, c] · [c, tiles]. m = 2 takes 16 multiplications for 4
// results of 9 each (2.25 times fewer), m = 4 takes 36 for 16 (4 times fewer).
//
//        ⎡1  0 -1  0⎤        ⎡ 1   0   0⎤
//   Bᵀ = ⎢0  1  1  0⎥   G =  ⎢ ½   ½   ½⎥   Aᵀ = ⎡1  1  1  0⎤     for m = 2.
//        ⎢0 -1  1  0⎥        ⎢ ½  -½   ½⎥        ⎣0  1 -1 -1⎦
//        ⎣0  1  0 -1⎦        ⎣ 0   0   1⎦
//
// For m = 4 the polynomials are taken at 0, ±a, ±b and infinity, with a = 3/4, b = 3/2 (N(a) = 2a²(a² - b²),
// N(b) = 2b²(b² - a²)):
//
//        ⎡a²b²   0   -a²-b²    0    1  0⎤        ⎡1/a²b²      0       0   ⎤
//        ⎢ 0   -ab²    -b²     a    1  0⎥        ⎢1/N(a)   a/N(a)  a²/N(a)⎥        ⎡1 1  1  1  1  0⎤
//   Bᵀ = ⎢ 0    ab²    -b²    -a    1  0⎥   G =  ⎢1/N(a)  -a/N(a)  a²/N(a)⎥   Aᵀ = ⎢0 a -a  b -b  0⎥
//        ⎢ 0   -a²b    -a²     b    1  0⎥        ⎢1/N(b)   b/N(b)  b²/N(b)⎥        ⎢0 a² a² b² b² 0⎥
//        ⎢ 0    a²b    -a²    -b    1  0⎥        ⎢1/N(b)  -b/N(b)  b²/N(b)⎥        ⎣0 a³ -a³ b³ -b³ 1⎦
//        ⎣ 0   a²b²     0   -a²-b²  0  1⎦        ⎣  0         0       1   ⎦
//
// These points keep the matrices' elements near 1: over 64 to 512 channels of normal numbers the largest error is 6e-6
// to 1.2e-5 of the results' root mean square (2e-6 to 5e-6 of it over positive numbers), where 0, ±1, ±2 have 2.7e-5 to
// 4.6e-5 and the direct sum 0.8e-6 to 2.5e-6; m = 2 has 1.2e-6 to 2e-6.
#ifndef SLIPWAY_KERNELS_CONV_WINOGRAD_H_
#define SLIPWAY_KERNELS_CONV_WINOGRAD_H_

#include <cstdint>

#include "kernels/conv/conv_nchw.h"
#include "kernels/scratch.h"

namespace slipway::kernels {

// One group of `batch` images, which lie x_step (out_step) floats apart: x [c, height, width], filters w [o, c, 3, 3],
// out [o, out_height, out_width]; output element (y, x) is over rows y - pad_y … and columns x - pad_x ….
struct WinogradCall {
  int64_t batch = 1, c = 0, o = 0, height = 0, width = 0, out_height = 0, out_width = 0, pad_y = 0, pad_x = 0;
  int64_t x_step = 0, out_step = 0;
  const float *x = nullptr, *w = nullptr;
  float* out = nullptr;
};

// The m (2 or 4) by which this takes least time, or 0 where the direct way does. The transforms of an image are worth
// it where there are channels enough, those of filters where a filter has places enough.
int WinogradTile(const WinogradCall& call);

// `first` is the group's first channel, `at` where its results begin, for the epilogue. The bits do not depend on
// workers. Takes scratch memory for the time of the call, which is all that it does where `scratch` counts; pointers do
// not matter then.
void Winograd(const WinogradCall& call, int m, const Epilogue& epilogue, int64_t first, int64_t at,
              const Workers* workers, Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_WINOGRAD_H_
