// Rows of a table by index, and the gradient that adds them up.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "ops/index/kept.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

int64_t index_at(const Tensor& indices, int64_t i) {
  return indices.dtype() == DType::Int64 ? indices.data<int64_t>()[i] : indices.data<int32_t>()[i];
}

}  // namespace

void embedding(const Tensor& weight, const Tensor& indices, int64_t, const Tensor& y) {
  const int64_t bytes = weight.size(1) * static_cast<int64_t>(weight.item_bytes());
  const char* from = weight.data<char>();
  char* to = y.data<char>();
  parallel_work(indices.numel(), bytes, 32768, [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; ++i) std::memcpy(to + i * bytes, from + index_at(indices, i) * bytes, bytes);
  });
}

// Positions are sorted by row (counting sort, so in order within a row), then rows are summed in parallel.
void embedding_backward(const Tensor& dy, const Tensor& indices, IntList shape, int64_t padding_idx, const Tensor& dw) {
  const WideOutput out(dw);
  const Tensor wdy = widened(dy);
  const int64_t rows = shape[0], n = indices.numel(), width = dw.size(1);
  require_kept("embedding", indices, rows);
  std::vector<int64_t> start(rows + 1, 0), order(n);
  for (int64_t i = 0; i < n; ++i) ++start[index_at(indices, i) + 1];
  for (int64_t r = 0; r < rows; ++r) start[r + 1] += start[r];
  {
    std::vector<int64_t> next(start.begin(), start.end() - 1);
    for (int64_t i = 0; i < n; ++i) order[next[index_at(indices, i)]++] = i;
  }
  visit_float(out.wide.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = wdy.data<T>();
    T* to = out.wide.data<T>();
    parallel_work(rows, width, 16384, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r) {
        T* row = to + r * width;
        std::memset(row, 0, sizeof(T) * width);
        if (r == padding_idx) continue;
        for (int64_t k = start[r]; k < start[r + 1]; ++k) {
          const T* src = from + order[k] * width;
          for (int64_t j = 0; j < width; ++j) row[j] += src[j];
        }
      }
    });
  });
}

// Rows of g where they are not padding: the adjoint of embedding_backward.
void embedding_masked(const Tensor& weight, const Tensor& indices, int64_t padding_idx, const Tensor& y) {
  require_kept("embedding", indices, weight.size(0));
  embedding(weight, indices, -1, y);
  if (padding_idx < 0) return;
  const int64_t bytes = weight.size(1) * static_cast<int64_t>(weight.item_bytes());
  for (int64_t i = 0; i < indices.numel(); ++i)
    if (index_at(indices, i) == padding_idx) std::memset(y.data<char>() + i * bytes, 0, bytes);
}

void one_hot(const Tensor& indices, int64_t num_classes, const Tensor& y) {
  const Tensor wide = converted(indices, DType::Int64);
  int64_t* to = y.data<int64_t>();
  std::memset(to, 0, sizeof(int64_t) * y.numel());
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const int64_t c = wide.data<int64_t>()[i];
    // The wrapper has looked, but another thread may have written since.
    if (static_cast<uint64_t>(c) < static_cast<uint64_t>(num_classes)) to[i * num_classes + c] = 1;
  }
}

}  // namespace fl::kernels
