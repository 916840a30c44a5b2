// Sums along rows of floats, 16-bit ones as they lie. A block of 2048 is added in 64 lanes of floats, what is left of it in
// eight, and these are folded onto one; fewer than eight are added in double. Eight rows go together, so that those parts
// are vectors of rows.
#include <cstring>

#include "base/element.h"
#include "ops/reduce/fold_parts.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"  // no vector leaves this file

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kLanes = 64, kFew = 8, kBlock = 2048;
constexpr int64_t kRows = 8;

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
typedef double FourWide __attribute__((vector_size(32)));
typedef uint64_t Halves __attribute__((vector_size(16)));  // two times four 16-bit floats
typedef uint16_t Raw __attribute__((vector_size(16)));
typedef int32_t Bits __attribute__((vector_size(16)));

template <class T>
FL_VM T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}
FL_VM Eight join(Four a, Four b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7); }
FL_VM Four low(const Eight& v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
FL_VM Four high(const Eight& v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }

FL_VM FourWide wide(Four v) {
#if defined(__AVX__)
  return (FourWide)_mm256_cvtps_pd((__m128)v);  // this and the like below: GCC converts the halves of what is wider than 16 bytes apart
#else
  return __builtin_convertvector(v, FourWide);
#endif
}
FL_VM Four wide_half(Bits x) {  // as vm::wide()
  const Bits sign = (x & 0x8000) << 16, mag = x & 0x7fff;
  const Bits small = (Bits)(__builtin_convertvector(mag, Four) * 0x1p-24f);
  const Bits finite = mag < 0x400 ? small : (mag << 13) + (112 << 23);
  return (Four)(sign | (mag >= 0x7c00 ? (mag << 13) | 0x7f800000 : finite));
}
template <class S>
FL_VM Eight wide(Halves v) {
#if defined(__AVX2__) && defined(__F16C__)
  if constexpr (std::is_same_v<S, BFloat16>) return (Eight)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)v), 16);
  else return (Eight)_mm256_cvtph_ps((__m128i)v);
#else
  const Raw x = (Raw)v;
  if constexpr (std::is_same_v<S, BFloat16>) {
    typedef uint32_t Words __attribute__((vector_size(32)));
    return (Eight)(__builtin_convertvector(x, Words) << 16);
  } else {
    const Raw zero = {};
    return join(wide_half((Bits)__builtin_shufflevector(x, zero, 0, 8, 1, 9, 2, 10, 3, 11)),
                wide_half((Bits)__builtin_shufflevector(x, zero, 4, 12, 5, 13, 6, 14, 7, 15)));
  }
#endif
}
template <class S>
FL_VM Eight load(const S* x) {
  if constexpr (std::is_same_v<S, float>) return read<Eight>(x);
  else return wide<S>(read<Halves>(x));
}
template <class S>
FL_VM Eight load(const S* a, const S* b) {
  if constexpr (std::is_same_v<S, float>) return join(read<Four>(a), read<Four>(b));
  else return wide<S>(Halves{read<uint64_t>(a), read<uint64_t>(b)});
}

// The sums of the lanes over n elements, a multiple of kLanes, with lane l folded onto lane l % 8.
template <class S>
FL_VM Eight many_lanes(const S* x, int64_t n) {
  Eight a = {}, b = {}, c = {}, d = {}, e = {}, f = {}, g = {}, h = {};
  for (int64_t k = 0; k < n; k += kLanes, x += kLanes) {
    a += load(x), b += load(x + 8), c += load(x + 16), d += load(x + 24);
    e += load(x + 32), f += load(x + 40), g += load(x + 48), h += load(x + 56);
  }
  return ((a + e) + (c + g)) + ((b + f) + (d + h));
}
// The same over n elements, a multiple of kFew, with lane l folded onto lane l % 4.
template <class S>
FL_VM Four lanes(const S* x, int64_t n) {
  const int64_t many = n / kLanes * kLanes;
  Eight v = {};
  for (int64_t k = many; k < n; k += kFew) v += load(x + k);
  if (many != 0) v += many_lanes(x, many);
  return low(v) + high(v);
}

// v[i][r] = v[r][i] in either half
FL_VM void transpose(Eight (&v)[4]) {
  const Eight a = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13), b = __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15),
              c = __builtin_shufflevector(v[2], v[3], 0, 8, 1, 9, 4, 12, 5, 13), d = __builtin_shufflevector(v[2], v[3], 2, 10, 3, 11, 6, 14, 7, 15);
  v[0] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
  v[1] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
  v[2] = __builtin_shufflevector(b, d, 0, 1, 8, 9, 4, 5, 12, 13);
  v[3] = __builtin_shufflevector(b, d, 2, 3, 10, 11, 6, 7, 14, 15);
}

// One sum in double for each of eight rows.
struct Sums {
  FourWide first = {}, second = {};
  FL_VM void add(const Eight& v) {
    first += wide(low(v));
    second += wide(high(v));
  }
};

// Four columns of eight rows.
template <class S>
FL_VM void columns(const S* x, int64_t stride, Eight (&v)[4]) {
  for (int r = 0; r < 4; ++r) v[r] = load(x + r * stride, x + (r + 4) * stride);
  transpose(v);
}

// The sums of columns [begin, end) in ascending order.
template <class S>
FL_VM Sums in_order(const S* x, int64_t stride, int64_t begin, int64_t end) {
  Sums s;
  Eight v[4];
  for (; begin + 4 <= end; begin += 4) {
    columns(x + begin, stride, v);
    for (int i = 0; i < 4; ++i) s.add(v[i]);
  }
  if (begin == end) return s;
  if (end >= 4) {  // the last columns, some of which were added
    columns(x + end - 4, stride, v);
    if (end - begin == 3) s.add(v[1]);
    if (end - begin >= 2) s.add(v[2]);
    s.add(v[3]);
    return s;
  }
  for (; begin < end; ++begin) {
    float column[kRows];
    for (int r = 0; r < kRows; ++r) column[r] = vm::wide(x[r * stride + begin]);
    s.add(read<Eight>(column));
  }
  return s;
}

template <class S>
void eight_rows(const S* x, int64_t stride, int64_t n, double* acc) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t end = std::min(n, i + kBlock), whole = (end - i) / kFew * kFew;
    Sums s = in_order(x, stride, i + whole, end);
    if (whole != 0) {
      Eight v[4];
      for (int r = 0; r < 4; ++r) v[r] = join(lanes(x + r * stride + i, whole), lanes(x + (r + 4) * stride + i, whole));
      transpose(v);
      s.add((v[0] + v[2]) + (v[1] + v[3]));
    }
    const FourWide a = read<FourWide>(acc) + s.first, b = read<FourWide>(acc + 4) + s.second;
    std::memcpy(acc, &a, sizeof(a));
    std::memcpy(acc + 4, &b, sizeof(b));
  }
}

template <class S>
void one_row(const S* x, int64_t n, double* acc) {
  double total = *acc;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t end = std::min(n, i + kBlock), whole = (end - i) / kFew * kFew;
    double s = 0;
    for (int64_t k = i + whole; k < end; ++k) s += vm::wide(x[k]);
    if (whole != 0) {
      const Four v = lanes(x + i, whole);
      s += (v[0] + v[2]) + (v[1] + v[3]);
    }
    total += s;
  }
  *acc = total;
}

// n elements, of which every second one goes to acc[1].
void pairs(const float* x, int64_t n, double* acc) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t end = std::min(n, i + kBlock), whole = (end - i) / kFew * kFew;
    for (int64_t k = i + whole; k < end; ++k) acc[k & 1] += x[k];
    if (whole == 0) continue;
    const Four v = lanes(x + i, whole);
    acc[0] += v[0] + v[2];
    acc[1] += v[1] + v[3];
  }
}
void pairs(const double* x, int64_t n, double* acc) {
  FourWide a = {}, b = {}, c = {}, d = {};
  int64_t k = 0;
  for (; k + 16 <= n; k += 16) a += read<FourWide>(x + k), b += read<FourWide>(x + k + 4), c += read<FourWide>(x + k + 8), d += read<FourWide>(x + k + 12);
  const FourWide v = (a + b) + (c + d);
  acc[0] += v[0] + v[2];
  acc[1] += v[1] + v[3];
  for (; k < n; ++k) acc[k & 1] += x[k];
}

template <class S>
void rows(const S* x, int64_t stride, int64_t m, int64_t n, double* acc) {
  int64_t j = 0;
  for (; j + kRows <= m; j += kRows) eight_rows(x + j * stride, stride, n, acc + j);
  for (; j < m; ++j) one_row(x + j * stride, n, acc + j);
}

}  // namespace

void fold_sums(DType type, const void* x, int64_t stride, int64_t m, int64_t n, double* acc) {
  if (type == DType::Float32) rows(static_cast<const float*>(x), stride, m, n, acc);
  else if (type == DType::BFloat16) rows(static_cast<const BFloat16*>(x), stride, m, n, acc);
  else rows(static_cast<const Float16*>(x), stride, m, n, acc);
}

void fold_pairs(DType type, const void* x, int64_t step, int64_t n, double* acc) {
  const auto fold = [&](const auto* p) {
    if (step == 2) return pairs(p, 2 * n, acc);
    double re[4] = {}, im[4] = {};
    int64_t k = 0;
    for (; k + 4 <= n; k += 4)
      for (int64_t l = 0; l < 4; ++l) re[l] += p[(k + l) * step], im[l] += p[(k + l) * step + 1];
    for (; k < n; ++k) re[0] += p[k * step], im[0] += p[k * step + 1];
    acc[0] += (re[0] + re[1]) + (re[2] + re[3]);
    acc[1] += (im[0] + im[1]) + (im[2] + im[3]);
  };
  if (type == DType::Float32) fold(static_cast<const float*>(x));
  else fold(static_cast<const double*>(x));
}

}  // namespace fl::kernels::FL_ISA
