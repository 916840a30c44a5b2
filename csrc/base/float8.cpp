// Note [Floats of 8 bits]
// Types of OCP's formats (E4M3 and E5M2: Micikevicius et al. 2022, "FP8 formats for deep learning"; E8M0: the scales of OCP's
// microscaling formats 1.0) and of those that have an unsigned zero and one NaN (`fnuz`: Noune et al. 2022). They are stored, cast and moved:
// Note [Types without kernels].
//
//   type             sign exponent mantissa   bias   beyond the largest   NaN
//   float8_e4m3fn       1        4        3      7   the largest, 448     0x7f, 0xff
//   float8_e5m2         1        5        2     15   infinity             all above infinity
//   float8_e4m3fnuz     1        4        3      8   NaN                  0x80
//   float8_e5m2fnuz     1        5        2     16   NaN                  0x80
//   float8_e8m0fnu      0        8        0    127   NaN                  0xff; powers of two, halves go up
#include "base/float8.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/at_load.h"

namespace fl {
namespace {

struct Format {
  int mantissa, bias;
  uint8_t largest, beyond, nan;  // codes without the sign
  bool unsigned_zero;            // and a NaN that takes the place of -0
};
constexpr Format format_of(DType t) {
  switch (t) {
    case DType::Float8E4M3: return {3, 7, 0x7e, 0x7e, 0x7f, false};
    case DType::Float8E5M2: return {2, 15, 0x7b, 0x7c, 0x7f, false};
    case DType::Float8E4M3Z: return {3, 8, 0x7f, 0x80, 0x80, true};
    default: return {2, 16, 0x7f, 0x80, 0x80, true};
  }
}

uint8_t encode(const Format& f, float x) {
  const uint8_t sign = std::signbit(x) && !f.unsigned_zero ? 0x80 : 0;
  if (std::isnan(x)) return sign | f.nan;
  const float size = std::fabs(x);
  int exponent = 1 - f.bias;  // of the smallest normal number
  if (size >= std::ldexp(1.f, exponent)) exponent = std::isinf(size) ? 128 : std::ilogb(size);
  if (exponent > 127) return sign | f.beyond;
  // Units of the last place. One more than the mantissa has is the first of the next exponent, whose code follows.
  const int units = static_cast<int>(std::nearbyint(std::ldexp(size, f.mantissa - exponent)));
  const int code = ((exponent + f.bias) << f.mantissa) + units - (1 << f.mantissa);
  if (code > f.largest) return sign | f.beyond;
  if (!f.unsigned_zero) return sign | static_cast<uint8_t>(code);
  return static_cast<uint8_t>(code && std::signbit(x) ? code | 0x80 : code);
}

uint8_t encode_power(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), exponent = bits >> 23 & 0xff, half = bits & 0x400000, rest = bits & 0x3fffff;
  if (exponent == 0xff) return 0xff;
  return static_cast<uint8_t>(exponent + (half && (rest || exponent) ? 1 : 0));
}

float decode(DType t, uint8_t code) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (t == DType::Float8E8M0) return code == 0xff ? kNaN : std::ldexp(1.f, code - 127);
  const Format f = format_of(t);
  if (f.unsigned_zero && code == 0x80) return kNaN;
  const int size = code & 0x7f, field = size >> f.mantissa, mantissa = size & ((1 << f.mantissa) - 1);
  const float sign = code & 0x80 ? -1.f : 1.f;
  if (size > f.largest) return size == 0x7c && t == DType::Float8E5M2 ? sign * std::numeric_limits<float>::infinity() : std::copysign(kNaN, sign);
  if (field == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa);
  return sign * std::ldexp(static_cast<float>((1 << f.mantissa) + mantissa), field - f.bias - f.mantissa);
}

using Table = std::array<float, 256>;
Table table_of(DType t) {
  Table table;
  for (int code = 0; code < 256; ++code) table[static_cast<size_t>(code)] = decode(t, static_cast<uint8_t>(code));
  return table;
}
const Table& values_of(DType t) {
  static const std::array<Table, 5> tables = {table_of(DType::Float8E4M3), table_of(DType::Float8E5M2), table_of(DType::Float8E4M3Z),
                                              table_of(DType::Float8E5M2Z), table_of(DType::Float8E8M0)};
  return tables[static_cast<size_t>(t) - static_cast<size_t>(DType::Float8E4M3)];
}

FL_AT_LOAD(values_of(DType::Float8E4M3))

}  // namespace

void to_float8(DType t, const float* from, uint8_t* to, int64_t n) {
  if (t == DType::Float8E8M0) {
    for (int64_t i = 0; i < n; ++i) to[i] = encode_power(from[i]);
    return;
  }
  const Format f = format_of(t);
  for (int64_t i = 0; i < n; ++i) to[i] = encode(f, from[i]);
}

void from_float8(DType t, const uint8_t* from, float* to, int64_t n) {
  const Table& values = values_of(t);
  for (int64_t i = 0; i < n; ++i) to[i] = values[from[i]];
}

}  // namespace fl
