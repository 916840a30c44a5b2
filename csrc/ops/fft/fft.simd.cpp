#include "ops/fft/fft.h"

#include <algorithm>
#include <utility>

#include "ops/fft/butterflies.h"
#include "storage/square.h"
#include "storage/transpose.h"

namespace fl::kernels::FL_ISA {
namespace {

// ---------------------------------------------------------------- between a tensor's lines and points in lanes

template <class T>
using Tile = Square<T, 32 / sizeof(T)>;

// Row i + j, of W numbers, begins at row(i, j), j < 8, for even i; `lanes` lines that are `apart` numbers from each other get one number of each.
template <int64_t W, class T, class Row>
void put_rows(const Row& row, int64_t count, int64_t lanes, T* y, int64_t apart, T scale) {
  constexpr int64_t N = Tile<T>::kSize;
  const int64_t whole = lanes == W ? count / N * N : 0;
  for (int64_t i = 0; i < whole; i += N) {
    const T* from[N];
#pragma GCC unroll 8
    for (int64_t j = 0; j < N; ++j) from[j] = row(i, j);
#pragma GCC unroll 4
    for (int64_t l = 0; l < W; l += N) {
      T* to = y + l * apart + i;
      Tile<T>::transpose([&](int j) { return from[j] + l; }, [&](int k, typename Tile<T>::Row column) {
        column *= scale;
        std::memcpy(to + k * apart, &column, sizeof column);
      });
    }
  }
  for (int64_t l = 0; l < lanes; ++l)
    for (int64_t i = whole; i < count; ++i) y[l * apart + i] = row(i, 0)[l] * scale;
}

// The other way: row i is at to + i * stride.
template <int64_t W, class T>
void take_rows(const T* x, int64_t apart, int64_t count, int64_t lanes, T* to, int64_t stride) {
  constexpr int64_t N = Tile<T>::kSize;
  const int64_t whole = lanes == W ? count / N * N : 0;
  for (int64_t i = 0; i < whole; i += N) {
    T* row = to + i * stride;
#pragma GCC unroll 4
    for (int64_t l = 0; l < W; l += N) {
      const T* from = x + l * apart + i;
      Tile<T>::transpose([&](int j) { return from + j * apart; },
                         [&](int k, typename Tile<T>::Row column) { std::memcpy(row + k * stride + l, &column, sizeof column); });
    }
  }
  for (int64_t l = 0; l < lanes; ++l)
    for (int64_t i = whole; i < count; ++i) to[i * stride + l] = x[l * apart + i];
}

// Complex numbers of as many lines as there are lanes, a vector of each line: transposed by interleaving rows that lie half of them apart.
template <class T>
struct ComplexTile {
  static constexpr int W = kLanes<T>;
  using Row = typename LanesOf<T>::Both;

  template <int From, int... I>
  static FL_INLINE void interleave(const Row& a, const Row& b, Row& out, std::integer_sequence<int, I...>) {
    out = __builtin_shufflevector(a, b, (I / 2 % 2 * 2 * W + (I / 4 + From) * 2 + I % 2)...);
  }
  static FL_INLINE void round(const Row* x, Row* y) {
    constexpr auto all = std::make_integer_sequence<int, 2 * W>();
#pragma GCC unroll 4
    for (int i = 0; i < W / 2; ++i) {
      interleave<0>(x[i], x[i + W / 2], y[2 * i], all);
      interleave<W / 2>(x[i], x[i + W / 2], y[2 * i + 1], all);
    }
  }
  // Row j begins at rows(j); put(k, column) takes what is the k-th number of each.
  template <class Rows, class Put>
  static FL_INLINE void transpose(const Rows& rows, const Put& put) {
    Row v[W], w[W];
#pragma GCC unroll 8
    for (int j = 0; j < W; ++j) std::memcpy(&v[j], rows(j), sizeof(Row));
    round(v, w), round(w, v);
    if constexpr (W == 8) round(v, w);
#pragma GCC unroll 8
    for (int k = 0; k < W; ++k) put(k, W == 8 ? w[k] : v[k]);
  }
};

// Parts of points, and complex numbers of adjacent lines, whose parts alternate.
template <class T>
struct Parts {
  using V = Lanes<T>;
  static constexpr int W = kLanes<T>;
  V re, im;

  // As points lie.
  static FL_INLINE Parts at(const T* x) {
    if constexpr (kAlternating) return of_alternating(x);
    return {*reinterpret_cast<const V*>(x), *reinterpret_cast<const V*>(x + W)};
  }
  FL_INLINE void to(T* x) const {
    if constexpr (kAlternating) return to_alternating(x);
    *reinterpret_cast<V*>(x) = re, *reinterpret_cast<V*>(x + W) = im;
  }

  template <int... I>
  static FL_INLINE Parts parted(const V& a, const V& b, std::integer_sequence<int, I...>) {
    return {__builtin_shufflevector(a, b, (2 * I)...), __builtin_shufflevector(a, b, (2 * I + 1)...)};
  }
  template <int... I>
  static FL_INLINE Parts alternating(const Parts& v, std::integer_sequence<int, I...>) {
    return {__builtin_shufflevector(v.re, v.im, (I / 2 + I % 2 * W)...), __builtin_shufflevector(v.re, v.im, (W / 2 + I / 2 + I % 2 * W)...)};
  }
  static FL_INLINE Parts of_alternating(const T* x) {
    V a, b;
    std::memcpy(&a, x, sizeof a);
    std::memcpy(&b, x + W, sizeof b);
    return parted(a, b, std::make_integer_sequence<int, W>());
  }
  FL_INLINE void to_alternating(T* x) const {
    const Parts both = alternating(*this, std::make_integer_sequence<int, W>());
    std::memcpy(x, &both.re, sizeof(V));
    std::memcpy(x + W, &both.im, sizeof(V));
  }
};

// ---------------------------------------------------------------- transforms

template <class T>
struct Transforms {
  static constexpr int64_t W = kLanes<T>, P = kPoint<T>;

  // The real part of a lane in a point, and the imaginary one.
  static constexpr int64_t re(int64_t lane) { return kAlternating ? 2 * lane : lane; }
  static constexpr int64_t im(int64_t lane) { return kAlternating ? 2 * lane + 1 : W + lane; }

  // `count` points of lines that lie `apart` numbers from each other, each of them two that follow one another.
  static void take_pairs(const T* x, int64_t apart, int64_t count, int64_t lanes, T* to) {
    if constexpr (!kAlternating) return take_rows<W>(x, apart, 2 * count, lanes, to, W);
    const int64_t whole = lanes == W ? count / W * W : 0;
    for (int64_t i = 0; i < whole; i += W)
      ComplexTile<T>::transpose([&](int j) { return x + j * apart + 2 * i; },
                                [&](int k, const typename ComplexTile<T>::Row& column) { std::memcpy(to + (i + k) * P, &column, sizeof column); });
    for (int64_t l = 0; l < lanes; ++l)
      for (int64_t i = whole; i < count; ++i) to[i * P + re(l)] = x[l * apart + 2 * i], to[i * P + im(l)] = x[l * apart + 2 * i + 1];
  }
  // The other way: point i is at from + places[i] * P.
  static void put_pairs(const T* from, const int16_t* places, int64_t count, int64_t lanes, T* y, int64_t apart, T scale) {
    if constexpr (!kAlternating)
      return put_rows<W>([&](int64_t i, int64_t j) { return from + places[i / 2 + j / 2] * P + (i + j) % 2 * W; }, 2 * count, lanes, y, apart, scale);
    const int64_t whole = lanes == W ? count / W * W : 0;
    for (int64_t i = 0; i < whole; i += W)
      ComplexTile<T>::transpose([&](int j) { return from + places[i + j] * P; }, [&](int k, const typename ComplexTile<T>::Row& column) {
        const typename ComplexTile<T>::Row scaled = column * scale;
        std::memcpy(y + k * apart + 2 * i, &scaled, sizeof scaled);
      });
    for (int64_t l = 0; l < lanes; ++l)
      for (int64_t i = whole; i < count; ++i) {
        const T* at = from + places[i] * P;
        y[l * apart + 2 * i] = at[re(l)] * scale, y[l * apart + 2 * i + 1] = at[im(l)] * scale;
      }
  }

  // `count` points of the lines, in lanes; those that there is no line for are zeros.
  static void take(const Complex<T>* x, const FftLines& lines, int64_t count, T* to) {
    if (lines.lanes < W) std::fill_n(to, count * P, T(0));
    if (lines.step == 1) return take_pairs(reinterpret_cast<const T*>(x), 2 * lines.apart, count, lines.lanes, to);
    for (int64_t k = 0; k < count; ++k) {  // lines lie side by side
      const Complex<T>* from = x + k * lines.step;
      if (lines.lanes == W) Parts<T>::of_alternating(reinterpret_cast<const T*>(from)).to(to + k * P);
      else
        for (int64_t l = 0; l < lines.lanes; ++l) to[k * P + re(l)] = from[l].re, to[k * P + im(l)] = from[l].im;
    }
  }

  static void put(const T* from, const int16_t* places, int64_t count, Complex<T>* y, const FftLines& lines, T scale) {
    if (lines.step == 1) return put_pairs(from, places, count, lines.lanes, reinterpret_cast<T*>(y), 2 * lines.apart, scale);
    for (int64_t k = 0; k < count; ++k) {
      Complex<T>* to = y + k * lines.step;
      const T* at = from + places[k] * P;
      const Parts<T> v = Parts<T>::at(at);
      if (lines.lanes == W) Parts<T>{v.re * scale, v.im * scale}.to_alternating(reinterpret_cast<T*>(to));
      else
        for (int64_t l = 0; l < lines.lanes; ++l) to[l] = Complex<T>(at[re(l)] * scale, at[im(l)] * scale);
    }
  }

  // The lines of a real tensor whose numbers, two by two, are the parts of `count` points.
  static void take_halves(const T* x, const FftLines& lines, int64_t count, T* to) {
    if (lines.lanes < W) std::fill_n(to, count * P, T(0));
    if (lines.step == 1) return take_pairs(x, lines.apart, count, lines.lanes, to);
    for (int64_t k = 0; k < count; ++k) {
      const T *even = x + 2 * k * lines.step, *odd = even + lines.step;
      for (int64_t l = 0; l < lines.lanes; ++l) to[k * P + re(l)] = even[l], to[k * P + im(l)] = odd[l];
    }
  }
  static void put_halves(const T* from, const int16_t* places, int64_t count, T* y, const FftLines& lines, T scale) {
    if (lines.step == 1) return put_pairs(from, places, count, lines.lanes, y, lines.apart, scale);
    for (int64_t k = 0; k < count; ++k) {
      T *even = y + 2 * k * lines.step, *odd = even + lines.step;
      const T* at = from + places[k] * P;
      for (int64_t l = 0; l < lines.lanes; ++l) even[l] = at[re(l)] * scale, odd[l] = at[im(l)] * scale;
    }
  }

  // The lines of a real tensor as the real parts of points, and the real parts of points as such lines.
  static void take_real(const T* x, const FftLines& lines, int64_t count, T* to) {
    std::fill_n(to, count * P, T(0));
    if (lines.step == 1) take_rows<W>(x, lines.apart, count, lines.lanes, to, P);
    else
      for (int64_t i = 0; i < count; ++i) std::copy_n(x + i * lines.step, lines.lanes, to + i * P);
    if constexpr (kAlternating)
      for (int64_t i = 0; i < count; ++i) Parts<T>{*reinterpret_cast<const Lanes<T>*>(to + i * P), Lanes<T>{}}.to(to + i * P);
  }
  static void put_real(T* from, const int16_t* places, int64_t count, T* y, const FftLines& lines, T scale) {
    if constexpr (kAlternating)
      for (int64_t i = 0; i < count; ++i) *reinterpret_cast<Lanes<T>*>(from + i * P) = Parts<T>::at(from + i * P).re;
    const auto row = [&](int64_t i, int64_t j) { return from + places[i + j] * P; };
    if (lines.step == 1) return put_rows<W>(row, count, lines.lanes, y, lines.apart, scale);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t l = 0; l < lines.lanes; ++l) y[i * lines.step + l] = row(i, 0)[l] * scale;
  }

  static void complex_lines(const Complex<T>* x, Complex<T>* y, const FftLines& lines, const FftPlan<T>& plan, bool forward, T scale, T* work) {
    take(x, lines, plan.n, work);
    transform(Points<T>{work}, plan);
    put(work, (forward ? plan.places : plan.back).data(), plan.n, y, lines, scale);
  }

  // At i and j lie a and b: a + conj b + (a - conj b) r goes to i, and conj(a + conj b - (a - conj b) r) to j.
  static FL_INLINE void both_ends(const Points<T>& z, int64_t i, int64_t j, Complex<T> r) {
    const Pair<T> a = z.get(i), b = conj(z.get(j)), even = a + b, odd = turned(a - b, r);
    z.put(j, conj(even - odd));
    z.put(i, even + odd);
  }

  // With n = 2 m real x, z[j] = x[2 j] + i x[2 j + 1] and w = exp(-2 pi i k / n): the transform of x is E + w O and that of the other end,
  // at m - k, conj(E - w O), where E = (z[k] + conj z[m - k]) / 2 and O = (z[k] - conj z[m - k]) / 2i.
  static void real_lines(const T* x, const FftLines& from, Complex<T>* y, const FftLines& to, const FftPlan<T>& plan, const Complex<T>* roots, int64_t n,
                         T scale, T* work) {
    const int64_t m = plan.n;
    const int16_t* places = plan.places.data();
    const Points<T> z{work};
    if (m == n) {
      take_real(x, from, n, work);
      transform(z, plan);
      return put(work, places, n / 2 + 1, y, to, scale);
    }
    take_halves(x, from, m, work);
    transform(z, plan);
    const auto at = [&](int64_t k) { return work + places[k] * P; };
    const Parts<T> first = Parts<T>::at(at(0));
    Parts<T>{(first.re + first.im) * T(2), Lanes<T>{}}.to(at(0));
    Parts<T>{(first.re - first.im) * T(2), Lanes<T>{}}.to(at(m));
    for (int64_t k = 1; 2 * k <= m; ++k) both_ends(z, places[k], places[m - k], Complex<T>(roots[k].im, -roots[k].re));
    put(work, places, m + 1, y, to, scale * T(0.5));
  }

  // The way back: z[k] = E + i O and z[m - k] = conj(E - i O) from 2 E = x[k] + conj x[m - k] and 2 O = (x[k] - conj x[m - k]) conj(w).
  static void lines_to_real(const Complex<T>* x, const FftLines& from, T* y, const FftLines& to, const FftPlan<T>& plan, const Complex<T>* roots, int64_t n,
                            T scale, T* work) {
    const int64_t m = plan.n;
    const Points<T> z{work};
    const auto at = [&](int64_t k) { return work + k * P; };
    take(x, from, n / 2 + 1, work);
    if (m == n) {
      Parts<T>{Parts<T>::at(work).re, Lanes<T>{}}.to(work);  // what a real transform has no imaginary part for
      for (int64_t k = 1; k <= n / 2; ++k) Parts<T>{Parts<T>::at(at(k)).re, -Parts<T>::at(at(k)).im}.to(at(n - k));
      transform(z, plan);
      return put_real(work, plan.back.data(), n, y, to, scale);
    }
    const Lanes<T> low = Parts<T>::at(at(0)).re, high = Parts<T>::at(at(m)).re;
    Parts<T>{low + high, low - high}.to(at(0));
    for (int64_t k = 1; 2 * k <= m; ++k) both_ends(z, k, m - k, Complex<T>(roots[k].im, roots[k].re));
    transform(z, plan);
    put_halves(work, plan.back.data(), m, y, to, scale);
  }
};

}  // namespace

#define FL_DEFINE(T, suffix)                                                                                                                       \
  void fft_complex_##suffix(const Complex<T>* x, Complex<T>* y, const FftLines& lines, const FftPlan<T>& plan, bool forward, T scale, T* work) {    \
    Transforms<T>::complex_lines(x, y, lines, plan, forward, scale, work);                                                                         \
  }                                                                                                                                                \
  void fft_real_##suffix(const T* x, const FftLines& from, Complex<T>* y, const FftLines& to, const FftPlan<T>& plan, const Complex<T>* roots,      \
                         int64_t n, T scale, T* work) {                                                                                            \
    Transforms<T>::real_lines(x, from, y, to, plan, roots, n, scale, work);                                                                        \
  }                                                                                                                                                \
  void fft_to_real_##suffix(const Complex<T>* x, const FftLines& from, T* y, const FftLines& to, const FftPlan<T>& plan, const Complex<T>* roots,   \
                            int64_t n, T scale, T* work) {                                                                                         \
    Transforms<T>::lines_to_real(x, from, y, to, plan, roots, n, scale, work);                                                                     \
  }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)
#undef FL_DEFINE

}  // namespace fl::kernels::FL_ISA
