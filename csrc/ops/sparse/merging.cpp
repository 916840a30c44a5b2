// The places of a sparse tensor put in order, and which of them are the same.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "ops/sort/keys.h"

namespace fl::kernels {
namespace {

// One number for each place, in row-major order.
void number_places(const Tensor& indices, IntList shape, int64_t* number) {
  const int64_t n = indices.size(1);
  std::fill_n(number, n, 0);
  const int64_t* at = indices.data<int64_t>();
  for (const int64_t size : shape) {
    // places may be anything, as those who have not been looked at
    for (int64_t i = 0; i < n; ++i) number[i] = static_cast<int64_t>(static_cast<uint64_t>(number[i]) * static_cast<uint64_t>(size) + static_cast<uint64_t>(at[i]));
    at += n;
  }
}

}  // namespace

std::tuple<Tensor, Tensor> sparse_merging(const Tensor& indices, IntList shape) {
  const int64_t axes = indices.size(0), n = indices.size(1);
  Buffer<int64_t> numbers, sorted, order;
  for (auto* buffer : {&numbers, &sorted, &order}) buffer->resize(static_cast<size_t>(n));
  number_places(indices, shape, numbers.data());
  const bool ascend = std::is_sorted(numbers.begin(), numbers.end());
  if (ascend) {
    std::iota(order.begin(), order.end(), 0);
  } else {
    SortScratch scratch;
    sort_row(scratch, {numbers.data(), DType::Int64, n, 1}, false, sorted.data(), order.data());
  }
  const int64_t* const in_order = ascend ? numbers.data() : sorted.data();
  int64_t count = std::min<int64_t>(n, 1);
  for (int64_t i = 1; i < n; ++i) count += in_order[i] != in_order[i - 1];
  const Tensor places = empty(Dims{axes, count}, DType::Int64), element = empty(Dims{n}, DType::Int64);
  int64_t* const which = element.data<int64_t>();
  Buffer<int64_t> first;  // of those that are the same
  const int64_t* from = order.data();
  if (count == n) {
    std::copy(order.begin(), order.end(), which);
  } else {
    first.resize(static_cast<size_t>(count));
    for (int64_t i = 0, group = -1; i < n; ++i) {
      if (i == 0 || in_order[i] != in_order[i - 1]) first[static_cast<size_t>(++group)] = from[i];
      which[from[i]] = group;
    }
    from = first.data();
  }
  for (int64_t a = 0; a < axes; ++a) {
    const int64_t* const at = indices.data<int64_t>() + a * n;
    int64_t* const to = places.data<int64_t>() + a * count;
    for (int64_t i = 0; i < count; ++i) to[i] = at[from[i]];
  }
  return {places, element};
}

}  // namespace fl::kernels
