// Tensor: a strided view of a Storage. TensorImpl is the shared object, Tensor the handle to it.
//
// It knows nothing of ops. What autograd keeps for a tensor hangs from an opaque pointer.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/device.h"
#include "base/dims.h"
#include "base/dtype.h"
#include "base/refcount.h"
#include "storage/storage.h"

struct _object;  // PyObject

namespace fl {

class TensorImpl;
// What autograd keeps for a tensor (autograd/meta.h).
struct AutogradMetaBase {
  virtual ~AutogradMetaBase() = default;
  // The last reference to the tensor has gone, and nothing of it yet. Called where `hooked`.
  virtual void bequeath(TensorImpl& dying) noexcept = 0;
  std::atomic<bool> hooked{false};
};

constexpr int kMaxAxes = 64;

class TensorImpl final : public RefCounted {
 public:
  FL_SMALL_OBJECT
  TensorImpl(Ref<Storage> storage, Dims sizes, Dims strides, int64_t offset, DType dtype);
  // Geometries that are known to fit fresh memory, so that nothing is left to be looked at: that of a dense x, and
  // row-major ones of sizes that were checked.
  TensorImpl(Ref<Storage> storage, const TensorImpl& x, DType dtype);
  TensorImpl(Ref<Storage> storage, IntList sizes, int64_t numel, DType dtype);
  // The same elements as `like`, whose geometry is known to be right.
  explicit TensorImpl(const TensorImpl& like)
      : storage(like.storage), sizes(like.sizes), strides(like.strides), offset(like.offset), numel(like.numel), dtype(like.dtype),
        contiguous(like.contiguous), own_var(like.own_var) {}
  ~TensorImpl() override;
  void destroy() noexcept override {
    if (!meta) {
      delete this;
      return;
    }
    if (meta->hooked.load(std::memory_order_relaxed)) [[unlikely]] meta->bequeath(*this);
    destroy_flat();  // it may own a .grad
  }

  // Recomputes what is derived from sizes and strides. Throws ShapeError for more than kMaxAxes of them, for more elements
  // than memory can address, and for a geometry that leaves the storage: no tensor reaches past its memory.
  void refresh();

  Ref<Storage> storage;
  Dims sizes;
  Dims strides;         // in elements
  int64_t offset = 0;   // in elements
  int64_t numel = 0;
  DType dtype;
  bool contiguous = true;     // row-major without gaps
  bool requires_grad = false; // itself; see fl::requires_grad() in autograd/meta.h for views
  bool view_tracks_base = false;
  bool from_function = false; // a view that a custom Function returned, or one of that: what it computed is not known after a write
  Ref<OwnVar> own_var;        // of x.data and what comes from it; else null
  Ref<TensorImpl> base;       // of a view that autograd follows: the tensor it views, never itself a view
  std::unique_ptr<AutogradMetaBase> meta;
  _object* pyobj = nullptr;   // the Python object of this tensor, which owns a reference to us
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  explicit operator bool() const { return defined(); }
  TensorImpl* impl() const { return impl_.get(); }
  Ref<TensorImpl>& ref() { return impl_; }
  const Ref<TensorImpl>& ref() const { return impl_; }

  const Dims& sizes() const { return impl_->sizes; }
  const Dims& strides() const { return impl_->strides; }
  int64_t size(int i) const { return impl_->sizes[axis(i)]; }
  int64_t stride(int i) const { return impl_->strides[axis(i)]; }
  int ndim() const { return impl_->sizes.size(); }
  int64_t numel() const { return impl_->numel; }
  int64_t offset() const { return impl_->offset; }
  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->storage->device(); }
  bool is_meta() const { return device().is_meta(); }
  bool is_contiguous() const { return impl_->contiguous; }
  size_t item_bytes() const { return item_size(dtype()); }
  Storage& storage() const { return *impl_->storage; }

  // First element. A null pointer for meta tensors.
  void* data() const {
    auto* p = static_cast<char*>(impl_->storage->data());
    return p ? p + impl_->offset * static_cast<int64_t>(item_bytes()) : nullptr;
  }
  template <class T>
  T* data() const {
    static_assert(!std::is_same_v<std::remove_const_t<T>, bool>, "the memory of a bool tensor is Truth: any byte but 0 is true");
    return static_cast<T*>(data());
  }

  bool same(const Tensor& other) const { return impl_.get() == other.impl_.get(); }

 private:
  // A tensor without axes has no first one either, which code that takes `dim` is apt to forget.
  int axis(int i) const {
    const int k = i < 0 ? i + ndim() : i;
    if (static_cast<unsigned>(k) >= static_cast<unsigned>(ndim())) [[unlikely]] no_axis(i);
    return k;
  }
  [[noreturn]] void no_axis(int i) const;

  Ref<TensorImpl> impl_;
};

using TensorList = std::span<const Tensor>;

// Who wrote x, as far as autograd is to notice.
inline Var& noticed_var(const TensorImpl& x) { return x.own_var ? x.own_var->var : x.storage->var(); }
// Records a write to x.
inline void bump_version(const char* op, const Tensor& x) {
  OwnVar* const own = x.impl()->own_var.get();
  x.storage().written_by(op, !own);
  if (own) [[unlikely]] own->var.written_by(op);
}

// Row-major strides of a shape.
Dims row_major(IntList sizes);
// Product of sizes. Throws ShapeError naming `op` for a negative size, or where the sizes other than 0 have a product past 2^59.
int64_t checked_numel(const char* op, IntList sizes);
// Which elements a geometry touches: [first, end), [0, 0) for an empty tensor, nothing where no memory goes so far. This is
// the only place where extents are computed.
struct Reach {
  int64_t first, end;
};
std::optional<Reach> reach(IntList sizes, IntList strides, int64_t offset);

// New tensors, not initialised, row-major (or with the given strides, which must not overlap).
Tensor empty(IntList sizes, DType dtype, Device device = {}, const char* op = "empty");
Tensor empty_strided(IntList sizes, IntList strides, DType dtype, Device device = {});
// The same geometry as x, which is dense, over new memory.
Tensor empty_dense_like(const Tensor& x, DType dtype, Device device);
// A tensor over memory of the caller, who keeps it alive and answers for what the geometry reaches from `data` on.
Tensor over(void* data, Dims sizes, Dims strides, DType dtype);
// Another view of the same storage; autograd is not told.
Tensor alias(const Tensor& x, Dims sizes, Dims strides, int64_t offset);
inline Tensor alias(const Tensor& x) { return Tensor(make_ref<TensorImpl>(*x.impl())); }

// True iff no two indices of the tensor share an element and its elements fill an interval.
bool is_dense(const Tensor& x);
// True iff two of its elements are one. Its memory is large enough for its geometry.
bool shares_places(const Tensor& x);
// x's strides where it is dense, else those of a dense tensor whose axes lie in the order of x's, as far as their strides say one.
Dims dense_strides_like(const Tensor& x);

}  // namespace fl
