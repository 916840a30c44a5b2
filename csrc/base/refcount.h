// Intrusive reference counting, and the small-object allocator behind it.
//
// Tensors, storages and graph nodes are created and dropped once per op, so their cost is the cost of an
// op on small tensors. Each class of up to 512 bytes comes from a per-thread free list (about 3 ns).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace fl {

// Per-thread free lists in steps of 32 bytes; larger sizes go to malloc. Blocks may be freed by another
// thread than the one that took them: they then serve that thread.
void* small_alloc(size_t size_bytes);
void small_free(void* block, size_t size_bytes) noexcept;

// Base of every shared object. A new object has one reference, which Ref::adopt takes over.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  virtual ~RefCounted() = default;

  void retain() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    // Whoever holds the only reference needs no atomic subtraction, unless somebody may still revive the
    // object through try_retain().
    if ((!held_weakly_ && refs_.load(std::memory_order_acquire) == 1) || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      const_cast<RefCounted*>(this)->destroy();
  }
  // To be called, by an owner of a reference, before try_retain() is ever used on the object.
  void hold_weakly() noexcept { held_weakly_ = true; }
  // Takes a reference unless the object is already being destroyed.
  bool try_retain() const noexcept {
    uint32_t seen = refs_.load(std::memory_order_relaxed);
    while (seen != 0)
      if (refs_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) return true;
    return false;
  }
  uint32_t use_count() const noexcept { return refs_.load(std::memory_order_relaxed); }

 protected:
  // Called once, when the last reference goes. What may own a long chain of its kind overrides it by destroy_flat().
  virtual void destroy() noexcept { delete this; }
  // Note [Freeing deep chains]
  void destroy_flat() noexcept;

  mutable std::atomic<uint32_t> refs_{1};
  bool held_weakly_ = false;
};

// Owning pointer to a RefCounted object.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(const Ref& other) noexcept : p_(other.p_) {
    if (p_) p_->retain();
  }
  Ref(Ref&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  template <class U>
  Ref(const Ref<U>& other) noexcept : p_(other.get()) {
    if (p_) p_->retain();
  }
  template <class U>
  Ref(Ref<U>&& other) noexcept : p_(other.detach()) {}
  ~Ref() {
    if (p_) p_->release();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  static Ref adopt(T* p) noexcept {
    Ref r;
    r.p_ = p;
    return r;
  }
  static Ref share(T* p) noexcept {
    if (p) p->retain();
    return adopt(p);
  }
  T* get() const noexcept { return p_; }
  T* operator->() const noexcept { return p_; }
  T& operator*() const noexcept { return *p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  // Gives the reference up without dropping it.
  T* detach() noexcept { return std::exchange(p_, nullptr); }

 private:
  T* p_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>::adopt(new T(std::forward<Args>(args)...));
}

// A small thread-local on a hot path: reached without a call. The loader has only about a kilobyte for these.
#define FL_HOT_THREAD_LOCAL thread_local __attribute__((tls_model("initial-exec")))

// Gives a class operator new and delete on the free lists.
#define FL_SMALL_OBJECT                                                        \
  static void* operator new(size_t size) { return ::fl::small_alloc(size); }   \
  static void operator delete(void* p, size_t size) noexcept { ::fl::small_free(p, size); }

}  // namespace fl
