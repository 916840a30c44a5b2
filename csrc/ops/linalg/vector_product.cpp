#include "ops/index/lines.h"

namespace fl::kernels {

// Row-major tensors seen as [outer, 3, inner]. 16-bit floats are computed in float32.
void vector_product_real(const Tensor& a, const Tensor& b, int64_t dim, const Tensor& y) {
  const Lines l = lines_of(a, dim);
  const auto product = [&]<class T>(T) {
    using Wide = std::conditional_t<is_half_type<T>, float, T>;
    const T *p = a.data<T>(), *q = b.data<T>();
    T* out = y.data<T>();
    const int64_t n = l.inner;
    parallel_for(0, l.outer * n, 8192, [&](int64_t begin, int64_t end) {
      over_parts(begin, end, n, [&](int64_t block, int64_t first, int64_t last) {
        for (int64_t i = block * 3 * n + first; i < block * 3 * n + last; ++i) {
          const Wide a0(p[i]), a1(p[i + n]), a2(p[i + 2 * n]), b0(q[i]), b1(q[i + n]), b2(q[i + 2 * n]);
          out[i] = T(a1 * b2 - a2 * b1);
          out[i + n] = T(a2 * b0 - a0 * b2);
          out[i + 2 * n] = T(a0 * b1 - a1 * b0);
        }
      });
    });
  };
  visit(a.dtype(), [&]<class T>(T zero) {
    if constexpr (std::is_floating_point_v<T> || is_half_type<T>) product(zero);
  });
}

}  // namespace fl::kernels
