// The bytes of channels-last storages.
#include <cstdint>
#include <vector>

#include "storage/layout.h"
#include "storage/storage.h"
#include "tests/check.h"

namespace fl {
namespace {

template <class T>
void check_transpose(int64_t batch, int64_t rows, int64_t cols) {
  std::vector<T> from(static_cast<size_t>(batch * rows * cols)), to(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i * 2654435761u + 1);
  transpose_bytes(from.data(), to.data(), batch, rows, cols, sizeof(T));
  size_t wrong = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < cols; ++k)
        wrong += to[static_cast<size_t>((b * cols + k) * rows + r)] != from[static_cast<size_t>((b * rows + r) * cols + k)];
  CHECK_EQ(wrong, size_t{0});
}

TEST(transposed_bytes_of_every_size_and_width) {
  for (const int64_t rows : {1, 3, 8, 15, 16, 17, 40, 64, 100})
    for (const int64_t cols : {1, 2, 7, 8, 9, 16, 31, 48, 130}) {
      check_transpose<uint8_t>(3, rows, cols);
      check_transpose<uint16_t>(3, rows, cols);
      check_transpose<uint32_t>(3, rows, cols);
      check_transpose<uint64_t>(3, rows, cols);
    }
  check_transpose<uint32_t>(5, 64, 1024);
  check_transpose<uint32_t>(0, 64, 1024);
  check_transpose<uint32_t>(2, 0, 5);
}

}  // namespace
}  // namespace fl
