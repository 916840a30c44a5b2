// The matmul family: from tensors of any strides and dtype to gemm.
//
// float32 and float64 go to gemm; 16-bit floats to oneDNN where the processor has them, else through
// float32 copies; integers and bool to plain loops that wrap around as their type does.
#include "ops/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>
#include <vector>

#include "backend/onednn/onednn.h"
#include "base/parallel.h"
#include "base/scalar.h"
#include "dispatch/each.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/half.h"

namespace fl {
namespace {

int64_t product(IntList d) {
  int64_t n = 1;
  for (const int64_t v : d) n *= v;
  return n;
}

// Walks the batch axes: offsets of a, b and out at batch index `i`.
struct Offsets {
  int64_t a = 0, b = 0, out = 0;
};
Offsets offsets_at(int64_t i, const Dims& batch, const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& out) {
  Offsets o;
  for (int d = batch.size() - 1; d >= 0; --d) {
    const int64_t x = i % batch[d];
    i /= batch[d];
    o.a += x * a.strides[d];
    o.b += x * b.strides[d];
    o.out += x * out.strides[d];
  }
  return o;
}

uint32_t dot(int64_t k, const uint32_t* a, const uint32_t* b) { return kernels::dot_u32(k, a, b); }
uint64_t dot(int64_t k, const uint64_t* a, const uint64_t* b) { return kernels::dot_u64(k, a, b); }
void sum_rows(int64_t n, int64_t k, const uint32_t* a, int64_t step, const uint32_t* x, int64_t row, uint32_t* y) { kernels::sum_rows_u32(n, k, a, step, x, row, y); }
void sum_rows(int64_t n, int64_t k, const uint64_t* a, int64_t step, const uint64_t* x, int64_t row, uint64_t* y) { kernels::sum_rows_u64(n, k, a, step, x, row, y); }

// row[j] = sum_p a[p * a_col] * b[p * b_row + j * b_col], in vectors; false where the strides are not for those.
template <class U>
bool products(int64_t n, int64_t k, const U* a, int64_t a_col, const U* b, int64_t b_row, int64_t b_col, U* row) {
  if (a_col == 1 && b_row == 1 && (n == 1 || b_col != 1)) {
    for (int64_t j = 0; j < n; ++j) row[j] = dot(k, a, b + j * b_col);
    return true;
  }
  if (b_col != 1) return false;
  sum_rows(n, k, a, a_col, b, b_row, row);
  return true;
}

template <class T>
void gemm_int(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, int64_t b_col, T* c,
              int64_t ldc, Scalar alpha, Scalar beta, const T* bias) {
  using U = std::make_unsigned_t<T>;  // wraps without undefined behaviour
  const U al = static_cast<U>(alpha.as_int()), be = static_cast<U>(beta.as_int());
  parallel_work(m, n * k, 65536, [&](int64_t i0, int64_t i1) {
    std::vector<U> row(n);
    for (int64_t i = i0; i < i1; ++i) {
      if (!products(n, k, reinterpret_cast<const U*>(a + i * a_row), a_col, reinterpret_cast<const U*>(b), b_row, b_col, row.data())) {
        std::fill(row.begin(), row.end(), U(0));
        for (int64_t p = 0; p < k; ++p) {
          const U s = static_cast<U>(a[i * a_row + p * a_col]);
          const T* src = b + p * b_row;
          for (int64_t j = 0; j < n; ++j) row[j] += s * static_cast<U>(src[j * b_col]);
        }
      }
      T* out = c + i * ldc;
      for (int64_t j = 0; j < n; ++j) {
        U v = al * row[j];
        if (be) v += be * static_cast<U>(out[j]);
        if (bias) v += static_cast<U>(bias[j]);
        out[j] = static_cast<T>(v);
      }
    }
  });
}

template <class T>
void one(int64_t m, int64_t n, int64_t k, const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& out, const Offsets& o, double alpha,
         double beta, const void* bias) {
  const T* pa = reinterpret_cast<const T*>(a.data) + o.a;
  const T* pb = reinterpret_cast<const T*>(b.data) + o.b;
  T* pc = reinterpret_cast<T*>(out.data) + o.out;
  if constexpr (std::is_floating_point_v<T>) {
    gemm(Gemm<T>{m, n, k, {pa, a.row, a.col}, {pb, b.row, b.col, b.owner}, pc, out.row, static_cast<T>(alpha), static_cast<T>(beta),
                 static_cast<const T*>(bias), nullptr});
  } else {
    gemm_int<T>(m, n, k, pa, a.row, a.col, pb, b.row, b.col, pc, out.row, Scalar(static_cast<int64_t>(alpha)),
                Scalar(static_cast<int64_t>(beta)), static_cast<const T*>(bias));
  }
}

template <class T>
void batches(const Dims& batch, int64_t m, int64_t n, int64_t k, const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& out,
             double alpha, double beta, const void* bias) {
  const int64_t total = product(batch);
  if (total == 1) return one<T>(m, n, k, a, b, out, Offsets{}, alpha, beta, bias);
  bool sums = false;
  for (int d = 0; d < batch.size(); ++d) sums = sums || (batch[d] > 1 && out.strides[d] == 0);
  const int64_t work = m * n * std::max<int64_t>(k, 1);
  const bool inside = sums || (work > (1 << 22) && total < 4 * num_threads());  // the threads share each product
  const int64_t grain = inside ? total : std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1));
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    const int last = batch.size() - 1;
    SmallProducts<T> s{0, m, n, k, nullptr, a.strides[last], a.row, a.col, nullptr, b.strides[last], b.row, b.col, nullptr, out.strides[last], out.row};
    if (!sums && alpha == 1 && beta == 0 && !bias && s.fits())
      return parallel_for(0, total, grain, [&](int64_t t0, int64_t t1) {
        SmallProducts<T> mine = s;
        for (int64_t t = t0; t < t1; t += mine.count) {
          const Offsets o = offsets_at(t, batch, a, b, out);
          mine.count = std::min(t1 - t, batch[last] - t % batch[last]);
          mine.a = reinterpret_cast<const T*>(a.data) + o.a, mine.b = reinterpret_cast<const T*>(b.data) + o.b;
          mine.c = reinterpret_cast<T*>(out.data) + o.out;
          if constexpr (std::is_same_v<T, float>) kernels::small_products_f32(mine);
          else kernels::small_products_f64(mine);
        }
      });
  }
  parallel_for(0, total, grain, [&](int64_t t0, int64_t t1) {
    for (int64_t t = t0; t < t1; ++t) one<T>(m, n, k, a, b, out, offsets_at(t, batch, a, b, out), alpha, beta, bias);
  });
}

Tensor swapped(const Tensor& x) {  // last two axes
  Dims sizes = x.sizes(), strides = x.strides();
  std::swap(sizes[x.ndim() - 2], sizes[x.ndim() - 1]);
  std::swap(strides[x.ndim() - 2], strides[x.ndim() - 1]);
  return alias(x, sizes, strides, x.offset());
}

// The batch's matrices in another type, in the order in which they lie: batch axes, row, column.
Tensor converted(DType t, DType wide, const Dims& batch, int64_t rows, int64_t cols, const MatrixBatch& x) {
  Dims sizes = batch, strides = x.strides;
  for (int d = 0; d < batch.size(); ++d)
    if (strides[d] == 0) sizes[d] = 1;  // broadcast axes are converted once
  const bool turned = x.row == 1 && x.col > 1;
  sizes.push_back(turned ? cols : rows), sizes.push_back(turned ? rows : cols);
  strides.push_back(turned ? x.col : x.row), strides.push_back(turned ? x.row : x.col);
  const Tensor copy = empty(sizes, wide);
  copy_elements(copy, over(x.data, sizes, strides, t));
  return turned ? swapped(copy) : copy;
}
MatrixBatch batch_of(const Tensor& t, const Dims& batch) {
  MatrixBatch x{static_cast<char*>(t.data()), Dims(batch.size()), t.stride(-2), t.stride(-1)};
  for (int d = 0; d < batch.size(); ++d) x.strides[d] = t.size(d) == 1 ? 0 : t.stride(d);
  return x;
}

// All products by oneDNN's 16-bit kernels, those along the last axis of the batch by one call. False, with nothing written, where it has none.
bool native_halves(DType t, const Dims& batch, int64_t m, int64_t n, int64_t k, const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& out,
                   const void* bias, bool add) {
  if (out.row != n || product(batch) == 0) return false;
  for (int d = 0; d < batch.size(); ++d)
    if (batch[d] > 1 && out.strides[d] == 0) return false;  // sums
  // The axes from `first` on, which are one for all three: `count` matrices, as far apart as those of axis `last`.
  int first = batch.size(), last = first;
  int64_t count = 1;
  for (; first > 0; --first) {
    const int d = first - 1;
    if (batch[d] == 1) continue;
    const auto joins = [&](const MatrixBatch& x) { return count == 1 ? x.strides[d] != 0 : x.strides[d] == x.strides[last] * count; };
    if (!joins(a) || !joins(b) || !joins(out)) break;
    if (count == 1) last = d;
    count *= batch[d];
  }
  const auto step = [&](const MatrixBatch& x, int64_t alone) { return count == 1 ? alone : x.strides[last]; };
  const int64_t sa = step(a, m * k), sb = step(b, k * n), item = static_cast<int64_t>(item_size(t));
  if (step(out, m * n) != m * n) return false;
  const Dims outer(IntList(batch.data(), static_cast<size_t>(first)));
  const int64_t calls = product(outer);
  for (int64_t i = 0; i < calls; ++i) {
    const Offsets o = offsets_at(i, outer, a, b, out);
    if (!onednn::gemm16(t, count, m, n, k, a.data + o.a * item, sa, a.row, a.col, b.data + o.b * item, sb, b.row, b.col, out.data + o.out * item, bias, add))
      return false;  // the first: they are all alike
  }
  return true;
}

// One product of few rows, without an element of b in memory as float32: its columns are widened some at a time, in the second-level cache. (A row by a
// weight of 4096 x 2048 in bfloat16, 2 threads of AVX2: 41 ms when all of it was widened column after column, 2.5 in the order in which it lies.)
void few_rows(DType t, int64_t m, int64_t n, int64_t k, const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& out, double alpha, const void* bias) {
  constexpr int64_t kPiece = 65536;  // elements
  const int64_t step = std::clamp<int64_t>(kPiece / k / 16 * 16, 16, 256), item = static_cast<int64_t>(item_size(t));
  const Tensor rows = converted(t, DType::Float32, Dims(), m, k, a);
  parallel_work((n + step - 1) / step, m * step * k, 1 << 16, [&](int64_t p0, int64_t p1) {
    const OneCore one;
    const Tensor columns = empty(Dims{k * step}, DType::Float32), made = empty(Dims{m, step}, DType::Float32), add = empty(Dims{step}, DType::Float32);
    for (int64_t p = p0; p < p1; ++p) {
      const int64_t j = p * step, count = std::min(step, n - j);
      const bool turned = b.row == 1;
      const Dims sizes = turned ? Dims{count, k} : Dims{k, count};
      const Tensor from = over(b.data + j * b.col * item, sizes, turned ? Dims{b.col, b.row} : Dims{b.row, b.col}, t);
      copy_elements(alias(columns, sizes, turned ? Dims{k, 1} : Dims{count, 1}, 0), from);
      if (bias) convert_elements(add.data(), DType::Float32, static_cast<const char*>(bias) + j * item, t, count);
      gemm(Gemm<float>{m, count, k, {rows.data<float>(), rows.stride(0), rows.stride(1)},
                       {columns.data<float>(), turned ? 1 : count, turned ? k : 1}, made.data<float>(), step, static_cast<float>(alpha), 0,
                       bias ? add.data<float>() : nullptr});
      for (int64_t i = 0; i < m; ++i)
        convert_elements(out.data + (i * out.row + j) * item, t, made.data<float>() + i * step, DType::Float32, count);
    }
  });
}

// In a type W that holds what t does; a sum of integers wraps there, and has the lower bits of that in t.
template <class W>
void in_wider(DType t, const Dims& batch, int64_t m, int64_t n, int64_t k, const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& out,
              double alpha, double beta, const void* bias) {
  constexpr DType wide = dtype_of<W>;
  bool sums = beta != 0;
  for (int d = 0; d < batch.size(); ++d) sums = sums || (batch[d] > 1 && out.strides[d] == 0);
  const Tensor wa = converted(t, wide, batch, m, k, a), wb = converted(t, wide, batch, k, n, b);
  const Tensor made = sums ? converted(t, wide, batch, m, n, out) : [&] {
    Dims sizes = batch;
    sizes.push_back(m), sizes.push_back(n);
    return empty(sizes, wide);
  }();
  Tensor add;
  if (bias) {
    add = empty(Dims{n}, wide);
    convert_elements(add.data(), wide, bias, t, n);
  }
  batches<W>(batch, m, n, k, batch_of(wa, batch), batch_of(wb, batch), batch_of(made, batch), alpha, beta, bias ? add.data() : nullptr);
  Dims sizes = made.sizes(), strides = out.strides;
  strides.push_back(out.row), strides.push_back(out.col);
  copy_elements(over(out.data, sizes, strides, t), made);
}

void half_batches(DType t, Dims batch, int64_t m, int64_t n, int64_t k, MatrixBatch a, MatrixBatch b, MatrixBatch out, double alpha, double beta,
                  const void* bias) {
  if (product(batch) == 1) batch = a.strides = b.strides = out.strides = Dims();
  constexpr int64_t kFewRows = 128, kLargeWeight = 1 << 16;
  if (alpha == 1 && (beta == 0 || beta == 1) && native_halves(t, batch, m, n, k, a, b, out, bias, beta == 1)) return;
  if (batch.empty() && beta == 0 && m <= kFewRows && n * k >= kLargeWeight && out.col == 1) return few_rows(t, m, n, k, a, b, out, alpha, bias);
  if (batch.empty() && beta == 0 && n == 1 && m * k >= kLargeWeight && out.row == 1 && !bias) {
    MatrixBatch row = b, columns = a, turned = out;
    std::swap(row.row, row.col), std::swap(columns.row, columns.col);
    turned.row = m, turned.col = 1;
    return few_rows(t, 1, m, k, row, columns, turned, alpha, nullptr);
  }
  in_wider<float>(t, batch, m, n, k, a, b, out, alpha, beta, bias);
}

// The rows of a complex matrix are rows of real and imaginary parts, which a real product with
//
//     [ re  im ]
//     [-im  re ]   for each element of b
//
// takes to the parts of the result, side by side again: one real product with twice the columns on either side.
template <class R>
Tensor paired(const Dims& batch, int64_t k, int64_t n, const MatrixBatch& b, DType t) {
  Dims sizes = batch, strides = b.strides;
  for (int d = 0; d < batch.size(); ++d)
    if (strides[d] == 0) sizes[d] = 1;  // broadcast axes once
  sizes.push_back(k), sizes.push_back(n);
  strides.push_back(b.row), strides.push_back(b.col);
  const Tensor rows = converted(over(b.data, sizes, strides, t), t);
  sizes[sizes.size() - 2] *= 2, sizes[sizes.size() - 1] *= 2;
  const Tensor pairs = empty(sizes, dtype_of<R>);
  const R* from = reinterpret_cast<const R*>(rows.data<Complex<R>>());
  R* to = pairs.data<R>();
  parallel_work(n ? rows.numel() / n : 0, n, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const R* const z = from + 2 * r * n;
      R *upper = to + 4 * r * n, *lower = upper + 2 * n;
      std::copy_n(z, 2 * n, upper);
      for (int64_t j = 0; j < 2 * n; j += 2) lower[j] = -z[j + 1], lower[j + 1] = z[j];
    }
  });
  return pairs;
}

void complex_batches(DType t, const Dims& batch, int64_t m, int64_t n, int64_t k, MatrixBatch a, const MatrixBatch& b, MatrixBatch out,
                     double alpha, double beta, const void* bias) {
  Tensor rows;  // of a, if they do not lie side by side
  if (a.col != 1 && k > 1) {
    Dims sizes = batch, strides = a.strides;
    for (int d = 0; d < batch.size(); ++d)
      if (strides[d] == 0) sizes[d] = 1;
    sizes.push_back(m), sizes.push_back(k);
    strides.push_back(a.row), strides.push_back(a.col);
    rows = empty(sizes, t);
    copy_elements(rows, over(a.data, sizes, strides, t));
    a = batch_of(rows, batch);
  }
  const auto halved = [](MatrixBatch& x) {
    for (int d = 0; d < x.strides.size(); ++d) x.strides[d] *= 2;
    x.row *= 2, x.col = 1, x.owner = nullptr;
  };
  halved(a), halved(out);
  if (m == 1) a.row = 2 * k, out.row = 2 * n;
  const bool wide = t == DType::Complex128;
  const Tensor pairs = wide ? paired<double>(batch, k, n, b, t) : paired<float>(batch, k, n, b, t);
  matmul_batches(to_real(t), batch, m, 2 * n, 2 * k, a, batch_of(pairs, batch), out, alpha, beta, bias);
}

}  // namespace

void matmul_batches(DType t, const Dims& batch, int64_t m, int64_t n, int64_t k, const MatrixBatch& a, const MatrixBatch& b,
                    const MatrixBatch& out, double alpha, double beta, const void* bias) {
  if (product(batch) == 0 || m == 0 || n == 0) return;
  switch (t) {
    case DType::Float32: return batches<float>(batch, m, n, k, a, b, out, alpha, beta, bias);
    case DType::Float64: return batches<double>(batch, m, n, k, a, b, out, alpha, beta, bias);
    case DType::Float16:
    case DType::BFloat16: return half_batches(t, batch, m, n, k, a, b, out, alpha, beta, bias);
    case DType::Complex64:
    case DType::Complex128: return complex_batches(t, batch, m, n, k, a, b, out, alpha, beta, bias);
    case DType::Int64: return batches<int64_t>(batch, m, n, k, a, b, out, alpha, beta, bias);
    case DType::Int32: return batches<int32_t>(batch, m, n, k, a, b, out, alpha, beta, bias);
    case DType::Int16:
    case DType::Int8:
    case DType::UInt8: return in_wider<int32_t>(t, batch, m, n, k, a, b, out, alpha, beta, bias);
    case DType::Bool: {  // or of ands: small counts as uint8 would wrap, so each is a comparison
      const int64_t total = product(batch);
      for (int64_t i = 0; i < total; ++i) {
        const Offsets o = offsets_at(i, batch, a, b, out);
        const Truth *pa = reinterpret_cast<const Truth*>(a.data) + o.a, *pb = reinterpret_cast<const Truth*>(b.data) + o.b;
        Truth* pc = reinterpret_cast<Truth*>(out.data) + o.out;
        for (int64_t r = 0; r < m; ++r)
          for (int64_t c = 0; c < n; ++c) {
            bool v = (beta != 0 && pc[r * out.row + c]) || (bias && static_cast<const Truth*>(bias)[c]);
            for (int64_t p = 0; p < k && !v; ++p) v = pa[r * a.row + p * a.col] && pb[p * b.row + c * b.col];
            pc[r * out.row + c] = v;
          }
      }
      return;
    }
    default: return;  // Note [Types without kernels]
  }
}

namespace kernels {
namespace {

MatrixBatch plain(const Tensor& x) { return {static_cast<char*>(x.data()), Dims(), x.stride(0), x.stride(1)}; }
MatrixBatch with_batch(const Tensor& x) { return {static_cast<char*>(x.data()), Dims{x.stride(0)}, x.stride(1), x.stride(2)}; }
MatrixBatch row_vector(const Tensor& x) { return {static_cast<char*>(x.data()), Dims(), 0, x.stride(0)}; }
MatrixBatch column_vector(const Tensor& x) { return {static_cast<char*>(x.data()), Dims(), x.stride(0), 0}; }

// A matrix of one row or column has one stride that does not matter: choose one that no path refuses.
MatrixBatch tidy(MatrixBatch x, int64_t rows, int64_t cols) {
  if (rows == 1 && x.col == 1) x.row = cols;
  if (cols == 1 && x.row == 1) x.col = rows;
  if (cols == 1 && x.row != 1) x.col = 1;
  if (rows == 1 && x.col != 1) x.row = 1;
  return x;
}

bool set_to(const Tensor& out, const Tensor& input) {  // out = input, broadcast
  if (out.data() == input.data() && out.sizes() == input.sizes() && out.strides() == input.strides()) return true;  // written over
  Dims strides(out.ndim());
  const int lead = out.ndim() - input.ndim();
  for (int d = lead; d < out.ndim(); ++d) strides[d] = input.size(d - lead) == 1 ? 0 : input.stride(d - lead);
  copy_elements(out, alias(input, out.sizes(), strides, input.offset()));
  return true;
}

// True iff the leading axes of x can be seen as one: rows at one stride. Axes of size 1, whose strides say nothing, do not count.
bool leading_axes_fold(const Tensor& x) {
  int inner = -1;
  for (int d = x.ndim() - 2; d >= 0; --d) {
    if (x.size(d) == 1) continue;
    if (inner >= 0 && x.stride(d) != x.stride(inner) * x.size(inner)) return false;
    inner = d;
  }
  return true;
}
int64_t leading(const Tensor& x) { return x.size(-1) ? x.numel() / x.size(-1) : product(IntList(x.sizes().data(), x.ndim() - 1)); }

// The batch axes of x, right-aligned to `batch`, with stride 0 where broadcast.
Dims batch_strides(const Tensor& x, const Dims& batch) {
  Dims strides(batch.size());
  const int own = x.ndim() - 2, lead = batch.size() - own;
  for (int d = 0; d < own; ++d) strides[lead + d] = x.size(d) == 1 ? 0 : x.stride(d);
  return strides;
}

Dims broadcast_batch(const Tensor& a, const Tensor& b) {
  const int na = std::max(a.ndim() - 2, 0), nb = std::max(b.ndim() - 2, 0), n = std::max(na, nb);
  Dims batch(n, 1);
  for (int d = 0; d < na; ++d) batch[n - na + d] = a.size(d);
  for (int d = 0; d < nb; ++d)
    if (b.size(d) != 1) batch[n - nb + d] = b.size(d);
  return batch;
}

// 1-d operands as matrices.
Tensor as_row(const Tensor& x) { return alias(x, Dims{1, x.size(0)}, Dims{x.size(0) * x.stride(0), x.stride(0)}, x.offset()); }
Tensor as_column(const Tensor& x) { return alias(x, Dims{x.size(0), 1}, Dims{x.stride(0), 1}, x.offset()); }

// out = a b for operands of two or more axes; `out` is row-major with room for [batch, m, n].
void product_into(const Tensor& a, const Tensor& b, void* out, const void* bias = nullptr) {
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const DType t = a.dtype();
  if (b.ndim() == 2 && leading_axes_fold(a)) {
    const int64_t rows = leading(a);
    MatrixBatch o{static_cast<char*>(out), Dims(), n, 1};
    int64_t row = a.stride(-2);
    for (int d = a.ndim() - 2; d >= 0; --d)
      if (a.size(d) != 1) {
        row = a.stride(d);
        break;
      }
    return matmul_batches(t, Dims(), rows, n, k, tidy({static_cast<char*>(a.data()), Dims(), row, a.stride(-1)}, rows, k),
                          tidy({static_cast<char*>(b.data()), Dims(), b.stride(0), b.stride(1), &b.storage()}, k, n), o, 1, 0, bias);
  }
  const Dims batch = broadcast_batch(a, b);
  MatrixBatch o{static_cast<char*>(out), Dims(batch.size()), n, 1};
  int64_t step = m * n;
  for (int d = batch.size() - 1; d >= 0; step *= batch[d--]) o.strides[d] = step;
  MatrixBatch ma{static_cast<char*>(a.data()), batch_strides(a, batch), a.stride(-2), a.stride(-1)};
  MatrixBatch mb{static_cast<char*>(b.data()), batch_strides(b, batch), b.stride(-2), b.stride(-1)};
  matmul_batches(t, batch, m, n, k, tidy(ma, m, k), tidy(mb, k, n), o, 1, 0, bias);
}

// out = sum over broadcast axes of a b, where out has `shape` (two or more axes, right-aligned to the batch).
// The matrices of a and b are handed over already transposed as wanted.
void product_summed(const Tensor& a, const Tensor& b, const Dims& shape, void* out) {
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const Dims batch = broadcast_batch(a, b);
  const DType t = a.dtype();
  MatrixBatch o{static_cast<char*>(out), Dims(batch.size()), n, 1};
  const int own = shape.size() - 2, lead = batch.size() - own;
  int64_t step = m * n;
  bool sums = product(batch) == 0 || k == 0;
  for (int d = 0; d < lead; ++d) sums = sums || batch[d] != 1;
  for (int d = own - 1; d >= 0; --d) {
    if (shape[d] != 1) o.strides[lead + d] = step;
    sums = sums || (shape[d] == 1 && batch[lead + d] != 1);
    step *= shape[d];
  }
  if (sums) std::memset(out, 0, static_cast<size_t>(step) * item_size(t));
  MatrixBatch ma{static_cast<char*>(a.data()), batch_strides(a, batch), a.stride(-2), a.stride(-1)};
  MatrixBatch mb{static_cast<char*>(b.data()), batch_strides(b, batch), b.stride(-2), b.stride(-1)};
  matmul_batches(t, batch, m, n, k, tidy(ma, m, k), tidy(mb, k, n), o, 1, sums ? 1 : 0);
}

// x, or where its leading axes do not fold a row-major copy: cheaper than a product for each of them.
Tensor foldable(const Tensor& x) {
  if (leading_axes_fold(x)) return x;
  const Tensor copy = empty(x.sizes(), x.dtype());
  copy_elements(copy, x);
  return copy;
}
Tensor folded(const Tensor& x) {  // [.., n] as [rows, n]; its leading axes fold
  int64_t row = x.size(-1);
  for (int d = x.ndim() - 2; d >= 0; --d)
    if (x.size(d) != 1) {
      row = x.stride(d);
      break;
    }
  return alias(x, Dims{leading(x), x.size(-1)}, Dims{row, x.stride(-1)}, x.offset());
}

// n elements `stride` apart, side by side: where they are, or in `room`.
template <class T>
const T* in_a_row(const T* x, int64_t stride, int64_t n, T* room) {
  if (stride == 1) return x;
  for (int64_t i = 0; i < n; ++i) room[i] = x[i * stride];
  return room;
}

}  // namespace

void mm(const Tensor& a, const Tensor& b, const Tensor& y) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  matmul_batches(a.dtype(), Dims(), m, n, k, tidy(plain(a), m, k), tidy(plain(b), k, n), plain(y));
}

void bmm(const Tensor& a, const Tensor& b, const Tensor& y) {
  const int64_t m = a.size(1), k = a.size(2), n = b.size(2);
  matmul_batches(a.dtype(), Dims{a.size(0)}, m, n, k, tidy(with_batch(a), m, k), tidy(with_batch(b), k, n), with_batch(y));
}

void mv(const Tensor& a, const Tensor& x, const Tensor& y) {
  MatrixBatch out{static_cast<char*>(y.data()), Dims(), 1, 1};
  matmul_batches(a.dtype(), Dims(), a.size(0), 1, a.size(1), tidy(plain(a), a.size(0), a.size(1)), tidy(column_vector(x), x.size(0), 1), out);
}

namespace {

constexpr int64_t kChunk = 4096;  // elements of an inner product that are summed together

float inner(int64_t n, const float* a, const float* b) {
  float v;
  gemv_rows_f32(1, n, a, n, b, &v);
  return v;
}
double inner(int64_t n, const double* a, const double* b) {
  double v;
  gemv_rows_f64(1, n, a, n, b, &v);
  return v;
}

// Of integers that products are not made in: as 32 bits, of which the lower ones are the result's.
void dot_of_narrow_integers(const Tensor& a, const Tensor& b, const Tensor& y) {
  const auto item = static_cast<int64_t>(a.item_bytes());
  std::atomic<uint32_t> sum = 0;
  parallel_for(0, a.size(0), 16 * kChunk, [&](int64_t begin, int64_t end) {
    uint32_t wide_a[kChunk], wide_b[kChunk], mine = 0;
    for (int64_t i = begin; i < end; i += kChunk) {
      const int64_t len = std::min(kChunk, end - i);
      convert_elements(wide_a, DType::Int32, static_cast<const char*>(a.data()) + i * item, a.dtype(), len);
      convert_elements(wide_b, DType::Int32, static_cast<const char*>(b.data()) + i * item, b.dtype(), len);
      mine += dot_u32(len, wide_a, wide_b);
    }
    sum += mine;
  });
  const auto made = static_cast<int32_t>(sum.load());
  convert_elements(y.data(), y.dtype(), &made, DType::Int32, 1);
}

// Two real ones: a . [re, -im] and a . [im, re] of b.
template <class T>
void dot_of_pairs(const Tensor& a, const Tensor& b, const Tensor& y) {
  const int64_t n = a.size(0), chunks = (n + kChunk / 2 - 1) / (kChunk / 2);
  const T* pa = static_cast<const T*>(a.data());
  const T* pb = static_cast<const T*>(b.data());
  std::vector<std::array<double, 2>> parts(static_cast<size_t>(chunks));
  parallel_for(0, chunks, 8, [&](int64_t c0, int64_t c1) {
    T minus[kChunk], crossed[kChunk];
    for (int64_t c = c0; c < c1; ++c) {
      const int64_t i = c * kChunk, len = std::min(kChunk, 2 * n - i);
      for (int64_t k = 0; k < len; k += 2) {
        const T re = pb[i + k], im = pb[i + k + 1];
        minus[k] = re, minus[k + 1] = -im, crossed[k] = im, crossed[k + 1] = re;
      }
      parts[static_cast<size_t>(c)] = {inner(len, pa + i, minus), inner(len, pa + i, crossed)};
    }
  });
  double re = 0, im = 0;
  for (const auto& part : parts) re += part[0], im += part[1];
  T* const out = static_cast<T*>(y.data());
  out[0] = static_cast<T>(re), out[1] = static_cast<T>(im);
}

}  // namespace

// Sums of fixed chunks in the type itself, added in order in double.
void dot(const Tensor& a, const Tensor& b, const Tensor& y) {
  const int64_t n = a.size(0), sa = a.stride(0), sb = b.stride(0);
  const bool flat = sa == 1 && sb == 1;
  if (flat && (a.dtype() == DType::UInt8 || a.dtype() == DType::Int8 || a.dtype() == DType::Int16)) return dot_of_narrow_integers(a, b, y);
  if (flat && a.dtype() == DType::Complex64) return dot_of_pairs<float>(a, b, y);
  if (flat && a.dtype() == DType::Complex128) return dot_of_pairs<double>(a, b, y);
  if (a.dtype() != DType::Float32 && a.dtype() != DType::Float64) {
    MatrixBatch out{static_cast<char*>(y.data()), Dims(), 1, 1};
    matmul_batches(a.dtype(), Dims(), 1, 1, n, tidy(row_vector(a), 1, n), tidy(column_vector(b), n, 1), out);
    return;
  }
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> parts(chunks);
  visit(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      const T *pa = a.data<T>(), *pb = b.data<T>();
      parallel_for(0, chunks, 16, [&](int64_t c0, int64_t c1) {
        for (int64_t c = c0; c < c1; ++c) {
          const int64_t i = c * kChunk, len = std::min(kChunk, n - i);
          T room_a[kChunk], room_b[kChunk];
          parts[c] = inner(len, in_a_row(pa + i * sa, sa, len, room_a), in_a_row(pb + i * sb, sb, len, room_b));
        }
      });
      double s = 0;
      for (const double v : parts) s += v;
      *y.data<T>() = static_cast<T>(s);
    }
  });
}

void matmul(const Tensor& a, const Tensor& b, const Tensor& y) {
  if (a.ndim() == 1 && b.ndim() == 1) return dot(a, b, y);
  product_into(a.ndim() == 1 ? as_row(a) : a, b.ndim() == 1 ? as_column(b) : b, y.data());
}

// da = dy b^T summed to the shape of a.
void matmul_grad_a(const Tensor& dy, const Tensor& b, IntList shape, const Tensor& da) {
  Tensor g = dy, m = b;
  Dims want(shape);
  if (b.ndim() == 1) {  // y lost its last axis
    Dims sizes = dy.sizes(), strides = dy.strides();
    sizes.push_back(1), strides.push_back(1);
    g = alias(dy, sizes, strides, dy.offset());
    m = as_column(b);
  }
  if (shape.size() == 1) {  // and its row axis
    Dims sizes = g.sizes(), strides = g.strides();
    sizes.insert(sizes.size() - 1, 1), strides.insert(strides.size() - 1, 1);
    g = alias(g, sizes, strides, g.offset());
    want = Dims{1, shape[0]};
  }
  if (m.ndim() == 2 && want.size() == g.ndim()) return product_into(g, swapped(m), da.data());
  product_summed(g, swapped(m), want, da.data());
}

// db = a^T dy summed to the shape of b.
void matmul_grad_b(const Tensor& dy, const Tensor& a, IntList shape, const Tensor& db) {
  Tensor g = dy, m = a;
  Dims want(shape);
  if (shape.size() == 1) {
    Dims sizes = dy.sizes(), strides = dy.strides();
    sizes.push_back(1), strides.push_back(1);
    g = alias(dy, sizes, strides, dy.offset());
    want = Dims{shape[0], 1};
  }
  if (a.ndim() == 1) {
    Dims sizes = g.sizes(), strides = g.strides();
    sizes.insert(sizes.size() - 1, 1), strides.insert(strides.size() - 1, 1);
    g = alias(g, sizes, strides, g.offset());
    m = as_row(a);
  }
  if (want.size() == 2 && g.ndim() == m.ndim()) m = folded(foldable(m)), g = folded(foldable(g));  // one product over all rows
  product_summed(swapped(m), g, want, db.data());
}

void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const Tensor w = alias(weight, Dims{weight.size(1), weight.size(0)}, Dims{weight.stride(1), weight.stride(0)}, weight.offset());
  Tensor b = bias;
  if (bias.defined() && !bias.is_contiguous()) {
    b = empty(bias.sizes(), bias.dtype());
    copy_elements(b, bias);
  }
  product_into(foldable(x.ndim() == 1 ? as_row(x) : x), w, y.data(), b.defined() ? b.data() : nullptr);
}

void addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha, const Tensor& y) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  const MatrixBatch ma = tidy(plain(a), m, k), mb = tidy(plain(b), k, n), my = plain(y);
  if (beta.as_double() == 0) return matmul_batches(a.dtype(), Dims(), m, n, k, ma, mb, my, alpha.as_double());
  if (beta.as_double() == 1 && input.ndim() == 1 && input.numel() == n && input.is_contiguous())
    return matmul_batches(a.dtype(), Dims(), m, n, k, ma, mb, my, alpha.as_double(), 0, input.data());
  set_to(y, input);
  matmul_batches(a.dtype(), Dims(), m, n, k, ma, mb, my, alpha.as_double(), beta.as_double());
}

void addmv(const Tensor& input, const Tensor& a, const Tensor& x, Scalar beta, Scalar alpha, const Tensor& y) {
  const MatrixBatch out{static_cast<char*>(y.data()), Dims(), 1, 1};
  if (beta.as_double() != 0) set_to(y, input);
  matmul_batches(a.dtype(), Dims(), a.size(0), 1, a.size(1), tidy(plain(a), a.size(0), a.size(1)), tidy(column_vector(x), x.size(0), 1), out,
                 alpha.as_double(), beta.as_double());
}

void baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha, const Tensor& y) {
  const int64_t m = a.size(1), k = a.size(2), n = b.size(2);
  if (beta.as_double() != 0) set_to(y, input);
  matmul_batches(a.dtype(), Dims{a.size(0)}, m, n, k, tidy(with_batch(a), m, k), tidy(with_batch(b), k, n), with_batch(y),
                 alpha.as_double(), beta.as_double());
}

}  // namespace kernels
}  // namespace fl
