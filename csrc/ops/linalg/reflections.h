// Products of many Householder reflections, by blocks of columns whose products are gemm's.
#pragma once

#include <cstdint>
#include <vector>

namespace fl::linalg {

// The reflections that make R of a matrix [m, n], and what they make of others. A block H_0 H_1 ... H_{w-1} of them is
// 1 - V T V^T, with V [m, w] and T [w, w] an upper triangle (Schreiber and Van Loan, A storage-efficient WY representation for
// products of Householder transformations, 1989).
template <class T>
class Reflections {
 public:
  // Of a [m, n], which becomes R above its diagonal and the reflectors below.
  Reflections(T* a, int64_t m, int64_t n, T* tau);
  // Of reflectors that another call left in the first k columns of a [m, n].
  Reflections(const T* a, int64_t m, int64_t n, const T* tau, int64_t k);
  // q [m, columns]: the first columns of H_0 H_1 ...
  void product(int64_t columns, T* q) const;

 private:
  struct Block {
    int64_t first, width;
    std::vector<T> v, t;
  };
  // Of reflectors in columns of `a`, whose rows lie `lda` apart.
  void add_block(int64_t first, int64_t width, const T* a, int64_t lda, const T* tau);
  // c [m - first, columns] := (1 - V T V^T) c, or (1 - V T^T V^T) c.
  void apply(const Block& block, bool transposed, T* c, int64_t columns, int64_t ldc) const;

  int64_t m_;
  std::vector<Block> blocks_;
};
extern template class Reflections<float>;
extern template class Reflections<double>;

void reflect(float* a, int64_t m, int64_t n, float* tau, float* work);
void reflect(double* a, int64_t m, int64_t n, double* tau, double* work);
void reflector_product(const float* a, int64_t lda, const float* tau, int64_t m, int64_t k, int64_t columns, float* q, float* work);
void reflector_product(const double* a, int64_t lda, const double* tau, int64_t m, int64_t k, int64_t columns, double* q, double* work);

}  // namespace fl::linalg
