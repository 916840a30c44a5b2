// Shape rules of the op table: what an output's shape is, in one place for eager and recorded calls.
#pragma once

#include "base/error.h"
#include "dispatch/op_types.h"
#include "wrappers/wrap.h"

#include "wrappers/shapes_index.h"
#include "wrappers/shapes_linalg.h"
#include "wrappers/shapes_nn.h"
#include "wrappers/shapes_reduce.h"
#include "wrappers/shapes_sparse.h"

namespace fl::shape {

inline const Dims& same(const Tensor& x) { return x.sizes(); }
inline Dims shape_of(IntList sizes) { return Dims(sizes); }
inline Dims scalar() { return {}; }

// Dims left after reducing `dims` (none given or empty: all); wrapped already.
inline Dims reduce(const Tensor& x, std::optional<IntList> dims, bool keepdim) {
  Dims out;
  const bool all = !dims || dims->empty();
  for (int i = 0; i < x.ndim(); ++i) {
    const bool gone = all || std::find(dims->begin(), dims->end(), i) != dims->end();
    if (!gone) out.push_back(x.sizes()[i]);
    else if (keepdim) out.push_back(1);
  }
  return out;
}
inline Dims reduce(const Tensor& x, IntList dims, bool keepdim) { return reduce(x, std::optional<IntList>(dims), keepdim); }
inline Dims reduce(const Tensor& x, int64_t dim, bool keepdim) { return reduce(x, IntList(&dim, 1), keepdim); }
inline Dims reduce(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return dim ? reduce(x, *dim, keepdim) : reduce(x, std::optional<IntList>(), keepdim);
}
inline Dims reduce(const Tensor& x, std::nullopt_t, bool keepdim) { return reduce(x, std::optional<IntList>(), keepdim); }
// ... of `any` and `all`, which fold no axis where an empty list names none.
inline Dims truth(const Tensor& x, std::optional<IntList> dims, bool keepdim) { return dims && dims->empty() ? x.sizes() : reduce(x, dims, keepdim); }

inline Dims cat(TensorList xs, int64_t dim) {
  Dims out = xs[0].sizes();
  Extent joined = 0;
  for (const Tensor& x : xs) joined = joined + x.size(static_cast<int>(dim));
  out[static_cast<int>(dim)] = joined;
  return out;
}

// pad lists (before, after) from the last axis backwards.
inline Dims constant_pad(const Tensor& x, IntList pad) {
  Dims out = x.sizes();
  for (size_t k = 0; 2 * k + 1 < pad.size(); ++k) {
    int64_t& size = out[x.ndim() - 1 - static_cast<int>(k)];
    size = Extent(size) + pad[2 * k] + pad[2 * k + 1];
  }
  return out;
}

inline Dims multinomial(const Tensor& x, int64_t k) {
  Dims out = x.sizes();
  out.back() = k;
  return out;
}

}  // namespace fl::shape
