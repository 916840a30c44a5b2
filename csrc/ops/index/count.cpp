// Counting and searching: bincount, histc, searchsorted, unique.
#include <cmath>
#include <tuple>
#include <vector>

#include "ops/index/lines.h"
#include "ops/sort/keys.h"

namespace fl::kernels {

Tensor bincount(const Tensor& x_in, const Tensor& weights, int64_t minlength) {
  const Tensor x = as_int64(x_in);
  const int64_t* v = x.data<int64_t>();
  int64_t size = minlength;  // what the values are was checked: + 1 does not overflow
  for (int64_t i = 0; i < x.numel(); ++i) size = std::max(size, v[i] + 1);
  if (!weights.defined()) {
    Tensor y = empty(Dims{size}, DType::Int64);
    fill_elements(y, Scalar(0));
    for (int64_t i = 0; i < x.numel(); ++i) ++y.data<int64_t>()[v[i]];
    return y;
  }
  const DType type = weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  Tensor w = empty(weights.sizes(), DType::Float64), sum = empty(Dims{size}, DType::Float64), y = empty(Dims{size}, type);
  copy_elements(w, weights);
  fill_elements(sum, Scalar(0.0));
  for (int64_t i = 0; i < x.numel(); ++i) sum.data<double>()[v[i]] += w.data<double>()[i];
  copy_elements(y, sum);
  return y;
}

void histc(const Tensor& x, int64_t bins, double low, double high, const Tensor& y) {
  std::vector<double> v(static_cast<size_t>(x.numel()));
  convert_elements(v.data(), DType::Float64, x.data(), x.dtype(), x.numel());
  if (low == high && !v.empty()) {
    low = high = v[0];
    for (double e : v) low = std::min(low, e), high = std::max(high, e);
  }
  if (low == high) low -= 1, high += 1;
  std::vector<double> count(static_cast<size_t>(bins));
  for (double e : v)
    if (e >= low && e <= high) {
      const int64_t b = static_cast<int64_t>((e - low) / (high - low) * static_cast<double>(bins));
      ++count[static_cast<size_t>(std::min(b, bins - 1))];
    }
  convert_elements(y.data(), y.dtype(), count.data(), DType::Float64, bins);
}

// First position whose element is not below (right: is above) the value. NaN counts as the largest.
void searchsorted(const Tensor& sorted, const Tensor& values, bool, bool right, const Tensor& y) {
  const DType type = promote(sorted.dtype(), values.dtype());
  Tensor a = sorted, v = values;
  if (a.dtype() != type) copy_elements(a = empty(sorted.sizes(), type), sorted);
  if (v.dtype() != type) copy_elements(v = empty(values.sizes(), type), values);
  const int64_t n = a.ndim() ? a.size(-1) : 1, per_row = a.ndim() > 1 ? v.size(-1) : v.numel();
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    using W = std::conditional_t<std::is_class_v<T>, float, T>;
    const T* data = a.data<T>();
    const T* at = v.data<T>();
    const bool narrow = y.dtype() == DType::Int32;
    parallel_for(0, v.numel(), 2048, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        const T* row = data + (a.ndim() > 1 ? i / per_row * n : 0);
        const W key = static_cast<W>(at[i]);
        int64_t low = 0, high = n;
        while (low < high) {
          const int64_t mid = (low + high) / 2;
          const W m = static_cast<W>(row[mid]);
          const bool go = right ? !(key < m) && (m == m || key != key) : m < key || (key != key && m == m);
          if (go) low = mid + 1;
          else high = mid;
        }
        if (narrow) y.data<int32_t>()[i] = static_cast<int32_t>(low);
        else y.data<int64_t>()[i] = low;
      }
    });
  });
}
void bucketize(const Tensor& values, const Tensor& boundaries, bool out_int32, bool right, const Tensor& y) {
  searchsorted(boundaries, values, out_int32, right, y);
}

namespace {

// Groups of equal neighbours in the sequence order[0..n): values, the group of each element, and sizes.
std::tuple<Tensor, Tensor, Tensor> groups(const Tensor& x, const Dims& shape, const int64_t* order, int64_t n, bool want_inverse, bool want_counts) {
  Tensor inverse = empty(want_inverse ? shape : Dims{0}, DType::Int64);
  std::vector<int64_t> first, size;
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = std::conditional_t<std::is_class_v<T>, float, T>;
    const T* v = x.data<T>();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = order ? order[i] : i, before = order && i ? order[i - 1] : i - 1;
      if (i == 0 || !(static_cast<W>(v[at]) == static_cast<W>(v[before]))) {
        first.push_back(at);
        size.push_back(0);
      }
      ++size.back();
      if (want_inverse) inverse.data<int64_t>()[at] = static_cast<int64_t>(first.size()) - 1;
    }
  });
  const int64_t k = static_cast<int64_t>(first.size());
  Tensor values = empty(Dims{k}, x.dtype()), counts = empty(Dims{want_counts ? k : 0}, DType::Int64);
  by_size(x.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    for (int64_t i = 0; i < k; ++i) static_cast<U*>(values.data())[i] = static_cast<const U*>(x.data())[first[static_cast<size_t>(i)]];
  });
  if (want_counts) std::copy(size.begin(), size.end(), counts.data<int64_t>());
  return {values, inverse, counts};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> unique_sorted(const Tensor& x, bool return_inverse, bool return_counts) {
  std::vector<int64_t> order(static_cast<size_t>(x.numel()));
  SortScratch scratch;
  sort_row(scratch, {x.data(), x.dtype(), x.numel(), 1}, false, nullptr, order.data());
  return groups(x, x.sizes(), order.data(), x.numel(), return_inverse, return_counts);
}
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& x, bool return_inverse, bool return_counts) {
  return groups(x, x.sizes(), nullptr, x.numel(), return_inverse, return_counts);
}

}  // namespace fl::kernels
