#include "autograd/recorded.h"

#include <algorithm>

#include "autograd/meta.h"
#include "storage/allocator.h"

namespace fl::profile {
namespace {

int64_t allocated_now() { return options().memory ? static_cast<int64_t>(host_stats().allocated) : -1; }

// Memory behind a tensor, which for expanded ones is less than its elements.
int64_t bytes_of(const Tensor& x) {
  if (!x.defined() || x.is_meta()) return 0;
  return std::min(x.numel() * static_cast<int64_t>(x.item_bytes()), static_cast<int64_t>(x.storage().size_bytes()));
}

}  // namespace

TensorEvent::~TensorEvent() {
  if (failed_) called();
  measured_.allocated = allocated_now();
  if (!measured_.dtype) measured_.dtype = input_dtype_;
  if (kind_ == Kind::Op && views_ && storages_ > 0 && !failed_) measured_.in_bytes = 0;  // a view moves nothing
  end(handle_, measured_, failed_);
}

void TensorEvent::input(const Tensor& x) {
  if (options().shapes) {
    if (shapes_.empty()) shapes_.push_back(0);
    ++shapes_[0];
    shapes_.push_back(x.defined() ? static_cast<int64_t>(x.dtype()) : -1);
    shapes_.push_back(x.defined() ? x.ndim() : 0);
    if (x.defined()) shapes_.insert(shapes_.end(), x.sizes().begin(), x.sizes().end());
  }
  if (!x.defined()) return;
  if (!input_dtype_) input_dtype_ = static_cast<uint8_t>(1 + static_cast<int>(x.dtype()));
  measured_.in_bytes += bytes_of(x);
  if (storages_ < 4) storage_[storages_++] = &x.storage();
}
void TensorEvent::input(const Operand& x) {
  if (x.is_tensor()) return input(x.tensor());
  if (!options().shapes) return;
  if (shapes_.empty()) shapes_.push_back(0);
  ++shapes_[0];
  shapes_.push_back(-2);
  shapes_.push_back(0);
}
void TensorEvent::input(TensorList xs) {
  for (const Tensor& x : xs) input(x);
}

void TensorEvent::begin() {
  first_sequence_ = next_sequence();
  // Backward works without the GIL, and what runs in it has no calls but its forward op's.
  handle_ = profile::begin(kind_, name_, kind_ == Kind::Backward ? 0 : stack_now(), allocated_now(), shapes_.empty() ? nullptr : &shapes_);
}

void TensorEvent::output(const Tensor& y) {
  if (!y.defined()) return;
  if (!measured_.dtype) measured_.dtype = static_cast<uint8_t>(1 + static_cast<int>(y.dtype()));
  const bool seen = std::find(storage_, storage_ + storages_, &y.storage()) != storage_ + storages_;
  const size_t length = std::char_traits<char>::length(name_);
  const bool written = length > 1 && name_[length - 1] == '_';
  if (!seen || written) {
    measured_.out_bytes += bytes_of(y);
    views_ = false;
  }
  if (!measured_.node && kind_ == Kind::Op && y.impl()->requires_grad)
    if (const AutogradMeta* m = meta_of(y); m && m->grad_fn && m->grad_fn->sequence >= first_sequence_) node(m->grad_fn.get(), m->grad_fn->sequence);
}
void TensorEvent::output(const std::vector<Tensor>& ys) {
  for (const Tensor& y : ys) output(y);
}
void TensorEvent::node(const void* node, uint64_t sequence) {
  measured_.node = node;
  measured_.sequence = sequence;
}

}  // namespace fl::profile
