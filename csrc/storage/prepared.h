// Note [Prepared bytes]
// Kernels want some operands in an order of their own, such as the weights of convolutions and products in blocks. Making
// it costs about as much as a small kernel. So a storage keeps what was made of its bytes until they are written again:
//
//   first use of a version    nothing is kept; the caller makes what it needs, and drops it
//   second use, same form     what is made is kept with the storage
//   later uses                are given that
//   a write                   gives it back
//
// Training uses each version of a weight once per form and keeps nothing; prediction, recurrent cells and accumulated
// gradients are what this is for. Nothing is kept of bytes that can change without a new version: memory that is borrowed or
// shared, that a NumPy array or a DLPack consumer sees, or whose address a program was told (data_ptr). Nor where all that
// is kept would be more than half of the memory that is left.
#pragma once

#include <functional>
#include <string>

#include "base/refcount.h"

namespace fl {

class Storage;

// The bytes of `source` from `from` on in the form that the text names, as a storage of its own; null where none is kept.
// `make` is called without a lock. With `again` the caller knows that this is not the first use (used_before).
Ref<Storage> prepared(Storage& source, const void* from, const std::string& form, const std::function<Ref<Storage>()>& make, bool again = false);

// True iff they were used in this form before since they were last written; remembers that they are now.
bool used_before(Storage& source, const void* from, const std::string& form);

// Gives back everything that is kept, everywhere.
void drop_prepared();

struct PreparedStats {
  size_t bytes;            // kept now
  uint64_t made, reused;  // since the start
};
PreparedStats prepared_stats();

}  // namespace fl
