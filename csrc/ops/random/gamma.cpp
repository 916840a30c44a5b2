// Draws of gamma, Dirichlet and binomial distributions, and how a draw moves with its parameters.
//
// A draw x of a continuous distribution F(x; a) is differentiated at a fixed value of F, whatever way it was drawn:
// dx/da = -(dF/da) / pdf (Figurnov et al., "Implicit Reparameterization Gradients", NeurIPS 2018). The derivatives of F
// are those of its series and continued fractions, term by term, on the side of the mean where the terms have one sign.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "base/vmath_special.h"
#include "dispatch/generator.h"
#include "ops/matmul/half.h"
#include "ops/random/random.h"
#include "ops/random/uniforms.h"

namespace fl::kernels {
namespace {

constexpr double kEnough = 1e-17;  // a term below this part of its sum ends a series
constexpr int64_t kMaxTerms = 1 << 20;

// The smallest normal number of a type.
template <class T>
constexpr double kSmallest = std::is_same_v<T, Float16> ? 0x1p-14 : std::is_same_v<T, double> ? 0x1p-1022 : 0x1p-126;

template <class T>
double wide(T v) {
  if constexpr (is_half_type<T>) return static_cast<double>(static_cast<float>(v));
  else return static_cast<double>(v);
}
template <class T>
T narrow(double v) {
  if constexpr (is_half_type<T>) return T(static_cast<float>(v));
  else return static_cast<T>(v);
}

double log_gamma(double x) {
  int sign;  // std::lgamma writes a global
  return lgamma_r(x, &sign);
}

double normal_draw(Uniforms& uniforms) {  // Box and Muller (1958)
  const double radius = std::sqrt(-2 * std::log(1 - uniforms.next()));
  return radius * std::cos(2 * M_PI * uniforms.next());
}

// A gamma draw is `value` times e to the `boost` (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000, with their squeeze, which
// accepts nearly all without a logarithm). A shape a below 1 takes a draw of a + 1 and a uniform to the power 1 / a, which a logarithm holds however
// small it is.
struct GammaDraw {
  double value, boost;
  double log() const { return boost + std::log(value); }
  double exp() const { return boost == 0 ? value : boost > -600 ? value * std::exp(boost) : std::exp(log()); }
};
// What is tried first, a normal and a uniform in (0, 1], is given; the rest comes from `uniforms`.
GammaDraw gamma_draw(double shape, double z, double u, Uniforms& uniforms) {
  if (!(shape > 0)) return {shape == 0 ? 0 : std::numeric_limits<double>::quiet_NaN(), 0};
  if (std::isinf(shape)) return {shape, 0};
  const double boost = shape < 1 ? std::log(1 - uniforms.next()) / shape : 0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;; z = normal_draw(uniforms), u = 1 - uniforms.next()) {
    const double root = 1 + c * z, v = root * root * root, square = z * z;
    if (root <= 0) continue;
    if (u < 1 - 0.0331 * square * square || std::log(u) < 0.5 * square + d - d * v + d * std::log(v)) return {d * v, boost};
  }
}
GammaDraw gamma_draw(double shape, Uniforms& uniforms) {
  const double z = normal_draw(uniforms);
  return gamma_draw(shape, z, 1 - uniforms.next(), uniforms);
}

// A distribution function over its density, and the derivative of the draw.
struct Slope {
  double mass, slope;
};

// x < a + 1: P / pdf = (x / a) sum_n x^n / ((a + 1) .. (a + n)).
Slope gamma_slope_below(double a, double x) {
  double term = 1, sum = 1, drop = 0, sum_drop = 0;  // drop: minus the derivative of log term
  for (int64_t n = 1; n < kMaxTerms; ++n) {
    term *= x / (a + static_cast<double>(n));
    drop += 1 / (a + static_cast<double>(n));
    sum += term;
    sum_drop += term * drop;
    if (term * (1 + drop) < kEnough * sum) break;
  }
  return {x / a * sum, x / a * (sum_drop - sum * (std::log(x) - vm::digamma(a + 1)))};
}

// Otherwise Q / pdf = x C, with C = 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ..)) by its convergents p / q, and their
// derivatives in a beside them.
Slope gamma_slope_above(double a, double x) {
  double b = x + 1 - a;
  double p0 = 0, q0 = 1, p = 1, q = b, dp0 = 0, dq0 = 0, dp = 0, dq = -1;
  double c = p / q, dc = -p * dq / (q * q);
  for (int64_t n = 1; n < kMaxTerms; ++n) {
    const double k = static_cast<double>(n), t = -k * (k - a);
    b += 2;
    const double p1 = b * p + t * p0, q1 = b * q + t * q0;
    const double dp1 = b * dp - p + t * dp0 + k * p0, dq1 = b * dq - q + t * dq0 + k * q0;
    p0 = p, q0 = q, dp0 = dp, dq0 = dq;
    p = p1, q = q1, dp = dp1, dq = dq1;
    if (std::fabs(q) > 1e150) {
      for (double* v : {&p0, &q0, &dp0, &dq0, &p, &q, &dp, &dq}) *v *= 1e-150;
    }
    if (q == 0) continue;
    const double last = c, dlast = dc;
    c = p / q;
    dc = (dp - c * dq) / q;
    if (std::fabs(c - last) <= 1e-16 * std::fabs(c) && std::fabs(dc - dlast) <= 1e-15 * std::fabs(dc)) break;
  }
  return {x * c, x * (c * (std::log(x) - vm::digamma(a)) + dc)};
}

// d x / d a of a draw x of Gamma(a, 1).
double gamma_slope(double a, double x) {
  if (std::isnan(a) || std::isnan(x) || a <= 0) return std::numeric_limits<double>::quiet_NaN();
  if (x <= 0) return 0;
  if (a > 1e6) {  // Wilson and Hilferty (1931): the cube root of x / a is nearly normal
    const double c = 1 / (3 * std::sqrt(a)), root = std::cbrt(x / a), z = (root - (1 - c * c)) / c;
    return root * root * root + 3 * a * root * root * (2 * c - z) * (c / (2 * a)) ;
  }
  return x < a + 1 ? gamma_slope_below(a, x).slope : gamma_slope_above(a, x).slope;
}

// The probability of a draw of Gamma(a, 1) of at most x.
double gamma_probability(double a, double x) {
  if (std::isnan(a) || std::isnan(x) || a <= 0) return std::numeric_limits<double>::quiet_NaN();
  if (x <= 0) return 0;
  if (std::isinf(x)) return 1;
  const double log_density = (a - 1) * std::log(x) - x - log_gamma(a);
  const bool below = x < a + 1;
  const double part = std::exp(log_density + std::log(below ? gamma_slope_below(a, x).mass : gamma_slope_above(a, x).mass));
  return below ? std::fmin(part, 1) : 1 - part;
}

// d x / d a of a draw x of Beta(a, b), over 1 - x. F / pdf = x (1 - x) / a S(a) with S(a) = sum_n x^n (a + b)_n / (a + 1)_n;
// above the mean the same of the draw 1 - x of Beta(b, a), whose second parameter moves.
double beta_slope(double x, double a, double b) {
  if (std::isnan(x) || std::isnan(a) || std::isnan(b) || a <= 0 || b <= 0) return std::numeric_limits<double>::quiet_NaN();
  if (x <= 0) return 0;
  const double total = a + b;
  if (std::min(a, b) > 1e6) {  // nearly normal
    const double mean = a / total, fade = 0.5 * (1 / a - 2 / total - 1 / (total + 1));
    return (b / (total * total) + (x - mean) * fade) / (1 - x);
  }
  const bool below = x <= (a + 1) / (total + 2);
  const double from = below ? a : b, ratio = below ? x : 1 - x;
  double term = 1, sum = 1, rise = 0, sum_rise = 0;  // rise: the derivative of log term
  for (int64_t n = 0; n < kMaxTerms && ratio > 0; ++n) {
    const double k = static_cast<double>(n), grow = ratio * (total + k) / (from + 1 + k);
    term *= grow;
    rise += 1 / (total + k) - (below ? 1 / (a + 1 + k) : 0);
    sum += term;
    sum_rise += term * rise;
    if (grow < 1 && term * (1 + std::fabs(rise)) < kEnough * sum * (1 - grow)) break;
  }
  const double both = std::log(x) + vm::digamma(total);
  if (below) return -x / a * (sum * (both - vm::digamma(a + 1)) + sum_rise);
  return x / b * (sum * (both - vm::digamma(a)) + sum_rise);
}

// Successes of n trials: where few are expected, the first count whose cumulative probability exceeds a uniform (each term is a multiple of the one before),
// else by transformed rejection (Hoermann, "The generation of binomial random variates", 1993, algorithm BTRS).
double few_successes(double n, double p, Uniforms& uniforms) {
  const double u = uniforms.next(), odds = p / (1 - p);
  double probability = std::exp(n * std::log1p(-p)), sum = probability, count = 0;
  while (u >= sum && count < n) {
    probability *= (n - count) / (count + 1) * odds;
    if (sum + probability == sum) break;  // all that is left is below what a sum tells, as may be the uniform's distance from 1
    count += 1;
    sum += probability;
  }
  return count;
}
double many_successes(double n, double p, Uniforms& uniforms) {
  const double spread = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = n * p + 0.5, vr = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spread;
  const double odds = std::log(p / (1 - p)), mode = std::floor((n + 1) * p);
  const double height = log_gamma(mode + 1) + log_gamma(n - mode + 1);
  for (;;) {
    const double u = uniforms.next() - 0.5, us = 0.5 - std::fabs(u), v = 1 - uniforms.next();
    const double k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= vr) return k;
    if (!(k >= 0 && k <= n)) continue;
    const double bound = std::log(v * alpha / (a / (us * us) + b));
    if (bound <= height - log_gamma(k + 1) - log_gamma(n - k + 1) + (k - mode) * odds) return k;
  }
}
double binomial_draw(double n, double p, Uniforms uniforms) {
  n = std::floor(n);
  if (std::isnan(n) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  if (!(n < 0x1p53)) {  // whole numbers are no longer told apart, or there are infinitely many
    const double draw = n * p + std::sqrt(n * p * (1 - p)) * normal_draw(uniforms);
    return std::isfinite(draw) ? std::clamp(draw, 0.0, n) : n;
  }
  const double rare = std::min(p, 1 - p);
  const double count = n * rare < 10 ? few_successes(n, rare, uniforms) : many_successes(n, rare, uniforms);
  return p > 0.5 ? n - count : count;
}

// out[i] = f(i, element i of the inputs as double ..).
template <class T, class F, class... In>
void for_elements(const Tensor& y, const F& f, const In&... in) {
  T* out = y.data<T>();
  parallel_for(0, y.numel(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = narrow<T>(f(i, wide(in.template data<T>()[i])...));
  });
}

}  // namespace

void standard_gamma(const Tensor& concentration, Generator* generator, const Tensor& y) {
  const auto [seed, offset] = generator_or_default(generator).next();
  visit_memory(y.dtype(), [&, s = seed, o = offset]<class T>(T) {
    const auto draw = [](double a, GammaDraw drawn) {
      const double value = drawn.exp();
      return value < kSmallest<T> && a > 0 ? kSmallest<T> : value;  // 0 has no logarithm, and no draw is so small
    };
    if constexpr (std::is_same_v<T, double>) {
      return for_elements<T>(y, [=](int64_t i, double a) {
        Uniforms uniforms(s, o, i);
        return draw(a, gamma_draw(a, uniforms));
      }, concentration);
    }
    // 24 bits are enough for what is tried first, which nearly all take.
    const T* in = concentration.data<T>();
    T* out = y.data<T>();
    const int64_t n = y.numel();
    parallel_for(0, (n + kRandomChunk - 1) / kRandomChunk, 1, [&](int64_t begin, int64_t end) {
      alignas(64) float z[kRandomChunk], u[kRandomChunk];
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        constexpr int64_t kApart = int64_t{1} << 35;  // chunks of counters that are no element's
        const int64_t first = chunk * kRandomChunk, count = std::min(kRandomChunk, n - first);
        random_normal(z, s, o, kApart + 2 * chunk, count);
        random_uniform(u, s, o, kApart + 2 * chunk + 1, count);
        for (int64_t i = 0; i < count; ++i) {
          Uniforms uniforms(s, o, first + i);
          const double a = wide(in[first + i]);
          out[first + i] = narrow<T>(draw(a, gamma_draw(a, static_cast<double>(z[i]), 1 - static_cast<double>(u[i]), uniforms)));
        }
      }
    });
  });
}

void standard_gamma_grad(const Tensor& concentration, const Tensor& sample, const Tensor& y) {
  visit_memory(y.dtype(), [&]<class T>(T) {
    for_elements<T>(y, [](int64_t, double a, double x) { return gamma_slope(a, x); }, concentration, sample);
  });
}

void gamma_cdf(const Tensor& concentration, const Tensor& x, const Tensor& y) {
  visit_memory(y.dtype(), [&]<class T>(T) {
    for_elements<T>(y, [](int64_t, double a, double v) { return gamma_probability(a, v); }, concentration, x);
  });
}

// Gamma draws along the last axis, over their sum; of logarithms, since all of a row may be too small for the type.
void dirichlet_draw(const Tensor& concentration, Generator* generator, const Tensor& y) {
  const auto [seed, offset] = generator_or_default(generator).next();
  const int64_t n = y.size(-1);
  if (y.numel() == 0) return;
  visit_memory(y.dtype(), [&, s = seed, o = offset]<class T>(T) {
    const T* in = concentration.data<T>();
    T* out = y.data<T>();
    parallel_work(y.numel() / n, n, 256, [&](int64_t begin, int64_t end) {
      std::vector<double> row(static_cast<size_t>(n));
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t j = 0; j < n; ++j) {
          Uniforms uniforms(s, o, r * n + j);
          row[static_cast<size_t>(j)] = gamma_draw(wide(in[r * n + j]), uniforms).log();
        }
        const double top = *std::max_element(row.begin(), row.end());
        double sum = 0;
        for (double& v : row) sum += v = std::exp(v - top);
        for (int64_t j = 0; j < n; ++j) out[r * n + j] = narrow<T>(row[static_cast<size_t>(j)] / sum);
      }
    });
  });
}

void dirichlet_grad(const Tensor& x, const Tensor& concentration, const Tensor& total, const Tensor& y) {
  visit_memory(y.dtype(), [&]<class T>(T) {
    for_elements<T>(y, [](int64_t, double v, double a, double sum) { return beta_slope(v, a, sum - a); }, x, concentration, total);
  });
}

void binomial_draws(const Tensor& count, const Tensor& prob, Generator* generator, const Tensor& y) {
  const auto [seed, offset] = generator_or_default(generator).next();
  visit_memory(y.dtype(), [&, s = seed, o = offset]<class T>(T) {
    for_elements<T>(y, [=](int64_t i, double n, double p) { return binomial_draw(n, p, Uniforms(s, o, i)); }, count, prob);
  });
}

}  // namespace fl::kernels
