#include "wrappers/checks.h"
#include "wrappers/checks_index.h"

#include <atomic>
#include <limits>

#include "dispatch/geometry.h"
#include "wrappers/warn.h"
#include "wrappers/wrap.h"
#include "ops/fft/fft.h"
#include "ops/random/random.h"

namespace fl {

void (*warn)(const char* text) = nullptr;

}  // namespace fl

namespace fl::check {

void freedom(const char* op, const Tensor& x, std::optional<IntList> dim, double correction) {
  int64_t n = x.numel();
  if (n && dim && !dim->empty() && x.ndim()) {
    n = 1;
    for (const int64_t d : *dim) n *= x.size(static_cast<int>(d));
  }
  if (static_cast<double>(n) > correction || !warn || x.device().kind == DeviceKind::Meta || locks::any_held()) [[likely]] return;
  warn(text(op, ": degrees of freedom is <= 0, so that the result is NaN or infinite: ", n, " elements are reduced, with correction = ", correction,
            "; expected more elements than that, or a smaller correction (correction=0)").c_str());
}

void copyable(const char* op, const Tensor& x, const Tensor& src) {
  const int shift = x.ndim() - src.ndim();
  bool fits = shift >= 0;
  if (!fits) {  // leading ones may go
    fits = true;
    for (int i = 0; i < -shift; ++i) fits = fits && src.sizes()[i] == 1;
  }
  for (int i = std::max(0, -shift); fits && i < src.ndim(); ++i)
    fits = src.sizes()[i] == 1 || src.sizes()[i] == x.sizes()[i + shift];
  if (!fits) raise<ShapeError>(op, ": src has shape ", src.sizes(), ", which does not broadcast to x of shape ", x.sizes());
  if (is_complex(src.dtype()) && !is_complex(x.dtype()) && x.dtype() != DType::Bool) warn_of_lost_parts();
}

void check_alpha(const char* op, Scalar alpha, const Operand& a, const Operand& b) {
  const DType result = dt::promote(a, b);
  if (alpha.kind() == Scalar::Kind::Bool && result != DType::Bool)
    raise<ArgumentError>(op, ": alpha = ", alpha, " for a result of ", result, "; expected a number (Boolean alpha only supported for Boolean results.)");
  if (alpha.is_float() && !is_inexact(result))
    raise<ArgumentError>(op, ": alpha = ", alpha, " for a result of ", result, "; cast the tensors to a floating point type first (For integral input tensors, argument alpha must not be a floating point number.)");
  if (alpha.is_complex() && !is_complex(result))
    raise<ArgumentError>(op, ": alpha = ", alpha, " for a result of ", result, "; expected a real number (For non-complex input tensors, argument alpha must not be a complex number.)");
}

void single_element(const char* op, const char* arg, const Operand& value) {
  if (value.is_tensor() && value.tensor().ndim() != 0)
    raise<ShapeError>(op, ": ", arg, " has shape ", value.tensor().sizes(), "; expected a number or a 0-d tensor");
}

void viewable(const char* op, const Tensor& x, IntList size) {
  const Dims full = infer_size(op, size, x.numel());
  if (!view_strides(x.sizes(), x.strides(), full))
    raise<ShapeError>(op, ": shape = ", size, " can not be viewed in a tensor of shape ", x.sizes(), " and strides ", x.strides(),
                      ": its elements do not lie in that order; use reshape(), which copies where needed");
}

void permutation(const char* op, const Tensor& x, IntList dims) {
  if (static_cast<int>(dims.size()) != x.ndim())
    raise<ShapeError>(op, ": dims = ", dims, " has ", dims.size(), " axes, but x has shape ", x.sizes(), "; expected every axis once");
}

void sums_to(const char* op, const Tensor& x, IntList shape) {
  const int lead = x.ndim() - static_cast<int>(shape.size());
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    const int64_t want = shape[static_cast<size_t>(i)];
    if (lead < 0 || (want != 1 && want != x.size(i + lead)))
      raise<ShapeError>(op, ": shape = ", shape, ", but x has shape ", x.sizes(), "; expected a shape that can be broadcast to that of x");
  }
}
void axis(const char* op, const Tensor& x, int64_t dim) {
  if (dim < 0 || dim >= std::max(x.ndim(), 1)) raise<IndexError>(op, ": dim = ", dim, "; expected 0 <= dim < ", std::max(x.ndim(), 1));
}
void expandable(const char* op, const Tensor& x, IntList size) {
  const int shift = static_cast<int>(size.size()) - x.ndim();
  if (shift < 0) raise<ShapeError>(op, ": size = ", size, " has fewer axes than x of shape ", x.sizes());
  for (int i = 0; i < static_cast<int>(size.size()); ++i) {
    const int64_t want = size[static_cast<size_t>(i)];
    if (i < shift) {
      if (want < 0) raise<ShapeError>(op, ": size = ", size, " has -1 for a new axis; expected its size");
      continue;
    }
    const int64_t have = x.sizes()[i - shift];
    if (want != -1 && want != have && have != 1)
      raise<ShapeError>(op, ": size = ", size, " of x with shape ", x.sizes(), ": The expanded size of the tensor (", want, ") must match the existing size (", have, ") at non-singleton dimension ", i);
    if (want < -1) raise<ShapeError>(op, ": size = ", size, "; expected no negative size but -1");
  }
  Dims full(size);
  for (int i = shift; i < full.size(); ++i)
    if (full[i] == -1) full[i] = x.sizes()[i - shift];
  checked_numel(op, full);
}

void insertable(const char* op, const Tensor& x, int64_t dim) {
  const int64_t n = x.ndim() + 1;
  if (dim < -n || dim >= n)
    raise<IndexError>(op, ": Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got dim = ", dim, "): x has shape ", x.sizes());
}

void index_in_axis(const char* op, const Tensor& x, int64_t dim, int64_t index) {
  if (x.ndim() == 0) raise<IndexError>(op, ": invalid index of a 0-dim tensor, which has no axis to index; use .item() for its value");
  const int64_t n = x.size(static_cast<int>(dim));
  if (index < -n || index >= n)
    raise<IndexError>(op, ": index ", index, " is out of bounds for dimension ", dim, " with size ", n, "; expected ", -n, " <= index < ", n);
}

void positive_step(const char* op, int64_t step) {
  if (step <= 0) raise<ArgumentError>(op, ": step = ", step, "; step must be greater than zero (use flip() for a reversed tensor)");
}

void unfoldable(const char* op, const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  const int64_t n = x.ndim() ? x.size(static_cast<int>(dim)) : 1;
  if (size < 0 || size > n) raise<ShapeError>(op, ": size = ", size, ", but axis ", dim, " of x has size ", n, "; expected 0 <= size <= ", n);
  positive_step(op, step);
}

void inside_storage(const char* op, const Tensor& x, IntList size, IntList stride, int64_t offset) {
  if (size.size() != stride.size()) raise<ShapeError>(op, ": size = ", size, " and stride = ", stride, "; expected equal lengths");
  checked_numel(op, size);
  for (size_t i = 0; i < size.size(); ++i)
    if (stride[i] < 0) raise<ShapeError>(op, ": size = ", size, ", stride = ", stride, "; expected no negative value");
  if (offset < 0) raise<ShapeError>(op, ": storage_offset = ", offset, "; expected storage_offset >= 0");
  const std::optional<Reach> reached = reach(size, stride, offset);
  if (!reached) raise<ShapeError>(op, ": size = ", size, ", stride = ", stride, " reach past what memory can address");
  const int64_t have = static_cast<int64_t>(x.storage().size_bytes() / x.item_bytes());
  if (reached->end > have)
    raise<ShapeError>(op, ": size = ", size, ", stride = ", stride, ", storage_offset = ", offset, " reach element ", reached->end - 1, ", but the storage has ", have);
}

void splits_axis(const char* op, const Tensor& x, IntList sizes, int64_t dim) {
  int64_t total = 0;
  for (int64_t s : sizes) {
    if (s < 0) raise<ShapeError>(op, ": split_sizes = ", sizes, "; expected no negative size");
    if (__builtin_add_overflow(total, s, &total)) total = INT64_MAX;
  }
  const int64_t n = x.ndim() ? x.size(static_cast<int>(dim)) : 0;
  if (total != n)
    raise<ShapeError>(op, ": expects split_sizes to sum exactly to ", n, " (input tensor's size at dimension ", dim, "), but got split_sizes=", sizes, ", whose sum is ", total);
}

void joinable(const char* op, TensorList xs, int64_t dim) {
  if (xs.empty()) raise<ArgumentError>(op, ": got no tensors; expected at least one");
  for (size_t k = 1; k < xs.size(); ++k) {
    bool fits = xs[k].ndim() == xs[0].ndim();
    for (int i = 0; fits && i < xs[0].ndim(); ++i) fits = i == dim || xs[k].sizes()[i] == xs[0].sizes()[i];
    if (!fits)
      raise<ShapeError>(op, ": Sizes of tensors must match except in dimension ", dim, ": tensors[", k, "] has shape ", xs[k].sizes(),
                        ", but tensors[0] has shape ", xs[0].sizes());
  }
  if (xs[0].ndim() == 0) raise<ShapeError>(op, ": 0-d tensors can not be joined; use stack()");
  axis(op, xs[0], dim);
}

void probability(const char* op, const char* arg, double p) {
  if (!(p >= 0 && p <= 1)) raise<ArgumentError>(op, ": ", arg, " = ", p, "; expected 0 <= ", arg, " <= 1");
}

void not_negative(const char* op, const char* arg, const Tensor& x) {
  if (!has_values(x) || x.numel() == 0) return;
  const Tensor rows = contiguous_for_kernel(is_float(x.dtype()) && item_size(x.dtype()) < 4 ? cast_for_kernel(x, DType::Float32) : x);
  visit(rows.dtype(), [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T>)
      for (int64_t i = 0; i < rows.numel(); ++i)
        if (const T v = rows.data<T>()[i]; !(v >= T{0})) raise<ArgumentError>(op, ": ", arg, " has an element ", v, "; expected all elements to be 0 or more");
  });
}

void probabilities(const char* op, const char* arg, const Tensor& x, bool or_nan) {
  if (!has_values(x) || x.numel() == 0) return;
  const Tensor rows = contiguous_for_kernel(is_float(x.dtype()) && item_size(x.dtype()) < 4 ? cast_for_kernel(x, DType::Float32) : x);
  visit(rows.dtype(), [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      const T* p = rows.data<T>();
      constexpr int64_t kBlock = 4096;
      auto bad = [or_nan](T v) { return or_nan ? (v < 0) | (v > 1) : !((v >= 0) & (v <= 1)); };
      for (int64_t b = 0; b < rows.numel(); b += kBlock) {
        const int64_t e = std::min(rows.numel(), b + kBlock);
        int32_t any = 0;
        if (or_nan)
          for (int64_t i = b; i < e; ++i) any |= (p[i] < 0) | (p[i] > 1);
        else
          for (int64_t i = b; i < e; ++i) any |= !((p[i] >= 0) & (p[i] <= 1));
        if (!any) continue;
        int64_t i = b;
        while (!bad(p[i])) ++i;
        Dims at(rows.ndim());
        for (int64_t d = rows.ndim() - 1, rest = i; d >= 0; rest /= rows.size(static_cast<int>(d)), --d)
          at[static_cast<int>(d)] = rest % rows.size(static_cast<int>(d));
        raise<ArgumentError>(op, ": all elements of input should be between 0 and 1, but ", arg, at.empty() ? std::string() : to_string(at), " = ", p[i]);
      }
    }
  });
}

void does_not_fit(const char* op, const char* arg, DType type, const Scalar& value) {
  if (value.is_complex()) raise<DTypeError>(op, ": ", arg, " = ", value, " is complex; expected a real number for ", type, ", or a complex tensor");
  const IntRange range = int_range(type);
  raise<ArgumentError>(op, ": ", arg, " = ", value, " does not fit into ", type, "; expected ", range.low, " <= ", arg, " <= ", range.high,
                       ", or a wider type");
}

void draws_fit(const char* op, const Tensor& x, int64_t from, int64_t to) {
  holds_exactly(op, "from", x.dtype(), from);
  if (to > from) holds_exactly(op, "to - 1", x.dtype(), to - 1);
}

bool exact(const Tensor& x, double v) {
  if (wide(x)) return true;
  const auto computed = static_cast<float>(v);
  return visit(x.dtype(), [&]<class T>(T) { return static_cast<float>(static_cast<T>(computed)) == computed; });
}

void of_complex(const char* op, const Tensor& x) {
  if (!is_complex(x.dtype())) raise<DTypeError>(op, ": x is ", x.dtype(), "; expected complex64 or complex128");
}

static void transformable(const char* op, const Tensor& x, int64_t dim, int64_t n) {
  const DType real = is_complex(x.dtype()) ? to_real(x.dtype()) : x.dtype();
  if (real != DType::Float32 && real != DType::Float64) raise<DTypeError>(op, ": x is ", x.dtype(), "; expected float32, float64, complex64 or complex128");
  if (x.ndim() == 0) raise<ShapeError>(op, ": x has no axes; expected at least one");
  if (!is_fft_size(n)) raise<ArgumentError>(op, ": ", n, " points along axis ", dim, " of x ", x.sizes(), "; expected 1 to ", kMostPoints, ", of factors that are at most ", kMostRadix);
}
void transformable(const char* op, const Tensor& x, int64_t dim) { transformable(op, x, dim, x.ndim() ? x.size(static_cast<int>(dim)) : 1); }
void half_of(const char* op, const char* arg, int64_t points, const Tensor& x, int64_t dim) {
  const int64_t n = x.size(static_cast<int>(dim));
  if (points != n / 2 + 1) raise<ArgumentError>(op, ": ", arg, " = ", points, " of ", n, " numbers; expected ", n / 2 + 1);
}
void whole_of(const char* op, const char* arg, int64_t n, const Tensor& x, int64_t dim) {
  transformable(op, x, dim, n);
  if (x.size(static_cast<int>(dim)) != n / 2 + 1) raise<ArgumentError>(op, ": ", arg, " = ", n, ", but x has ", x.size(static_cast<int>(dim)), " points along axis ", dim, "; expected ", n / 2 + 1);
}

void pairs(const char* op, const Tensor& x) {
  if (x.dtype() != DType::Float16 && x.dtype() != DType::Float32 && x.dtype() != DType::Float64)
    raise<DTypeError>(op, ": x is ", x.dtype(), "; expected float16, float32 or float64");
  if (x.ndim() == 0 || x.size(-1) != 2) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; Tensor must have a last dimension of size 2, real and imaginary parts");
  bool fits = x.stride(-1) == 1 && x.offset() % 2 == 0;
  for (int i = 0; i + 1 < x.ndim(); ++i) fits = fits && x.stride(i) % 2 == 0;
  if (!fits)
    raise<ShapeError>(op, ": x has strides ", x.strides(), " and begins at element ", x.offset(),
                      "; expected a last stride of 1, others that are even, and an even begin; call contiguous() first");
}

void floating(const char* op, const Tensor& x) {
  if (!is_float(x.dtype())) raise<DTypeError>(op, ": x is ", x.dtype(), "; expected a floating point tensor");
}

void range(const char* op, const char* low_name, double low, const char* high_name, double high) {
  if (!(low <= high)) raise<ArgumentError>(op, ": ", low_name, " = ", low, ", ", high_name, " = ", high, "; expected ", low_name, " <= ", high_name);
}

void finite_width(const char* op, const Tensor& x, double low, double high) {
  const DType t = to_real(x.dtype());
  const double most = t == DType::Float16 ? 65504.0 : t == DType::Float64 ? std::numeric_limits<double>::max() : static_cast<double>(std::numeric_limits<float>::max());
  if (!(high - low <= most))
    raise<ArgumentError>(op, ": from = ", low, ", to = ", high, "; expected to - from <= ", most, ", the largest number of ", x.dtype());
}

void padding(const char* op, const Tensor& x, IntList pad) {
  pad_pairs(op, x, pad);
  for (size_t k = 0; 2 * k + 1 < pad.size(); ++k) {
    const int64_t n = x.size(-1 - static_cast<int>(k));
    int64_t total = 0;
    if (__builtin_add_overflow(pad[2 * k], pad[2 * k + 1], &total) || __builtin_add_overflow(total, n, &total) || total < 0)
      raise<ShapeError>(op, ": pad = ", pad, " gives axis ", x.ndim() - 1 - static_cast<int>(k), " of shape ", x.sizes(), " a size below 0 or past what memory can address");
  }
}

void multinomial(const char* op, const Tensor& x, int64_t k, bool replacement) {
  if (x.ndim() < 1 || x.ndim() > 2) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected one or two axes");
  const int64_t n = x.size(-1);
  if (k < 1 || n == 0 || (!replacement && k > n))
    raise<ArgumentError>(op, ": num_samples = ", k, " from ", n, " categories", replacement ? "" : " without replacement", "; expected 1 <= num_samples",
                         replacement ? "" : " <= categories");
  if (!has_values(x)) return;
  const Tensor rows = contiguous_for_kernel(x);
  visit(x.dtype(), [&]<class T>(T) {
    const T* p = rows.data<T>();
    const auto wrong = [](double v) { return !(v >= 0) || std::isinf(v); };
    const int64_t m = rows.numel() / n;
    std::atomic<int64_t> refused = m;  // the first row that is
    parallel_work(m, n, 32768, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const int64_t positive = kernels::positive_weights(x.dtype(), p + r * n, n);
        if (positive > 0 && (replacement || positive >= k)) continue;
        for (int64_t known = refused; r < known && !refused.compare_exchange_weak(known, r);) {}
        break;
      }
    });
    if (const int64_t r = refused; r < m) {
      int64_t positive = 0;
      for (int64_t j = 0; j < n; ++j) positive += static_cast<double>(p[r * n + j]) > 0;
      for (int64_t j = 0; j < n; ++j)
        if (const double v = static_cast<double>(p[r * n + j]); wrong(v))
          raise<ArgumentError>(op, ": x[", r, ", ", j, "] = ", v, "; expected finite weights >= 0");
      if (positive == 0 || (!replacement && positive < k))
        raise<ArgumentError>(op, ": row ", r, " has ", positive, " positive weights; expected at least ", replacement ? 1 : k);
    }
  });
}

}  // namespace fl::check
