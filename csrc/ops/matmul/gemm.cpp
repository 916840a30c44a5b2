// gemm: which panels are packed, and how the work is cut over threads.
//
//   small         one thread, nothing allocated: B panels on the stack or straight from memory; dot products where they are few and long
//   one row/col   gemv
//   float32       oneDNN's sgemm where it is there (10 % faster than ours, twice on 128 x 128 x 128)
//   otherwise     pack A and B (where that pays) for all of k, then tiles of C in parallel; each tile
//                 goes over k in blocks of kBlockK so that a panel of B stays in the first-level cache
#include "ops/matmul/panels.h"

#include <algorithm>
#include <type_traits>

#include "backend/onednn/onednn.h"
#include "base/at_load.h"
#include "base/parallel.h"
#include "tensor/scratch.h"

namespace fl {

FL_AT_LOAD(gemm_rows<float>(), gemm_rows<double>(), gemm_cols<float>(), gemm_cols<double>())

namespace {

constexpr int64_t kFewPanels = 16, kFewColumns = 256;
constexpr int64_t kBlockK = kGemmBlock;
constexpr int64_t kMiddle = 300 * 300 * 300;
constexpr int64_t kTileGrain = int64_t{1} << 17;

inline void gemv_rows(int64_t m, int64_t k, const float* a, int64_t lda, const float* x, float* y) { kernels::gemv_rows_f32(m, k, a, lda, x, y); }
inline void gemv_rows(int64_t m, int64_t k, const double* a, int64_t lda, const double* x, double* y) { kernels::gemv_rows_f64(m, k, a, lda, x, y); }
inline void small_products(const SmallProducts<float>& s) { kernels::small_products_f32(s); }
inline void small_products(const SmallProducts<double>& s) { kernels::small_products_f64(s); }
inline void gemv_cols(int64_t n, int64_t k, const float* a, int64_t lda, const float* x, float* y) { kernels::gemv_cols_f32(n, k, a, lda, x, y); }
inline void gemv_cols(int64_t n, int64_t k, const double* a, int64_t lda, const double* x, double* y) { kernels::gemv_cols_f64(n, k, a, lda, x, y); }

template <class T>
struct Scratch {
  explicit Scratch(int64_t n) : tensor(n ? scratch_memory(n, dtype_of<T>) : Tensor()) {}
  T* data() const { return tensor.defined() ? tensor.data<T>() : nullptr; }
  Tensor tensor;
};

// out[i] = sum_p mat(i, p) x[p] of a few long sums: pieces of them at once, which are as many for any number of threads. False where they are not few and long.
template <class T>
bool gemv_in_pieces(int64_t m, int64_t k, const Mat<T>& mat, const T* x, T* out) {
  constexpr int64_t kFewSums = 256, kPiece = 8192;
  const int64_t pieces = (k + kPiece - 1) / kPiece;
  if (m > kFewSums || pieces < 4 || (mat.row != 1 && mat.col != 1)) return false;
  const Scratch<T> sums(pieces * m);
  parallel_work(pieces, m * kPiece, 65536, [&](int64_t p0, int64_t p1) {
    for (int64_t p = p0; p < p1; ++p) {
      const int64_t from = p * kPiece, count = std::min(kPiece, k - from);
      const T* const part = mat.data + from * mat.col;
      if (mat.col == 1) gemv_rows(m, count, part, mat.row, x + from, sums.data() + p * m);
      else gemv_cols(m, count, part, mat.col, x + from, sums.data() + p * m);
    }
  });
  std::copy_n(sums.data(), m, out);
  for (int64_t p = 1; p < pieces; ++p)
    for (int64_t i = 0; i < m; ++i) out[i] += sums.data()[p * m + i];
  return true;
}

// The same of many sums: blocks of 64, so that ranges start at the same places. What is ready goes to finish(first, end).
template <class T, class F>
void gemv_in_blocks(int64_t m, int64_t k, const Mat<T>& mat, const T* x, T* out, const F& finish) {
  const int64_t grain = std::max<int64_t>(64, (int64_t(1) << 16) / std::max<int64_t>(k, 1) / 64 * 64);
  const int64_t blocks = (m + 63) / 64;
  parallel_work(blocks, 64, grain, [&](int64_t b0, int64_t b1) {
    const int64_t i0 = b0 * 64, i1 = std::min(m, b1 * 64);
    if (k < 8) {
      small_products({1, i1 - i0, 1, k, mat.data + i0 * mat.row, 0, mat.row, mat.col, x, 0, 1, 1, out + i0, 0, 1});
    } else if (mat.col == 1) {
      gemv_rows(i1 - i0, k, mat.data + i0 * mat.row, mat.row, x, out + i0);
    } else if (mat.row == 1) {
      gemv_cols(i1 - i0, k, mat.data + i0, mat.col, x, out + i0);
    } else {
      for (int64_t i = i0; i < i1; ++i) {
        T s = 0;
        for (int64_t p = 0; p < k; ++p) s += mat.data[i * mat.row + p * mat.col] * x[p];
        out[i] = s;
      }
    }
    finish(i0, i1);
  });
}

// y[i * y_step] = sum_p mat(i, p) x[p], then alpha, beta and bias.
template <class T>
void gemv(int64_t m, int64_t k, Mat<T> mat, const T* x, int64_t x_step, T* y, int64_t y_step, const Gemm<T>& g, const T* bias,
          int64_t bias_step) {
  Scratch<T> x_copy(x_step == 1 ? 0 : k);
  if (x_step != 1) {
    for (int64_t p = 0; p < k; ++p) x_copy.data()[p] = x[p * x_step];
    x = x_copy.data();
  }
  const bool there = y_step == 1 && g.beta == T(0);
  Scratch<T> y_copy(there ? 0 : m);
  T* out = there ? y : y_copy.data();
  const auto finish = [&](int64_t i0, int64_t i1) {
    if (there && g.alpha == T(1)) {
      if (bias_step == 0 && bias) {
        const T add = *bias;
#pragma omp simd
        for (int64_t i = i0; i < i1; ++i) y[i] += add;
      } else if (bias) {
#pragma omp simd
        for (int64_t i = i0; i < i1; ++i) y[i] += bias[i * bias_step];
      }
      return;
    }
    for (int64_t i = i0; i < i1; ++i) {
      T v = g.alpha * out[i];
      if (g.beta != T(0)) v += g.beta * y[i * y_step];
      if (bias) v += bias[i * bias_step];
      y[i * y_step] = v;
    }
  };
  if (gemv_in_pieces(m, k, mat, x, out)) finish(0, m);
  else gemv_in_blocks(m, k, mat, x, out, finish);
}

// Few products of long rows by long columns, which both lie as they are read: no packing pays.
template <class T>
bool is_few_dots(const Gemm<T>& g) {
  return g.a.col == 1 && g.b.row == 1 && g.k >= 64 && (g.n <= 8 || g.m == 1);
}
template <class T>
void gemm_dots(const Gemm<T>& g) {
  T sums[64];
  for (int64_t j = 0; j < g.n; ++j)
    for (int64_t i0 = 0; i0 < g.m; i0 += 64) {
      const int64_t count = std::min<int64_t>(64, g.m - i0);
      gemv_rows(count, g.k, g.a.data + i0 * g.a.row, g.a.row, g.b.data + j * g.b.col, sums);
      for (int64_t i = i0; i < i0 + count; ++i) {
        T v = g.alpha * sums[i - i0];
        T& to = g.c[i * g.ldc + j];
        if (g.beta != T(0)) v += g.beta * to;
        if (g.bias_n) v += g.bias_n[j];
        if (g.bias_m) v += g.bias_m[i];
        to = v;
      }
    }
}

template <class T>
void gemm_tiles(const Gemm<T>& g) {
  const int cols = gemm_cols<T>(), rows = gemm_rows<T>();
  alignas(64) T panel[kBlockK * 64 / 2];  // one panel of B: at most kBlockK x 32
  GemmTile<T> t{g.m, 0, 0, nullptr, rows * g.a.row, g.a.row, g.a.col, nullptr, 0, cols, nullptr, nullptr, nullptr, g.ldc, g.alpha, g.beta, nullptr, nullptr};
  const bool direct = g.b.col == 1;
  for (int64_t p = 0; p < g.k || p == 0; p += kBlockK) {
    const int64_t kb = std::min(kBlockK, g.k - p);
    for (int64_t j = 0; j < g.n; j += cols) {
      t.n = std::min<int64_t>(cols, g.n - j);
      t.k = kb;
      t.a = g.a.data + p * g.a.col;
      t.c = g.c + j;
      t.beta = p ? T(1) : g.beta;
      t.bias_n = g.bias_n && !p ? g.bias_n + j : nullptr;
      t.bias_m = p ? nullptr : g.bias_m;
      const T* src = g.b.data + p * g.b.row + j * g.b.col;
      if (direct && t.n == cols) {
        t.b = src;
        t.b_step = g.b.row;
      } else {
        gemm_pack(src, g.b.col, g.b.row, t.n, kb, cols, panel);
        t.b = panel;
        t.b_step = cols;
      }
      gemm_tile(t);
    }
  }
}

template <class T>
void gemm_small(const Gemm<T>& g) {
  is_few_dots(g) ? gemm_dots(g) : gemm_tiles(g);
}

// A part for each thread, of rows or columns of C, each as if it were all: threads that pack for each other pay for each other's cache lines.
// A part may have few columns where the whole has not, so it is not asked again how its sums go.
template <class T>
void gemm_middle(const Gemm<T>& g) {
  const int64_t cols = gemm_cols<T>(), rows = gemm_rows<T>();
  const int64_t m_panels = (g.m + rows - 1) / rows, n_panels = (g.n + cols - 1) / cols;
  const bool by_columns = n_panels * cols >= g.m || n_panels >= 2 * num_threads(), dots = is_few_dots(g);
  const int64_t panels = by_columns ? n_panels : m_panels, panel_work = (by_columns ? cols * g.m : rows * g.n) * g.k;
  parallel_work(panels, panel_work, kTileGrain, [&](int64_t b, int64_t e) {
    Gemm<T> part = g;
    const int64_t from = b * (by_columns ? cols : rows);
    if (by_columns) {
      part.n = std::min(g.n, e * cols) - from;
      part.b.data += from * g.b.col;
      part.c += from;
      if (g.bias_n) part.bias_n += from;
    } else {
      part.m = std::min(g.m, e * rows) - from;
      part.a.data += from * g.a.row;
      part.c += from * g.ldc;
      if (g.bias_m) part.bias_m += from;
    }
    dots ? gemm_dots(part) : gemm_tiles(part);
  });
}

template <class T>
void gemm_big(const Gemm<T>& g) {
  const int64_t cols = gemm_cols<T>(), rows = gemm_rows<T>();
  const int64_t m_panels = (g.m + rows - 1) / rows, n_panels = (g.n + cols - 1) / cols;
  // Unpacked A costs a pointer per row; unpacked B costs translation misses. Few uses do not pay for packing.
  const bool pack_a = n_panels > 4 || (g.a.col != 1 && g.a.row != 1);
  const bool pack_b = g.b.col != 1 || m_panels > 4;
  const bool edge = !pack_b && g.n % cols;
  Scratch<T> a_store(pack_a ? m_panels * rows * g.k : 0);
  Scratch<T> b_store(pack_b ? n_panels * cols * g.k : edge ? cols * g.k : 0);
  T* pa = a_store.data();
  T* pb = b_store.data();

  const int64_t a_jobs = pack_a ? m_panels : 0, b_jobs = pack_b ? n_panels : edge ? 1 : 0;
  parallel_work(a_jobs + b_jobs, cols * g.k, 16384, [&](int64_t j0, int64_t j1) {
    for (int64_t j = j0; j < j1; ++j) {
      if (j < a_jobs) {
        const int64_t i = j * rows;
        gemm_pack(g.a.data + i * g.a.row, g.a.row, g.a.col, std::min(rows, g.m - i), g.k, rows, pa + i * g.k);
      } else {
        const int64_t panel = edge ? n_panels - 1 : j - a_jobs, i = panel * cols;
        gemm_pack(g.b.data + i * g.b.col, g.b.col, g.b.row, std::min(cols, g.n - i), g.k, cols, edge ? pb : pb + i * g.k);
      }
    }
  });

  // Tiles small enough for the second-level cache and numerous enough for the threads.
  int64_t tile_m = std::min<int64_t>(m_panels, std::max<int64_t>(1, 120 / rows)), tile_n = std::min<int64_t>(n_panels, std::max<int64_t>(1, 256 / cols));
  const int64_t wanted = 4 * num_threads();
  auto count = [](int64_t all, int64_t each) { return (all + each - 1) / each; };
  while (count(m_panels, tile_m) * count(n_panels, tile_n) < wanted && (tile_n > 1 || tile_m > 4)) {
    if (tile_n > 1 && (tile_n * cols >= tile_m * rows || tile_m <= 4)) tile_n = (tile_n + 1) / 2;
    else tile_m = (tile_m + 1) / 2;
  }
  const int64_t m_tiles = count(m_panels, tile_m), tile_work = tile_m * rows * tile_n * cols * std::max<int64_t>(g.k, 1);
  int64_t n_tiles = count(n_panels, tile_n);
  // As many for each thread, and of as many panels as the others within one: a last small row of tiles would be one thread's.
  for (int64_t more = n_tiles; more <= std::min(n_panels, n_tiles + num_threads()); ++more)
    if (m_tiles * more % num_threads() == 0) {
      n_tiles = more;
      break;
    }
  const auto run_tiles = [&](int64_t t0, int64_t t1) {
    for (int64_t tile = t0; tile < t1; ++tile) {
      const int64_t mt = tile / n_tiles, nt = tile % n_tiles, i = mt * m_panels / m_tiles * rows, j = nt * n_panels / n_tiles * cols;
      GemmTile<T> t{};
      t.m = std::min((mt + 1) * m_panels / m_tiles * rows, g.m) - i;
      t.n = std::min((nt + 1) * n_panels / n_tiles * cols, g.n) - j;
      if (pack_a) {
        t.a = pa + i * g.k;
        t.a_panel = rows * g.k;
        t.a_row = 1;
        t.a_step = rows;
      } else {
        t.a = g.a.data + i * g.a.row;
        t.a_panel = rows * g.a.row;
        t.a_row = g.a.row;
        t.a_step = g.a.col;
      }
      if (pack_b) {
        t.b = pb + j * g.k;
        t.b_panel = cols * g.k;
        t.b_step = cols;
      } else {
        t.b = g.b.data + j;
        t.b_panel = cols;
        t.b_step = g.b.row;
        t.b_last = edge && j + t.n == g.n ? pb : nullptr;
      }
      t.c = g.c + i * g.ldc + j;
      t.ldc = g.ldc;
      t.alpha = g.alpha;
      t.beta = g.beta;
      t.bias_n = g.bias_n ? g.bias_n + j : nullptr;
      t.bias_m = g.bias_m ? g.bias_m + i : nullptr;
      gemm_tile(t, g.k);
    }
  };
  parallel_work(m_tiles * n_tiles, tile_work, kTileGrain, run_tiles);
}

// Few rows by a large B of rows: it is read once, and a piece of it that stays in the second-level cache is copied to panels at a time. (Copied whole
// it would be written to memory and read again, and where it lies the lines of a panel are pages apart.)
template <class T>
bool is_few_rows(const Gemm<T>& g) {
  const int64_t panels = g.m / gemm_rows<T>();
  return g.b.col == 1 && panels >= 2 && g.m <= kFewPanels * gemm_rows<T>() && g.n >= 2 * num_threads() * kFewColumns && g.k >= kBlockK && g.n * g.k >= (int64_t{1} << 20);
}
template <class T>
void gemm_few_rows(const Gemm<T>& g) {
  const int64_t cols = gemm_cols<T>(), rows = gemm_rows<T>(), panels = (g.m + rows - 1) / rows;
  const Scratch<T> a(panels * rows * g.k);
  parallel_work(panels, rows * g.k, 16384, [&](int64_t p0, int64_t p1) {
    for (int64_t i = p0 * rows; i < p1 * rows; i += rows)
      gemm_pack(g.a.data + i * g.a.row, g.a.row, g.a.col, std::min(rows, g.m - i), g.k, rows, a.data() + i * g.k);
  });
  parallel_for(0, (g.n + kFewColumns - 1) / kFewColumns, 1, [&](int64_t b0, int64_t b1) {
    const Scratch<T> piece(kBlockK * kFewColumns);
    for (int64_t j = b0 * kFewColumns; j < std::min(g.n, b1 * kFewColumns); j += kFewColumns) {
      GemmTile<T> t{};
      t.m = g.m, t.n = std::min(kFewColumns, g.n - j);
      t.a_panel = rows * g.k, t.a_row = 1, t.a_step = rows;
      t.b = piece.data(), t.b_step = cols;
      t.c = g.c + j, t.ldc = g.ldc;
      t.alpha = g.alpha, t.beta = g.beta;
      t.bias_n = g.bias_n ? g.bias_n + j : nullptr, t.bias_m = g.bias_m;
      for (int64_t p = 0; p < g.k; p += kBlockK) {
        t.k = std::min(kBlockK, g.k - p);
        t.b_panel = t.k * cols;
        for (int64_t c = 0; c < t.n; c += cols)
          gemm_pack(g.b.data + p * g.b.row + j + c, int64_t{1}, g.b.row, std::min(cols, t.n - c), t.k, cols, piece.data() + c * t.k);
        t.a = a.data() + p * rows;
        gemm_tile(t);
        t.beta = 1;
        t.bias_n = t.bias_m = nullptr;
      }
    }
  });
}

template <class T>
void run(const Gemm<T>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (const int64_t size = g.m * g.n * g.k; size <= 32 * 32 * 32 || (size <= (int64_t(1) << 18) && is_few_dots(g))) return gemm_small(g);
  if (g.n == 1) return gemv(g.m, g.k, g.a, g.b.data, g.b.row, g.c, g.ldc, g, g.bias_m ? g.bias_m : g.bias_n, g.bias_m ? 1 : 0);
  if (g.m == 1)
    return gemv(g.n, g.k, Mat<T>{g.b.data, g.b.col, g.b.row}, g.a.data, g.a.col, g.c, int64_t(1), g, g.bias_n ? g.bias_n : g.bias_m,
                g.bias_n ? 1 : 0);
  if constexpr (std::is_same_v<T, float>)
    if (onednn::sgemm(g)) return;
  if (g.m * g.n * g.k <= kMiddle && (g.a.col == 1 || g.a.row == 1)) return gemm_middle(g);
  if (is_few_rows(g)) return gemm_few_rows(g);
  // Packed copies of both operands: at most 64 MiB each.
  const int64_t limit = (int64_t(64) << 20) / sizeof(T);
  const int64_t cols = gemm_cols<T>(), rows = gemm_rows<T>();
  const int64_t step_m = std::max<int64_t>(rows, limit / std::max<int64_t>(g.k, 1) / rows * rows);
  const int64_t step_n = std::max<int64_t>(cols, limit / std::max<int64_t>(g.k, 1) / cols * cols);
  if (g.m <= step_m && g.n <= step_n) return gemm_big(g);
  for (int64_t i = 0; i < g.m; i += step_m)
    for (int64_t j = 0; j < g.n; j += step_n) {
      Gemm<T> part = g;
      part.m = std::min(step_m, g.m - i);
      part.n = std::min(step_n, g.n - j);
      part.a.data += i * g.a.row;
      part.b.data += j * g.b.col;
      part.c += i * g.ldc + j;
      if (part.bias_m) part.bias_m += i;
      if (part.bias_n) part.bias_n += j;
      gemm_big(part);
    }
}

}  // namespace

void gemm(const Gemm<float>& g) { run(g); }
void gemm(const Gemm<double>& g) { run(g); }

}  // namespace fl
