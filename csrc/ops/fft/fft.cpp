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

template <class T>
std::unique_ptr<FftPlan<T>> make_plan(int64_t n) {
  auto plan = std::make_unique<FftPlan<T>>();
  plan->n = n;
  int twos = 0;
  int64_t rest = n;
  for (; rest % 2 == 0; rest /= 2) ++twos;
  // Steps of 8 where there are registers for them, else one in place of a 2 (4096 points on AVX-512: 86 in place of 127 us for 16 lines, one thread).
  const bool many = isa() == Isa::V4;
  int left = twos, eights = many ? std::max(0, twos % 3 == 1 ? twos / 3 - 1 : twos / 3) : twos % 2 == 1 && twos >= 3;
  for (; eights > 0; --eights, left -= 3) plan->factors.push_back(8);
  for (; left >= 2; left -= 2) plan->factors.push_back(4);
  if (left == 1) plan->factors.push_back(2);
  for (int8_t r = 3; r <= kMostRadix; r += 2)
    for (; rest % r == 0; rest /= r) plan->factors.push_back(r);
  for (int64_t k = 0; k < n; ++k) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    plan->roots.emplace_back(static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle)));
    int64_t place = 0, length = n, digits = k;
    for (const int8_t r : plan->factors) {
      length /= r;
      place += digits % r * length;
      digits /= r;
    }
    plan->places.push_back(static_cast<int16_t>(place));
  }
  for (int64_t k = 0; k < n; ++k) plan->back.push_back(plan->places[static_cast<size_t>((n - k) % n)]);
  plan->places.push_back(static_cast<int16_t>(n));
  return plan;
}

// Of a size that this thread has met, or meets now; is_fft_size.
template <class T>
const FftPlan<T>& plan_of(int64_t n) {
  thread_local std::vector<std::unique_ptr<FftPlan<T>>> known(kMostPoints + 1);
  auto& plan = known[static_cast<size_t>(n)];
  if (!plan) plan = make_plan<T>(n);
  return *plan;
}

// Memory for the points of a group, which this thread keeps.
template <class T>
T* points_of_thread(int64_t points) {
  thread_local std::unique_ptr<T[]> memory;
  thread_local int64_t size = 0;
  if (const int64_t wanted = fft_work<T>(points) + 64 / sizeof(T); size < wanted) {
    memory = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(wanted));
    size = wanted;
  }
  return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) & ~uintptr_t{63});
}

// Calls f(first line as an offset into `from`, the same into `to`, lanes, work) for groups of lines: points are `inner` apart in both,
// lines that lie around inner == 1 are n of the side's own apart.
template <class T, class F>
void over_groups(const Lines& from, const Lines& to, int64_t points, const F& f) {
  constexpr int64_t most = kFftLanes<T>;
  const int64_t across = from.inner > 1 ? from.inner : from.outer, blocks = from.inner > 1 ? from.outer : 1;
  const int64_t groups = (across + most - 1) / most;
  parallel_work(blocks * groups, points * most, 16384, [&](int64_t begin, int64_t end) {
    T* work = points_of_thread<T>(points);
    for (int64_t g = begin; g < end; ++g) {
      const int64_t block = g / groups, line = g % groups * most, lanes = std::min(most, across - line);
      const auto start = [&](const Lines& l) { return l.inner > 1 ? block * l.n * l.inner + line : line * l.n; };
      f(start(from), start(to), lanes, work);
    }
  });
}

FftLines lines(const Lines& l, int64_t lanes) { return l.inner > 1 ? FftLines{lanes, l.inner, 1} : FftLines{lanes, 1, l.n}; }

int64_t complex_points(int64_t real) { return real % 2 == 0 ? real / 2 : real; }

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
    const auto& plan = plan_of<T>(l.n);
    over_groups<T>(l, l, l.n, [&](int64_t from, int64_t to, int64_t lanes, T* work) {
      FL_PICK(fft_complex)(x.data<Complex<T>>() + from, y.data<Complex<T>>() + to, lines(l, lanes), plan, forward, static_cast<T>(scale), work);
    });
  });
}

void fft_real(const Tensor& x, int64_t dim, int64_t, double scale, const Tensor& y) {
  const Lines l = lines_of(x, dim), half = lines_of(y, dim);
  if (x.numel() == 0) return;
  by_precision(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto& plan = plan_of<T>(complex_points(l.n));
    const Complex<T>* roots = plan_of<T>(l.n).roots.data();
    over_groups<T>(l, half, plan.n, [&](int64_t from, int64_t to, int64_t lanes, T* work) {
      FL_PICK(fft_real)(x.data<T>() + from, lines(l, lanes), y.data<Complex<T>>() + to, lines(half, lanes), plan, roots, l.n,
                        static_cast<T>(scale), work);
    });
  });
}

void fft_to_real(const Tensor& x, int64_t dim, int64_t n, double scale, const Tensor& y) {
  const Lines half = lines_of(x, dim), l = lines_of(y, dim);
  if (y.numel() == 0) return;
  by_precision(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto& plan = plan_of<T>(complex_points(n));
    const Complex<T>* roots = plan_of<T>(n).roots.data();
    over_groups<T>(half, l, plan.n, [&](int64_t from, int64_t to, int64_t lanes, T* work) {
      FL_PICK(fft_to_real)(x.data<Complex<T>>() + from, lines(half, lanes), y.data<T>() + to, lines(l, lanes), plan, roots, n,
                           static_cast<T>(scale), work);
    });
  });
}

}  // namespace fl::kernels
