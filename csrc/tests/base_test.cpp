// Dims, element types, Philox, reference counts, parallel_for.
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "base/dims.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/refcount.h"
#include "tests/check.h"

namespace fl {
namespace {

// ---- Dims

TEST(dims_spill_to_the_heap_and_back) {
  Dims d;
  for (int i = 0; i < 20; ++i) d.push_back(i);
  CHECK_EQ(d.size(), 20);
  for (int i = 0; i < 20; ++i) CHECK_EQ(d[i], i);
  Dims copy = d;
  Dims moved = std::move(d);
  CHECK(copy == moved);
  CHECK_EQ(d.size(), 0);
  copy = Dims{1, 2};
  CHECK_EQ(to_string(copy), "[1, 2]");
  moved = copy;
  CHECK(moved == copy);
  moved.erase(0);
  CHECK_EQ(to_string(moved), "[2]");
}

TEST(dims_insert_erase_resize) {
  Dims d{1, 2, 3, 4, 5, 6, 7, 8};
  d.insert(0, 0);  // the ninth: to the heap
  CHECK_EQ(to_string(d), "[0, 1, 2, 3, 4, 5, 6, 7, 8]");
  d.erase(8);
  d.erase(0);
  CHECK_EQ(to_string(d), "[1, 2, 3, 4, 5, 6, 7]");
  d.resize(9, -1);
  CHECK_EQ(d.back(), -1);
  CHECK_EQ(d[7], -1);
  d.resize(1);
  CHECK_EQ(to_string(d), "[1]");
  const Dims& self = d;
  d = self;
  CHECK_EQ(to_string(d), "[1]");
  CHECK(Dims(3, 7) == (Dims{7, 7, 7}));
  CHECK(!(Dims{1} == Dims{1, 1}));
}

// ---- the 16-bit floats

// The same value by arithmetic instead of bit moves.
float half_by_hand(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int e = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int m = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (e == (1 << exponent_bits) - 1)
    return static_cast<float>(m ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity());
  const double value = e ? std::ldexp(1.0 + std::ldexp(m, -mantissa_bits), e - bias) : std::ldexp(m, 1 - bias - mantissa_bits);
  return static_cast<float>(sign * value);
}

template <class T>
void check_all_patterns(int exponent_bits, int mantissa_bits) {
  int wrong_value = 0, wrong_back = 0, wrong_rounding = 0;
  for (int i = 0; i < 65536; ++i) {
    T x;
    x.bits = static_cast<uint16_t>(i);
    const float f = x;
    const float hand = half_by_hand(x.bits, exponent_bits, mantissa_bits);
    if (std::isnan(f) || std::isnan(hand)) {
      wrong_value += std::isnan(f) != std::isnan(hand);
      wrong_back += !std::isnan(static_cast<float>(T(f)));
      continue;
    }
    wrong_value += std::memcmp(&f, &hand, 4) != 0;  // the sign of zero counts
    wrong_back += T(f).bits != x.bits;
    // Half way to the next pattern goes to the even one; a little beyond goes up, a little before down.
    const int magnitude = i & 0x7fff, infinite = ((1 << exponent_bits) - 1) << mantissa_bits;
    if (magnitude >= infinite - 1) continue;
    const float next = half_by_hand(static_cast<uint16_t>(i + 1), exponent_bits, mantissa_bits);
    const float middle = static_cast<float>((static_cast<double>(f) + static_cast<double>(next)) / 2);
    wrong_rounding += T(middle).bits != (i & 1 ? i + 1 : i);
    wrong_rounding += T(std::nextafterf(middle, next)).bits != i + 1;
    wrong_rounding += T(std::nextafterf(middle, f)).bits != i;
  }
  CHECK_EQ(wrong_value, 0);
  CHECK_EQ(wrong_back, 0);
  CHECK_EQ(wrong_rounding, 0);
}

TEST(float16_all_patterns) {
  check_all_patterns<Float16>(5, 10);
  CHECK_EQ(Float16(65504.0f).bits, 0x7bff);
  CHECK_EQ(Float16(65519.996f).bits, 0x7bff);
  CHECK_EQ(Float16(65520.0f).bits, 0x7c00);
  CHECK_EQ(Float16(1e30f).bits, 0x7c00);
  CHECK_EQ(Float16(-1e-30f).bits, 0x8000);
}

TEST(bfloat16_all_patterns) {
  check_all_patterns<BFloat16>(8, 7);
  CHECK_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  CHECK_EQ(BFloat16(-0.0f).bits, 0x8000);
}

// ---- promotion

// Nothing where no type holds both: uint64 beside signed integers.
std::optional<DType> joined(DType a, DType b) {
  try {
    return promote(a, b);
  } catch (const DTypeError&) {
    return std::nullopt;
  }
}

TEST(promotion_is_a_lattice) {
  auto at = [](int i) { return static_cast<DType>(i); };
  for (int a = 0; a < kDTypes; ++a) {
    CHECK_EQ(promote(at(a), at(a)), at(a));
    CHECK_EQ(promote(at(a), DType::Bool), at(a));
    for (int b = 0; b < kDTypes; ++b) {
      const std::optional<DType> both = joined(at(a), at(b));
      CHECK(both == joined(at(b), at(a)));
      const auto is_signed = [](DType t) { return t == DType::Int8 || t == DType::Int16 || t == DType::Int32 || t == DType::Int64; };
      const bool apart = (at(a) == DType::UInt64 && is_signed(at(b))) || (at(b) == DType::UInt64 && is_signed(at(a)));
      const bool small = at(a) != at(b) && ((is_float8(at(a)) && at(b) != DType::Bool) || (is_float8(at(b)) && at(a) != DType::Bool));
      CHECK_EQ(both.has_value(), !apart && !small);
      if (!both) continue;
      CHECK_EQ(promote(*both, at(a)), *both);  // an upper bound...
      CHECK_EQ(is_inexact(*both), is_inexact(at(a)) || is_inexact(at(b)));
      CHECK_EQ(is_complex(*both), is_complex(at(a)) || is_complex(at(b)));
      for (int c = 0; c < kDTypes; ++c) {
        const DType top = at(c);
        if (joined(top, at(a)) == top && joined(top, at(b)) == top) CHECK_EQ(promote(top, *both), top);  // ...the least
      }
    }
  }
  CHECK_EQ(promote(DType::UInt8, DType::Int8), DType::Int16);
  CHECK_EQ(promote(DType::UInt8, DType::Int64), DType::Int64);
  CHECK_EQ(promote(DType::Int64, DType::Float16), DType::Float16);
  CHECK_EQ(promote(DType::Float16, DType::BFloat16), DType::Float32);
  CHECK_EQ(promote(DType::Float32, DType::Float64), DType::Float64);
  CHECK_EQ(promote(DType::Complex64, DType::Float64), DType::Complex128);
  CHECK_EQ(promote(DType::Float16, DType::Complex64), DType::Complex64);
}

// ---- Philox

// Random123's known answers. philox(seed, offset, index) has counter = {index lo, hi, offset lo, hi} and
// key = {seed lo, hi}.
TEST(philox_known_answers) {
  using Words = std::array<uint32_t, 4>;
  CHECK((philox(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint64_t ones = ~uint64_t{0};
  CHECK((philox(ones, ones, ones) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK((philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88) ==
         Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(philox_uniform_stays_below_one) {
  CHECK(uniform_float(0xffffffffu) < 1.0f);
  CHECK(uniform_double(0xffffffffu, 0xffffffffu) < 1.0);
  CHECK_EQ(uniform_float(0), 0.0f);
}

// ---- small objects and reference counts

struct Counted : RefCounted {
  FL_SMALL_OBJECT
  explicit Counted(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~Counted() override { --alive_; }
  std::atomic<int>& alive_;
};

TEST(refcount_small_sizes) {
  std::vector<std::pair<void*, size_t>> blocks;
  for (size_t size = 1; size <= 600; ++size) {
    void* p = small_alloc(size);
    CHECK_EQ(reinterpret_cast<uintptr_t>(p) % alignof(std::max_align_t), uintptr_t{0});
    std::memset(p, static_cast<int>(size), size);
    blocks.emplace_back(p, size);
  }
  for (auto& [p, size] : blocks) {
    for (size_t i = 0; i < size; ++i) CHECK_EQ(static_cast<unsigned char*>(p)[i], static_cast<unsigned char>(size));
    small_free(p, size);
  }
}

TEST(refcount_follows_copies_and_moves) {
  std::atomic<int> alive{0};
  {
    Ref<Counted> a = make_ref<Counted>(alive);
    CHECK_EQ(a->use_count(), 1u);
    Ref<Counted> b = a;
    CHECK_EQ(a->use_count(), 2u);
    Ref<Counted> c = std::move(b);
    CHECK(!b);
    CHECK_EQ(a->use_count(), 2u);
    a = c;
    CHECK_EQ(a->use_count(), 2u);
    Ref<RefCounted> base = c;
    CHECK_EQ(a->use_count(), 3u);
    Counted* raw = c.detach();
    Ref<Counted>::adopt(raw);
    CHECK_EQ(a->use_count(), 2u);
  }
  CHECK_EQ(alive.load(), 0);
}

TEST(refcount_across_threads) {
  std::atomic<int> alive{0};
  const Ref<Counted> shared = make_ref<Counted>(alive);
  std::vector<Ref<Counted>> made(4000);
  test::on_threads(4, [&](int t) {
    for (int i = 0; i < 1000; ++i) {
      const Ref<Counted> mine = shared;
      made[static_cast<size_t>(t * 1000 + i)] = make_ref<Counted>(alive);
    }
  });
  CHECK_EQ(shared->use_count(), 1u);
  CHECK_EQ(alive.load(), 4001);
  // Dropped by other threads than those which made them.
  test::on_threads(4, [&](int t) {
    for (int i = 0; i < 1000; ++i) made[static_cast<size_t>((t + 1) % 4 * 1000 + i)] = nullptr;
  });
  CHECK_EQ(alive.load(), 1);
}

TEST(refcount_last_reference_on_any_thread) {
  std::atomic<int> alive{0};
  for (int round = 0; round < 2000; ++round) {
    Ref<Counted> a = make_ref<Counted>(alive);
    std::array<Ref<Counted>, 2> held = {a, a};
    a = nullptr;
    if (round % 100 == 0) test::on_threads(2, [&](int t) { held[static_cast<size_t>(t)] = nullptr; });
  }
  CHECK_EQ(alive.load(), 0);
}

// ---- parallel_for

// Under ThreadSanitizer the pool has one thread: libgomp is not instrumented, so its barriers are unknown
// to it and every parallel region would be reported.
struct Threads {
  int before = num_threads();
  explicit Threads(int n) {
    if (!FL_TSAN) set_num_threads(n);
  }
  ~Threads() { set_num_threads(before); }
};

TEST(parallel_for_covers_the_range_once) {
  for (int n : {1, 2, 3, 8}) {
    const Threads threads(n);
    for (int64_t size : {0, 1, 2, 7, 64, 1000})
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(size));
        std::atomic<int> ranges{0};
        parallel_for(5, 5 + size, grain, [&](int64_t b, int64_t e) {
          ++ranges;
          for (int64_t i = b; i < e; ++i) ++seen[static_cast<size_t>(i - 5)];
        });
        for (auto& s : seen) CHECK_EQ(s.load(), 1);
        CHECK(ranges.load() <= std::max(1, n));
        if (size == 0) CHECK_EQ(ranges.load(), 0);
      }
  }
}

TEST(parallel_for_rethrows) {
  const Threads threads(4);
  auto work = [](int64_t b, int64_t) {
    if (b >= 0) raise<ShapeError>("in a range");
  };
  CHECK_THROWS(parallel_for(0, 1000, 1, work), ShapeError, "in a range");
  std::atomic<int64_t> sum{0};
  parallel_for(0, 1000, 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) sum += i;
  });
  CHECK_EQ(sum.load(), 499500);
}

TEST(parallel_for_nested_runs_in_one_range) {
  const Threads threads(2);
  std::atomic<int> inner{0}, outer{0};
  parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    ++outer;
    parallel_for(0, 100, 1, [&](int64_t, int64_t) { ++inner; });
  });
  if (outer.load() == 2) CHECK_EQ(inner.load(), 2);
}

TEST(parallel_work_does_each_item_once) {
  const Threads threads(3);
  for (const int64_t n : {0, 1, 2, 3, 7, 100})
    for (const int64_t work : {0, 1, 50, 99, 100, 199, 200, 1000, 12345}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(n));
      parallel_work(n, work, 100, [&](int64_t b, int64_t e) {
        CHECK_EQ(b < e, true);
        for (int64_t i = b; i < e; ++i) ++done[static_cast<size_t>(i)];
      });
      for (const auto& d : done) CHECK_EQ(d.load(), 1);
    }
  bool alone = false;
  parallel_work(1, 1000, 1, [&](int64_t, int64_t) { alone = !in_parallel_region(); });
  CHECK_EQ(alone, true);
}

TEST(parallel_for_thread_count_is_checked) {
  CHECK_THROWS((set_num_threads(0), 0), ArgumentError, "set_num_threads: expects a positive integer, but n = 0");
}

TEST(error_texts_carry_values) {
  CHECK_EQ(text("f: dim = ", 2, ", shape ", Dims{4, 7}, ", keep = ", true), "f: dim = 2, shape [4, 7], keep = True");
}

TEST(short_loops_do_not_wait_for_workers_that_come_late) {
  if (FL_TSAN) return;
  const Threads threads(4);
  const auto pieces = [](int64_t grains) {
    std::atomic<int> calls{0};
    std::atomic<int64_t> sum{0};
    parallel_for(0, grains * 100, 100, [&](int64_t b, int64_t e) {
      ++calls;
      sum += e - b;
    });
    CHECK_EQ(sum.load(), grains * 100);
    return calls.load();
  };
  detail::note_lateness(0);
  CHECK_EQ(pieces(4), 4);
  detail::note_lateness(150'000);
  CHECK_EQ(pieces(4), 1);  // 24 us of work
  // What is called from there is cut as in a region.
  detail::note_lateness(150'000);
  int inner = 0;
  bool shared = false;
  parallel_for(0, 4, 1, [&](int64_t, int64_t) {
    shared = in_shared_loop();
    parallel_for(0, 1'000'000, 1, [&](int64_t, int64_t) { ++inner; });
  });
  CHECK_EQ(inner, 1);
  CHECK(shared && !in_shared_loop() && !in_parallel_region());
  detail::note_lateness(150'000);
  CHECK_EQ(pieces(1000), 4);
  detail::note_lateness(150'000);
  int alone = 0;
  while (pieces(4) == 1) CHECK(++alone < 1000);  // what was noted fades
  CHECK(alone > 10);
  detail::note_lateness(0);
}

}  // namespace
}  // namespace fl
