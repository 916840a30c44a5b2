// Shape rules of indexing.
#pragma once

#include <algorithm>

#include "tensor/tensor.h"

namespace fl::shape {

inline Dims replace_dim(const Tensor& x, int64_t dim, const Tensor& index) {
  Dims out = x.sizes();
  if (!out.empty()) out[static_cast<int>(dim)] = index.numel();
  return out;
}
// NumPy's rule: the broadcast axes stand where the indexed ones were if those are neighbours, else in front.
inline Dims index_get(const Tensor& x, TensorList indices) {
  int first = -1, last = -1, count = 0;
  const Tensor* any = nullptr;
  for (int i = 0; i < static_cast<int>(indices.size()); ++i)
    if (indices[static_cast<size_t>(i)].defined()) {
      any = &indices[static_cast<size_t>(i)];
      if (first < 0) first = i;
      last = i;
      ++count;
    }
  if (!any) return x.sizes();
  const int at = last - first + 1 == count ? first : 0;
  Dims out;
  for (int i = 0; i < x.ndim(); ++i) {
    if (out.size() == at && i >= at && any) {
      for (int64_t s : any->sizes()) out.push_back(s);
      any = nullptr;
    }
    const bool indexed = i < static_cast<int>(indices.size()) && indices[static_cast<size_t>(i)].defined();
    if (!indexed) out.push_back(x.size(i));
  }
  if (any)
    for (int64_t s : any->sizes()) out.push_back(s);
  return out;
}
inline Dims given_size(int64_t n) { return Dims{n}; }
inline Dims repeat(const Tensor& x, IntList repeats) {
  Dims out{IntList(repeats)};
  const int lead = out.size() - x.ndim();
  for (int i = 0; i < x.ndim(); ++i) out[lead + i] = Extent(out[lead + i]) * x.size(i);
  return out;
}

}  // namespace fl::shape

namespace fl::dt {

inline DType index_type(bool out_int32) { return out_int32 ? DType::Int32 : DType::Int64; }

}  // namespace fl::dt
