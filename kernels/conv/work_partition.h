// How convolutions of images with channels last cut their work among threads. The bits of results do not depend on the
// cut.
#ifndef SLIPWAY_KERNELS_CONV_WORK_PARTITION_H_
#define SLIPWAY_KERNELS_CONV_WORK_PARTITION_H_

#include <algorithm>
#include <cstdint>

#include "kernels/conv/padded.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"

namespace slipway::kernels {

// floats of image and result of a block: they stay in the second-level cache
inline constexpr int64_t kL2ImageFloats = 192 << 10;  // of the input alone, where weights come from DRAM
inline constexpr int64_t kL2BlockFloats = 48 << 10;
// an image of so many floats is not in the second-level cache when it is read, nor a result
inline constexpr int64_t kImageExceedsL2Floats = 256 << 10;
inline constexpr double kMinParallelWork = 2e5;  // multiplications that are worth a second thread
inline constexpr int64_t kColumns = 32;          // taken at once: whole panels

// Floats from one row of a copy to the next: rows that lie a multiple of half a page apart would meet in the same sets
// of the cache.
inline int64_t PaddedStride(int64_t row) { return row % 512 == 0 ? row + kPanel : row; }

// How the rows of images and panels of columns are shared out: in tasks, each a block of an image's rows and a part of
// the panels.
struct WorkPartition {
  int64_t images, rows, panels;
  int64_t blocks = 1, parts = 1;  // of each image; of the panels
  int64_t grain = 1;              // blocks begin with a multiple of it, where each can have as many rows
  bool columns_first = false;     // tasks go through all blocks for a part of the panels, which is one thread's
  struct Task {
    int64_t block;                // of all images
    int64_t image, row, end_row;  // rows [row, end_row) of the image
    int64_t panel, end_panel;
  };
  int64_t tasks() const { return images * blocks * parts; }
  Task operator[](int64_t i) const {
    const int64_t block = columns_first ? i % (images * blocks) : i / parts,
                  part = columns_first ? i / (images * blocks) : i % parts;
    const int64_t own = block % blocks;
    return {block, block / blocks, First(own), First(own + 1), panels * part / parts, panels * (part + 1) / parts};
  }
  int64_t First(int64_t block) const {
    const int64_t row = rows * block / blocks;
    return block == blocks || rows < grain * blocks ? row : (row + grain / 2) / grain * grain;
  }
  int64_t MaxRowsPerTask() const { return Ceil(rows, blocks) + grain - 1; }  // of a block
};
// Of `images` of `rows` rows each and `panels` of columns: at least `blocks` of rows, or some more of `least` rows each
// or more, so that all threads have about the same; columns in parts instead where these are heavier than the rows, and
// where rows do not divide.
inline WorkPartition PartitionWork(const Workers* workers, int64_t images, int64_t rows, int64_t panels, int64_t blocks,
                                   int64_t least, bool heavy_columns, int64_t grain = 1) {
  WorkPartition s{.images = images, .rows = rows, .panels = panels, .blocks = blocks, .grain = grain};
  const int64_t threads = workers != nullptr ? workers->threads : 1, wanted = 2 * threads;
  if (threads < 2) return s;
  const auto round = [&](int64_t to) {
    while (images * s.blocks % to != 0 && (s.blocks + 1) * least <= rows) ++s.blocks;
  };
  if (images * blocks >= 4 * wanted) {  // no thread is left without a task in the end
    round(threads);
    return s;
  }
  const auto even = [&](int64_t n, int64_t shares) { return Ceil(n, shares) * shares * 16 <= n * 17; };
  s.columns_first = panels >= threads && (heavy_columns || (!even(images * rows, threads) && even(panels, threads)));
  if (s.columns_first) {
    s.parts = threads;
    return s;
  }
  round(wanted);
  if (images * s.blocks < wanted) s.parts = std::clamp<int64_t>(Ceil(wanted, images * s.blocks), 1, panels);
  return s;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_WORK_PARTITION_H_
