// Convolutions of images with channels last beside sums in f64: sizes that fill no block, layouts of both sides, groups
// of every kind, packed filters and plain ones, epilogues; the bits are the same for any number of threads. Filters
// packed and back; pools.
#include "kernels/conv/conv_nhwc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "fenced_scratch.h"
#include "gtest/gtest.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/pool_f32.h"
#include "kernels/conv/work_partition.h"
#include "kernels/parallel.h"

namespace slipway::kernels {
namespace {

enum Layout { kPlanes, kLast, kPartOfLast };

// An image [n, c, 1, h, w] in a layout, in memory that ends with its last element.
struct Image {
  Image(Layout layout, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t pixel = layout == kPartOfLast ? c + 5 : c;
    t.rank = 5;
    const int64_t sizes[] = {n, c, 1, h, w};
    std::copy_n(sizes, 5, t.sizes);
    const int64_t planes[] = {c * h * w, h * w, h * w, w, 1}, last[] = {h * w * pixel, 1, 0, w * pixel, pixel};
    std::copy_n(layout == kPlanes ? planes : last, 5, t.strides);
    data.resize(static_cast<size_t>(n * h * w * pixel - (pixel - c)));
    t.data = data.data();
  }
  float& at(int64_t n, int64_t c, int64_t y, int64_t x) {
    return data[static_cast<size_t>(n * t.strides[0] + c * t.strides[1] + y * t.strides[3] + x * t.strides[4])];
  }
  std::vector<float> data;
  Tensor t;
};

void Fill(std::vector<float>& v, std::mt19937& random) {
  std::uniform_real_distribution<float> range(-1, 1);
  for (float& x : v) x = range(random);
}
double Function(Activation a, double x) {
  switch (a) {
    case Activation::kNone: return x;
    case Activation::kClamp: return std::min(std::max(x, -0.25), 1.5);
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kHardSwish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kHardSigmoid: return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kLeakyRelu: return x < 0 ? -0.25 * x : x;
  }
  return 0;
}
const Workers* ThreeThreads() {
  static const std::unique_ptr<ThreadPool> pool = ThreadPool::Make(3);
  return pool ? &pool->workers() : nullptr;
}

struct Case {
  int64_t n = 1, c = 1, o = 1, groups = 1, h = 1, w = 1, ky = 1, kx = 1, sy = 1, sx = 1, py = 0, px = 0, dy = 1, dx = 1;
  Layout from = kLast, to = kLast;
  bool packed = true, scale = false, shift = false, add = false;
  Activation activation = Activation::kNone;
};

void Check(const Case& k, unsigned seed) {
  std::mt19937 random(seed);
  const int64_t per = k.c / k.groups, group_output_channels = k.o / k.groups;
  const int64_t oy = (k.h + 2 * k.py - k.dy * (k.ky - 1) - 1) / k.sy + 1,
                ox = (k.w + 2 * k.px - k.dx * (k.kx - 1) - 1) / k.sx + 1;
  Image x(k.from, k.n, k.c, k.h, k.w), out(k.to, k.n, k.o, oy, ox), add(k.to, k.n, k.o, oy, ox);
  std::vector<float> weights(static_cast<size_t>(k.o * per * k.ky * k.kx)), scale(static_cast<size_t>(k.o)),
      shift(scale);
  Fill(x.data, random), Fill(weights, random), Fill(scale, random), Fill(shift, random), Fill(add.data, random);
  const FilterShape f{k.groups, per, k.o, k.ky, k.kx};
  std::vector<float> panels(static_cast<size_t>(f.elements()), 77), back(weights.size());
  PackFilters(weights.data(), f, 0, f.panels(), panels.data());
  UnpackFilters(panels.data(), f, back.data());
  ASSERT_EQ(weights, back);

  Tensor w;
  w.rank = 5;
  const int64_t sizes[] = {k.o, per, 1, k.ky, k.kx};
  int64_t step = 1;
  for (int d = 4; d >= 0; --d) w.sizes[d] = sizes[d], w.strides[d] = step, step *= sizes[d];
  w.data = k.packed ? panels.data() : weights.data();
  w.packed = k.packed ? Packing::kConvFilters : Packing::kNone;
  ConvShape shape{k.groups, {1, k.sy, k.sx}, {0, k.py, k.px}, {1, k.dy, k.dx}};
  Epilogue e;
  if (k.scale) e.scale = scale.data();
  if (k.shift) e.bias = shift.data();
  if (k.add) e.residual = add.data.data();
  e.activation = k.activation, e.min = -0.25f, e.max = 1.5f;
  auto run = [&](const Workers* workers) {
    std::fill(out.data.begin(), out.data.end(), 99.0f);
    Scratch counter = Scratch::Counter();
    if (!ConvNhwc(x.t, w, out.t, shape, e, workers, counter)) return false;
    FencedScratch memory(counter.counted());
    return ConvNhwc(x.t, w, out.t, shape, e, workers, *memory) && memory.sufficed();
  };
  ASSERT_TRUE(run(ThreeThreads()));
  const std::vector<float> threaded = out.data;
  ASSERT_TRUE(run(nullptr));
  ASSERT_EQ(threaded, out.data);
  size_t written = 0;
  const auto agrees = [&] {
    for (int64_t n = 0; n < k.n; ++n)
      for (int64_t o = 0; o < k.o; ++o)
        for (int64_t y = 0; y < oy; ++y)
          for (int64_t z = 0; z < ox; ++z, ++written) {
            double sum = 0;
            for (int64_t c = 0; c < per; ++c)
              for (int64_t u = 0; u < k.ky; ++u)
                for (int64_t v = 0; v < k.kx; ++v) {
                  const int64_t iy = y * k.sy - k.py + u * k.dy, ix = z * k.sx - k.px + v * k.dx;
                  if (iy < 0 || iy >= k.h || ix < 0 || ix >= k.w) continue;
                  sum += static_cast<double>(weights[static_cast<size_t>(((o * per + c) * k.ky + u) * k.kx + v)]) *
                         x.at(n, o / group_output_channels * per + c, iy, ix);
                }
            if (k.scale) sum *= scale[static_cast<size_t>(o)];
            if (k.shift) sum += shift[static_cast<size_t>(o)];
            if (k.add) sum += add.at(n, o, y, z);
            ASSERT_NEAR(out.at(n, o, y, z), Function(k.activation, sum),
                        1e-5 * std::sqrt(static_cast<double>(per * k.ky * k.kx) + 4))
                << "at " << n << ' ' << o << ' ' << y << ' ' << z;
          }
  };
  agrees();
  // What is between the parts of a larger image is left alone.
  ASSERT_EQ(std::count(out.data.begin(), out.data.end(), 99.0f), static_cast<int64_t>(out.data.size() - written));
  if (!k.add || !ConvNhwcWritesOnce(x.t, w, out.t, shape)) return;
  // Written over what is added.
  e.residual = out.data.data();
  for (const Workers* workers : {ThreeThreads(), static_cast<const Workers*>(nullptr)}) {
    out.data = add.data;
    Scratch scratch;
    ASSERT_TRUE(ConvNhwc(x.t, w, out.t, shape, e, workers, scratch));
    agrees();
  }
}

TEST(ConvNhwc, AgreesWithSumsInDouble) {
  std::mt19937 random(7);
  auto of = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  for (unsigned i = 0; i < 1500; ++i) {
    Case k;
    k.n = of(1, 2);
    switch (of(0, 5)) {
      case 0:  // depthwise
        k.c = k.o = k.groups = of(1, 40);
        break;
      case 1: {  // groups of as many outputs as inputs, which share panels or not
        constexpr int64_t kWidths[] = {2, 4, 8, 12, 16, 20, 24, 32, 40};
        k.groups = of(1, 5), k.c = k.o = k.groups * kWidths[of(0, 8)];
        break;
      }
      case 2:  // other groups
        k.groups = of(1, 4), k.c = k.groups * of(1, 9), k.o = k.groups * of(1, of(0, 3) == 0 ? 80 : 20);
        break;
      default: k.c = of(1, 50), k.o = of(1, 70);
    }
    const int64_t kernels[] = {1, 1, 2, 3, 3, 5, 7};
    k.ky = kernels[of(0, 6)], k.kx = of(0, 3) == 0 ? kernels[of(0, 6)] : k.ky;
    k.sy = of(0, 4) == 0 ? 3 : of(1, 2), k.sx = of(0, 4) == 0 ? 3 : k.sy;
    k.dy = of(0, 4) == 0 ? 2 : 1, k.dx = of(0, 4) == 0 ? 2 : k.dy;
    k.py = of(0, k.ky), k.px = of(0, 1) == 0 ? k.kx / 2 : of(0, k.kx);
    k.h = k.dy * (k.ky - 1) + of(1, 9), k.w = k.dx * (k.kx - 1) + of(1, 31);
    k.from = static_cast<Layout>(of(0, 2)), k.to = static_cast<Layout>(of(0, 2)), k.packed = of(0, 3) != 0;
    k.scale = of(0, 1), k.shift = of(0, 1), k.add = of(0, 1), k.activation = static_cast<Activation>(of(0, 5));
    Check(k, i);
    ASSERT_FALSE(HasFatalFailure()) << "case " << i << ": n " << k.n << " c " << k.c << " o " << k.o << " groups "
                                    << k.groups << " image " << k.h << 'x' << k.w << " kernel " << k.ky << 'x' << k.kx
                                    << " stride " << k.sy << ',' << k.sx << " pad " << k.py << ',' << k.px
                                    << " dilation " << k.dy << ',' << k.dx << " layouts " << k.from << ',' << k.to;
  }
}

// Work that is worth several threads, in rows of places, columns, bands and channels.
TEST(ConvNhwc, LargeOnes) {
  // clang-format off
  const Case cases[] = {
      {.c = 96, .o = 150, .h = 40, .w = 41, .shift = true},
      {.c = 300, .o = 330, .h = 7, .w = 7, .scale = true, .add = true, .activation = Activation::kSilu},
      {.n = 2, .c = 640, .o = 500, .h = 1, .w = 1, .shift = true, .activation = Activation::kHardSigmoid},
      {.c = 64, .o = 100, .h = 29, .w = 31, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .py = 1, .px = 1,
       .activation = Activation::kClamp},
      {.c = 3, .o = 32, .h = 65, .w = 67, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .py = 1, .px = 1, .from = kPlanes,
       .scale = true},
      {.n = 2, .c = 3, .o = 64, .h = 50, .w = 53, .ky = 7, .kx = 7, .sy = 2, .sx = 2, .py = 3, .px = 3,
       .from = kPlanes, .to = kPartOfLast, .shift = true, .add = true},
      {.c = 1, .o = 40, .h = 61, .w = 40, .ky = 3, .kx = 5, .py = 2, .px = 4, .from = kPlanes,
       .activation = Activation::kHardSwish},
      {.c = 72, .o = 72, .groups = 72, .h = 56, .w = 57, .ky = 5, .kx = 5, .py = 2, .px = 2, .add = true},
      // By Winograd's transforms: tiles that are cut, channels in several parts, several bands.
      {.c = 64, .o = 72, .h = 30, .w = 29, .ky = 3, .kx = 3, .py = 1, .px = 1, .scale = true, .shift = true,
       .add = true, .activation = Activation::kSilu},
      {.n = 2, .c = 200, .o = 40, .h = 14, .w = 15, .ky = 3, .kx = 3, .py = 1, .px = 1,
       .activation = Activation::kClamp},
      {.c = 37, .o = 50, .h = 45, .w = 43, .ky = 3, .kx = 3, .py = 2, .px = 0, .from = kPartOfLast, .to = kPartOfLast,
       .add = true},
      {.c = 512, .o = 100, .h = 7, .w = 7, .ky = 3, .kx = 3, .py = 1, .px = 1, .to = kPlanes, .shift = true},
      {.c = 128, .o = 128, .groups = 16, .h = 28, .w = 28, .ky = 3, .kx = 3, .py = 1, .px = 1},
      {.c = 96, .o = 96, .groups = 4, .h = 28, .w = 28, .ky = 3, .kx = 3, .py = 1, .px = 1},
      // Rows that do not divide among three threads: groups with panels of their own, groups that share them,
      // depthwise; heavy weights.
      {.c = 288, .o = 288, .groups = 18, .h = 7, .w = 7, .ky = 3, .kx = 3, .py = 1, .px = 1, .from = kPartOfLast,
       .add = true},
      {.c = 96, .o = 96, .groups = 12, .h = 7, .w = 33, .ky = 3, .kx = 3, .py = 1, .px = 1, .to = kPartOfLast,
       .activation = Activation::kSilu},
      {.n = 2, .c = 192, .o = 480, .groups = 48, .h = 10, .w = 7, .ky = 3, .kx = 3, .py = 1, .px = 1, .shift = true},
      {.n = 2, .c = 144, .o = 144, .groups = 144, .h = 7, .w = 31, .ky = 5, .kx = 5, .py = 2, .px = 2, .scale = true,
       .activation = Activation::kSilu},
      {.c = 2000, .o = 400, .h = 7, .w = 7, .to = kPartOfLast, .scale = true, .shift = true, .add = true},
      // Groups over wide images: with panels of their own, sharing them, of other widths.
      {.c = 64, .o = 64, .groups = 4, .h = 57, .w = 61, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .py = 1, .px = 1,
       .scale = true, .shift = true, .add = true},
      {.c = 72, .o = 72, .groups = 9, .h = 17, .w = 40, .ky = 3, .kx = 3, .py = 1, .px = 1, .from = kPartOfLast,
       .to = kPartOfLast, .activation = Activation::kSilu},
      {.n = 2, .c = 18, .o = 42, .groups = 2, .h = 9, .w = 33, .ky = 3, .kx = 5, .py = 2, .px = 4, .dy = 2, .dx = 2,
       .shift = true},
      // Groups of rows that are too long to stay near; a stride over single places.
      {.c = 96, .o = 96, .groups = 6, .h = 1, .w = 3500, .kx = 5, .px = 2, .add = true},
      {.c = 96, .o = 96, .groups = 6, .h = 5, .w = 3500, .ky = 3, .kx = 3},
      {.n = 2, .c = 150, .o = 70, .h = 31, .w = 33, .sy = 2, .sx = 2, .from = kPartOfLast, .shift = true},
      // Rows of few results of many outputs: products of copied patches, in several blocks, of part of an image, of
      // planes.
      {.n = 2, .c = 520, .o = 110, .h = 14, .w = 13, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .py = 1, .px = 1,
       .scale = true, .add = true, .activation = Activation::kClamp},
      {.c = 100, .o = 90, .h = 7, .w = 8, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .py = 1, .px = 1, .from = kPartOfLast,
       .to = kPartOfLast, .shift = true},
      {.c = 130, .o = 200, .h = 15, .w = 14, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .py = 1, .px = 1, .from = kPlanes,
       .to = kPlanes, .shift = true, .add = true},
      {.c = 512, .o = 96, .h = 14, .w = 14, .ky = 2, .kx = 2, .sy = 2, .sx = 2, .activation = Activation::kSilu},
      // Places that neighbouring results read lie a multiple of half a page apart: a copy has them elsewhere.
      {.n = 2, .c = 512, .o = 40, .w = 64, .kx = 3, .sx = 2},
      {.c = 256, .o = 96, .h = 9, .w = 31, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .py = 1, .px = 1, .scale = true,
       .add = true},
      {.c = 512, .o = 512, .groups = 16, .h = 8, .w = 9, .ky = 3, .kx = 3, .py = 1, .px = 1, .dy = 2, .dx = 1,
       .shift = true},
  };
  // clang-format on
  for (const Case& k : cases) {
    Check(k, 1);
    ASSERT_FALSE(HasFatalFailure());
  }
}

// Infinities of one group stay there, as those of one place do.
TEST(ConvNhwc, GroupsDoNotMeet) {
  for (int64_t per : {1, 4, 8, 16, 24}) {
    const int64_t c = 4 * per;
    Image x(kLast, 1, c, 3, 5), out(kLast, 1, c, 3, 5);
    std::fill(x.data.begin(), x.data.end(), 1.0f);
    x.at(0, per, 1, 2) = std::numeric_limits<float>::infinity();
    std::vector<float> weights(static_cast<size_t>(c * per * 9), 1.0f);
    Tensor w;
    w.rank = 5, w.data = weights.data();
    const int64_t sizes[] = {c, per, 1, 3, 3};
    int64_t step = 1;
    for (int d = 4; d >= 0; --d) w.sizes[d] = sizes[d], w.strides[d] = step, step *= sizes[d];
    Scratch scratch;
    ASSERT_TRUE(ConvNhwc(x.t, w, out.t, {4, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}, {}, nullptr, scratch));
    for (int64_t o = 0; o < c; ++o)
      for (int64_t y = 0; y < 3; ++y)
        for (int64_t z = 0; z < 5; ++z)
          EXPECT_EQ(std::isfinite(out.at(0, o, y, z)), o / per != 1 || z == 0 || z == 4)
              << per << ' ' << o << ' ' << y << ' ' << z;
  }
}

TEST(PoolWindowsNhwc, IsThatOfPlanes) {
  std::mt19937 random(3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t c : {1, 3, 16, 21, 40})
    for (int64_t kernel : {2, 3})
      for (int64_t stride : {1, 2}) {
        const int64_t h = 9, w = 11, pad = kernel / 2, oy = (h + 2 * pad - kernel) / stride + 1,
                      ox = (w + 2 * pad - kernel) / stride + 1;
        Image last(kLast, 2, c, h, w), planes(kPlanes, 2, c, h, w), a(kLast, 2, c, oy, ox), b(kPlanes, 2, c, oy, ox);
        Fill(planes.data, random);
        planes.at(1, c - 1, 4, 4) = nan;
        for (int64_t n = 0; n < 2; ++n)
          for (int64_t i = 0; i < c; ++i)
            for (int64_t y = 0; y < h; ++y)
              for (int64_t x = 0; x < w; ++x) last.at(n, i, y, x) = planes.at(n, i, y, x);
        const Window window{{1, kernel, kernel}, {1, stride, stride}, {0, pad, pad}, {1, 1, 1}};
        auto same = [&] {
          for (int64_t n = 0; n < 2; ++n)
            for (int64_t i = 0; i < c; ++i)
              for (int64_t y = 0; y < oy; ++y)
                for (int64_t x = 0; x < ox; ++x) {
                  const float p = a.at(n, i, y, x), q = b.at(n, i, y, x);
                  ASSERT_TRUE(std::isnan(q) ? std::isnan(p) : std::fabs(p - q) <= 1e-6f) << c << ' ' << p << ' ' << q;
                }
        };
        Scratch scratch;
        ASSERT_TRUE(MaxPoolF32(last.t, a.t, window, ThreeThreads(), scratch) || c == 1);
        ASSERT_TRUE(MaxPoolF32(planes.t, b.t, window, nullptr, scratch));
        if (c > 1) same();
        for (bool counts : {false, true}) {
          ASSERT_TRUE(AveragePoolF32(last.t, a.t, window, {0, counts}, ThreeThreads(), scratch) || c == 1);
          ASSERT_TRUE(AveragePoolF32(planes.t, b.t, window, {0, counts}, nullptr, scratch));
          if (c > 1) same();
        }
      }
}

// Blocks follow each other over all rows, begin with a multiple of the grain and have no more rows than callers take
// memory for.
TEST(WorkPartition, BlocksOfWholeGrains) {
  for (int64_t grain : {1, 6})
    for (int64_t rows = 1; rows < 80; ++rows)
      for (int64_t blocks = 1; blocks <= rows; ++blocks) {
        const WorkPartition shares = PartitionWork(nullptr, 1, rows, 3, blocks, grain, false, grain);
        ASSERT_EQ(shares.tasks(), blocks);
        int64_t end = 0;
        for (int64_t i = 0; i < blocks; ++i) {
          const WorkPartition::Task task = shares[i];
          ASSERT_EQ(task.row, end);
          ASSERT_GT(task.end_row, task.row);
          ASSERT_LE(task.end_row - task.row, shares.MaxRowsPerTask());
          if (rows >= grain * blocks) {
            ASSERT_EQ(task.row % grain, 0);
          }
          end = task.end_row;
        }
        ASSERT_EQ(end, rows);
      }
}

}  // namespace
}  // namespace slipway::kernels
