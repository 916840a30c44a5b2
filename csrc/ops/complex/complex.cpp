// Complex numbers out of real ones and back: views of the same bytes, and loops over pairs.
#include "base/complex.h"
#include "base/parallel.h"
#include "tensor/tensor.h"

namespace fl::kernels {
namespace {

constexpr int64_t kGrain = 8192;

template <class F>
void for_parts(const Tensor& z, F&& f) {
  if (z.dtype() == DType::Complex64) f(Complex<float>{});
  else f(Complex<double>{});
}

Tensor seen_as(const Tensor& x, Dims sizes, Dims strides, int64_t offset, DType dtype) {
  return Tensor(make_ref<TensorImpl>(x.impl()->storage, std::move(sizes), std::move(strides), offset, dtype));
}

// y[i] = f(z[i]), real.
template <class F>
void to_real_each(const Tensor& z, const Tensor& y, F&& f) {
  for_parts(z, [&]<class C>(C) {
    const C* in = z.data<C>();
    auto* out = y.data<typename C::Real>();
    parallel_for(0, z.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
    });
  });
}

}  // namespace

Tensor view_as_real(const Tensor& x) {
  Dims sizes = x.sizes(), strides = x.strides();
  for (int i = 0; i < strides.size(); ++i) strides[i] *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return seen_as(x, std::move(sizes), std::move(strides), 2 * x.offset(), to_real(x.dtype()));
}

Tensor view_as_complex(const Tensor& x) {
  Dims sizes = x.sizes(), strides = x.strides();
  sizes.erase(sizes.size() - 1);
  strides.erase(strides.size() - 1);
  for (int i = 0; i < strides.size(); ++i) strides[i] /= 2;
  return seen_as(x, std::move(sizes), std::move(strides), x.offset() / 2, x.dtype() == DType::Float16 ? DType::Complex32 : to_complex(x.dtype()));
}

void complex(const Tensor& real, const Tensor& imag, const Tensor& y) {
  for_parts(y, [&]<class C>(C) {
    const auto *re = real.data<typename C::Real>(), *im = imag.data<typename C::Real>();
    C* out = y.data<C>();
    parallel_for(0, y.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = C(re[i], im[i]);
    });
  });
}

void abs_of_complex(const Tensor& x, const Tensor& y) {
  to_real_each(x, y, [](auto z) { return cx::abs(z); });
}

}  // namespace fl::kernels
