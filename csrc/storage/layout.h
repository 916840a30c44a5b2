// Note [Deferred layout]
// Convolutions are fastest with channels last, and users see [N, C, ...] row-major. So a storage may hold its
// bytes as [n][s][c] while the geometry of its tensors says [n][c][s]. Nobody needs to know: Storage::data()
// puts the bytes into row-major order first, once, and for good. Code that can work on the bytes as they lie
// holds a RawBytes while it does.
//
//     fresh storage --defer()--> [n][s][c] --data()--> [n][c][s]
//                                    |
//                                RawBytes: readers keep the old bytes until their end, whoever calls data() meanwhile;
//                                          data() waits for writers
//
// A thread that holds a RawBytes for writing must not ask for data() of the same storage.
// A storage is deferred before anybody else sees it, and never again afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/refcount.h"

namespace fl {

class Storage;

// n blocks of s positions of c channels, elements of `item` bytes.
struct ChannelsLast {
  int64_t n = 0, c = 0, s = 0;
  size_t item = 0;
  bool operator==(const ChannelsLast&) const = default;
};

// Holds the bytes of a storage in the order in which they lie.
class RawBytes {
 public:
  RawBytes() = default;
  enum Use { Read, Write };
  explicit RawBytes(Storage& storage, Use use = Read);
  RawBytes(RawBytes&& other) noexcept { *this = std::move(other); }
  RawBytes& operator=(RawBytes&& other) noexcept;
  ~RawBytes();

  void* data() const { return data_; }
  bool channels_last() const { return layout_.n > 0; }
  const ChannelsLast& layout() const { return layout_; }

 private:
  Ref<Storage> storage_;  // only while deferred
  void* data_ = nullptr;
  ChannelsLast layout_;
  Use use_ = Read;
};

enum class LayoutMode : uint8_t { Plain, Deferred };
LayoutMode layout_mode();
void set_layout_mode(LayoutMode mode);

// How often bytes were reordered since the start, at borders: by data(), or by an op that took row-major input.
int64_t layout_reorders();
void count_reorder();

// to[r][k] = from[k][r] for `batch` matrices of rows x cols (cols contiguous in `from`).
void transpose_bytes(const void* from, void* to, int64_t batch, int64_t rows, int64_t cols, size_t item);

}  // namespace fl
