// gather, scatter, index_select and their kin: one index per element or per slice along one axis.
//
// Whatever adds does so in the order of the index along `dim`; threads share out the other axes, so
// results do not depend on their number.
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "dispatch/operand.h"
#include "ops/index/lines.h"

namespace fl::kernels {

void index_select(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& y);
void index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& y);

namespace {

// What is done with one row: offsets in index, in x without dim's part, in src, and a count. Called through a pointer, so that the walk is there once
// and not for each type.
struct RowCall {
  const void* context;
  void (*call)(const void* context, int64_t i, int64_t xo, int64_t so, int64_t n);
  void operator()(int64_t i, int64_t xo, int64_t so, int64_t n) const { call(context, i, xo, so, n); }
};

void walk_rows(const Tensor& index, const Tensor& x, const Tensor* src, int64_t dim, bool conflict_free, RowCall f) {
  const int n = index.ndim();
  if (index.numel() == 0) return;
  if (n == 0) return f(0, 0, 0, 1);
  const int64_t row = index.size(n - 1), rows = index.numel() / row;
  auto run = [&](int64_t first_row, int64_t last_row, int64_t begin, int64_t end) {
    Dims at = index.sizes(), x_steps = at, src_steps = at;
    int64_t rest = first_row, xo = dim != n - 1 && x.ndim() == n ? begin * x.stride(n - 1) : 0, so = begin;
    for (int i = n - 2; i >= 0; --i) {
      at[i] = rest % index.size(i);
      rest /= index.size(i);
      x_steps[i] = i == dim ? 0 : x.stride(i);
      src_steps[i] = src ? src->stride(i) : 0;
      xo += at[i] * x_steps[i];
      so += at[i] * src_steps[i];
    }
    for (int64_t r = first_row; r < last_row; ++r) {
      f(r * row + begin, xo, so, end - begin);
      for (int i = n - 2; i >= 0; --i) {
        xo += x_steps[i];
        so += src_steps[i];
        if (++at[i] < index.size(i)) break;
        xo -= at[i] * x_steps[i];
        so -= at[i] * src_steps[i];
        at[i] = 0;
      }
    }
  };
  if (!conflict_free) {
    parallel_work(rows, row, 16384, [&](int64_t b, int64_t e) { run(b, e, 0, row); });
  } else if (dim > 0) {
    const int64_t per = rows / index.size(0);  // rows under one index of the first axis
    parallel_work(index.size(0), per * row, 16384, [&](int64_t b, int64_t e) { run(b * per, e * per, 0, row); });
  } else if (n > 1) {
    parallel_for(0, row, std::max<int64_t>(16, 16384 / rows), [&](int64_t b, int64_t e) { run(0, rows, b, e); });
  } else {
    run(0, 1, 0, row);
  }
}

// Calls f for the rows along the last axis of `index`; x's stride along that axis is 0 if it is dim. With `conflict_free`, elements
// that could fall on the same place stay on one thread, in order.
template <class F>
void walk(const Tensor& index, const Tensor& x, const Tensor* src, int64_t dim, bool conflict_free, const F& f) {
  const auto call = [](const void* context, int64_t i, int64_t xo, int64_t so, int64_t n) { (*static_cast<const F*>(context))(i, xo, so, n); };
  walk_rows(index, x, src, dim, conflict_free, {&f, call});
}

// The same where rows of a few elements lie behind each other in all of them, as one class for each sample does: without a call for each.
template <class F>
bool walk_short(const Tensor& index, const Tensor& x, const Tensor* src, int64_t dim, const F& f) {
  constexpr int64_t kShort = 8;
  const int n = index.ndim();
  if (n < 2 || dim != n - 1 || index.size(n - 1) > kShort || !x.is_contiguous()) return false;
  for (int i = 0; i < n - 1; ++i)
    if (index.size(i) != x.size(i) || (src && index.size(i) != src->size(i))) return false;
  const int64_t row = index.size(n - 1), rows = row ? index.numel() / row : 0, of_x = x.size(n - 1), of_src = src ? src->size(n - 1) : 0;
  parallel_work(rows, row, 16384, [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; ++r) f(r * row, r * of_x, r * of_src, row);
  });
  return true;
}

// Calls f(place): place(at, j) is where index at[j] of a row falls in x's elements from the row's offset on. Along the
// last axis of x, which is row-major, that is the index itself.
template <class F>
void with_places(const Tensor& x, const Tensor& index, int64_t dim, F&& f) {
  if (index.ndim() == 0 || dim == index.ndim() - 1) return f([](const int64_t* at, int64_t j) { return at[j]; });
  f([stride = x.stride(static_cast<int>(dim))](const int64_t* at, int64_t j) { return j + at[j] * stride; });
}

template <Combine C, class T>
T combined(T a, T b) {
  if constexpr (std::is_same_v<T, Truth>) {
    return C == Combine::Sum || C == Combine::Max ? a || b : a && b;
  } else {
    using W = std::conditional_t<is_half_type<T>, float, T>;
    const W x = static_cast<W>(a), y = static_cast<W>(b);
    if constexpr (C == Combine::Sum) return static_cast<T>(x + y);
    if constexpr (C == Combine::Prod) return static_cast<T>(x * y);
    const W better = C == Combine::Max ? (x > y ? x : y) : (x < y ? x : y);  // without a jump; y where either is no number
    return static_cast<T>(x != x ? x : better);
  }
}

// f(destination row, source row, count) for every index, in order per column; the count is a constant where it is 1.
template <class F>
void over_rows(const Lines& l, const int64_t* at, int64_t k, F&& f) {
  auto run = [at, k, n = l.n, inner = l.inner, &f](int64_t o_begin, int64_t o_end, int64_t c, auto m) __attribute__((noinline)) {
    const auto g = f;  // a byte that is written might be one of f's
    for (int64_t o = o_begin; o < o_end; ++o)
      for (int64_t i = 0; i < k; ++i) g((o * n + at[i]) * inner + c, (o * k + i) * inner + c, m);
  };
  const std::integral_constant<int64_t, 1> one;
  if (l.inner == 1)
    parallel_work(l.outer, k, 16384, [&](int64_t b, int64_t e) { run(b, e, 0, one); });
  else if (l.outer > 1)
    parallel_work(l.outer, k * l.inner, 16384, [&](int64_t b, int64_t e) { run(b, e, 0, l.inner); });
  else
    parallel_for(0, l.inner, std::max<int64_t>(16, kSharedGrain / std::max<int64_t>(1, k)), [&](int64_t b, int64_t e) { run(0, 1, b, e - b); });
}

// How many elements over_rows works on, if it does on one thread alone; else 0.
int64_t rows_alone(const Tensor& y, int64_t dim, int64_t k) {
  const Lines l = lines_of(y, dim);
  return l.outer == 1 && l.inner > 1 && l.inner * k <= kSharedGrain ? l.inner * k : 0;
}

// Whether `index` repeats one line of indices along all other axes of `whole`, and of `src` if there is one. Networks on graphs expand one index per
// edge over all features, and whole rows move then.
bool repeats_a_line(const Tensor& index, int64_t dim, const Tensor& whole, const Tensor* src) {
  const int d = static_cast<int>(dim);
  if (index.ndim() < 2 || index.numel() == 0 || (src && src->size(d) != index.size(d))) return false;
  for (int i = 0; i < index.ndim(); ++i)
    if (i != d && (index.size(i) != whole.size(i) || (src && index.size(i) != src->size(i)) || (index.size(i) > 1 && index.stride(i) != 0))) return false;
  return index.dtype() == DType::Int64 || index.dtype() == DType::Int32;
}

// That line; undefined where it is another index.
Tensor repeated_line(const Tensor& index, int64_t dim, const Tensor& whole, const Tensor* src) {
  if (!repeats_a_line(index, dim, whole, src)) return {};
  const int d = static_cast<int>(dim);
  const int64_t k = index.size(d), step = index.stride(d);
  Tensor line = empty(Dims{k}, DType::Int64, index.device());
  const auto copy = [&](const auto* from) {
    for (int64_t j = 0; j < k; ++j) line.data<int64_t>()[j] = from[j * step];
  };
  if (index.dtype() == DType::Int64) copy(index.data<int64_t>());
  else copy(index.data<int32_t>());
  return line;
}

// x[.., i, ..] along the axis.
Tensor slice_at(const Tensor& x, int axis, int64_t i) {
  Dims sizes = x.sizes(), strides = x.strides();
  sizes[axis] = 1;
  return alias(x, sizes, strides, x.offset() + i * strides[axis]);
}

// Numbers of slices along an axis, each once and in order; `index` may count from the end.
std::vector<int64_t> slices_named(const int64_t* index, int64_t count, int64_t n) {
  std::vector<int64_t> named(index, index + count);
  for (int64_t& i : named) i += i < 0 ? n : 0;
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  return named;
}

// Calls work(part, index) for what an index along `dim` names of x, which does not lie in rows: `part` are those slices, in rows, and the index names them
// there. What is written into them goes back to x (`writes`). So a part of x takes time for that part, however x lies.
template <class F>
void in_slices(const Tensor& x, int64_t dim, const Tensor& index, bool writes, const F& work) {
  const int axis = static_cast<int>(dim < 0 ? dim + x.ndim() : dim);
  const int64_t n = x.size(axis);
  Tensor line = index;  // its values: once, where it was expanded
  Dims expanded(index.ndim());
  if (repeats_a_line(index, axis, index, nullptr)) {
    line = repeated_line(index, axis, index, nullptr);
    expanded[axis] = 1;
  } else {
    line = as_int64(index);
    expanded = row_major(index.sizes());
  }
  // A slice costs what some hundred of its elements cost beside them; where all of them cost as much as x it is copied whole.
  constexpr int64_t kOfSlice = 512;
  const int64_t slice = x.numel() / n + kOfSlice, most = x.numel() / slice;
  const std::vector<int64_t> named = line.numel() / 4 > most ? std::vector<int64_t>() : slices_named(line.data<int64_t>(), line.numel(), n);
  const auto count = static_cast<int64_t>(named.size());
  if ((count == 0 && line.numel() > 0) || count >= most) {
    const Tensor whole = row_major_copy(x);
    work(whole, index);
    if (writes) copy_elements(x, whole);
    return;
  }
  Dims sizes = x.sizes();
  sizes[axis] = count;
  const Tensor part = empty(sizes, x.dtype()), place = empty(line.sizes(), DType::Int64);
  for (int64_t j = 0; j < count; ++j) copy_elements(slice_at(part, axis, j), slice_at(x, axis, named[static_cast<size_t>(j)]));
  for (int64_t j = 0; j < line.numel(); ++j) {
    const int64_t at = line.data<int64_t>()[j];
    place.data<int64_t>()[j] = std::lower_bound(named.begin(), named.end(), at < 0 ? at + n : at) - named.begin();
  }
  work(part, alias(place, index.sizes(), expanded, 0));
  for (int64_t j = 0; writes && j < count; ++j) copy_elements(slice_at(x, axis, named[static_cast<size_t>(j)]), slice_at(part, axis, j));
}

// The same of scatter_combine.
int64_t scatter_alone(const Tensor& y, int64_t dim, const Tensor& index, const Tensor& src) {
  return repeats_a_line(index, dim, y, &src) ? rows_alone(y, dim, index.size(static_cast<int>(dim))) : 0;
}

template <Combine C>
void combine_rows(const Tensor& y, int64_t dim, const Tensor& line, const Tensor& src) {
  visit(C == Combine::Sum ? with_sign(y.dtype()) : y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* d = y.data<T>();
    const T* s = src.data<T>();
    over_rows(lines_of(y, dim), line.data<int64_t>(), line.numel(), [&](int64_t to, int64_t from, auto m) {
      if constexpr (std::is_same_v<decltype(m), int64_t> && std::is_same_v<T, float>) return combine_row_f32(C, m, s + from, d + to);
      if constexpr (std::is_same_v<decltype(m), int64_t> && std::is_same_v<T, double>) return combine_row_f64(C, m, s + from, d + to);
      for (int64_t j = 0; j < m; ++j) d[to + j] = combined<C>(d[to + j], s[from + j]);
    });
  });
}

// How often the line names each of n rows, and one more for what was there.
std::vector<int64_t> count_rows(int64_t n, const Tensor& line, bool one_more) {
  std::vector<int64_t> often(static_cast<size_t>(n), one_more ? 1 : 0);
  for (int64_t j = 0; j < line.numel(); ++j) ++often[static_cast<size_t>(line.data<int64_t>()[j])];
  return often;
}

// Writes a number into the rows that the line names.
void fill_rows(const Tensor& y, int64_t dim, const Tensor& line, Scalar value) {
  const Lines l = lines_of(y, dim);
  const Tensor one = empty(IntList(), y.dtype());
  fill_elements(one, value);
  by_size(y.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    const U v = *static_cast<const U*>(one.data());
    for (int64_t o = 0; o < l.outer; ++o)
      for (int64_t j = 0; j < line.numel(); ++j) fill_row(static_cast<U*>(y.data()) + (o * l.n + line.data<int64_t>()[j]) * l.inner, l.inner, v);
  });
}

template <Combine C>
void scatter_combine(const Tensor& y, int64_t dim, const Tensor& index_in, const Tensor& src) {
  if (const Tensor line = repeated_line(index_in, dim, y, &src); line.defined()) return combine_rows<C>(y, dim, line, src);
  const Tensor index = as_int64(index_in);
  const int64_t* at = index.data<int64_t>();
  visit(C == Combine::Sum ? with_sign(y.dtype()) : y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* d = y.data<T>();
    const T* s = src.data<T>();
    with_places(y, index, dim, [&](auto place) {
      walk(index, y, &src, dim, true, [&](int64_t i, int64_t xo, int64_t so, int64_t n) {
        in_fours(at + i, s + so, n, place, [row = d + xo](int64_t to, T v) { row[to] = combined<C>(row[to], v); });
      });
    });
  });
}

}  // namespace

void gather(const Tensor& x, int64_t dim, const Tensor& index_in, bool, const Tensor& y) {
  if (!x.is_contiguous()) return in_slices(x, dim, index_in, false, [&](const Tensor& part, const Tensor& index) { gather(part, dim, index, false, y); });
  if (const Tensor line = repeated_line(index_in, dim, x, nullptr); line.defined()) return index_select(x, dim, line, y);
  const Tensor index = as_int64(index_in);
  const int64_t* at = index.data<int64_t>();
  by_size(x.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    const U* s = static_cast<const U*>(x.data());
    U* d = static_cast<U*>(y.data());
    if (walk_short(index, x, nullptr, dim, [d, s, at](int64_t i, int64_t xo, int64_t, int64_t n) {
          for (int64_t j = 0; j < n; ++j) d[i + j] = s[xo + at[i + j]];
        }))
      return;
    with_places(x, index, dim, [&](auto place) {
      walk(index, x, nullptr, dim, false, [&](int64_t i, int64_t xo, int64_t, int64_t n) {
#pragma GCC unroll 8
        for (int64_t j = 0; j < n; ++j) d[i + j] = s[xo + place(at + i, j)];
      });
    });
  });
}

void scatter_src(const Tensor& x, int64_t dim, const Tensor& index_in, const Tensor& src, const Tensor& y) {
  if (!y.is_contiguous()) return in_slices(y, dim, index_in, true, [&](const Tensor& part, const Tensor& index) { scatter_src(part, dim, index, src, part); });
  if (const Tensor line = repeated_line(index_in, dim, y, &src); line.defined()) return index_copy(x, dim, line, src, y);
  start_from(x, y);
  const Tensor index = as_int64(index_in);
  const int64_t* at = index.data<int64_t>();
  by_size(y.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    U* d = static_cast<U*>(y.data());
    const U* s = static_cast<const U*>(src.data());
    if (walk_short(index, y, &src, dim, [d, s, at](int64_t i, int64_t xo, int64_t so, int64_t n) {
          for (int64_t j = 0; j < n; ++j) d[xo + at[i + j]] = s[so + j];
        }))
      return;
    with_places(y, index, dim, [&](auto place) {
      walk(index, y, &src, dim, true, [&](int64_t i, int64_t xo, int64_t so, int64_t n) {
        in_fours(at + i, s + so, n, place, [row = d + xo](int64_t to, U v) { row[to] = v; });
      });
    });
  });
}

void scatter_value(const Tensor& x, int64_t dim, const Tensor& index_in, Scalar value, const Tensor& y) {
  if (!y.is_contiguous()) return in_slices(y, dim, index_in, true, [&](const Tensor& part, const Tensor& index) { scatter_value(part, dim, index, value, part); });
  start_from(x, y);
  if (const Tensor line = repeated_line(index_in, dim, y, nullptr); line.defined()) return fill_rows(y, dim, line, value);
  const Tensor index = as_int64(index_in);
  const int64_t* at = index.data<int64_t>();
  const Tensor one = empty(IntList(), y.dtype());
  fill_elements(one, value);
  by_size(y.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    U* d = static_cast<U*>(y.data());
    const U v = *static_cast<const U*>(one.data());
    if (walk_short(index, y, nullptr, dim, [d, v, at](int64_t i, int64_t xo, int64_t, int64_t n) {
          for (int64_t j = 0; j < n; ++j) d[xo + at[i + j]] = v;
        }))
      return;
    with_places(y, index, dim, [&](auto place) {
      walk(index, y, nullptr, dim, true, [&](int64_t i, int64_t xo, int64_t, int64_t n) {
        in_fours(at + i, at + i, n, place, [row = d + xo, v](int64_t to, int64_t) { row[to] = v; });
      });
    });
  });
}

void scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& y) {
  if (!y.is_contiguous()) return in_slices(y, dim, index, true, [&](const Tensor& part, const Tensor& at) { scatter_add(part, dim, at, src, part); });
  start_from(x, y, scatter_alone(y, dim, index, src));
  if (adds_wide(y, src)) {
    const WideOutput out(y, true);
    return scatter_combine<Combine::Sum>(out.wide, dim, index, widened(src));
  }
  scatter_combine<Combine::Sum>(y, dim, index, src);
}

// How often the index names each place of x, whose size is all that counts.
void scatter_count(const Tensor&, int64_t dim, const Tensor& index, bool one_more, const Tensor& count) {
  if (const Tensor line = repeated_line(index, dim, count, nullptr); line.defined()) {
    const Lines l = lines_of(count, dim);
    const std::vector<int64_t> often = count_rows(l.n, line, one_more);
    visit(count.dtype(), [&](auto zero) {
      using T = decltype(zero);
      using W = std::conditional_t<is_half_type<T>, float, T>;
      for (int64_t r = 0; r < l.outer * l.n; ++r)
        fill_row(count.data<T>() + r * l.inner, l.inner, T(static_cast<W>(often[static_cast<size_t>(r % l.n)])));
    });
    return;
  }
  fill_elements(count, Scalar(one_more ? 1 : 0));
  const Tensor ones = empty(index.sizes(), count.dtype());
  fill_elements(ones, Scalar(1));
  scatter_combine<Combine::Sum>(count, dim, index, ones);
}

namespace {

// Sums become means, of as many as the index names there and of what was there.
void divide_by_counts(const Tensor& y, int64_t dim, const Tensor& index, const Tensor& src, bool include_self) {
  const Lines l = lines_of(y, dim);
  const Tensor line = repeated_line(index, dim, y, &src);
  const std::vector<int64_t> rows = line.defined() ? count_rows(l.n, line, include_self) : std::vector<int64_t>();
  const auto of_row = [&](int64_t r) { return rows[static_cast<size_t>(r % l.n)]; };
  const DType wide = y.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  const Tensor count = line.defined() ? Tensor() : empty(y.sizes(), wide);
  if (!line.defined()) scatter_count(y, dim, index, include_self, count);
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    T* d = y.data<T>();
    const C* c = line.defined() ? nullptr : count.data<C>();
    const auto divided = [&](const auto& divide, const auto& divide_row) {
      if (!line.defined()) return parallel_for(0, y.numel(), 16384, [&](int64_t i, int64_t end) { divide(end - i, c + i, d + i); });
      parallel_work(l.outer * l.n, l.inner, kSharedGrain, [&](int64_t r, int64_t end) {  // a row has one count
        for (; r < end; ++r)
          if (of_row(r) > 1) divide_row(l.inner, static_cast<C>(of_row(r)), d + r * l.inner);
      });
    };
    if constexpr (std::is_same_v<T, float>) return divided(divide_counted_f32, divide_row_f32);
    if constexpr (std::is_same_v<T, double>) return divided(divide_counted_f64, divide_row_f64);
    for (int64_t i = 0; i < y.numel(); ++i) {
      const double k = line.defined() ? static_cast<double>(of_row(i / l.inner)) : static_cast<double>(c[i]);
      if (k > 1) {
        if constexpr (is_integer_type<T>) {  // exactly, and downwards
          const auto sum = static_cast<int64_t>(d[i]), n = static_cast<int64_t>(k);
          d[i] = static_cast<T>(sum / n - (sum % n < 0));
        } else {
          const double mean = static_cast<double>(d[i]) / k;
          if constexpr (is_half_type<T>) d[i] = T(static_cast<float>(mean));
          else d[i] = static_cast<T>(mean);
        }
      }
    }
  });
}

}  // namespace

void scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, std::string_view how, bool include_self, const Tensor& y) {
  if (!y.is_contiguous())
    return in_slices(y, dim, index, true, [&](const Tensor& part, const Tensor& at) { scatter_reduce(part, dim, at, src, how, include_self, part); });
  if (how != "amax" && how != "amin" && adds_wide(y, src)) {
    const WideOutput out(y);
    return scatter_reduce(widened(x), dim, index, widened(src), how, include_self, out.wide);
  }
  start_from(x, y, scatter_alone(y, dim, index, src));
  if (!include_self) {
    auto limit = [&](bool low) {
      if (is_float(y.dtype())) return Scalar(low ? -INFINITY : INFINITY);
      return visit(y.dtype(), [&](auto zero) {
        using T = decltype(zero);
        if constexpr (is_integer_type<T>) return Scalar(low ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
        else return Scalar(0);
      });
    };
    scatter_value(y, dim, index, how == "prod" ? Scalar(1) : how == "amax" ? limit(true) : how == "amin" ? limit(false) : Scalar(0), y);
  }
  if (how == "prod") scatter_combine<Combine::Prod>(y, dim, index, src);
  else if (how == "amax") scatter_combine<Combine::Max>(y, dim, index, src);
  else if (how == "amin") scatter_combine<Combine::Min>(y, dim, index, src);
  else scatter_combine<Combine::Sum>(y, dim, index, src);
  if (how == "mean") divide_by_counts(y, dim, index, src, include_self);
}

namespace {

// Where runs of indices that follow one another begin, and the end; empty where they are too short to be worth it.
std::vector<int64_t> runs_of(const int64_t* at, int64_t k) {
  constexpr int64_t kShortest = 4;  // on average
  std::vector<int64_t> start;
  for (int64_t j = 0; j < k; ++j) {
    if (j > 0 && at[j] == at[j - 1] + 1) continue;
    if (static_cast<int64_t>(start.size()) > k / kShortest) return {};
    start.push_back(j);
  }
  start.push_back(k);
  return start;
}

// From line to line and from slice to slice of lines along an axis, in elements; nothing where slices do not lie whole, or lines at equal distances.
struct SliceSteps {
  int64_t line, slice;
};
std::optional<SliceSteps> slice_steps(const Tensor& x, int64_t dim) {
  if (x.ndim() == 0) return SliceSteps{1, 1};
  const int axis = static_cast<int>(dim);
  int64_t expected = 1;
  std::optional<int64_t> line;
  for (int i = x.ndim() - 1; i > axis; --i) {
    if (x.size(i) == 1) continue;
    if (x.stride(i) != expected) return {};
    expected *= x.size(i);
  }
  for (int i = axis - 1; i >= 0; --i) {
    if (x.size(i) == 1) continue;
    if (!line) line = x.stride(i);
    else if (x.stride(i) != expected) return {};
    expected = x.stride(i) * x.size(i);
  }
  return SliceSteps{line.value_or(0), x.stride(axis)};
}

}  // namespace

// Runs of indices are copied as one piece, slices of up to 8 bytes as one number.
void index_select(const Tensor& given, int64_t dim, const Tensor& index_in, const Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor index = as_int64(index_in);
  const int64_t* at = index.data<int64_t>();
  const int64_t k = index.numel();
  std::optional<SliceSteps> steps = slice_steps(given, dim);
  if (!steps && k <= given.size(static_cast<int>(dim)) / 4) {
    for (int64_t j = 0; j < k; ++j) copy_elements(slice_at(y, static_cast<int>(dim), j), slice_at(given, static_cast<int>(dim), at[j]));
    return;
  }
  const Tensor x = steps ? given : row_major_copy(given);
  if (!steps) steps = slice_steps(x, dim);
  const auto item = static_cast<int64_t>(x.item_bytes());
  const Lines l = lines_of(x, dim);
  const int64_t outer = l.outer, bytes = l.inner * item, line = steps->line * item, step = steps->slice * item, grain = std::max<int64_t>(1, 65536 / bytes);
  const char* s = static_cast<const char*>(x.data());
  char* d = static_cast<char*>(y.data());
  const std::vector<int64_t> runs = step == bytes ? runs_of(at, k) : std::vector<int64_t>();
  by_unit(bytes, [&](auto unit) {
    using U = decltype(unit);
    const bool one = static_cast<int64_t>(sizeof(U)) == bytes;
    parallel_for(0, outer * k, grain, [&](int64_t begin, int64_t end) {
      over_parts(begin, end, k, [&](int64_t o, int64_t first, int64_t last) {
        const char* from = s + o * line;
        char* to = d + o * k * bytes;
        if (!runs.empty()) {
          size_t r = static_cast<size_t>(std::upper_bound(runs.begin(), runs.end(), first) - runs.begin());
          for (int64_t j = first; j < last; j = runs[r++]) {
            const int64_t m = std::min(last, runs[r]) - j;
            if (one && m == 1) std::memcpy(to + j * bytes, from + at[j] * bytes, sizeof(U));
            else std::memcpy(to + j * bytes, from + at[j] * bytes, static_cast<size_t>(m * bytes));
          }
        } else if (one && step == bytes) {
          const int64_t* from_at = at + first;
          char* next = to + first * bytes;
#pragma GCC unroll 8
          for (int64_t j = 0; j < last - first; ++j) std::memcpy(next + j * static_cast<int64_t>(sizeof(U)), from + from_at[j] * static_cast<int64_t>(sizeof(U)), sizeof(U));
        } else {
          for (int64_t j = first; j < last; ++j) std::memcpy(to + j * bytes, from + at[j] * step, static_cast<size_t>(bytes));
        }
      });
    });
  });
}

namespace {

}  // namespace

void index_add(const Tensor& x, int64_t dim, const Tensor& index_in, const Tensor& source, Scalar alpha, const Tensor& y) {
  if (!y.is_contiguous()) return in_slices(y, dim, index_in, true, [&](const Tensor& part, const Tensor& index) { index_add(part, dim, index, source, alpha, part); });
  start_from(x, y, rows_alone(y, dim, index_in.numel()));
  if (adds_wide(y, source)) {
    const WideOutput out(y, true);
    return index_add(out.wide, dim, index_in, widened(source), alpha, out.wide);
  }
  const Tensor index = as_int64(index_in);
  visit(with_sign(y.dtype()), [&](auto zero) {  // sums of unsigned numbers have the same bits
    using T = decltype(zero);
    T* d = y.data<T>();
    const T* s = source.data<T>();
    if constexpr (std::is_same_v<T, Truth>) {
      if (!alpha.as<bool>()) return;
      over_rows(lines_of(y, dim), index.data<int64_t>(), index.numel(), [&](int64_t to, int64_t from, auto m) {
        for (int64_t j = 0; j < m; ++j) d[to + j] = d[to + j] || s[from + j];
      });
    } else {
      using W = std::conditional_t<is_half_type<T>, float, T>;
      const W a = alpha.as<W>();
      over_rows(lines_of(y, dim), index.data<int64_t>(), index.numel(), [&](int64_t to, int64_t from, auto m) {
        T* out = d + to;
        const T* in = s + from;
        if constexpr (std::is_same_v<decltype(m), int64_t> && std::is_same_v<T, float>) return add_scaled_f32(m, a, in, out);
        if constexpr (std::is_same_v<decltype(m), int64_t> && std::is_same_v<T, double>) return add_scaled_f64(m, a, in, out);
        if constexpr (std::is_same_v<decltype(m), int64_t> && std::is_same_v<T, Float16>) return add_scaled_f16(m, a, in, out);
        if constexpr (std::is_same_v<decltype(m), int64_t> && std::is_same_v<T, BFloat16>) return add_scaled_bf16(m, a, in, out);
        for (int64_t j = 0; j < m; ++j) out[j] = static_cast<T>(static_cast<W>(out[j]) + a * static_cast<W>(in[j]));
      });
    }
  });
}

void index_copy(const Tensor& x, int64_t dim, const Tensor& index_in, const Tensor& source, const Tensor& y) {
  if (!y.is_contiguous()) return in_slices(y, dim, index_in, true, [&](const Tensor& part, const Tensor& index) { index_copy(part, dim, index, source, part); });
  start_from(x, y, rows_alone(y, dim, index_in.numel()));
  const Tensor index = as_int64(index_in);
  by_size(y.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    U* d = static_cast<U*>(y.data());
    const U* s = static_cast<const U*>(source.data());
    over_rows(lines_of(y, dim), index.data<int64_t>(), index.numel(), [&](int64_t to, int64_t from, auto m) {
      if constexpr (std::is_same_v<decltype(m), int64_t>) std::memcpy(d + to, s + from, static_cast<size_t>(m) * sizeof(U));
      else d[to] = s[from];
    });
  });
}

void index_fill(const Tensor& x, int64_t dim, const Tensor& index_in, const Operand& value, const Tensor& y) {
  if (!y.is_contiguous()) return in_slices(y, dim, index_in, true, [&](const Tensor& part, const Tensor& index) { index_fill(part, dim, index, value, part); });
  start_from(x, y, rows_alone(y, dim, index_in.numel()));
  const Tensor index = as_int64(index_in);
  const Lines lines = lines_of(y, dim);
  const int64_t* from = index.data<int64_t>();
  std::vector<int64_t> at(from, from + index.numel());
  for (int64_t& i : at) i += i < 0 ? lines.n : 0;
  const Tensor one = empty(IntList(), y.dtype());
  if (value.is_tensor()) convert_elements(one.data(), one.dtype(), value.tensor().data(), value.tensor().dtype(), 1);
  else fill_elements(one, value.number());
  by_size(y.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    U* d = static_cast<U*>(y.data());
    const U v = *static_cast<const U*>(one.data());
    over_rows(lines, at.data(), index.numel(), [&](int64_t to, int64_t, auto m) { fill_row(d + to, m, v); });
  });
}

namespace {

// Where element number `flat` of x, counted in rows, lies.
int64_t place_in(const Tensor& x, int64_t flat) {
  int64_t place = 0;
  for (int a = x.ndim() - 1; a >= 0; --a) {
    place += flat % x.size(a) * x.stride(a);
    flat /= x.size(a);
  }
  return place;
}

}  // namespace

void take(const Tensor& given, const Tensor& index, const Tensor& y) {
  const int64_t* at = index.data<int64_t>();
  if (!given.is_contiguous() && index.numel() <= given.numel() / 4) {
    by_size(given.item_bytes(), [&](auto unit) {
      using U = decltype(unit);
      const U* s = static_cast<const U*>(given.data());
      U* d = static_cast<U*>(y.data());
      for (int64_t i = 0; i < index.numel(); ++i) d[i] = s[place_in(given, at[i] < 0 ? at[i] + given.numel() : at[i])];
    });
    return;
  }
  const Tensor x = row_major_copy(given);
  const int64_t n = x.numel();
  by_size(x.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    const U* s = static_cast<const U*>(x.data());
    U* d = static_cast<U*>(y.data());
    parallel_for(0, index.numel(), 16384, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) d[i] = s[at[i] < 0 ? at[i] + n : at[i]];
    });
  });
}

void put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate, const Tensor& y) {
  start_from(x, y, index.numel());
  if (accumulate && adds_wide(y, source)) {
    const WideOutput out(y, true);
    return put(out.wide, index, widened(source), true, out.wide);
  }
  const int64_t* at = index.data<int64_t>();
  const int64_t n = x.numel();
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* d = y.data<T>();
    const T* s = source.data<T>();
    const bool rows = y.is_contiguous();
    for (int64_t i = 0; i < index.numel(); ++i) {
      const int64_t flat = at[i] < 0 ? at[i] + n : at[i];
      T& to = d[rows ? flat : place_in(y, flat)];
      to = accumulate ? combined<Combine::Sum>(to, s[i]) : s[i];
    }
  });
}

}  // namespace fl::kernels
