// Products of sparse matrices by compressed rows, and their structure turned round.
//
// Threads share out rows, cut so that each part has about as many elements: a graph's nodes have very different numbers of
// neighbours. The sum of a row is one thread's, in the order of its elements, so results do not depend on threads.
#include "ops/sparse/sparse.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/index/bounds.h"
#include "tensor/tensor.h"

namespace fl::kernels {
namespace {

constexpr int64_t kWork = 16384;  // multiplications worth a thread's attention

// crow ascends from 0 to the number of elements, and each column is one of `columns`.
void require_structure(const char* op, const Tensor& crow, const Tensor& col, int64_t columns) {
  const int64_t* begin = crow.data<int64_t>();
  const int64_t rows = crow.numel() - 1, n = col.numel();
  if (begin[0] != 0 || begin[rows] != n)
    raise<ArgumentError>(op, ": crow goes from ", begin[0], " to ", begin[rows], "; expected 0 to ", n, ", the number of elements");
  for (int64_t r = 0; r < rows; ++r)
    if (begin[r] > begin[r + 1]) raise<ArgumentError>(op, ": crow[", r + 1, "] = ", begin[r + 1], " is less than crow[", r, "] = ", begin[r], "; expected ascending numbers");
  const int64_t at = first_outside(col.data<int64_t>(), DType::Int64, n, columns, 0);
  // 0 is looked at alone where there are no columns, since `ignored` lets it pass
  if (at < n || (columns == 0 && n > 0)) {
    const int64_t i = at < n ? at : 0;
    raise<IndexError>(op, ": col[", i, "] = ", col.data<int64_t>()[i], "; expected 0 <= col < ", columns);
  }
}

// Calls f(first, last) for runs of rows with about kWork / width elements each.
template <class F>
void over_rows(const Tensor& crow, int64_t width, F&& f) {
  const int64_t* begin = crow.data<int64_t>();
  const int64_t rows = crow.numel() - 1, each = std::max<int64_t>(1, kWork / std::max<int64_t>(1, width));
  // A row counts as one more than its elements, since it is written in any case.
  const int64_t parts = (begin[rows] + rows + each - 1) / each;
  const auto row_at = [&](int64_t part) {
    const int64_t wanted = part * each;
    int64_t low = 0, high = rows;  // the first row with begin[row] + row >= wanted
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (begin[middle] + middle < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  parallel_for(0, parts, 1, [&](int64_t p0, int64_t p1) { f(row_at(p0), p1 == parts ? rows : row_at(p1)); });
}

}  // namespace

void sparse_mm(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense, const Tensor& y) {
  require_structure("sparse.mm", crow, col, dense.size(0));
  const int64_t* rows = crow.data<int64_t>();
  const int64_t* columns = col.data<int64_t>();
  const int64_t k = dense.size(1);
  over_rows(crow, k, [&](int64_t first, int64_t last) {
    if (dense.dtype() == DType::Float64) sparse_rows_f64(rows, columns, values.data<double>(), dense.data<double>(), y.data<double>(), first, last, k);
    else sparse_rows_f32(rows, columns, values.data<float>(), dense.data<float>(), y.data<float>(), first, last, k);
  });
}

void sparse_sampled(const Tensor& crow, const Tensor& col, const Tensor& a, const Tensor& b, const Tensor& values) {
  require_structure("sparse.mm", crow, col, b.size(0));
  const int64_t* rows = crow.data<int64_t>();
  const int64_t* columns = col.data<int64_t>();
  const int64_t k = a.size(1);
  over_rows(crow, k, [&](int64_t first, int64_t last) {
    if (a.dtype() == DType::Float64) sparse_dots_f64(rows, columns, a.data<double>(), b.data<double>(), values.data<double>(), first, last, k);
    else sparse_dots_f32(rows, columns, a.data<float>(), b.data<float>(), values.data<float>(), first, last, k);
  });
}

// A counting sort by column, which keeps the order of rows.
void sparse_transpose(const Tensor& crow, const Tensor& col, int64_t columns, const Tensor& ccol, const Tensor& row, const Tensor& order) {
  require_structure("sparse.transpose", crow, col, columns);
  const int64_t *begin = crow.data<int64_t>(), *at = col.data<int64_t>();
  int64_t *start = ccol.data<int64_t>(), *rows = row.data<int64_t>(), *from = order.data<int64_t>();
  const int64_t n = col.numel();
  std::fill(start, start + columns + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++start[at[i] + 1];
  for (int64_t c = 0; c < columns; ++c) start[c + 1] += start[c];
  std::vector<int64_t> next(start, start + columns);
  for (int64_t r = 0; r + 1 < crow.numel(); ++r)
    for (int64_t i = begin[r]; i < begin[r + 1]; ++i) {
      const int64_t to = next[at[i]]++;
      rows[to] = r;
      from[to] = i;
    }
}

void sparse_compress(const Tensor& row, int64_t rows, const Tensor& crow) {
  const int64_t* at = row.data<int64_t>();
  int64_t* begin = crow.data<int64_t>();
  std::fill(begin, begin + rows + 1, 0);
  for (int64_t i = 0; i < row.numel(); ++i) {
    if (at[i] < 0 || at[i] >= rows) raise<IndexError>("sparse.compress: row[", i, "] = ", at[i], "; expected 0 <= row < ", rows);
    if (i && at[i] < at[i - 1]) raise<ArgumentError>("sparse.compress: row[", i, "] = ", at[i], " comes after ", at[i - 1], "; expected ascending rows");
    ++begin[at[i] + 1];
  }
  for (int64_t r = 0; r < rows; ++r) begin[r + 1] += begin[r];
}

}  // namespace fl::kernels
