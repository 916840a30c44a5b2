// Views and copies. A view kernel returns another geometry of the same storage; the wrapper records it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "dispatch/axes.h"
#include "dispatch/each.h"
#include "dispatch/operand.h"
#include "dispatch/geometry.h"
#include "tensor/raw.h"

namespace fl::kernels {
namespace {

int to_int(int64_t v) { return static_cast<int>(v); }

template <class T>
T plus(T a, T b) {
  if constexpr (is_complex_type<T>) return T(a.re + b.re, a.im + b.im);
  else return static_cast<T>(a + b);
}

// The stride of every step-th element. It overflows only where there is a single one, which has no neighbour.
int64_t stepped(int64_t stride, int64_t step) {
  int64_t out;
  return __builtin_mul_overflow(stride, step, &out) ? stride : out;
}

// A [..] expanded to a shape: strides 0 where repeated.
Tensor expanded(const Tensor& x, IntList size) {
  Dims sizes(size), strides(static_cast<int>(size.size()));
  const int shift = strides.size() - x.ndim();
  for (int i = 0; i < x.ndim(); ++i) {
    const int k = i + shift;
    if (sizes[k] == -1) sizes[k] = x.sizes()[i];
    strides[k] = x.sizes()[i] == 1 && sizes[k] != 1 ? 0 : x.strides()[i];
  }
  for (int k = shift - 1; k >= 0; --k)  // a new axis of one element has the stride of a row-major one
    if (sizes[k] == 1) strides[k] = stepped(strides[k + 1], sizes[k + 1]);
  return alias(x, std::move(sizes), std::move(strides), x.offset());
}

// Where x is channels-last in memory: fills a fresh y of its shape in the same order.
bool copy_deferred(const Tensor& x, const Tensor& y) {
  if (x.ndim() < 3 || !x.storage().maybe_deferred() || !y.is_contiguous() || !may_defer(x.sizes()) || !is_deferred(x)) return false;
  const ChannelRows from(x), to = ChannelRows::fresh(y);
  const char* source = static_cast<const char*>(from.data());
  char* target = static_cast<char*>(to.data());
  parallel_for(0, x.numel(), 65536, [&](int64_t i0, int64_t i1) {
    convert_elements(target + i0 * static_cast<int64_t>(y.item_bytes()), y.dtype(), source + i0 * static_cast<int64_t>(x.item_bytes()), x.dtype(), i1 - i0);
  });
  return true;
}

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  Tensor y = is_dense(x) ? empty_strided(x.sizes(), x.strides(), dtype, x.device()) : empty(x.sizes(), dtype, x.device());
  if (!x.is_meta() && !copy_deferred(x, y)) copy_elements(y, x);
  return y;
}
Tensor clone(const Tensor& x) { return cast(x, x.dtype()); }

void copy_out(const Tensor& x, const Tensor& y) { copy_elements(y, x); }

void copy_(const Tensor& x, const Tensor& src, bool) {
  if (x.same(src)) return;
  Tensor from = src;
  if (&x.storage() == &src.storage()) {  // may overlap
    from = empty(src.sizes(), src.dtype(), src.device());
    copy_elements(from, src);
  }
  while (from.ndim() > x.ndim()) {  // leading ones
    Dims sizes = from.sizes(), strides = from.strides();
    sizes.erase(0);
    strides.erase(0);
    from = alias(from, sizes, strides, from.offset());
  }
  copy_elements(x, expanded(from, x.sizes()));
}

void fill_(const Tensor& x, const Operand& value) {
  if (!value.is_tensor()) return fill_elements(x, value.number());
  copy_(x, value.tensor(), false);
}

void zero_(const Tensor& x) { fill_elements(x, Scalar(0)); }

Tensor view(const Tensor& x, IntList size) {
  Dims full = infer_size("view", size, x.numel());
  Dims strides = *view_strides(x.sizes(), x.strides(), full);
  return alias(x, std::move(full), std::move(strides), x.offset());
}

Tensor transpose(const Tensor& x, int64_t a, int64_t b) {
  Dims sizes = x.sizes(), strides = x.strides();
  if (x.ndim() > 0) {
    std::swap(sizes[to_int(a)], sizes[to_int(b)]);
    std::swap(strides[to_int(a)], strides[to_int(b)]);
  }
  return alias(x, std::move(sizes), std::move(strides), x.offset());
}

Tensor t(const Tensor& x) { return x.ndim() == 2 ? transpose(x, 0, 1) : alias(x); }

Tensor permute(const Tensor& x, IntList dims) {
  Dims sizes(x.ndim()), strides(x.ndim());
  for (int i = 0; i < x.ndim(); ++i) {
    sizes[i] = x.sizes()[to_int(dims[static_cast<size_t>(i)])];
    strides[i] = x.strides()[to_int(dims[static_cast<size_t>(i)])];
  }
  return alias(x, std::move(sizes), std::move(strides), x.offset());
}

Tensor expand(const Tensor& x, IntList size) { return expanded(x, size); }

Tensor squeeze_dims(const Tensor& x, IntList dims) {
  Dims sizes, strides;
  for (int i = 0; i < x.ndim(); ++i) {
    if (x.sizes()[i] == 1 && std::find(dims.begin(), dims.end(), i) != dims.end()) continue;
    sizes.push_back(x.sizes()[i]);
    strides.push_back(x.strides()[i]);
  }
  return alias(x, std::move(sizes), std::move(strides), x.offset());
}

Tensor squeeze(const Tensor& x) {
  Dims all;
  for (int i = 0; i < x.ndim(); ++i) all.push_back(i);
  return squeeze_dims(x, all);
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  const int at = to_int(dim < 0 ? dim + x.ndim() + 1 : dim);
  Dims sizes = x.sizes(), strides = x.strides();
  const int64_t stride = at < x.ndim() ? sizes[at] * strides[at] : 1;
  sizes.insert(at, 1);
  strides.insert(at, stride);
  return alias(x, std::move(sizes), std::move(strides), x.offset());
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  const int d = to_int(dim);
  Dims sizes = x.sizes(), strides = x.strides();
  const int64_t offset = x.offset() + (index < 0 ? index + sizes[d] : index) * strides[d];
  sizes.erase(d);
  strides.erase(d);
  return alias(x, std::move(sizes), std::move(strides), offset);
}

void select_backward(const Tensor& g, IntList, int64_t dim, int64_t index, const Tensor& y) {
  fill_elements(y, Scalar(0));
  copy_elements(select(y, dim, index), g);
}

Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  const int d = to_int(dim);
  Dims sizes = x.sizes(), strides = x.strides();
  const SliceRange range = slice_range(sizes[d], start, end, step);
  const int64_t offset = x.offset() + (range.length ? range.start * strides[d] : 0);
  sizes[d] = range.length;
  strides[d] = stepped(strides[d], step);
  return alias(x, std::move(sizes), std::move(strides), offset);
}

void slice_backward(const Tensor& g, IntList, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step,
                    const Tensor& y) {
  fill_elements(y, Scalar(0));
  copy_elements(slice(y, dim, start, end, step), g);
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  const int a = to_int(dim1), b = to_int(dim2);
  Dims sizes = x.sizes(), strides = x.strides();
  const int64_t rows = sizes[a], columns = sizes[b];
  const int64_t length = std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  const int64_t start = length == 0 ? 0 : offset >= 0 ? offset * strides[b] : -offset * strides[a];
  const int64_t step = strides[a] + strides[b];
  for (int d : {std::max(a, b), std::min(a, b)}) {
    sizes.erase(d);
    strides.erase(d);
  }
  sizes.push_back(length);
  strides.push_back(step);
  return alias(x, std::move(sizes), std::move(strides), x.offset() + start);
}

void diagonal_backward(const Tensor& g, IntList, int64_t offset, int64_t dim1, int64_t dim2, const Tensor& y) {
  fill_elements(y, Scalar(0));
  copy_elements(diagonal(y, offset, dim1, dim2), g);
}

Tensor unfold(const Tensor& x, int64_t dimension, int64_t size, int64_t step) {
  if (x.ndim() == 0) return alias(x, Dims{size}, Dims{1}, x.offset());  // one window, and no axis to count windows along
  Dims sizes = x.sizes(), strides = x.strides();
  const int d = to_int(dimension);
  const int64_t stride = strides[d];
  sizes[d] = (sizes[d] - size) / step + 1;
  strides[d] = stepped(stride, step);
  sizes.push_back(size);
  strides.push_back(stride);
  return alias(x, std::move(sizes), std::move(strides), x.offset());
}

void unfold_backward(const Tensor& g, IntList, int64_t dimension, int64_t size, int64_t step, const Tensor& y) {
  if (is_float8(y.dtype())) {
    const Tensor wide = empty(y.sizes(), DType::Float32), wide_g = empty(g.sizes(), DType::Float32);
    copy_elements(wide_g, g);
    unfold_backward(wide_g, {}, dimension, size, step, wide);
    return copy_elements(y, wide);
  }
  fill_elements(y, Scalar(0));
  // Windows may overlap: add them one offset inside the window at a time, where elements are distinct.
  const Tensor windows = unfold(y, dimension, size, step);
  for (int64_t k = 0; k < size; ++k) {
    const Tensor into = select(windows, windows.ndim() - 1, k);
    const Tensor from = select(g, g.ndim() - 1, k);
    Tensor sum = empty(into.sizes(), into.dtype(), into.device());
    copy_elements(sum, into);
    visit_any(y.dtype(), [&]<class T>(T) {
      Tensor add = empty(from.sizes(), from.dtype(), from.device());
      copy_elements(add, from);
      T* a = sum.data<T>();
      const T* b = add.data<T>();
      for (int64_t i = 0; i < sum.numel(); ++i) a[i] = plus(a[i], b[i]);
    });
    copy_elements(into, sum);
  }
}

Tensor as_strided_view(const Tensor& x, IntList size, IntList stride, int64_t offset) {
  return alias(x, Dims(size), Dims(stride), offset);
}

namespace {

// Zeros that hold a base and a view of its storage, where the view may lie outside of the base.
struct Span {
  int64_t base, view;  // where they begin in the buffer
  Tensor buffer;
  Span(const Tensor& like, IntList base_sizes, IntList base_strides, int64_t base_offset, IntList sizes, IntList strides, int64_t offset) {
    const int64_t low = std::min(base_offset, offset);
    base = base_offset - low, view = offset - low;
    // Both were geometries of tensors.
    const int64_t n = std::max(reach(base_sizes, base_strides, base)->end, reach(sizes, strides, view)->end);
    buffer = empty(Dims{n}, like.dtype(), like.device());
    if (!like.is_meta()) fill_elements(buffer, Scalar(0));
  }
  Tensor at(int64_t offset, IntList sizes, IntList strides) const { return alias(buffer, Dims(sizes), Dims(strides), offset); }
};

// True iff two indices of the geometry may name one element.
bool may_overlap(IntList sizes, IntList strides) {
  Dims order;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1) order.push_back(static_cast<int64_t>(i));
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[static_cast<size_t>(a)] < strides[static_cast<size_t>(b)]; });
  int64_t reach = 0;
  for (int64_t i : order) {
    if (strides[static_cast<size_t>(i)] <= reach) return true;
    reach += (sizes[static_cast<size_t>(i)] - 1) * strides[static_cast<size_t>(i)];
  }
  return false;
}

// y += g, where elements of y may share places.
void add_at(const Tensor& y, const Tensor& g) {
  if (!may_overlap(y.sizes(), y.strides())) return copy_elements(y, g);  // y holds zeros
  visit_any(y.dtype(), [&]<class T>(T) {
    T* out = y.data<T>();
    const T* in = g.data<T>();
    Dims index(y.ndim());
    for (int64_t i = 0; i < g.numel(); ++i) {
      int64_t at = 0;
      for (int d = 0; d < index.size(); ++d) at += index[d] * y.strides()[d];
      out[at] = plus(out[at], in[i]);
      for (int d = index.size() - 1; d >= 0 && ++index[d] == y.sizes()[d]; --d) index[d] = 0;
    }
  });
}

}  // namespace

Tensor as_strided_backward(const Tensor& g, IntList base_sizes, IntList base_strides, int64_t base_offset, IntList sizes,
                           IntList strides, int64_t offset) {
  if (is_float8(g.dtype()) && !g.is_meta()) {
    const Tensor wide = empty(g.sizes(), DType::Float32), y = empty(base_sizes, g.dtype());
    copy_elements(wide, g);
    copy_elements(y, as_strided_backward(wide, base_sizes, base_strides, base_offset, sizes, strides, offset));
    return y;
  }
  const Span span(g, base_sizes, base_strides, base_offset, sizes, strides, offset);
  const Tensor y = span.at(span.base, base_sizes, base_strides);
  if (g.is_meta()) return y;
  add_at(span.at(span.view, sizes, strides), g);
  if (!may_overlap(base_sizes, base_strides)) return y;
  // Elements of the base that share a place share its gradient.
  const Span times(g, base_sizes, base_strides, base_offset, sizes, strides, offset);
  Tensor shared = empty(base_sizes, g.dtype(), g.device()), one = empty(base_sizes, g.dtype(), g.device());
  fill_elements(one, Scalar(1));
  const Tensor count = times.at(times.base, base_sizes, base_strides);
  add_at(count, one);
  copy_elements(shared, y);
  copy_elements(one, count);
  visit_any(g.dtype(), [&]<class T>(T) {
    if constexpr (is_complex_type<T>)
      for (int64_t i = 0; i < shared.numel(); ++i) shared.data<T>()[i] = T(shared.data<T>()[i].re / one.data<T>()[i].re, shared.data<T>()[i].im / one.data<T>()[i].re);
    else if constexpr (std::is_floating_point_v<T> || is_half_type<T>)
      for (int64_t i = 0; i < shared.numel(); ++i) shared.data<T>()[i] = static_cast<T>(shared.data<T>()[i] / one.data<T>()[i]);
  });
  return shared;
}

Tensor as_strided_gather(const Tensor& g, IntList base_sizes, IntList base_strides, int64_t base_offset, IntList sizes,
                         IntList strides, int64_t offset) {
  const Span span(g, base_sizes, base_strides, base_offset, sizes, strides, offset);
  Tensor y = empty(sizes, g.dtype(), g.device());
  if (g.is_meta()) return y;
  copy_elements(span.at(span.base, base_sizes, base_strides), g);
  copy_elements(y, span.at(span.view, sizes, strides));
  return y;
}

Tensor as_strided_replace(const Tensor& g, const Tensor& part, IntList base_sizes, IntList base_strides, int64_t base_offset,
                          IntList sizes, IntList strides, int64_t offset) {
  const Span span(g, base_sizes, base_strides, base_offset, sizes, strides, offset);
  const Tensor y = span.at(span.base, base_sizes, base_strides);
  if (g.is_meta()) return y;
  copy_elements(y, g);
  copy_elements(span.at(span.view, sizes, strides), part);
  return y;
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < x.size(to_int(dim)); ++i) out.push_back(select(x, dim, i));
  return out;
}

std::vector<Tensor> split_with_sizes(const Tensor& x, IntList sizes, int64_t dim) {
  std::vector<Tensor> out;
  int64_t at = 0;
  for (int64_t n : sizes) {
    out.push_back(slice(x, dim, at, at + n, 1));
    at += n;
  }
  return out;
}

namespace {

// f(row of x, row of y) for the rows along the last axis of two tensors of one shape, which is not empty.
template <class U, class F>
void over_rows(const Tensor& x, const Tensor& y, F&& f) {
  const int last = x.ndim() - 1;
  parallel_work(x.numel() / x.size(last), x.size(last), 16384, [&](int64_t begin, int64_t end) {
    Dims at(last);
    const U* from = static_cast<const U*>(x.data());
    U* to = static_cast<U*>(y.data());
    for (int64_t d = last - 1, rest = begin; d >= 0; rest /= x.size(to_int(d)), --d) {
      const int k = to_int(d);
      at[k] = rest % x.size(k);
      from += at[k] * x.stride(k);
      to += at[k] * y.stride(k);
    }
    for (int64_t r = begin; r < end; ++r) {
      f(from, to);
      for (int d = last - 1; d >= 0; --d) {
        from += x.stride(d);
        to += y.stride(d);
        if (++at[d] < x.size(d)) break;
        from -= x.size(d) * x.stride(d);
        to -= x.size(d) * y.stride(d);
        at[d] = 0;
      }
    }
  });
}

// Copies x to `inside`, a part of y, and fills what y has around its rows: fill(row of x, row of y, a place of the border, counted from
// the row's first). Borders of rows are short, and copies of their own would cost more than the rows. Returns the rows with borders.
template <class F>
Tensor with_row_borders(const Tensor& x, const Tensor& inside, Dims& before, const Tensor& y, F&& fill) {
  const int last = x.ndim() - 1;
  const int64_t n = x.size(last), step = y.stride(last), first = before[last], end = y.size(last) - first;
  if (step != 1 || (first == 0 && end == n)) {  // y is a view, or its rows have no borders
    copy_elements(inside, x);
    return inside;
  }
  Tensor rows = x;
  if (x.stride(last) != 1) {
    rows = empty(x.sizes(), x.dtype());
    copy_elements(rows, x);
  }
  by_size(x.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    over_rows<U>(rows, inside, [&](const U* from, U* to) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(U));
      for (int64_t j = -first; j < 0; ++j) fill(from, to, j);
      for (int64_t j = n; j < end; ++j) fill(from, to, j);
    });
  });
  Dims sizes = inside.sizes();
  sizes[last] = y.size(last);
  before[last] = 0;
  return alias(y, sizes, y.strides(), inside.offset() - first);
}

// The parts of y around its inside, axis by axis from the last one: f(part, axis, its first position along the axis, counted
// from the inside's). What a later axis adds belongs to the parts of the earlier ones. before: y's positions before the inside.
template <class F>
void over_borders(const Tensor& y, const Tensor& inside, const Dims& before, F&& f) {
  Dims sizes = inside.sizes();
  int64_t offset = inside.offset();
  for (int d = y.ndim() - 1; d >= 0; --d) {
    const int64_t n = inside.size(d), stride = y.stride(d);
    const auto part = [&](int64_t first, int64_t count) {
      sizes[d] = count;
      if (count > 0) f(alias(y, sizes, y.strides(), offset + first * stride), d, first);
    };
    part(-before[d], before[d]);
    part(n, y.size(d) - n - before[d]);
    sizes[d] = y.size(d);
    offset -= before[d] * stride;
  }
}

}  // namespace

void constant_pad(const Tensor& x, IntList pad, Scalar value, const Tensor& y) {
  Tensor from = x, into = y;
  Dims before(y.ndim());
  for (size_t k = 0; 2 * k + 1 < pad.size(); ++k) {  // what both have of each axis
    const int64_t dim = x.ndim() - 1 - static_cast<int64_t>(k), after = pad[2 * k + 1];
    const int64_t n = x.size(to_int(dim)), m = y.size(to_int(dim));
    before[to_int(dim)] = std::min(m, std::max<int64_t>(0, pad[2 * k]));
    from = slice(from, dim, std::min(n, std::max<int64_t>(0, -pad[2 * k])), std::max<int64_t>(0, n + std::min<int64_t>(0, after)), 1);
    into = slice(into, dim, before[to_int(dim)], std::max<int64_t>(0, m - std::max<int64_t>(0, after)), 1);
  }
  if (from.numel() == 0 || from.sizes() != into.sizes()) return fill_elements(y, value);
  if (y.ndim() > 0) {
    const Tensor one = empty(Dims{1}, y.dtype());
    fill_elements(one, value);
    into = with_row_borders(from, into, before, y, [&](const auto*, auto* to, int64_t j) { std::memcpy(to + j, one.data(), sizeof(*to)); });
  } else {
    copy_elements(into, from);
  }
  over_borders(y, into, before, [&](const Tensor& part, int, int64_t) { fill_elements(part, value); });
}

// A border is one copy of a part of y that is there already, read forwards (circular), backwards (reflect) or as one slice
// again and again (replicate).
void pad_within(const Tensor& x, IntList pad, std::string_view mode, const Tensor& y) {
  if (y.numel() == 0) return;
  const int64_t step = mode == "reflect" ? -1 : mode == "circular" ? 1 : 0;
  Dims before(y.ndim());
  int64_t offset = y.offset();
  for (size_t k = 0; 2 * k + 1 < pad.size(); ++k) {
    const int d = y.ndim() - 1 - to_int(static_cast<int64_t>(k));
    before[d] = pad[2 * k];
    offset += before[d] * y.stride(d);
  }
  // Along an axis of n places: where a border of `count` ones, the first of them at `first`, is read from.
  const auto source = [step](int64_t n, int64_t first, int64_t count) {
    const int64_t forwards = first < 0 ? n - count : 0, backwards = first < 0 ? count : n - 2, same = first < 0 ? 0 : n - 1;
    return step > 0 ? forwards : step < 0 ? backwards : same;
  };
  const int last = y.ndim() - 1;
  const int64_t width = x.size(last), left = before[last], right = y.size(last) - width - left;
  const int64_t from_left = source(width, -left, left), from_right = source(width, width, right);
  const Tensor inside = with_row_borders(x, alias(y, x.sizes(), y.strides(), offset), before, y, [&](const auto* from, auto* to, int64_t j) {
    to[j] = from[j < 0 ? from_left + (j + left) * step : from_right + (j - width) * step];
  });
  over_borders(y, inside, before, [&](const Tensor& part, int d, int64_t first) {
    const int64_t stride = y.stride(d), from = source(x.size(d), first, part.size(d));
    Dims strides = y.strides();
    strides[d] *= step;
    copy_elements(part, alias(y, part.sizes(), strides, part.offset() + (from - first) * stride));
  });
}

namespace {

// Row-major tensors: y's bytes in their order, each a run of one of xs.
void join_runs(TensorList xs, int64_t dim, const Tensor& y) {
  int64_t outer = 1;
  for (int i = 0; i < to_int(dim); ++i) outer *= y.size(i);
  const int64_t row = y.numel() / outer * static_cast<int64_t>(y.item_bytes());
  std::vector<const char*> from;
  std::vector<int64_t> start{0};  // of each run in its row
  for (const Tensor& x : xs) {
    from.push_back(x.data<char>());
    start.push_back(start.back() + x.numel() / outer * static_cast<int64_t>(x.item_bytes()));
  }
  char* to = y.data<char>();
  parallel_for(0, outer * row, 1 << 18, [&](int64_t begin, int64_t end) {
    int64_t r = begin / row;
    size_t k = static_cast<size_t>(std::upper_bound(start.begin(), start.end(), begin % row) - start.begin()) - 1;
    for (int64_t i = begin; i < end;) {
      const int64_t run = start[k + 1] - start[k], skip = i - r * row - start[k], m = std::min(run - skip, end - i);
      std::memcpy(to + i, from[k] + r * run + skip, static_cast<size_t>(m));
      i += m;
      if (++k == xs.size()) k = 0, ++r;
    }
  });
}

}  // namespace

void cat(TensorList xs, int64_t dim, const Tensor& y) {
  int64_t at = 0;
  if (dim == 1 && may_defer(y.sizes()) && std::any_of(xs.begin(), xs.end(), [](const Tensor& x) { return x.storage().maybe_deferred() && is_deferred(x); })) {
    const ChannelRows rows = ChannelRows::fresh(y);
    for (const Tensor& x : xs) {
      if (x.numel()) copy_elements(slice(rows.matrix(), 1, at, at + x.size(1), 1), ChannelRows(x).matrix());
      at += x.size(1);
    }
    return;
  }
  if (y.numel() == 0) return;
  int64_t inner = 1;  // elements under one place of the axis
  for (int i = to_int(dim) + 1; i < y.ndim(); ++i) inner *= y.size(i);
  constexpr int64_t kShort = 4;  // runs of so few elements cost more than strides
  const bool runs = std::any_of(xs.begin(), xs.end(), [&](const Tensor& x) { return x.size(to_int(dim)) * inner > kShort; });
  if (runs && std::all_of(xs.begin(), xs.end(), [](const Tensor& x) { return x.is_contiguous(); })) return join_runs(xs, dim, y);
  for (const Tensor& x : xs) {
    const int64_t n = x.size(to_int(dim));
    if (x.numel()) copy_elements(slice(y, dim, at, at + n, 1), x);
    at += n;
  }
}

}  // namespace fl::kernels
