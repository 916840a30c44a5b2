// argmax, argmin, and max and min along one axis with positions. x is row-major: [outer, n, inner].
#include "dispatch/unsigned.h"
#include "ops/reduce/arg.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "dispatch/each.h"
#include "ops/index/kept.h"
#include "ops/index/lines.h"

namespace fl::kernels {
namespace {

// Positions down a few columns of many rows, m of them side by side: as many rows as fit are one of up to kMostColumns, and the extreme of a column is the first
// best of what its parts found.
constexpr int64_t kMostColumns = 256;

void tall_columns(bool max, DType type, const char* data, int64_t n, int64_t m, int64_t* where) {
  constexpr int64_t kRows = 256;  // of a part
  const int64_t item = static_cast<int64_t>(item_size(type)), beside = kMostColumns / m, width = beside * m, folded = n / beside, parts = (folded + kRows - 1) / kRows;
  const int64_t left = n - folded * beside;
  std::vector<int64_t> at(static_cast<size_t>(parts * width + m));
  parallel_for(0, parts, 1, [&](int64_t b, int64_t e) {
    alignas(64) char best[kMostColumns * 8];
    for (int64_t p = b; p < e; ++p)
      arg_columns(max, type, data + p * kRows * width * item, width, std::min(kRows, folded - p * kRows), width, &at[static_cast<size_t>(p * width)], best);
  });
  if (left > 0) {
    alignas(64) char best[kMostColumns * 8];
    arg_columns(max, type, data + folded * width * item, m, left, m, &at[static_cast<size_t>(parts * width)], best);
  }
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> found;
    std::vector<int64_t> rows;
    for (int64_t j = 0; j < m; ++j) {
      rows.clear(), found.clear();
      for (int64_t p = 0; p < parts; ++p)
        for (int64_t r = 0; r < beside; ++r) rows.push_back((at[static_cast<size_t>(p * width + r * m + j)] + p * kRows) * beside + r);
      if (left > 0) rows.push_back(folded * beside + at[static_cast<size_t>(parts * width + j)]);
      for (const int64_t row : rows) found.push_back(reinterpret_cast<const T*>(data)[row * m + j]);
      int64_t k;
      arg_rows(max, type, found.data(), static_cast<int64_t>(found.size()), 1, &k);
      const T best = found[static_cast<size_t>(k)];
      where[j] = rows[static_cast<size_t>(k)];
      for (size_t i = 0; i < rows.size(); ++i)
        if (found[i] == best || (best != best && found[i] != found[i])) where[j] = std::min(where[j], rows[i]);
    }
  });
}

void extreme(bool max, const Tensor& x, std::optional<int64_t> dim, const Tensor* values, const Tensor& indices) {
  const Lines l = dim ? lines_of(x, *dim) : Lines{1, x.numel(), 1};
  const int64_t outer = l.outer, n = l.n, inner = l.inner;
  if (indices.numel() == 0) return;
  const DType type = is_float(x.dtype()) ? compute_type(x.dtype()) : x.dtype() == DType::Bool ? DType::UInt8 : x.dtype();
  const int64_t item = static_cast<int64_t>(item_size(type));
  const char* data = static_cast<const char*>(x.data());
  std::vector<char> converted;
  if (type != x.dtype()) {
    converted.resize(static_cast<size_t>(x.numel() * item));
    parallel_for(0, x.numel(), 65536, [&](int64_t b, int64_t e) {
      convert_elements(converted.data() + b * item, type, data + b * static_cast<int64_t>(x.item_bytes()), x.dtype(), e - b);
    });
    data = converted.data();
  }
  int64_t* where = indices.data<int64_t>();
  if (inner == 1) {
    constexpr int64_t kPiece = 1 << 17;
    if (outer == 1 && n >= 2 * kPiece) {  // one long row: the best of the pieces' bests
      const int64_t pieces = (n + kPiece - 1) / kPiece;
      std::vector<int64_t> at(static_cast<size_t>(pieces));
      parallel_for(0, pieces, 1, [&](int64_t b, int64_t e) {
        for (int64_t p = b; p < e; ++p)
          arg_rows(max, type, data + p * kPiece * item, std::min(kPiece, n - p * kPiece), 1, &at[static_cast<size_t>(p)]);
      });
      std::vector<char> bests(static_cast<size_t>(pieces * item));
      for (int64_t p = 0; p < pieces; ++p) {
        at[static_cast<size_t>(p)] += p * kPiece;
        std::memcpy(bests.data() + p * item, data + at[static_cast<size_t>(p)] * item, static_cast<size_t>(item));
      }
      int64_t best;
      arg_rows(max, type, bests.data(), pieces, 1, &best);
      where[0] = at[static_cast<size_t>(best)];
    } else {
      parallel_work(outer, n, 32768, [&](int64_t b, int64_t e) {
        arg_rows(max, type, data + b * n * item, n, e - b, where + b);
      });
    }
  } else if (constexpr int64_t kTall = 4096; inner <= kMostColumns / 2 && n >= kTall) {
    for (int64_t o = 0; o < outer; ++o) tall_columns(max, type, data + o * n * inner * item, n, inner, where + o * inner);
  } else {
    const int64_t tiles = (inner + 255) / 256;
    parallel_work(outer * tiles, n * std::min<int64_t>(inner, 256), 32768, [&](int64_t b, int64_t e) {
      for (int64_t u = b; u < e; ++u) {
        const int64_t o = u / tiles, c = u % tiles * 256, m = std::min<int64_t>(256, inner - c);
        alignas(64) char best[256 * 8];
        arg_columns(max, type, data + (o * n * inner + c) * item, inner, n, m, where + o * inner + c, best);
      }
    });
  }
  if (!values) return;
  const char* src = static_cast<const char*>(x.data());
  char* dst = static_cast<char*>(values->data());
  const int64_t size = static_cast<int64_t>(x.item_bytes());
  parallel_for(0, outer * inner, 16384, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i)
      std::memcpy(dst + i * size, src + ((i / inner * n + where[i]) * inner + i % inner) * size, static_cast<size_t>(size));
  });
}

}  // namespace

static void extreme_of_any(bool max, const Tensor& x, std::optional<int64_t> dim, const Tensor* values, const Tensor& indices) {
  if (!is_wide_unsigned(x.dtype())) return extreme(max, x, dim, values, indices);
  if (!values) return extreme(max, in_signed_order(x), dim, nullptr, indices);
  with_order(x, *values, [&](const Tensor& a, const Tensor& v) { extreme(max, a, dim, &v, indices); });
}
void argmax(const Tensor& x, std::optional<int64_t> dim, bool, const Tensor& y) { extreme_of_any(true, x, dim, nullptr, y); }
void argmin(const Tensor& x, std::optional<int64_t> dim, bool, const Tensor& y) { extreme_of_any(false, x, dim, nullptr, y); }
void max_dim(const Tensor& x, int64_t dim, bool, const Tensor& values, const Tensor& indices) { extreme_of_any(true, x, dim, &values, indices); }
void min_dim(const Tensor& x, int64_t dim, bool, const Tensor& values, const Tensor& indices) { extreme_of_any(false, x, dim, &values, indices); }

// dx[..., indices, ...] = dy, else 0: the gradient of picking one element per line along `dim`.
void scatter_picked(const Tensor& dy, IntList, int64_t dim, const Tensor& indices, bool, const Tensor& dx) {
  const auto [outer, n, inner] = lines_of(dx, dim);
  require_kept("picked elements", indices, n);
  fill_elements(dx, Scalar(0));
  const int64_t size = static_cast<int64_t>(dx.item_bytes());
  char* dst = static_cast<char*>(dx.data());
  const char* src = static_cast<const char*>(dy.data());
  const int64_t* at = indices.data<int64_t>();
  for (int64_t i = 0; i < outer * inner; ++i)
    std::memcpy(dst + ((i / inner * n + at[i]) * inner + i % inner) * size, src + i * size, static_cast<size_t>(size));
}
void gather_picked(const Tensor& x, int64_t dim, const Tensor& indices, bool, const Tensor& y) {
  const auto [outer, n, inner] = lines_of(x, dim);
  require_kept("picked elements", indices, n);
  const int64_t size = static_cast<int64_t>(x.item_bytes());
  const char* src = static_cast<const char*>(x.data());
  char* dst = static_cast<char*>(y.data());
  const int64_t* at = indices.data<int64_t>();
  for (int64_t i = 0; i < outer * inner; ++i)
    std::memcpy(dst + i * size, src + ((i / inner * n + at[i]) * inner + i % inner) * size, static_cast<size_t>(size));
}

}  // namespace fl::kernels
