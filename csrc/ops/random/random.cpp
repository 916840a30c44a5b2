// Draws. Every call takes one offset of its generator, and element i of the draw depends on (seed, offset,
// i) alone: the same seed gives the same bits for any number of threads.
#include "ops/random/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "base/philox.h"
#include "dispatch/each.h"
#include "dispatch/generator.h"
#include "ops/random/uniforms.h"

namespace fl {

namespace kernels {
namespace {

using ChunkFn = void (*)(float*, uint64_t, uint64_t, int64_t, int64_t);

// Runs f(out_pointer, first_element, count, chunk) over the chunks of n elements.
template <class F>
void for_chunks(int64_t n, F&& f) {
  const int64_t chunks = (n + kRandomChunk - 1) / kRandomChunk;
  parallel_for(0, chunks, 16, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) f(c, c * kRandomChunk, std::min(kRandomChunk, n - c * kRandomChunk));
  });
}

// Calls body(T* out) on row-major memory of y's type, then copies where y itself is not row-major.
template <class F>
void into(const Tensor& y, F&& body) {
  const DType type = is_wide_unsigned(y.dtype()) ? DType::Int64 : y.dtype();
  Tensor target = y.is_contiguous() && type == y.dtype() ? y : empty(y.sizes(), type);
  visit(type, [&]<class T>(T) { body(target.data<T>()); });
  if (!target.same(y)) copy_elements(y, target);
}

template <class T>
T narrow_to(double v) {
  if constexpr (is_half_type<T>) return T(static_cast<float>(v));
  else return static_cast<T>(v);
}

// out[i] = map(draw i) with 24-bit draws, or draws of 53 bits for double.
template <class Map>
void fill_random(const Tensor& y, Generator* generator, ChunkFn chunk_fn, bool normal, Map&& map) {
  const auto [seed, offset] = generator_or_default(generator).next();
  const uint64_t s = seed, o = offset;
  into(y, [&]<class T>(T* out) {
    for_chunks(y.numel(), [&](int64_t chunk, int64_t first, int64_t count) {
      if constexpr (std::is_same_v<T, double>) {
        alignas(64) uint32_t hi[kRandomChunk], lo[kRandomChunk];
        const int64_t made = normal ? count + 1 : count;  // of a pair both
        random_bits(hi, s, o, 2 * chunk, made);
        random_bits(lo, s, o, 2 * chunk + 1, made);
        for (int64_t i = 0; i < count; ++i) {
          double u = uniform_double(hi[i], lo[i]);
          if (normal) {  // pairs (i, i ^ 1) share two uniforms
            const int64_t a = i & ~int64_t{1}, b = i | 1;
            const double u1 = 1.0 - uniform_double(hi[a], lo[a]), u2 = uniform_double(hi[b], lo[b]);
            const double r = std::sqrt(-2 * std::log(u1));
            u = i & 1 ? r * std::sin(2 * M_PI * u2) : r * std::cos(2 * M_PI * u2);
          }
          out[first + i] = map(u);
        }
      } else {
        alignas(64) float draws[kRandomChunk];
        chunk_fn(draws, s, o, chunk, count);
        // A uniform draw has as many bits as the type can tell apart below 1: it never rounds up to 1.
        constexpr float kLevels = std::is_same_v<T, Float16> ? 0x1p11f : 0x1p8f;
        if (is_half_type<T> && !normal)
          for (int64_t i = 0; i < count; ++i) draws[i] = std::floor(draws[i] * kLevels) / kLevels;
        for (int64_t i = 0; i < count; ++i) out[first + i] = narrow_to<T>(map(draws[i]));
      }
    });
  });
}

// Maps 64 random bits to [0, span), with a bias below span / 2^64.
uint64_t below(uint64_t bits, uint64_t span) { return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * span) >> 64); }

}  // namespace

void uniform_(const Tensor& x, double from, double to, Generator* generator) {
  // Rounding, to 16 bits above all, may reach the excluded end.
  const bool narrow = x.dtype() == DType::Float16 || x.dtype() == DType::BFloat16;
  const double last = narrow ? to - (to - from) * (x.dtype() == DType::Float16 ? 0x1p-12 : 0x1p-9) : to;
  fill_random(x, generator, random_uniform, false, [=](auto u) {
    using F = decltype(u);
    const F v = static_cast<F>(from) + u * static_cast<F>(to - from);
    return v >= static_cast<F>(last) ? static_cast<F>(from) : v;
  });
}

void normal_(const Tensor& x, double mean, double std, Generator* generator) {
  fill_random(x, generator, random_normal, true, [=](auto z) { return static_cast<decltype(z)>(mean) + z * static_cast<decltype(z)>(std); });
}

void exponential_(const Tensor& x, double lambd, Generator* generator) {
  fill_random(x, generator, random_uniform, false, [=](auto u) { return -std::log1p(-u) / static_cast<decltype(u)>(lambd); });
}

void bernoulli_(const Tensor& x, double p, Generator* generator) {
  fill_random(x, generator, random_uniform, false, [=](auto u) { return static_cast<decltype(u)>(u < static_cast<decltype(u)>(p)); });
}

void bernoulli_of(const Tensor& p, Generator* generator, const Tensor& y) {
  const auto [seed, offset] = generator_or_default(generator).next();
  const uint64_t s = seed, o = offset;
  visit(p.dtype(), [&]<class T>(T) {
    const T* in = p.data<T>();
    T* out = y.data<T>();
    for_chunks(y.numel(), [&](int64_t chunk, int64_t first, int64_t count) {
      alignas(64) float draws[kRandomChunk];
      random_uniform(draws, s, o, chunk, count);
      for (int64_t i = 0; i < count; ++i) out[first + i] = narrow_to<T>(draws[i] < static_cast<float>(in[first + i]) ? 1.0 : 0.0);
    });
  });
}

namespace {

// A Poisson draw: below 10 the first count whose cumulative probability exceeds a uniform, else by transformed rejection (Hoermann,
// "The transformed rejection method for generating Poisson random variables", 1993, algorithm PTRS).
double poisson_draw(double rate, Uniforms uniforms) {
  if (rate == 0) return 0;
  if (!(rate < 1e18)) return rate;  // the deviation is below the spacing of doubles, or rate is infinite
  if (rate < 10) {
    constexpr int kMost = 64;  // its probability is below 1e-27
    static constexpr auto inverse = [] {
      std::array<double, kMost> of{};
      for (int k = 0; k < kMost; ++k) of[static_cast<size_t>(k)] = 1.0 / (k + 1);
      return of;
    }();
    const double u = uniforms.next();
    double probability = std::exp(-rate), sum = probability;
    int count = 0;
    while (u >= sum && count < kMost) {
      probability *= rate * inverse[static_cast<size_t>(count++)];
      sum += probability;
    }
    return count;
  }
  const double log_rate = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = uniforms.next() - 0.5, v = uniforms.next(), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    int sign;  // lgamma_r, since lgamma writes a global variable
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <= k * log_rate - rate - lgamma_r(k + 1, &sign)) return k;
  }
}

}  // namespace

void poisson(const Tensor& rates, Generator* generator, const Tensor& y) {
  const auto [seed, offset] = generator_or_default(generator).next();
  const uint64_t s = seed, o = offset;
  visit(rates.dtype(), [&]<class T>(T) {
    const T* in = rates.data<T>();
    T* out = y.data<T>();
    for_chunks(y.numel(), [&](int64_t, int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i)
        out[i] = narrow_to<T>(poisson_draw(static_cast<double>(in[i]), Uniforms(s, o, i)));
    });
  });
}

void dropout_mask(const Tensor& x, double p, Generator* generator, const Tensor& y) {
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  fill_random(y, generator, random_uniform, false, [=](auto u) {
    using F = decltype(u);
    return static_cast<F>(u >= static_cast<F>(p)) * static_cast<F>(scale);  // a product, lest GCC make it a branch
  });
  (void)x;
}

void random_(const Tensor& x, int64_t from, int64_t to, Generator* generator) {
  const auto [seed, offset] = generator_or_default(generator).next();
  const uint64_t s = seed, o = offset, span = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  into(x, [&]<class T>(T* out) {
    for_chunks(x.numel(), [&](int64_t chunk, int64_t first, int64_t count) {
      alignas(64) uint64_t bits[kRandomChunk];
      random_wide(bits, s, o, chunk, count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t v = static_cast<int64_t>(below(bits[i], span) + static_cast<uint64_t>(from));
        if constexpr (is_integer_type<T>) out[first + i] = static_cast<T>(v);
        else out[first + i] = narrow_to<T>(static_cast<double>(v));
      }
    });
  });
}

namespace {

// order[i] for i < n becomes a random order of 0 .. n - 1, by the exchanges of Fisher and Yates.
template <class I>
void shuffle(std::vector<I>& order, uint64_t seed, uint64_t offset) {
  std::iota(order.begin(), order.end(), I{0});
  alignas(64) uint64_t bits[kRandomChunk];
  int64_t chunk = -1;
  for (int64_t i = static_cast<int64_t>(order.size()) - 1; i > 0; --i) {
    if (i / kRandomChunk != chunk) random_wide(bits, seed, offset, chunk = i / kRandomChunk, i % kRandomChunk + 1);
    std::swap(order[static_cast<size_t>(i)], order[below(bits[i % kRandomChunk], static_cast<uint64_t>(i) + 1)]);
  }
}

}  // namespace

void randperm(const Tensor& y, Generator* generator) {
  const auto [seed, offset] = generator_or_default(generator).next();
  const auto fill = [&, s = seed, o = offset]<class I>(I) {
    std::vector<I> order(static_cast<size_t>(y.numel()));
    shuffle(order, s, o);
    visit(y.dtype(), [&]<class T>(T) {
      T* out = y.data<T>();
      for (size_t i = 0; i < order.size(); ++i) {
        if constexpr (is_integer_type<T>) out[i] = static_cast<T>(order[i]);
        else out[i] = narrow_to<T>(static_cast<double>(order[i]));
      }
    });
  };
  if (y.numel() <= INT32_MAX) fill(int32_t{});  // half the memory to go around in
  else fill(int64_t{});
}

// A tree of the sums of a row's weights, of which a draw walks one path; without replacement it takes the leaf out.
struct TreeOfSums {
  size_t leaves = 1;
  std::vector<double> sums;  // of node i those of 2 i and 2 i + 1

  explicit TreeOfSums(int64_t n) {
    while (leaves < static_cast<size_t>(n)) leaves *= 2;
    sums.resize(2 * leaves);
  }
  double* weights() { return sums.data() + leaves; }
  void ready() {
    double* s = sums.data();
    for (size_t first = leaves / 2; first > 0; first /= 2) {  // a level at a time: what is read and written lies apart
#pragma omp simd
      for (size_t i = first; i < 2 * first; ++i) s[i] = s[2 * i] + s[2 * i + 1];
    }
    if (!std::isinf(s[1])) return;
    for (size_t i = leaves; i < 2 * leaves; ++i) s[i] /= static_cast<double>(leaves);  // as many of the largest number have a sum
    ready();
  }
  // The leaves that N shares of the whole lead to. Several paths are walked abreast, since each step waits for the one before.
  template <size_t N>
  std::array<size_t, N> find(std::array<double, N> at) const {
    std::array<size_t, N> i;
    i.fill(1);
    for (double& share : at) share *= sums[1];
    while (i[0] < leaves) {
#pragma GCC unroll 4
      for (size_t j = 0; j < N; ++j) {
        const double left = sums[2 * i[j]];
        i[j] *= 2;
        const uint64_t right = static_cast<uint64_t>(!(at[j] < left)) & static_cast<uint64_t>(sums[i[j] + 1] > 0);  // a part of sum 0 is not entered, however the sums were rounded
        at[j] -= std::bit_cast<double>(std::bit_cast<uint64_t>(left) & (0 - right));  // `left` or 0, without a jump that would go either way
        i[j] += right;
      }
    }
    for (size_t& leaf : i) leaf -= leaves;
    return i;
  }
  void take_out(size_t leaf) {
    size_t i = leaf + leaves;
    sums[i] = 0;
    for (i /= 2; i > 0; i /= 2) sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
};

// Rows [m, n] of weights -> [m, k] indices.
void multinomial(const Tensor& weights, int64_t k, bool replacement, Generator* generator, const Tensor& y) {
  const auto [seed, offset] = generator_or_default(generator).next();
  const int64_t n = weights.size(-1), m = weights.numel() / std::max<int64_t>(n, 1);
  int64_t* out = y.data<int64_t>();
  visit(weights.dtype(), [&, seed = seed, offset = offset]<class T>(T) {
    const T* in = weights.data<T>();
    parallel_work(m, n + k, 8192, [&](int64_t first, int64_t last) {
      TreeOfSums tree(n);
      for (int64_t row = first; row < last; ++row) {
        convert_elements(tree.weights(), DType::Float64, in + row * n, weights.dtype(), n);
        tree.ready();
        const auto share = [&](int64_t i) {
          const auto w = philox(seed, offset, static_cast<uint64_t>(i));
          return uniform_double(w[0], w[1]);
        };
        int64_t i = row * k;
        const int64_t end = i + k;
        constexpr int64_t kAbreast = 4;
        for (; replacement && i + kAbreast <= end; i += kAbreast)
          for (int64_t to = i; const size_t leaf : tree.find<kAbreast>({share(i), share(i + 1), share(i + 2), share(i + 3)})) out[to++] = static_cast<int64_t>(leaf);
        for (; i < end; ++i) {
          const size_t leaf = tree.find<1>({share(i)})[0];
          if (!replacement) tree.take_out(leaf);
          out[i] = static_cast<int64_t>(leaf);
        }
      }
    });
  });
}

}  // namespace kernels
}  // namespace fl
