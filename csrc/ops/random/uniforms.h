// The uniforms of one element of a draw that needs a number of them that is not known before.
#pragma once

#include <array>
#include <cstdint>

#include "base/philox.h"

namespace fl {

class Uniforms {
 public:
  Uniforms(uint64_t seed, uint64_t offset, int64_t element) : seed_(seed), offset_(offset), index_(static_cast<uint64_t>(element)) {}
  double next() {  // in [0, 1)
    if (used_ == 2) {
      bits_ = philox(seed_, offset_, index_);
      index_ += uint64_t{1} << 44;  // there are fewer elements
      used_ = 0;
    }
    const int i = 2 * used_++;
    return uniform_double(bits_[i], bits_[i + 1]);
  }

 private:
  uint64_t seed_, offset_, index_;
  std::array<uint32_t, 4> bits_{};
  int used_ = 2;
};

}  // namespace fl
