// Counting and searching: bincount, histc, searchsorted, unique.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "base/fork_mutex.h"
#include "base/parallel.h"
#include "dispatch/unsigned.h"
#include "ops/index/bounds.h"
#include "ops/index/lines.h"
#include "ops/index/search.h"
#include "ops/sort/keys.h"

namespace fl::kernels {

Tensor bincount(const Tensor& x_in, const Tensor& weights, int64_t minlength) {
  const Tensor x = as_int64(x_in);
  const int64_t *v = x.data<int64_t>(), n = x.numel();
  int64_t least = 0, most = minlength - 1;  // what the values are was checked: + 1 does not overflow
  widen_bounds(v, DType::Int64, n, &least, &most);
  const int64_t size = most + 1;
  if (!weights.defined()) {
    Tensor y = empty(Dims{size}, DType::Int64);
    fill_elements(y, Scalar(0));
    int64_t* count = y.data<int64_t>();
    for (int64_t i = 0; i < n; ++i) ++count[v[i]];
    return y;
  }
  const DType type = weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  Tensor w = empty(weights.sizes(), DType::Float64), sum = empty(Dims{size}, DType::Float64), y = empty(Dims{size}, type);
  copy_elements(w, weights);
  fill_elements(sum, Scalar(0.0));
  double* total = sum.data<double>();
  const double* weight = w.data<double>();
  for (int64_t i = 0; i < n; ++i) total[v[i]] += weight[i];
  copy_elements(y, sum);
  return y;
}

// In the type of x where that is float32 or float64, as PyTorch: whether 0.2 of 0 ... 0.6 begins the second third is a matter of rounding.
void histc(const Tensor& x_in, int64_t bins, double low, double high, const Tensor& y) {
  Tensor x = x_in;
  if (x.dtype() != DType::Float32) copy_elements(x = empty(x_in.sizes(), DType::Float64), x_in);
  const bool single = x.dtype() == DType::Float32;
  const auto widen = [&](const auto* v) {
    const auto [least, most] = std::minmax_element(v, v + x.numel());
    low = static_cast<double>(*least), high = static_cast<double>(*most);
  };
  if (low == high && x.numel() > 0) single ? widen(x.data<float>()) : widen(x.data<double>());
  if (low == high) low -= 1, high += 1;
  std::vector<int64_t> count(static_cast<size_t>(bins));
  CallMutex merging;
  const auto sort_in = [&]<class E, class T>(const E* v, T) {
    const T from = static_cast<T>(low), width = static_cast<T>(high) - from, n = static_cast<T>(bins);
    parallel_for(0, x.numel(), std::max<int64_t>(16384, 4 * bins), [&](int64_t begin, int64_t end) {
      std::vector<int64_t> own(static_cast<size_t>(bins));
      for (int64_t i = begin; i < end; ++i) {
        const double e = static_cast<double>(v[i]);
        if (!(e >= low && e <= high)) continue;
        const T at = (static_cast<T>(v[i]) - from) * n / width;
        ++own[static_cast<size_t>(at < n ? std::min(static_cast<int64_t>(at), bins - 1) : bins - 1)];
      }
      const std::lock_guard lock(merging);
      for (int64_t b = 0; b < bins; ++b) count[static_cast<size_t>(b)] += own[static_cast<size_t>(b)];
    });
  };
  const float width = static_cast<float>(high) - static_cast<float>(low);
  if (!single) sort_in(x.data<double>(), double{});
  else if (width == 0 || !std::isfinite(width)) sort_in(x.data<float>(), double{});
  else sort_in(x.data<float>(), float{});
  convert_elements(y.data(), y.dtype(), count.data(), DType::Int64, bins);
}

namespace {

// put(i, place of keys[i] in the row of n elements in order), NaN being the largest. Some keys at a time halve their parts of the row
// together, without jumps that would go either way: each waits for memory, not for the others. The parts are those of the usual search, so
// that places in rows which are in no order are PyTorch's, too.
template <bool kRight, class T, class Put>
void find_places(const T* row, int64_t n, const T* keys, int64_t count, const Put& put) {
  using W = std::conditional_t<is_half_type<T>, float, T>;
  constexpr int64_t kTogether = 8;
  for (int64_t first = 0; first < count; first += kTogether) {
    W key[kTogether];
    int64_t low[kTogether] = {}, left[kTogether];
    for (int64_t k = 0; k < kTogether; ++k) key[k] = static_cast<W>(keys[std::min(first + k, count - 1)]), left[k] = n;
    const auto halve = [&](int64_t k, int64_t half, bool up) {
      const int64_t chosen = -static_cast<int64_t>(up);
      low[k] += (half + 1) & chosen;
      left[k] = half ^ ((half ^ (left[k] - half - 1)) & chosen);
    };
    const auto search = [&](const auto& passes) {
      int64_t least = n, most = n;  // that may be left of a part
      for (; least > 0; least = (least - 1) / 2, most /= 2)
        for (int64_t k = 0; k < kTogether; ++k) {
          const int64_t half = left[k] / 2;
          halve(k, half, passes(static_cast<W>(row[low[k] + half]), key[k]));
        }
      for (; most > 0; most /= 2)
        for (int64_t k = 0; k < kTogether; ++k)
          if (const int64_t half = left[k] / 2; left[k] > 0) halve(k, half, passes(static_cast<W>(row[low[k] + half]), key[k]));
    };
    if (std::all_of(key, key + kTogether, [](W v) { return v == v; })) search([](W m, W v) { return kRight ? m <= v : m < v; });
    else search([](W m, W v) { return kRight ? (!(v < m)) & ((m == m) | (v != v)) : (m < v) | ((v != v) & (m == m)); });
    for (int64_t k = 0; k < std::min(kTogether, count - first); ++k) put(first + k, low[k]);
  }
}

}  // namespace

// Longer rows are searched in memory, which gathering does not make faster; few keys do not fill a block.
constexpr int64_t kGathered = int64_t(1) << 20, kFewKeys = 16;

// First position whose element is not below (right: is above) the value. NaN counts as the largest.
void searchsorted(const Tensor& sorted, const Tensor& values, bool, bool right, const Tensor& y) {
  const DType type = promote(sorted.dtype(), values.dtype());
  Tensor a = sorted, v = values;
  if (a.dtype() != type) copy_elements(a = empty(sorted.sizes(), type), sorted);
  if (v.dtype() != type) copy_elements(v = empty(values.sizes(), type), values);
  const int64_t n = a.ndim() ? a.size(-1) : 1, per_row = a.ndim() > 1 ? v.size(-1) : v.numel();
  const auto into = [&](auto* out, bool to_right) {
    visit(type, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (!is_complex_type<T>) {
        const T *data = a.data<T>(), *at = v.data<T>();
        parallel_for(0, v.numel(), 2048, [&](int64_t b, int64_t e) {
          for (int64_t i = b; i < e;) {
            const int64_t row = i / per_row, end = std::min(e, (row + 1) * per_row);
            const auto put = [&](int64_t k, int64_t place) { out[i + k] = static_cast<std::remove_reference_t<decltype(*out)>>(place); };
            if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>)
              if (n > 0 && n <= kGathered && end - i >= kFewKeys) {
                int32_t places[1024];
                for (int64_t count; i < end; i += count) {
                  count = std::min<int64_t>(1024, end - i);
                  search_row(type, data + row * n, n, at + i, count, to_right, places);
                  for (int64_t k = 0; k < count; ++k) put(k, places[k]);
                }
                continue;
              }
            if (to_right) find_places<true>(data + row * n, n, at + i, end - i, put);
            else find_places<false>(data + row * n, n, at + i, end - i, put);
            i = end;
          }
        });
      }
    });
  };
  if (y.dtype() == DType::Int32) into(y.data<int32_t>(), right);
  else into(y.data<int64_t>(), right);
}

namespace {

// Groups of equal neighbours among the n elements of v: values, the group of each element, and sizes. Element i is x's
// element order[i], or x's element i where order is null.
std::tuple<Tensor, Tensor, Tensor> groups(const Tensor& v, const Dims& shape, const int64_t* order, bool want_inverse, bool want_counts) {
  const int64_t n = v.numel();
  const Tensor found = empty(Dims{n}, v.dtype());
  Tensor inverse = empty(want_inverse ? shape : Dims{0}, DType::Int64);
  Buffer<int64_t> start;
  start.resize(static_cast<size_t>(want_counts ? n + 1 : 0));
  int64_t k = 0;
  visit(v.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = std::conditional_t<is_half_type<T>, float, T>;
    const T* in = v.data<T>();
    T* out = found.data<T>();
    int64_t* group = inverse.data<int64_t>();
    const auto begins = [in](int64_t i) { return i == 0 || !(static_cast<W>(in[i]) == static_cast<W>(in[i - 1])); };
    if (!want_counts && !want_inverse) {  // without a jump that would go either way
      for (int64_t i = 0; i < n; ++i) {
        out[k] = in[i];  // k <= i: what was found before stays
        k += begins(i) ? 1 : 0;
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (begins(i)) {
        if (want_counts) start[static_cast<size_t>(k)] = i;
        out[k++] = in[i];
      }
      if (want_inverse) group[order ? order[i] : i] = k - 1;
    }
  });
  Tensor values, counts = empty(Dims{want_counts ? k : 0}, DType::Int64);
  if (k > n / 2) values = alias(found, Dims{k}, Dims{1}, 0);
  else std::memcpy((values = empty(Dims{k}, v.dtype())).data(), found.data(), static_cast<size_t>(k) * v.item_bytes());
  if (want_counts) {
    start[static_cast<size_t>(k)] = n;
    int64_t* count = counts.data<int64_t>();
    for (int64_t i = 0; i < k; ++i) count[i] = start[static_cast<size_t>(i + 1)] - start[static_cast<size_t>(i)];
  }
  return {values, inverse, counts};
}

// Of integers of which there are few, seen as unsigned ones of their size; in order of their value.
template <class U>
std::tuple<Tensor, Tensor, Tensor> unique_by_counting(const Tensor& x, bool want_inverse, bool want_counts) {
  constexpr size_t kValues = size_t{1} << (8 * sizeof(U));
  const size_t negative = x.dtype() == DType::Int8 || x.dtype() == DType::Int16 ? kValues / 2 : 0;  // these come first
  const bool truth = x.dtype() == DType::Bool;
  const U* given = static_cast<const U*>(x.data());
  const auto value_at = [given, truth](int64_t i) -> size_t { return truth ? given[i] != 0 : given[i]; };  // a bool may be any byte
  const int64_t n = x.numel();
  std::vector<int64_t> often(4 * kValues), place(kValues);  // by turns, so that equal neighbours do not wait for each other
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (size_t k = 0; k < 4; ++k) ++often[k * kValues + value_at(i + static_cast<int64_t>(k))];
  for (; i < n; ++i) ++often[value_at(i)];
  int64_t count = 0;
  for (size_t v = 0; v < kValues; ++v) {
    for (size_t k = 1; k < 4; ++k) often[v] += often[k * kValues + v];
    count += often[v] > 0;
  }
  const Tensor values = empty(Dims{count}, x.dtype()), counts = empty(Dims{want_counts ? count : 0}, DType::Int64);
  const Tensor inverse = empty(want_inverse ? x.sizes() : Dims{0}, DType::Int64);
  int64_t at = 0;
  for (size_t v = 0; v < kValues; ++v) {
    const size_t value = (v + negative) % kValues;
    if (often[value] == 0) continue;
    static_cast<U*>(values.data())[at] = static_cast<U>(value);
    if (want_counts) counts.data<int64_t>()[at] = often[value];
    place[value] = at++;
  }
  if (want_inverse)
    for (int64_t e = 0; e < n; ++e) inverse.data<int64_t>()[e] = place[value_at(e)];
  return {values, inverse, counts};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> unique_sorted(const Tensor& x, bool return_inverse, bool return_counts) {
  if (is_wide_unsigned(x.dtype())) {
    auto [values, inverse, counts] = unique_sorted(in_signed_order(x), return_inverse, return_counts);
    flip_top_bits(values);
    return {seen_as(values, x.dtype()), inverse, counts};
  }
  if (x.dtype() == DType::UInt8 || x.dtype() == DType::Int8 || x.dtype() == DType::Bool) return unique_by_counting<uint8_t>(x, return_inverse, return_counts);
  if (x.dtype() == DType::Int16 && x.numel() >= 1 << 15) return unique_by_counting<uint16_t>(x, return_inverse, return_counts);
  Buffer<int64_t> order;
  order.resize(static_cast<size_t>(x.numel()));
  const Tensor sorted = empty(Dims{x.numel()}, x.dtype());
  SortScratch scratch;
  sort_row(scratch, {x.data(), x.dtype(), x.numel(), 1}, false, sorted.data(), order.data());
  return groups(sorted, x.sizes(), order.data(), return_inverse, return_counts);
}
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& x, bool return_inverse, bool return_counts) {
  if (is_wide_unsigned(x.dtype())) {
    auto [values, inverse, counts] = unique_consecutive(with_sign(x), return_inverse, return_counts);
    return {seen_as(values, x.dtype()), inverse, counts};
  }
  return groups(x, x.sizes(), nullptr, return_inverse, return_counts);
}

}  // namespace fl::kernels
