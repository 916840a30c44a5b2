#include "ops/linalg/reflections.h"

#include <optional>

#include "ops/linalg/linalg.h"

namespace fl::linalg {
namespace {

constexpr int64_t kWidth = 16;
// Products with so narrow a side are shared among threads from this many elements of the matrix on.
constexpr int64_t kShared = 1 << 20;

}  // namespace

void reflect(float* a, int64_t m, int64_t n, float* tau, float* work) { kernels::reflect_f32(a, m, n, tau, work); }
void reflect(double* a, int64_t m, int64_t n, double* tau, double* work) { kernels::reflect_f64(a, m, n, tau, work); }
void reflector_product(const float* a, int64_t lda, const float* tau, int64_t m, int64_t k, int64_t columns, float* q, float* work) {
  kernels::reflector_product_f32(a, lda, tau, m, k, columns, q, work);
}
void reflector_product(const double* a, int64_t lda, const double* tau, int64_t m, int64_t k, int64_t columns, double* q, double* work) {
  kernels::reflector_product_f64(a, lda, tau, m, k, columns, q, work);
}

template <class T>
Reflections<T>::Reflections(T* a, int64_t m, int64_t n, T* tau) : m_(m) {
  std::vector<T> panel(static_cast<size_t>(m * kWidth)), work(static_cast<size_t>(m * kWidth));
  const int64_t k = std::min(m, n);
  std::optional<OneCore> alone;
  if (m * n < kShared) alone.emplace();
  for (int64_t first = 0; first < k; first += kWidth) {
    // Where fewer rows than columns are left, the columns of the last panel that have no reflector belong to the rest.
    const int64_t width = std::min(kWidth, k - first), rows = m - first;
    T* corner = a + first * n + first;
    for (int64_t i = 0; i < rows; ++i) std::copy_n(corner + i * n, width, panel.data() + i * width);
    reflect(panel.data(), rows, width, tau + first, work.data());
    for (int64_t i = 0; i < rows; ++i) std::copy_n(panel.data() + i * width, width, corner + i * n);
    add_block(first, width, panel.data(), width, tau + first);
    apply(blocks_.back(), true, corner + width, n - first - width, n);
  }
}

template <class T>
Reflections<T>::Reflections(const T* a, int64_t m, int64_t n, const T* tau, int64_t k) : m_(m) {
  for (int64_t first = 0; first < k; first += kWidth) add_block(first, std::min(kWidth, k - first), a + first * n + first, n, tau + first);
}

template <class T>
void Reflections<T>::add_block(int64_t first, int64_t width, const T* a, int64_t lda, const T* tau) {
  const int64_t rows = m_ - first;
  Block block{first, width, std::vector<T>(static_cast<size_t>(rows * width)), std::vector<T>(static_cast<size_t>(width * width))};
  T *v = block.v.data(), *t = block.t.data();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) v[i * width + j] = j < i ? a[i * lda + j] : j == i ? T(1) : T(0);
  std::vector<T> gram(static_cast<size_t>(width * width));
  gemm(Gemm<T>{width, width, rows, {v, 1, width}, {v, width, 1}, gram.data(), width});
  for (int64_t j = 0; j < width; ++j) {
    for (int64_t i = 0; i < j; ++i) {
      T sum = 0;
      for (int64_t h = i; h < j; ++h) sum += t[i * width + h] * gram[static_cast<size_t>(h * width + j)];
      t[i * width + j] = -tau[j] * sum;
    }
    t[j * width + j] = tau[j];
  }
  blocks_.push_back(std::move(block));
}

template <class T>
void Reflections<T>::apply(const Block& block, bool transposed, T* c, int64_t columns, int64_t ldc) const {
  const int64_t rows = m_ - block.first, width = block.width;
  if (!columns) return;
  const T* v = block.v.data();
  std::vector<T> seen(static_cast<size_t>(width * columns)), turned(static_cast<size_t>(width * columns));
  gemm(Gemm<T>{width, columns, rows, {v, 1, width}, {c, ldc, 1}, seen.data(), columns});
  const Mat<T> t = transposed ? Mat<T>{block.t.data(), 1, width} : Mat<T>{block.t.data(), width, 1};
  gemm(Gemm<T>{width, columns, width, t, {seen.data(), columns, 1}, turned.data(), columns});
  gemm(Gemm<T>{rows, columns, width, {v, width, 1}, {turned.data(), columns, 1}, c, ldc, T(-1), T(1)});
}

template <class T>
void Reflections<T>::product(int64_t columns, T* q) const {
  std::fill_n(q, m_ * columns, T(0));
  for (int64_t i = 0; i < std::min(m_, columns); ++i) q[i * columns + i] = 1;
  std::optional<OneCore> alone;
  if (m_ * columns < kShared) alone.emplace();
  // What lies before a block's first row and column is not touched by it yet.
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block)
    apply(*block, false, q + block->first * columns + block->first, columns - block->first, columns);
}

template class Reflections<float>;
template class Reflections<double>;

}  // namespace fl::linalg
