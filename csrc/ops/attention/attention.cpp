// Attention without the matrix of scores: blocks of queries against blocks of keys with a running softmax.
//
//   for a block of rows:                               m: running maximum, l: running sum, o: running output
//     for each block of kKeys keys:  s = scale q k^T (+ mask);  p = exp(s - m');  o = o exp(m - m') + p v
//     y = o / l,   lse = m + log(l)
//
// The backward pass makes p again from s and lse. Masked-out rows give zeros.
//
// 16-bit floats are multiplied in 16 bits where the processor does that, with float32 sums: s, the softmax and what is
// summed over blocks (o, and the gradients of one head) are float32, p is rounded for 16-bit products that it enters.
#include "ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "backend/onednn/onednn.h"
#include "base/parallel.h"
#include "ops/matmul/gemm.h"
#include "ops/index/lines.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

constexpr int64_t kKeys = 256;
constexpr int64_t kFewQueries = 64, kMostQueries = 256;
// 16-bit products copy their keys and values into pairs (or float32) for each block of queries: these are larger, where there are enough of them.
template <class S>
int64_t block_of_queries(int64_t batch, int64_t tq) {
  constexpr int64_t kEnough = 16;
  const bool large = !std::is_same_v<S, Computed<S>> && batch * ((tq + kMostQueries - 1) / kMostQueries) >= kEnough;
  return std::min(large ? kMostQueries : kFewQueries, tq);
}

struct Sizes {
  int64_t batch, tq, tk, d, dv;
};
Sizes sizes_of(const Tensor& q, const Tensor& k, const Tensor& v) {
  int64_t batch = 1;
  for (int i = 0; i < q.ndim() - 2; ++i) batch *= q.size(i);
  return {batch, q.size(-2), k.size(-2), q.size(-1), v.size(-1)};
}

// A bool or float mask that broadcasts to [batch..., tq, tk]; contiguous in its own shape.
class Mask {
 public:
  Mask(const Tensor& mask, const Tensor& q) : mask_(mask) {
    if (!mask.defined()) return;
    is_bool_ = mask.dtype() == DType::Bool;
    const int lead = q.ndim() - mask.ndim();
    for (int d = 0; d < q.ndim() - 2; ++d) {
      sizes_.push_back(q.size(d));
      strides_.push_back(d < lead || mask.size(d - lead) == 1 ? 0 : mask.stride(d - lead));
    }
    row_ = mask.ndim() < 2 || mask.size(-2) == 1 ? 0 : mask.stride(-2);
    col_ = mask.ndim() < 1 || mask.size(-1) == 1 ? 0 : mask.stride(-1);
  }
  explicit operator bool() const { return mask_.defined(); }
  // To a tile of scores from query q0 and key k0 on: first the scale, then the mask.
  template <class T>
  void apply(T* s, T scale, int64_t rows, int64_t cols, int64_t batch, int64_t q0, int64_t k0) const {
    FL_PICK(attention_scale)(s, rows * cols, scale);
    for (int64_t i = 0; i < rows; ++i) apply_row(s + i * cols, batch, q0 + i, k0, cols);
  }

 private:
  template <class T>
  void apply_row(T* s, int64_t batch, int64_t row, int64_t k0, int64_t n) const {
    int64_t at = row * row_ + k0 * col_;
    for (int d = sizes_.size() - 1; d >= 0; --d) {
      at += batch % sizes_[d] * strides_[d];
      batch /= sizes_[d];
    }
    if (is_bool_) {
      const Truth* m = mask_.data<Truth>() + at;
      for (int64_t j = 0; j < n; ++j) s[j] = m[j * col_] ? s[j] : -std::numeric_limits<T>::infinity();
    } else {
      visit_memory(mask_.dtype(), [&](auto element) {
        const auto* m = mask_.data<decltype(element)>() + at;
        for (int64_t j = 0; j < n; ++j) s[j] += static_cast<T>(m[j * col_]);
      });
    }
  }

  Tensor mask_;
  Dims sizes_, strides_;
  int64_t row_ = 0, col_ = 0;
  bool is_bool_ = false;
};

template <class T>
T* scratch(Tensor& keep, int64_t n) {
  keep = empty(Dims{n}, dtype_of<T>);
  return keep.data<T>();
}

enum Result { Set, Add };

// Products of tiles of S, and what they need of memory. 16-bit ones are multiplied in 16 bits where the processor does that, else as float32.
template <class S>
class Tiles {
 public:
  using T = Computed<S>;
  static constexpr bool kHalf = !std::is_same_v<S, T>;
  // A tile of T, and what it is in 16 bits where products are.
  struct Made {
    const T* data;
    const S* rounded;
  };
  // `which`: there is memory for two at a time.
  Made made(const T* x, int64_t n, int which) {
    if constexpr (kHalf) {
      if (native_) {
        S* const to = room(rounded_[which], n, dtype_of<S>).template data<S>();
        convert_elements(to, dtype_of<S>, x, dtype_of<T>, n);
        return {x, to};
      }
    }
    return {x, nullptr};
  }

  // c = a b, or c += a b; operands are whole blocks of memory, as they are or transposed.
  void multiply(int64_t m, int64_t n, int64_t k, const Mat<S>& a, const Mat<S>& b, T* c, Result result) {
    if constexpr (kHalf) {
      if (natively(m, n, k, a, b, c, result)) return;
      const T* wa = wide(a.data, m * k, a_);
      widened(m, n, k, {wa, a.row, a.col}, b, c, result);
    } else {
      gemm(Gemm<T>{m, n, k, a, b, c, n, 1, result == Result::Add ? T(1) : T(0)});
    }
  }
  void multiply(int64_t m, int64_t n, int64_t k, const Made& a, int64_t a_row, int64_t a_col, const Mat<S>& b, T* c, Result result) {
    if constexpr (kHalf) {
      if (a.rounded && natively(m, n, k, {a.rounded, a_row, a_col}, b, c, result)) return;
      widened(m, n, k, {a.data, a_row, a_col}, b, c, result);
    } else {
      multiply(m, n, k, Mat<S>{a.data, a_row, a_col}, b, c, result);
    }
  }

 private:
  bool natively(int64_t m, int64_t n, int64_t k, const Mat<S>& a, const Mat<S>& b, T* c, Result result) const {
    return native_ && onednn::gemm16_wide(dtype_of<S>, m, n, k, a.data, a.row, a.col, b.data, b.row, b.col, c, n, result == Result::Add);
  }
  void widened(int64_t m, int64_t n, int64_t k, const Mat<T>& a, const Mat<S>& b, T* c, Result result) {
    constexpr int64_t kFewRows = 2;
    if (m <= kFewRows && a.col == 1 && b.row == 1 && b.col == k && result == Result::Set) {
      for (int64_t i = 0; i < m; ++i) row_dots(a.data + i * a.row, b.data, n, k, c + i * n);
      return;
    }
    if (m <= kFewRows && a.col == 1 && b.col == 1 && b.row == n) {
      for (int64_t i = 0; i < m; ++i) row_sums(a.data + i * a.row, b.data, k, n, c + i * n, result == Result::Add);
      return;
    }
    const T* wb = wide(b.data, k * n, b_);
    gemm(Gemm<T>{m, n, k, a, {wb, b.row, b.col}, c, n, 1, result == Result::Add ? T(1) : T(0)});
  }
  static void row_dots(const T* x, const S* rows, int64_t count, int64_t n, T* out) {
    if constexpr (std::is_same_v<S, BFloat16>) attention_row_dots_bf16(x, rows, count, n, out);
    else attention_row_dots_f16(x, rows, count, n, out);
  }
  static void row_sums(const T* x, const S* rows, int64_t count, int64_t n, T* out, bool add) {
    if constexpr (std::is_same_v<S, BFloat16>) attention_row_sums_bf16(x, rows, count, n, out, add);
    else attention_row_sums_f16(x, rows, count, n, out, add);
  }
  static const Tensor& room(Tensor& keep, int64_t n, DType t) {
    if (!keep.defined() || keep.numel() < n) keep = empty(Dims{n}, t);
    return keep;
  }
  const T* wide(const S* x, int64_t n, Tensor& keep) {
    T* const to = room(keep, n, dtype_of<T>).template data<T>();
    convert_elements(to, dtype_of<T>, x, dtype_of<S>, n);
    return to;
  }
  const bool native_ = onednn::convolves(dtype_of<S>);
  Tensor a_, b_, rounded_[2];
};

// Sums that end up in rows of `width` at `to`, `step` apart: in that memory itself, or for 16-bit floats and rows that lie apart in a buffer.
template <class S>
class Sums {
 public:
  using T = Computed<S>;
  Sums(int64_t most_rows, int64_t width, int64_t step) : width_(width), step_(step) {
    if (!in_place()) buffer_ = empty(Dims{most_rows * width}, dtype_of<T>);
  }
  Sums(int64_t most_rows, int64_t width) : Sums(most_rows, width, width) {}
  T* start(S* to, int64_t rows, bool zero = true) {
    to_ = to, rows_ = rows;
    if (!in_place()) sums_ = buffer_.template data<T>();
    else if constexpr (std::is_same_v<S, T>) sums_ = to;
    if (zero) std::fill_n(sums_, rows * width_, T(0));
    return sums_;
  }
  void finish() const {
    if (in_place()) return;
    if (step_ == width_) return convert_elements(to_, dtype_of<S>, sums_, dtype_of<T>, rows_ * width_);
    for (int64_t r = 0; r < rows_; ++r) convert_elements(to_ + r * step_, dtype_of<S>, sums_ + r * width_, dtype_of<T>, width_);
  }

 private:
  bool in_place() const { return std::is_same_v<S, T> && step_ == width_; }
  Tensor buffer_;
  S* to_ = nullptr;
  T* sums_ = nullptr;
  int64_t rows_ = 0, width_, step_;
};

// Scores of no columns are 0, whatever they are multiplied by.
double scale_of(std::optional<double> scale, int64_t d) { return d == 0 ? 1.0 : scale.value_or(1 / std::sqrt(static_cast<double>(d))); }

// Where the rows of batch number `batch` begin in a tensor whose last axis is dense.
int64_t begin_of(const Tensor& x, int64_t batch) {
  int64_t at = 0;
  for (int d = x.ndim() - 3; d >= 0; --d) {
    at += batch % x.size(d) * x.stride(d);
    batch /= x.size(d);
  }
  return at;
}

// x whose matrices are read where they lie, as the part of a cache that is filled so far, or a copy in rows. Rows that lie apart are copied where they are
// read again and again, by each block of queries, and where 16-bit floats may have to be converted.
template <class S>
Tensor matrices_of(const Tensor& x, int64_t reads) {
  const bool dense = x.size(-1) <= 1 || x.stride(-1) == 1, beside = x.size(-2) <= 1 || x.stride(-2) == x.size(-1);
  if (dense && (beside || (std::is_same_v<S, Computed<S>> && reads == 1 && x.stride(-2) > x.size(-1)))) return x;
  return row_major_copy(x);
}
int64_t row_step(const Tensor& x) { return x.size(-2) > 1 ? x.stride(-2) : x.size(-1); }

}  // namespace

// As the queries lie, so that heads that were cut out of a layer's features come back as these: x.transpose(1, 2).view(batch, length, features).
Dims attention_strides(const Tensor& q, const Tensor& v) {
  Dims sizes = q.sizes();
  if (q.ndim() == 4 && v.ndim() == 4 && q.stride(3) == 1 && q.size(3) == v.size(3))
    if (Dims strides = dense_strides_like(q); strides.back() == 1) return strides;
  sizes.back() = v.size(-1);
  return row_major(sizes);
}

void scaled_dot_product_attention(const Tensor& q_given, const Tensor& k_given, const Tensor& v_given, const Tensor& mask, double, bool causal,
                                  std::optional<double> scale_given, const Tensor& lse, const Tensor& y) {
  const Sizes n = sizes_of(q_given, k_given, v_given);
  const Mask masked(mask, q_given);
  visit_memory(q_given.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const T scale = static_cast<T>(scale_of(scale_given, n.d));
    const int64_t queries = block_of_queries<S>(n.batch, n.tq), blocks = n.tq ? (n.tq + queries - 1) / queries : 0;
    const int64_t work = queries * n.tk * (n.d + n.dv) + 1, step = n.tq > 1 ? y.stride(-2) : n.dv;
    const Tensor q = matrices_of<S>(q_given, kMostQueries), k = matrices_of<S>(k_given, blocks), v = matrices_of<S>(v_given, blocks);
    const int64_t k_row = row_step(k), v_row = row_step(v);
    parallel_work(n.batch * blocks, work, 65536, [&](int64_t b0, int64_t b1) {
      Tensor keep;
      T* s = scratch<T>(keep, queries * std::min(kKeys, n.tk));
      Tiles<S> tiles;
      Sums<S> out(queries, n.dv, step);
      T top[kMostQueries], sum[kMostQueries];
      for (int64_t b = b0; b < b1; ++b) {
        const int64_t batch = b / blocks, q0 = b % blocks * queries, rows = std::min(queries, n.tq - q0);
        const S *pq = q.data<S>() + begin_of(q, batch) + q0 * n.d, *pk = k.data<S>() + begin_of(k, batch), *pv = v.data<S>() + begin_of(v, batch);
        const int64_t last = causal ? std::min(n.tk, q0 + rows) : n.tk;
        T* po = out.start(y.data<S>() + begin_of(y, batch) + q0 * step, rows, last == 0);
        std::fill_n(top, rows, -std::numeric_limits<T>::infinity());
        std::fill_n(sum, rows, T(0));
        for (int64_t k0 = 0; k0 < last; k0 += kKeys) {
          const int64_t cols = std::min(kKeys, last - k0), first = causal ? q0 + 1 - k0 : cols;
          tiles.multiply(rows, cols, n.d, {pq, n.d, 1}, {pk + k0 * k_row, 1, k_row}, s, Set);
          if (masked) masked.apply(s, scale, rows, cols, batch, q0, k0);
          FL_PICK(attention_tile)(s, rows, cols, first, causal, masked ? T(1) : scale, top, sum, k0 ? po : nullptr, n.dv);
          const auto p = tiles.made(s, rows * cols, 0);
          tiles.multiply(rows, n.dv, cols, p, cols, 1, {pv + k0 * v_row, v_row, 1}, po, k0 ? Add : Set);
        }
        FL_PICK(attention_finish)(po, rows, n.dv, top, sum, lse.data<T>() + batch * n.tq + q0);
        out.finish();
      }
    });
  });
}

void scaled_dot_product_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& y,
                                           const Tensor& lse, bool causal, std::optional<double> scale_given, const Tensor& dq, const Tensor& dk,
                                           const Tensor& dv) {
  const Sizes n = sizes_of(q, k, v);
  const Mask masked(mask, q);
  visit_memory(q.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const T scale = static_cast<T>(scale_of(scale_given, n.d));
    const auto one = [&](int64_t batch) {
      Tensor keep_s, keep_p;
      const int64_t queries = block_of_queries<S>(n.batch, n.tq), tile = queries * std::min(kKeys, n.tk);
      T *s = scratch<T>(keep_s, tile), *dp = scratch<T>(keep_p, tile);
      Tiles<S> tiles;
      Sums<S> of_q(queries, n.d), of_k(n.tk, n.d), of_v(n.tk, n.dv);
      T* pdk = of_k.start(dk.data<S>() + batch * n.tk * n.d, n.tk);
      T* pdv = of_v.start(dv.data<S>() + batch * n.tk * n.dv, n.tk);
      for (int64_t q0 = 0; q0 < n.tq; q0 += queries) {
        const int64_t rows = std::min(queries, n.tq - q0), from = batch * n.tq + q0;
        const S *pq = q.data<S>() + from * n.d, *pd = dy.data<S>() + from * n.dv, *py = y.data<S>() + from * n.dv;
        const T* pl = lse.data<T>() + from;
        T* pdq = of_q.start(dq.data<S>() + from * n.d, rows);
        T delta[kMostQueries];
        FL_PICK_MEMORY(attention_dots)(pd, py, rows, n.dv, delta);
        const int64_t last = causal ? std::min(n.tk, q0 + rows) : n.tk;
        for (int64_t k0 = 0; k0 < last; k0 += kKeys) {
          const int64_t cols = std::min(kKeys, last - k0), first = causal ? q0 + 1 - k0 : cols;
          const S *pk = k.data<S>() + (batch * n.tk + k0) * n.d, *pv = v.data<S>() + (batch * n.tk + k0) * n.dv;
          tiles.multiply(rows, cols, n.d, {pq, n.d, 1}, {pk, 1, n.d}, s, Set);
          tiles.multiply(rows, cols, n.dv, {pd, n.dv, 1}, {pv, 1, n.dv}, dp, Set);
          if (masked) masked.apply(s, scale, rows, cols, batch, q0, k0);
          FL_PICK(attention_tile_backward)(s, dp, rows, cols, first, causal, static_cast<bool>(masked), scale, pl, delta);
          const auto p = tiles.made(s, rows * cols, 0), ds = tiles.made(dp, rows * cols, 1);
          tiles.multiply(cols, n.dv, rows, p, 1, cols, {pd, n.dv, 1}, pdv + k0 * n.dv, Add);
          tiles.multiply(rows, n.d, cols, ds, cols, 1, {pk, n.d, 1}, pdq, Add);
          tiles.multiply(cols, n.d, rows, ds, 1, cols, {pq, n.d, 1}, pdk + k0 * n.d, Add);
        }
        of_q.finish();
      }
      of_k.finish();
      of_v.finish();
    };
    if (n.batch >= num_threads()) {
      parallel_work(n.batch, n.tq * n.tk * n.d, 65536, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) one(b);
      });
    } else {
      for (int64_t b = 0; b < n.batch; ++b) one(b);
    }
  });
}

}  // namespace fl::kernels
