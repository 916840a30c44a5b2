// Attention without the matrix of scores: blocks of queries against blocks of keys with a running softmax.
//
//   for a block of kQueries rows:                      m: running maximum, l: running sum, o: running output
//     for each block of kKeys keys:  s = scale q k^T (+ mask);  p = exp(s - m');  o = o exp(m - m') + p v
//     y = o / l,   lse = m + log(l)
//
// The backward pass makes p again from s and lse. Masked-out rows give zeros.
#include "ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/parallel.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

constexpr int64_t kQueries = 64, kKeys = 256;

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
  template <class T>
  void apply(T* s, int64_t batch, int64_t row, int64_t k0, int64_t n) const {
    if (!mask_.defined()) return;
    int64_t at = row * row_ + k0 * col_;
    for (int d = sizes_.size() - 1; d >= 0; --d) {
      at += batch % sizes_[d] * strides_[d];
      batch /= sizes_[d];
    }
    if (is_bool_) {
      const bool* m = mask_.data<bool>() + at;
      for (int64_t j = 0; j < n; ++j) s[j] = m[j * col_] ? s[j] : -std::numeric_limits<T>::infinity();
    } else {
      const T* m = mask_.data<T>() + at;
      for (int64_t j = 0; j < n; ++j) s[j] += m[j * col_];
    }
  }

 private:
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

double scale_of(std::optional<double> scale, int64_t d) { return scale.value_or(1 / std::sqrt(static_cast<double>(d))); }

}  // namespace

void scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double, bool causal,
                                  std::optional<double> scale_given, const Tensor& lse, const Tensor& y) {
  const WideOutput out(y);
  const Tensor wq = widened(q), wk = widened(k), wv = widened(v), wm = widened(mask);
  const Sizes n = sizes_of(q, k, v);
  const Mask masked(wm, q);
  visit_float(wq.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T scale = static_cast<T>(scale_of(scale_given, n.d));
    const int64_t blocks = (n.tq + kQueries - 1) / kQueries;
    const int64_t work = kQueries * n.tk * (n.d + n.dv) + 1;
    parallel_for(0, n.batch * blocks, std::max<int64_t>(1, 65536 / work), [&](int64_t b0, int64_t b1) {
      Tensor keep;
      T* s = scratch<T>(keep, kQueries * kKeys);
      T top[kQueries], sum[kQueries];
      for (int64_t b = b0; b < b1; ++b) {
        const int64_t batch = b / blocks, q0 = b % blocks * kQueries, rows = std::min(kQueries, n.tq - q0);
        const T* pq = wq.data<T>() + (batch * n.tq + q0) * n.d;
        T* po = out.wide.data<T>() + (batch * n.tq + q0) * n.dv;
        std::memset(po, 0, sizeof(T) * rows * n.dv);
        std::fill_n(top, rows, -std::numeric_limits<T>::infinity());
        std::fill_n(sum, rows, T(0));
        const int64_t last = causal ? std::min(n.tk, q0 + rows) : n.tk;
        for (int64_t k0 = 0; k0 < last; k0 += kKeys) {
          const int64_t cols = std::min(kKeys, last - k0);
          gemm(Gemm<T>{rows, cols, n.d, {pq, n.d, 1}, {wk.data<T>() + (batch * n.tk + k0) * n.d, 1, n.d}, s, cols, scale, 0});
          for (int64_t i = 0; i < rows; ++i) {
            const int64_t seen = causal ? std::clamp<int64_t>(q0 + i + 1 - k0, 0, cols) : cols;
            masked.apply(s + i * cols, batch, q0 + i, k0, seen);
            const T factor = FL_PICK(attention_row)(s + i * cols, seen, cols, top + i, sum + i);
            if (factor != T(1)) FL_PICK(attention_scale)(po + i * n.dv, n.dv, factor);
          }
          gemm(Gemm<T>{rows, n.dv, cols, {s, cols, 1}, {wv.data<T>() + (batch * n.tk + k0) * n.dv, n.dv, 1}, po, n.dv, 1, 1});
        }
        T* pl = lse.data<T>() + batch * n.tq + q0;
        for (int64_t i = 0; i < rows; ++i) {
          pl[i] = sum[i] > 0 ? top[i] + std::log(sum[i]) : sum[i] == 0 ? -std::numeric_limits<T>::infinity() : sum[i];
          FL_PICK(attention_scale)(po + i * n.dv, n.dv, sum[i] == 0 ? T(0) : T(1) / sum[i]);
        }
      }
    });
  });
}

void scaled_dot_product_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& y,
                                           const Tensor& lse, bool causal, std::optional<double> scale_given, const Tensor& dq, const Tensor& dk,
                                           const Tensor& dv) {
  const WideOutput oq(dq), ok(dk), ov(dv);
  const Tensor wd = widened(dy), wq = widened(q), wk = widened(k), wv = widened(v), wm = widened(mask), wy = widened(y);
  const Sizes n = sizes_of(q, k, v);
  const Mask masked(wm, q);
  visit_float(wq.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T scale = static_cast<T>(scale_of(scale_given, n.d));
    const auto one = [&](int64_t batch) {
      Tensor keep_s, keep_p;
      T *s = scratch<T>(keep_s, kQueries * kKeys), *dp = scratch<T>(keep_p, kQueries * kKeys);
      T* pdq = oq.wide.data<T>() + batch * n.tq * n.d;
      T* pdk = ok.wide.data<T>() + batch * n.tk * n.d;
      T* pdv = ov.wide.data<T>() + batch * n.tk * n.dv;
      std::memset(pdq, 0, sizeof(T) * n.tq * n.d);
      std::memset(pdk, 0, sizeof(T) * n.tk * n.d);
      std::memset(pdv, 0, sizeof(T) * n.tk * n.dv);
      for (int64_t q0 = 0; q0 < n.tq; q0 += kQueries) {
        const int64_t rows = std::min(kQueries, n.tq - q0), from = batch * n.tq + q0;
        const T *pq = wq.data<T>() + from * n.d, *pd = wd.data<T>() + from * n.dv, *py = wy.data<T>() + from * n.dv, *pl = lse.data<T>() + from;
        T delta[kQueries];
        for (int64_t i = 0; i < rows; ++i) delta[i] = FL_PICK(attention_dot)(pd + i * n.dv, py + i * n.dv, n.dv);
        const int64_t last = causal ? std::min(n.tk, q0 + rows) : n.tk;
        for (int64_t k0 = 0; k0 < last; k0 += kKeys) {
          const int64_t cols = std::min(kKeys, last - k0);
          const T *pk = wk.data<T>() + (batch * n.tk + k0) * n.d, *pv = wv.data<T>() + (batch * n.tk + k0) * n.dv;
          gemm(Gemm<T>{rows, cols, n.d, {pq, n.d, 1}, {pk, 1, n.d}, s, cols, scale, 0});
          gemm(Gemm<T>{rows, cols, n.dv, {pd, n.dv, 1}, {pv, 1, n.dv}, dp, cols, 1, 0});
          for (int64_t i = 0; i < rows; ++i) {
            const int64_t seen = causal ? std::clamp<int64_t>(q0 + i + 1 - k0, 0, cols) : cols;
            masked.apply(s + i * cols, batch, q0 + i, k0, seen);
            FL_PICK(attention_row_backward)(s + i * cols, dp + i * cols, seen, cols, pl[i], delta[i], scale);
          }
          gemm(Gemm<T>{cols, n.dv, rows, {s, 1, cols}, {pd, n.dv, 1}, pdv + k0 * n.dv, n.dv, 1, 1});
          gemm(Gemm<T>{rows, n.d, cols, {dp, cols, 1}, {pk, n.d, 1}, pdq + q0 * n.d, n.d, 1, 1});
          gemm(Gemm<T>{cols, n.d, rows, {dp, 1, cols}, {pq, n.d, 1}, pdk + k0 * n.d, n.d, 1, 1});
        }
      }
    };
    if (n.batch >= num_threads()) {
      parallel_for(0, n.batch, std::max<int64_t>(1, 65536 / (n.tq * n.tk * n.d + 1)), [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) one(b);
      });
    } else {
      for (int64_t b = 0; b < n.batch; ++b) one(b);
    }
  });
}

}  // namespace fl::kernels
