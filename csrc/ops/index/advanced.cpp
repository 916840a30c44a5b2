// x[indices] with index tensors on some leading axes, and boolean masks.
//
// The output is [before, B, after]: B the elements of the (equally shaped) index tensors; before and after
// the axes without one. Neighbouring index tensors leave B in their place, others move it to the front.
#include <cstring>
#include <optional>
#include <vector>

#include "ops/index/lines.h"
#include "storage/transpose.h"

namespace fl::kernels {
namespace {

struct Slots {
  std::vector<int64_t> offsets;        // of each element of B, in x
  std::vector<int64_t> before, after;  // offsets of the other axes, the run excluded
  int64_t run = 1;                     // contiguous elements at the end of `after`
  int tail = 0;                        // axes that they are
};

std::vector<int64_t> offsets_of(const std::vector<std::pair<int64_t, int64_t>>& axes) {  // (size, stride)
  std::vector<int64_t> out{0};
  for (const auto& [size, stride] : axes) {
    std::vector<int64_t> next;
    next.reserve(out.size() * static_cast<size_t>(size));
    for (int64_t o : out)
      for (int64_t i = 0; i < size; ++i) next.push_back(o + i * stride);
    out = std::move(next);
  }
  return out;
}

Slots slots_of(const Tensor& x, TensorList indices) {
  Slots s;
  int first = -1, last = -1, count = 0;
  for (int i = 0; i < static_cast<int>(indices.size()); ++i)
    if (indices[static_cast<size_t>(i)].defined()) {
      if (first < 0) first = i;
      last = i;
      ++count;
    }
  const bool together = last - first + 1 == count;
  std::vector<std::pair<int64_t, int64_t>> before, after;
  int64_t n = -1;
  for (int i = 0; i < x.ndim(); ++i) {
    const bool indexed = i < static_cast<int>(indices.size()) && indices[static_cast<size_t>(i)].defined();
    if (!indexed) {
      (together && i < first ? before : after).push_back({x.size(i), x.stride(i)});
      continue;
    }
    const Tensor index = as_int64(indices[static_cast<size_t>(i)]);
    const int64_t* at = index.data<int64_t>();
    const int64_t size = x.size(i), stride = x.stride(i);
    if (n < 0) {
      n = index.numel();
      s.offsets.assign(static_cast<size_t>(n), 0);
    }
    parallel_for(0, n, 32768, [&](int64_t b, int64_t e) {
      for (int64_t k = b; k < e; ++k) s.offsets[static_cast<size_t>(k)] += (at[k] < 0 ? at[k] + size : at[k]) * stride;
    });
  }
  if (n < 0) s.offsets.assign(1, 0);
  while (!after.empty() && after.back().second == s.run) {  // the contiguous tail
    s.run *= after.back().first;
    after.pop_back();
    ++s.tail;
  }
  s.before = offsets_of(before);
  s.after = offsets_of(after);
  return s;
}

}  // namespace

void index_get(const Tensor& given, TensorList indices, const Tensor& y) {
  if (y.numel() == 0) return;
  Slots s = slots_of(given, indices);
  constexpr int64_t kPiece = 32;  // bytes; many smaller ones cost more than putting all in order first
  const bool pieces = !given.is_contiguous() && s.run * static_cast<int64_t>(given.item_bytes()) < kPiece && y.numel() > given.numel() / 2;
  const Tensor x = pieces ? row_major_copy(given) : given;
  if (pieces) s = slots_of(x, indices);
  const int64_t nb = static_cast<int64_t>(s.offsets.size()), na = static_cast<int64_t>(s.after.size());
  const int64_t total = static_cast<int64_t>(s.before.size()) * nb;
  const int64_t item = static_cast<int64_t>(x.item_bytes()), bytes = s.run * item;
  const char* src = static_cast<const char*>(x.data());
  char* dst = static_cast<char*>(y.data());
  by_unit(bytes, [&](auto unit) {
    using U = decltype(unit);
    const bool one = static_cast<int64_t>(sizeof(U)) == bytes;
    parallel_work(total, na * s.run, 16384, [&](int64_t begin, int64_t end) {
      over_parts(begin, end, nb, [&](int64_t o, int64_t first, int64_t last) {
        const char* from = src + s.before[static_cast<size_t>(o)] * item;
        char* to = dst + (o * nb + first) * na * bytes;
        if (one && na == 1) {
          const int64_t* offset = s.offsets.data() + first;
#pragma GCC unroll 8
          for (int64_t i = 0; i < last - first; ++i) std::memcpy(to + i * bytes, from + offset[i] * item, sizeof(U));
          return;
        }
        if (one) {  // many elements of one plane, which stays in the first-level cache, before those of the next one; a few planes are turned together
          constexpr int64_t kPlanes = 8, kPositions = 2048 / static_cast<int64_t>(sizeof(U));
          U tile[kPlanes * kPositions];
          for (int64_t i0 = first; i0 < last; i0 += kPositions, to += kPositions * na * bytes) {
            const int64_t m = std::min(kPositions, last - i0), *offset = s.offsets.data() + i0;
            for (int64_t a = 0; a < na; a += kPlanes) {
              const int64_t planes = std::min(kPlanes, na - a);
              for (int64_t p = 0; p < planes; ++p) {
                const char* plane = from + s.after[static_cast<size_t>(a + p)] * item;
                U* row = tile + p * m;
#pragma GCC unroll 8
                for (int64_t i = 0; i < m; ++i) std::memcpy(row + i, plane + offset[i] * item, sizeof(U));
              }
              transpose_block(tile, m, to + a * bytes, na, planes, m, sizeof(U));
            }
          }
          return;
        }
        for (int64_t i = first; i < last; ++i)
          for (int64_t a = 0; a < na; ++a, to += bytes) {
            const char* slice = from + (s.offsets[static_cast<size_t>(i)] + s.after[static_cast<size_t>(a)]) * item;
            std::memcpy(to, slice, static_cast<size_t>(bytes));
          }
      });
    });
  });
}

namespace {

// Where the values of index_put lie, which may have been expanded: of each of `before`, of B and of `after`. A run of them is in order, or one value.
struct Source {
  std::vector<int64_t> before, places, after;
  bool one = false;

  int64_t at(size_t o, int64_t k, int64_t a) const { return before[o] + places[static_cast<size_t>(k)] + after[static_cast<size_t>(a)]; }

  // Empty where the values have to be put in order first.
  static std::optional<Source> of(const Tensor& values, const Slots& s, bool may_be_one) {
    std::vector<std::pair<int64_t, int64_t>> axes;
    for (int i = 0; i < values.ndim(); ++i) axes.push_back({values.size(i), values.stride(i)});
    int64_t run = 1;
    bool in_order = true, equal = may_be_one && s.run > 1;
    for (int i = 0; i < s.tail; ++i, axes.pop_back()) {
      const auto [size, stride] = axes.back();
      in_order = in_order && (size == 1 || stride == run);
      equal = equal && (size == 1 || stride == 0);
      run *= size;
    }
    if (!in_order && !equal) return std::nullopt;
    const auto part = [&](size_t count) {  // the last axes whose sizes make up that many
      auto first = axes.end();
      for (size_t n = 1; n < count;) n *= static_cast<size_t>((--first)->first);
      std::vector<std::pair<int64_t, int64_t>> out(first, axes.end());
      axes.erase(first, axes.end());
      return offsets_of(out);
    };
    Source source;
    source.after = part(s.after.size());
    source.places = part(s.offsets.size());
    source.before = part(s.before.size());
    source.one = !in_order;
    return source;
  }
};

}  // namespace

// `values` has the shape of x[indices]. Where an index occurs twice the last value stays, or all are added
// in order. Threads share the columns, so the order is the same for any number of them.
void index_put(const Tensor& x, TensorList indices, const Tensor& values, bool accumulate, const Tensor& y) {
  start_from(x, y, values.numel() <= kSharedGrain ? values.numel() : 0);
  if (values.numel() == 0) return;
  if (accumulate && adds_wide(y, values)) {
    const WideOutput out(y, true);
    return index_put(out.wide, indices, widened(values), true, out.wide);
  }
  const Slots s = slots_of(y, indices);
  const int64_t nb = static_cast<int64_t>(s.offsets.size()), na = static_cast<int64_t>(s.after.size());
  const std::optional<Source> strided = values.is_contiguous() ? std::nullopt : Source::of(values, s, !accumulate);
  const Tensor given = strided ? values : row_major_copy(values);
  // put(to, from, count) for each run of y; from(o, k, a) is where the values of one begin.
  auto walk = [&](auto* dst, const auto* src, bool one, auto&& from, auto&& put) {
    auto work = [&](int64_t a_begin, int64_t a_end, int64_t c, int64_t m) {
      const auto* source = src + (one ? 0 : c);
      for (size_t o = 0; o < s.before.size(); ++o)
        for (int64_t k = 0; k < nb; ++k) {
          const int64_t base = s.before[o] + s.offsets[static_cast<size_t>(k)];
          for (int64_t a = a_begin; a < a_end; ++a) put(dst + base + s.after[static_cast<size_t>(a)] + c, source + from(o, k, a), m);
        }
    };
    const int64_t lines = static_cast<int64_t>(s.before.size()) * nb;
    if (na > s.run) parallel_work(na, lines * s.run, 16384, [&](int64_t b, int64_t e) { work(b, e, 0, s.run); });
    else parallel_for(0, s.run, std::max<int64_t>(16, kSharedGrain / (lines * na)), [&](int64_t b, int64_t e) { work(0, na, b, e - b); });
  };
  auto in_lines = [&](size_t o, int64_t k, int64_t a) { return strided->at(o, k, a); };
  auto in_order = [&](size_t o, int64_t k, int64_t a) { return ((static_cast<int64_t>(o) * nb + k) * na + a) * s.run; };
  auto over = [&](auto* dst, const auto* src, auto&& put) {
    if (strided) return walk(dst, src, false, in_lines, put);
    if (s.run > 1 || na > 1) return walk(dst, src, false, in_order, put);
    const auto place = [](const int64_t* offset, int64_t k) { return offset[k]; };
    for (size_t o = 0; o < s.before.size(); ++o)
      in_fours(s.offsets.data(), src + static_cast<int64_t>(o) * nb, nb, place, [to = dst + s.before[o], put](int64_t at, auto value) { put(to + at, &value, 1); });
  };
  if (!accumulate) {
    by_size(y.item_bytes(), [&](auto unit) {
      using U = decltype(unit);
      U* to = static_cast<U*>(y.data());
      const U* from = static_cast<const U*>(given.data());
      if (strided && strided->one) return walk(to, from, true, in_lines, [](U* run, const U* value, int64_t m) { fill_row(run, m, *value); });
      over(to, from, [](U* run, const U* source, int64_t m) {
        if (m >= 16) std::memcpy(run, source, static_cast<size_t>(m) * sizeof(U));
        else
          for (int64_t j = 0; j < m; ++j) run[j] = source[j];
      });
    });
    return;
  }
  visit(with_sign(y.dtype()), [&](auto zero) {  // sums of unsigned numbers have the same bits
    using T = decltype(zero);
    over(y.data<T>(), static_cast<const T*>(given.data<T>()), [](T* to, const T* from, int64_t m) {
#pragma omp simd
      for (int64_t j = 0; j < m; ++j) {
        if constexpr (std::is_same_v<T, Truth>) to[j] = to[j] || from[j];
        else if constexpr (is_half_type<T>) to[j] = T(static_cast<float>(to[j]) + static_cast<float>(from[j]));
        else to[j] = static_cast<T>(to[j] + from[j]);
      }
    });
  });
}

// In place; x may have any strides. Values that are a part of x are those of before.
void index_put_into(const Tensor& x, TensorList indices, const Tensor& values, bool accumulate) {
  Tensor apart = values;
  if (may_share_bytes(values, x)) copy_elements(apart = empty(values.sizes(), values.dtype()), values);
  index_put(x, indices, apart, accumulate, x);
}

// ---- masks and nonzero: two passes over fixed chunks, counting first ------------------------------------------

namespace {

constexpr int64_t kChunk = 8192;

// Calls place(i, position) for the chosen i in order, each chunk a copy of `place`; room(total) comes before.
template <class Chosen, class Room, class Place>
void compact(int64_t n, Chosen&& chosen, Room&& room, Place&& place) {
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<int64_t> start(static_cast<size_t>(chunks + 1), 0);
  parallel_for(0, chunks, 2, [&](int64_t b, int64_t e) {
    for (int64_t c = b; c < e; ++c) {
      int64_t count = 0;
      for (int64_t i = c * kChunk; i < std::min(n, (c + 1) * kChunk); ++i) count += chosen(i);
      start[static_cast<size_t>(c + 1)] = count;
    }
  });
  for (int64_t c = 0; c < chunks; ++c) start[static_cast<size_t>(c + 1)] += start[static_cast<size_t>(c)];
  room(start[static_cast<size_t>(chunks)]);
  parallel_for(0, chunks, 2, [&](int64_t b, int64_t e) {
    for (int64_t c = b; c < e; ++c) {
      auto here = place;
      int64_t at = start[static_cast<size_t>(c)];
      const int64_t end = std::min(n, (c + 1) * kChunk);
      for (int64_t i = c * kChunk; i < end; i += 512) {  // positions first, without branches
        int64_t position[512], found = 0;
        for (int64_t k = i; k < std::min(end, i + 512); ++k) {
          position[found] = k;
          found += chosen(k) ? 1 : 0;
        }
        for (int64_t k = 0; k < found; ++k) here(position[k], at++);
      }
    }
  });
}

}  // namespace

Tensor nonzero(const Tensor& x) {
  if (is_rare(x.dtype())) {
    const Tensor truths = empty(x.sizes(), DType::Bool);
    copy_elements(truths, x);
    return nonzero(truths);
  }
  Tensor out;
  const int d = x.ndim();
  const int64_t row = d > 0 ? std::max<int64_t>(x.size(-1), 1) : 1;
  auto row_of = [&](int64_t i, Dims& coordinate) {
    for (int k = d - 1; k >= 0; --k) {
      coordinate[k] = i % x.size(k);
      i /= x.size(k);
    }
  };
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = std::conditional_t<is_half_type<T>, float, T>;
    const T* v = x.data<T>();
    int64_t* to = nullptr;
    compact(
        x.numel(), [&](int64_t i) { return static_cast<W>(v[i]) != 0; },
        [&](int64_t n) {
          out = empty(Dims{n, d}, DType::Int64);
          to = out.data<int64_t>();
        },
        // A position in the row of the one before differs from it in the last coordinate alone.
        [&to, &row_of, d, row, begin = int64_t{0}, end = int64_t{0}, first = Dims(std::max(d, 1))](int64_t i, int64_t at) mutable {
          if (i >= end) {
            begin = i / row * row;
            end = begin + row;
            row_of(begin, first);
          }
          int64_t* const coordinate = to + at * d;
          if (d == 2) coordinate[0] = first[0], coordinate[1] = i - begin;  // of no other number of axes are there as many
          else if (d > 0) {
            for (int k = 0; k < d - 1; ++k) coordinate[k] = first[k];
            coordinate[d - 1] = i - begin;
          }
        });
  });
  return out;
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  Tensor out;
  const Truth* m = mask.data<Truth>();
  by_size(x.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    const U* v = static_cast<const U*>(x.data());
    U* to = nullptr;
    compact(
        x.numel(), [&](int64_t i) { return m[i]; },
        [&](int64_t n) {
          out = empty(Dims{n}, x.dtype());
          to = static_cast<U*>(out.data());
        },
        [&](int64_t i, int64_t at) { to[at] = v[i]; });
  });
  return out;
}

void masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, const Tensor& y) {
  start_from(x, y);
  const Truth* m = mask.data<Truth>();
  by_size(x.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    const U* from = static_cast<const U*>(source.data());
    U* to = static_cast<U*>(y.data());
    compact(x.numel(), [&](int64_t i) { return m[i]; }, [](int64_t) {}, [&](int64_t i, int64_t at) { to[i] = from[at]; });
  });
}

// The elements of dy where mask is True, then zeros: the gradient of masked_scatter's source.
void masked_scatter_source(const Tensor& dy, const Tensor& mask, IntList, const Tensor& ds) {
  fill_elements(ds, Scalar(0));
  const Truth* m = mask.data<Truth>();
  by_size(dy.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    const U* from = static_cast<const U*>(dy.data());
    U* to = static_cast<U*>(ds.data());
    compact(dy.numel(), [&](int64_t i) { return m[i]; }, [](int64_t) {}, [&](int64_t i, int64_t at) { to[at] = from[i]; });
  });
}

}  // namespace fl::kernels
