#include "ops/vision/mix.h"

#include <vector>

#include "ops/index/lines.h"

namespace fl::kernels {
namespace {

void run(const Mix<float>& mix, const float* x, float* y, int64_t b, int64_t e) { mix_axis_f32(mix, x, y, b, e); }
void run(const Mix<double>& mix, const double* x, double* y, int64_t b, int64_t e) { mix_axis_f64(mix, x, y, b, e); }
void run_back(const Mix<float>& mix, const float* dy, float* dx, int64_t b, int64_t e) { spread_axis_f32(mix, dy, dx, b, e); }
void run_back(const Mix<double>& mix, const double* dy, double* dx, int64_t b, int64_t e) { spread_axis_f64(mix, dy, dx, b, e); }

// Calls f(mix) for lines of `whole`, the longer or shorter side whose axis is what the indices point into.
template <class F>
void with_mix(const Tensor& whole, int64_t dim, const Tensor& index, const Tensor& weight, F&& f) {
  const Lines l = lines_of(whole, dim);
  const int64_t* at = index.data<int64_t>();
  const std::vector<int32_t> narrow(at, at + index.numel());
  const auto of_type = [&](auto zero) {
    using T = decltype(zero);
    f(Mix<T>{l.n, index.size(1), l.inner, index.size(0), narrow.data(), weight.data<T>()}, l.outer);
  };
  if (whole.dtype() == DType::Float64) of_type(double{});
  else of_type(float{});
}

constexpr int64_t kGrain = 16384;

}  // namespace

void mix_axis(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& weight, const Tensor& y) {
  if (y.numel() == 0) return;
  with_mix(x, dim, index, weight, [&](auto mix, int64_t lines) {
    using T = std::remove_const_t<std::remove_reference_t<decltype(*mix.weight)>>;
    const int64_t grain = std::max<int64_t>(1, kGrain / (mix.inner * std::max<int64_t>(1, mix.taps)));
    parallel_for(0, lines * mix.count, grain, [&](int64_t b, int64_t e) { run(mix, x.data<T>(), y.data<T>(), b, e); });
  });
}

void spread_axis(const Tensor& dy, int64_t dim, const Tensor& index, const Tensor& weight, IntList, const Tensor& dx) {
  if (dx.numel() == 0) return;
  with_mix(dx, dim, index, weight, [&](auto mix, int64_t lines) {
    using T = std::remove_const_t<std::remove_reference_t<decltype(*mix.weight)>>;
    const int64_t grain = std::max<int64_t>(1, kGrain / (mix.inner * std::max<int64_t>(1, mix.taps * mix.count)));
    parallel_for(0, lines, grain, [&](int64_t b, int64_t e) { run_back(mix, dy.data<T>(), dx.data<T>(), b, e); });
  });
}

}  // namespace fl::kernels
