#include "dispatch/geometry.h"

#include "base/error.h"

namespace fl {

Dims infer_size(const char* op, IntList size, int64_t numel) {
  Dims out(size);
  int64_t known = 1;
  int unknown = -1;
  for (int i = 0; i < out.size(); ++i) {
    if (out[i] == -1) {
      if (unknown >= 0) raise<ShapeError>(op, ": shape = ", size, " has -1 twice; only one dimension can be inferred");
      unknown = i;
    } else if (out[i] < 0) {
      raise<ShapeError>(op, ": shape = ", size, "; expected sizes >= 0, or -1 for one to be inferred");
    } else if (__builtin_mul_overflow(known, out[i], &known)) {
      raise<ShapeError>(op, ": shape = ", size, " has more elements than memory can address");
    }
  }
  if (unknown >= 0) {
    if (known == 0 || numel % known != 0)
      raise<ShapeError>(op, ": shape '", size, "' is invalid for input of size ", numel, ", which is not a multiple of ", known);
    out[unknown] = numel / known;
  } else if (known != numel) {
    raise<ShapeError>(op, ": shape '", size, "' is invalid for input of size ", numel, "; it has ", known, " elements");
  }
  return out;
}

std::optional<Dims> view_strides(IntList old_sizes, IntList old_strides, IntList size) {
  int64_t numel = 1;
  for (int64_t s : old_sizes) numel *= s;
  if (numel == 0) return row_major(size);
  Dims strides(static_cast<int>(size.size()));
  int v = strides.size() - 1;
  int64_t base = old_strides.empty() ? 1 : old_strides.back();
  int64_t run = 1, seen = 1;  // elements of the current chunk of old axes, and of the new ones inside it
  for (int i = static_cast<int>(old_sizes.size()) - 1; i >= 0; --i) {
    run *= old_sizes[i];
    const bool ends = i == 0 || (old_sizes[i - 1] != 1 && old_strides[i - 1] != run * base);
    if (!ends) continue;
    while (v >= 0 && (seen < run || size[v] == 1)) {
      strides[v] = seen * base;
      seen *= size[v];
      --v;
    }
    if (seen != run) return std::nullopt;
    if (i > 0) {
      base = old_strides[i - 1];
      run = seen = 1;
    }
  }
  for (; v >= 0; --v) {
    if (size[v] != 1) return std::nullopt;
    strides[v] = seen * base;
  }
  return strides;
}

bool broadcasts_to(IntList small, IntList large) {
  if (large.size() < small.size()) return false;
  const IntList last = large.last(small.size());
  for (size_t k = 0; k < small.size(); ++k)
    if (small[k] != 1 && small[k] != last[k]) return false;
  return true;
}

std::vector<bool> axes_named(const Tensor& x, const std::optional<IntList>& dim) {
  std::vector<bool> named(static_cast<size_t>(x.ndim()), !dim || dim->empty());
  if (dim && x.ndim() > 0)
    for (const int64_t d : *dim) named.at(static_cast<size_t>(d < 0 ? d + x.ndim() : d)) = true;
  return named;
}

SliceRange slice_range(int64_t n, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  auto clip = [n](int64_t v) { return std::clamp(v < 0 ? v + n : v, int64_t{0}, n); };
  const int64_t from = clip(start.value_or(0)), to = clip(end.value_or(n));
  return {from, to > from ? (to - from - 1) / step + 1 : 0};
}

}  // namespace fl
