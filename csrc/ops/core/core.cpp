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
#include "dispatch/walks.h"
#include "storage/room.h"
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
  Tensor y = empty_strided(x.sizes(), dense_strides_like(x), dtype, x.device());
  if (!x.is_meta() && !copy_deferred(x, y)) copy_elements(y, x);
  return y;
}
Tensor clone(const Tensor& x) { return cast(x, x.dtype()); }

void copy_out(const Tensor& x, const Tensor& y) { copy_elements(y, x); }

namespace {

// Whether an element of a may lie where one of b does; both are of one storage.
bool may_meet(const Tensor& a, const Tensor& b) {
  const auto in_a = reach(a.sizes(), a.strides(), a.offset()), in_b = reach(b.sizes(), b.strides(), b.offset());
  const auto size_a = static_cast<int64_t>(item_size(a.dtype())), size_b = static_cast<int64_t>(item_size(b.dtype()));
  return in_a->first * size_a < in_b->end * size_b && in_b->first * size_b < in_a->end * size_a;
}

}  // namespace

void copy_(const Tensor& x, const Tensor& src, bool) {
  Tensor from = src;
  if (&x.storage() == &src.storage() && may_meet(x, src)) {
    if (x.dtype() == src.dtype() && x.offset() == src.offset() && x.sizes() == src.sizes() && x.strides() == src.strides()) return;  // the same elements
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

namespace {

// x without the elements that lie where others do, as those of an expanded axis.
Tensor one_of_each(const Tensor& x) {
  Dims sizes = x.sizes();
  for (int i = 0; i < x.ndim(); ++i)
    if (x.strides()[i] == 0 && sizes[i] > 1) sizes[i] = 1;
  return sizes == x.sizes() ? x : alias(x, sizes, x.strides(), x.offset());
}

}  // namespace

void fill_(const Tensor& x, const Operand& value) {
  const Tensor y = one_of_each(x);
  if (!value.is_tensor()) return fill_elements(y, value.number());
  copy_(y, value.tensor(), false);
}

void zero_(const Tensor& x) { fill_elements(one_of_each(x), Scalar(0)); }

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
  if (g.numel() == 0) return;
  const int axis = static_cast<int>(dimension);
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= y.size(d);
  for (int d = axis + 1; d < y.ndim(); ++d) inner *= y.size(d);
  const int64_t n = y.ndim() ? y.size(axis) : 1, windows = g.numel() / (outer * inner * size);
  // Windows may overlap: a thread has the places [begin, end) of all lines to itself, and adds there what each window has, in order.
  visit_any(y.dtype(), [&]<class T>(T) {
    T* const to = y.data<T>();
    const T* const from = g.data<T>();
    parallel_work(outer * n, inner * ((size - 1) / step + 1), 16384, [&](int64_t first, int64_t last) {
      for (int64_t o = first / n; o * n < last; ++o) {
        const int64_t begin = std::max<int64_t>(first - o * n, 0), end = std::min(last - o * n, n);
        for (int64_t w = begin < size ? 0 : (begin - size) / step + 1; w < windows && w * step < end; ++w) {
          const int64_t k0 = std::max<int64_t>(begin - w * step, 0), k1 = std::min(end - w * step, size);
          for (int64_t i = 0; i < inner; ++i) {
            T* const line = to + (o * n + w * step) * inner + i;
            const T* const window = from + ((o * windows + w) * inner + i) * size;
            if (inner == 1)
              for (int64_t k = k0; k < k1; ++k) line[k] = plus(line[k], window[k]);
            else
              for (int64_t k = k0; k < k1; ++k) line[k * inner] = plus(line[k * inner], window[k]);
          }
        }
      }
    });
  });
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
  check_room_for_views("unbind", x.size(to_int(dim)));
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

// What stands around the elements of x: a number, or x again, of which the borders show places.
enum class Around { Number, Same, Reflected, Circular };

// One axis of y, of which [before, before + n) are x's places.
struct PaddedAxis {
  int64_t before = 0, n = 1, from_stride = 0, to_stride = 0, size = 1;

  // The place of x that place i of y shows; -1: none.
  int64_t shown(int64_t i, Around around) const {
    const int64_t at = i - before;
    if (static_cast<uint64_t>(at) < static_cast<uint64_t>(n)) return at;
    switch (around) {
      case Around::Number: return -1;
      case Around::Same: return at < 0 ? 0 : n - 1;
      case Around::Reflected: return at < 0 ? -at : 2 * (n - 1) - at;
      case Around::Circular: return at < 0 ? at + n : at - n;
    }
    return -1;
  }
};

// Rows of y along its last axis, each from the row of x that it shows; `number` is what stands around x, if that is a number. With `copied`
// x's elements are in y already, and what is around them is missing.
template <class U>
void pad_rows(const Tensor& x, const Tensor& y, const Dims& before, Around around, const U* number, bool copied) {
  const int last = y.ndim() - 1;
  const auto axis = [&](int d) { return PaddedAxis{before[d], x.size(d), x.stride(d), y.stride(d), y.size(d)}; };
  const PaddedAxis row = axis(last);
  std::vector<int64_t> border;  // the places that a row's own border shows
  if (!number) {
    for (int64_t j = 0; j < row.before; ++j) border.push_back(row.shown(j, around));
    for (int64_t j = row.before + row.n; j < row.size; ++j) border.push_back(row.shown(j, around));
  }
  const U* const source = static_cast<const U*>(x.data());
  U* const target = static_cast<U*>(y.data());
  parallel_work(y.numel() / row.size, row.size, 16384, [&](int64_t begin, int64_t end) {
    Dims place(last);
    for (int64_t d = last - 1, rest = begin; d >= 0; rest /= y.size(to_int(d)), --d) place[to_int(d)] = rest % y.size(to_int(d));
    for (int64_t r = begin; r < end;) {
      // The axes but the last two stay as they are over some rows.
      const U* from = source;
      U* to = target;
      bool nowhere = false, again = !copied;
      for (int d = 0; d < last - 1; ++d) {
        const int64_t p = axis(d).shown(place[d], around);
        nowhere |= p < 0;
        again |= p != place[d] - before[d];
        from += p * x.stride(d);
        to += place[d] * y.stride(d);
      }
      const PaddedAxis column = last > 0 ? axis(last - 1) : PaddedAxis{};
      const int64_t first = last > 0 ? place[last - 1] : 0, count = std::min(column.size - first, end - r);
      for (int64_t i = first; i < first + count; ++i) {
        const int64_t p = column.shown(i, around);
        U* const line = to + i * column.to_stride;
        if (nowhere | (p < 0)) {
          std::fill_n(line, row.size, *number);
          continue;
        }
        const U* const shown_line = from + p * column.from_stride;
        if (again | (p != i - column.before)) copy_row(line + row.before, shown_line, row.n);
        if (number) {
          for (int64_t j = 0; j < row.before; ++j) line[j] = *number;
          for (int64_t j = row.before + row.n; j < row.size; ++j) line[j] = *number;
        } else {
          const int64_t* at = border.data();
          for (int64_t j = 0; j < row.before; ++j) line[j] = shown_line[*at++];
          for (int64_t j = row.before + row.n; j < row.size; ++j) line[j] = shown_line[*at++];
        }
      }
      r += count;
      if (last > 0) place[last - 1] = 0;
      for (int d = last - 2; d >= 0; --d) {
        if (++place[d] < y.size(d)) break;
        place[d] = 0;
      }
    }
  });
}

// y shows x from `before` on, and `around` it what that says; both have elements.
void pad(const Tensor& x, const Tensor& y, const Dims& before, Around around, const Tensor& number = {}) {
  const int last = y.ndim() - 1;
  if (last < 0) return copy_elements(y, x);
  Tensor rows = x;
  if (x.stride(last) != 1 && x.size(last) > 1) {
    rows = empty(x.sizes(), x.dtype());
    copy_elements(rows, x);
  }
  const Tensor made = y.stride(last) == 1 || y.size(last) == 1 ? y : empty(y.sizes(), y.dtype());
  const bool long_rows = x.size(last) > (1 << 16);  // which threads share
  if (long_rows) {
    int64_t offset = made.offset();
    for (int d = 0; d <= last; ++d) offset += before[d] * made.stride(d);
    copy_elements(alias(made, x.sizes(), made.strides(), offset), rows);
  }
  by_size(x.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    pad_rows<U>(rows, made, before, around, number.defined() ? static_cast<const U*>(number.data()) : nullptr, long_rows);
  });
  if (made.data() != y.data()) copy_elements(y, made);
}

}  // namespace

void constant_pad(const Tensor& x, IntList pads, Scalar value, const Tensor& y) {
  Tensor from = x;
  Dims before(y.ndim());
  for (size_t k = 0; 2 * k + 1 < pads.size(); ++k) {  // what both have of each axis
    const int64_t dim = x.ndim() - 1 - static_cast<int64_t>(k), after = pads[2 * k + 1];
    const int64_t n = x.size(to_int(dim)), m = y.size(to_int(dim));
    before[to_int(dim)] = std::min(m, std::max<int64_t>(0, pads[2 * k]));
    from = slice(from, dim, std::min(n, std::max<int64_t>(0, -pads[2 * k])), std::max<int64_t>(0, n + std::min<int64_t>(0, after)), 1);
  }
  if (from.numel() == 0) return fill_elements(y, value);
  const Tensor number = empty(Dims{1}, y.dtype());
  fill_elements(number, value);
  pad(from, y, before, Around::Number, number);
}

void pad_within(const Tensor& x, IntList pads, std::string_view mode, const Tensor& y) {
  if (y.numel() == 0) return;
  Dims before(y.ndim());
  for (size_t k = 0; 2 * k + 1 < pads.size(); ++k) before[y.ndim() - 1 - to_int(static_cast<int64_t>(k))] = pads[2 * k];
  pad(x, y, before, mode == "reflect" ? Around::Reflected : mode == "circular" ? Around::Circular : Around::Same);
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
