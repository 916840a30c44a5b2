// sort, argsort, topk, kthvalue, median and mode along one axis. x is row-major: [outer, n, inner]; rows
// with inner > 1 are read with a stride and written through a buffer.
#include <cmath>
#include <vector>

#include "dispatch/unsigned.h"
#include "ops/index/lines.h"
#include "ops/sort/keys.h"

namespace fl::kernels {
namespace {

struct Scratch {
  SortScratch sort;
  std::vector<char> values;
  std::vector<int64_t> order;
};

// Calls row(scratch, x's row, stride, line) and writes the `k` values and indices it leaves in its buffers.
template <class F>
void over_lines(const Tensor& x, int64_t dim, int64_t k, const Tensor* values, const Tensor& indices, F&& row) {
  const auto [outer, n, inner] = lines_of(x, dim);
  const int64_t item = static_cast<int64_t>(x.item_bytes()), lines = outer * inner;
  const char* src = static_cast<const char*>(x.data());
  parallel_work(lines, n, 4096, [&, n = n, inner = inner](int64_t b, int64_t e) {
    std::vector<char> value(static_cast<size_t>(k * item));
    std::vector<int64_t> index(static_cast<size_t>(k));
    Scratch scratch;
    for (int64_t l = b; l < e; ++l) {
      const int64_t o = l / inner, c = l % inner;
      if (inner == 1) {
        row(scratch, src + l * n * item, int64_t{1}, values ? static_cast<char*>(values->data()) + l * k * item : value.data(), indices.data<int64_t>() + l * k);
        continue;
      }
      row(scratch, src + (o * n * inner + c) * item, inner, value.data(), index.data());
      by_size(x.item_bytes(), [&](auto unit) {
        using U = decltype(unit);
        for (int64_t i = 0; i < k; ++i) {
          const int64_t to = (o * k + i) * inner + c;
          if (values) static_cast<U*>(values->data())[to] = reinterpret_cast<const U*>(value.data())[i];
          indices.data<int64_t>()[to] = index[static_cast<size_t>(i)];
        }
      });
    }
  });
}

}  // namespace

void sort(const Tensor& x, int64_t dim, bool descending, std::optional<bool>, const Tensor& values, const Tensor& indices) {
  if (is_wide_unsigned(x.dtype())) return with_order(x, values, [&](const Tensor& a, const Tensor& v) { sort(a, dim, descending, false, v, indices); });
  const int64_t n = lines_of(x, dim).n;
  over_lines(x, dim, n, &values, indices, [&](Scratch& scratch, const char* row, int64_t stride, char* v, int64_t* at) {
    sort_row(scratch.sort, {row, x.dtype(), n, stride}, descending, v, at);
  });
}
void argsort(const Tensor& x, int64_t dim, bool descending, bool, const Tensor& y) {
  if (is_wide_unsigned(x.dtype())) return argsort(in_signed_order(x), dim, descending, false, y);
  const int64_t n = lines_of(x, dim).n;
  over_lines(x, dim, n, nullptr, y, [&](Scratch& scratch, const char* row, int64_t stride, char*, int64_t* at) {
    sort_row(scratch.sort, {row, x.dtype(), n, stride}, descending, nullptr, at);
  });
}
void topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted, const Tensor& values, const Tensor& indices) {
  if (is_wide_unsigned(x.dtype()))
    return with_order(x, values, [&](const Tensor& a, const Tensor& v) { topk(a, k, dim, largest, sorted, v, indices); });
  const int64_t n = lines_of(x, dim).n;
  if (x.ndim() == 0) k = 1;  // without an axis to make shorter the results have one element for k = 0, too
  over_lines(x, dim, k, &values, indices, [&](Scratch& scratch, const char* row, int64_t stride, char* v, int64_t* at) {
    top_row(scratch.sort, {row, x.dtype(), n, stride}, k, largest, sorted, v, at);
  });
}

namespace {

// The lower median; the first NaN if there is one, unless those are left out.
void median_row(Scratch& scratch, const Row& x, bool skip_nan, char* v, int64_t* at) {
  int64_t first;
  const int64_t nans = count_nan(x, &first), item = static_cast<int64_t>(item_size(x.type));
  if (nans == x.n || (nans > 0 && !skip_nan)) {
    std::memcpy(v, static_cast<const char*>(x.data) + first * x.stride * item, static_cast<size_t>(item));
    *at = first;
    return;
  }
  rank_row(scratch.sort, x, (x.n - nans - 1) / 2, v, at);
}

}  // namespace

void kthvalue(const Tensor& x, int64_t k, int64_t dim, bool, const Tensor& values, const Tensor& indices) {
  const int64_t n = lines_of(x, dim).n;
  over_lines(x, dim, 1, &values, indices, [&](Scratch& scratch, const char* row, int64_t stride, char* v, int64_t* at) {
    rank_row(scratch.sort, {row, x.dtype(), n, stride}, k - 1, v, at);
  });
}
void median_dim(const Tensor& x, int64_t dim, bool, const Tensor& values, const Tensor& indices) {
  const int64_t n = lines_of(x, dim).n;
  over_lines(x, dim, 1, &values, indices, [&](Scratch& scratch, const char* row, int64_t stride, char* v, int64_t* at) {
    median_row(scratch, {row, x.dtype(), n, stride}, false, v, at);
  });
}
void nanmedian_dim(const Tensor& x, int64_t dim, bool, const Tensor& values, const Tensor& indices) {
  const int64_t n = lines_of(x, dim).n;
  over_lines(x, dim, 1, &values, indices, [&](Scratch& scratch, const char* row, int64_t stride, char* v, int64_t* at) {
    median_row(scratch, {row, x.dtype(), n, stride}, true, v, at);
  });
}
namespace {

void median_of_all(const Tensor& x, bool skip_nan, const Tensor& y) {
  if (x.numel() == 0) return fill_elements(y, std::nan(""));
  Scratch scratch;
  int64_t at;
  median_row(scratch, {static_cast<const char*>(x.data()), x.dtype(), x.numel(), 1}, skip_nan, static_cast<char*>(y.data()), &at);
}

}  // namespace

void median_all(const Tensor& x, const Tensor& y) { median_of_all(x, false, y); }
void nanmedian_all(const Tensor& x, const Tensor& y) { median_of_all(x, true, y); }
// The most frequent element of each line, the smallest of equals, and its last position.
void mode(const Tensor& x, int64_t dim, bool, const Tensor& values, const Tensor& indices) {
  const int64_t n = lines_of(x, dim).n, item = static_cast<int64_t>(x.item_bytes());
  over_lines(x, dim, 1, &values, indices, [&](Scratch& scratch, const char* row, int64_t stride, char* v, int64_t* at) {
    auto& sorted = scratch.values;
    auto& order = scratch.order;
    sorted.resize(static_cast<size_t>(n * item));
    order.resize(static_cast<size_t>(n));
    sort_row(scratch.sort, {row, x.dtype(), n, stride}, false, sorted.data(), order.data());
    int64_t best = 0, best_count = 0;
    visit(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      using W = std::conditional_t<is_half_type<T>, float, T>;
      const T* s = reinterpret_cast<const T*>(sorted.data());
      for (int64_t i = 0; i < n;) {
        int64_t j = i + 1;
        while (j < n && static_cast<W>(s[j]) == static_cast<W>(s[i])) ++j;
        if (j - i > best_count) best = j - 1, best_count = j - i;
        i = j;
      }
    });
    std::memcpy(v, sorted.data() + best * item, static_cast<size_t>(item));
    *at = order[static_cast<size_t>(best)];
  });
}

}  // namespace fl::kernels
