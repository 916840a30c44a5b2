// Dense memory whose axes lie in an order that is known of some pairs of axes alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/dims.h"

namespace fl {

// Strides for `sizes`, row-major where nothing says otherwise. outside(a, b) > 0: axis a lies outside of axis b; < 0: inside; 0: nothing says so.
template <class F>
Dims strides_in_order(const Dims& sizes, F&& outside) {
  const int n = static_cast<int>(sizes.size());
  Dims order, strides(sizes);  // the innermost axis first
  for (int axis = n - 1; axis >= 0; --axis) order.push_back(axis);
  for (int i = 1; i < n; ++i)
    for (int moved = i, other = i - 1; other >= 0; --other) {
      const int verdict = outside(static_cast<int>(order[other]), static_cast<int>(order[moved]));
      if (verdict < 0) break;
      if (verdict == 0) continue;
      std::swap(order[other], order[moved]);
      moved = other;
    }
  int64_t step = 1;
  for (int i = 0; i < n; ++i) {
    const int axis = static_cast<int>(order[i]);
    strides[axis] = step;
    step *= std::max<int64_t>(sizes[axis], 1);
  }
  return strides;
}

}  // namespace fl
