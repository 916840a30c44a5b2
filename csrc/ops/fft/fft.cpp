// Fourier transforms along one axis: Note [Fourier transforms] in fft.h.
#include "ops/fft/fft.h"

#include <cmath>
#include <memory>
#include <numbers>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "ops/index/lines.h"

namespace fl::kernels {
namespace {

// exp(-2 pi i k / n) of the sizes that this thread has met, in the precision of T.
template <class T>
const Complex<T>* roots_of(int64_t n) {
  thread_local std::vector<std::unique_ptr<Complex<T>[]>> known(kMostPoints + 1);
  auto& roots = known[static_cast<size_t>(n)];
  if (!roots) {
    roots = std::make_unique<Complex<T>[]>(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) {
      const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      roots[static_cast<size_t>(k)] = Complex<T>(static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle)));
    }
  }
  return roots.get();
}

template <class T>
FftPlan<T> plan_of(int64_t n) {  // is_fft_size
  FftPlan<T> plan;
  int64_t rest = n;
  for (const int8_t r : {int8_t{4}, int8_t{2}, int8_t{3}, int8_t{5}})
    for (; rest % r == 0; rest /= r) plan.factors[static_cast<size_t>(plan.steps++)] = r;
  plan.n = n;
  plan.roots = roots_of<T>(n);
  return plan;
}

// Calls f(first line as an offset into `from`, the same into `to`, lanes, work) for groups of lines: points are `inner` apart in both,
// lines that lie around inner == 1 are n of the side's own apart.
template <class T, class F>
void over_groups(const Lines& from, const Lines& to, int64_t points, int64_t most, const F& f) {
  const int64_t across = from.inner > 1 ? from.inner : from.outer, blocks = from.inner > 1 ? from.outer : 1;
  const int64_t groups = (across + most - 1) / most;
  parallel_work(blocks * groups, points * most, 16384, [&](int64_t begin, int64_t end) {
    const auto memory = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(fft_work<T>(points) + 64 / sizeof(T)));
    auto* work = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) & ~uintptr_t{63});
    for (int64_t g = begin; g < end; ++g) {
      const int64_t block = g / groups, line = g % groups * most, lanes = std::min(most, across - line);
      const auto start = [&](const Lines& l) { return l.inner > 1 ? block * l.n * l.inner + line : line * l.n; };
      f(start(from), start(to), lanes, work);
    }
  });
}

FftLines lines(const Lines& l, int64_t lanes) { return l.inner > 1 ? FftLines{lanes, l.inner, 1} : FftLines{lanes, 1, l.n}; }

template <class F>
void by_precision(DType real, const F& f) {
  if (real == DType::Float32) f(float{});
  else f(double{});
}

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

}  // namespace

void fft_complex(const Tensor& x, int64_t dim, bool forward, double scale, const Tensor& y) {
  const Lines l = lines_of(x, dim);
  if (x.numel() == 0) return;
  by_precision(to_real(x.dtype()), [&](auto zero) {
    using T = decltype(zero);
    const auto plan = plan_of<T>(l.n);
    over_groups<T>(l, l, l.n, kFftLanes<T>, [&](int64_t from, int64_t to, int64_t lanes, T* work) {
      FL_PICK(fft_complex)(x.data<Complex<T>>() + from, y.data<Complex<T>>() + to, lines(l, lanes), plan, forward, static_cast<T>(scale), work);
    });
  });
}

void fft_real(const Tensor& x, int64_t dim, int64_t, double scale, const Tensor& y) {
  const Lines l = lines_of(x, dim), half = lines_of(y, dim);
  if (x.numel() == 0) return;
  by_precision(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto plan = plan_of<T>(l.n);
    over_groups<T>(l, half, l.n, 2 * kFftLanes<T>, [&](int64_t from, int64_t to, int64_t lanes, T* work) {
      FL_PICK(fft_real)(x.data<T>() + from, lines(l, lanes), y.data<Complex<T>>() + to, lines(half, lanes), plan, static_cast<T>(scale), work);
    });
  });
}

void fft_to_real(const Tensor& x, int64_t dim, int64_t n, double scale, const Tensor& y) {
  const Lines half = lines_of(x, dim), l = lines_of(y, dim);
  if (y.numel() == 0) return;
  by_precision(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto plan = plan_of<T>(n);
    over_groups<T>(half, l, n, 2 * kFftLanes<T>, [&](int64_t from, int64_t to, int64_t lanes, T* work) {
      FL_PICK(fft_to_real)(x.data<Complex<T>>() + from, lines(half, lanes), y.data<T>() + to, lines(l, lanes), plan, static_cast<T>(scale), work);
    });
  });
}

}  // namespace fl::kernels
