#include "tensor/sparse.h"

#include <memory>

#include "base/fork_mutex.h"

namespace fl {
namespace {

StripedMutex<LockRank::WeakTensor, 8> part_locks;

struct Cell {
  Ref<SparseParts> parts;
};
void drop_cell(void* cell) { delete static_cast<Cell*>(cell); }

Cell& cell_of(const Tensor& x) { return *static_cast<Cell*>(x.storage().data()); }

}  // namespace

Tensor make_sparse(Tensor indices, Tensor values, IntList sizes, bool coalesced) {
  const DType dtype = values.dtype();
  const auto size_bytes = static_cast<size_t>(checked_numel("sparse", sizes)) * item_size(dtype);
  auto cell = std::make_unique<Cell>();
  cell->parts = make_ref<SparseParts>(std::move(indices), std::move(values), coalesced);
  Cell* const at = cell.get();
  auto storage = Storage::borrow(at, size_bytes, Device{DeviceKind::Meta}, at, drop_cell, true);
  (void)cell.release();
  return Tensor(make_ref<TensorImpl>(std::move(storage), Dims(sizes), row_major(sizes), 0, dtype));
}

Ref<SparseParts> sparse_parts(const Tensor& x) {
  Cell& cell = cell_of(x);
  const std::lock_guard lock(part_locks.of(&cell));
  return cell.parts;
}

void set_sparse_parts(const Tensor& x, Tensor indices, Tensor values, bool coalesced) {
  Cell& cell = cell_of(x);
  auto parts = make_ref<SparseParts>(std::move(indices), std::move(values), coalesced);
  const std::lock_guard lock(part_locks.of(&cell));
  std::swap(cell.parts, parts);  // the old ones go with the variable, after the lock
}

}  // namespace fl
