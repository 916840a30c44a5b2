// Storage: bytes on a device, and the Var that says who writes them. It knows nothing of shapes.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/device.h"
#include "base/refcount.h"
#include "engine/var.h"
#include "storage/layout.h"
#include "storage/pending.h"

namespace fl {

// Note [Where memory was made]
// Two scopes of a thread concern the tensors that are made in them, however they are made: inference_mode, and a function that
// `func.grad` and its kin differentiate, which must not write what has a gradient to a tensor from outside. So the memory knows.
struct Birth {
  uint64_t derivative = 0;  // the number of the innermost function that is differentiated; inner ones have higher numbers
  bool inference = false;
};
extern FL_HOT_THREAD_LOCAL constinit Birth birth_here;

class Storage final : public RefCounted {
 public:
  FL_SMALL_OBJECT

  // Bytes from the device's caching allocator, not initialised; while the thread records, only where they are wanted:
  // Note [Pending bytes]. Throws OutOfMemory.
  static Ref<Storage> allocate(size_t size_bytes, Device device) {
    if (recorder_here) [[unlikely]] return promise(size_bytes, device, recorder_here->region());
    return allocate_now(size_bytes, device);
  }
  static Ref<Storage> allocate_now(size_t size_bytes, Device device) { return allocate_now(size_bytes, device, false); }
  // ... in memory that goes back to the system with it.
  static Ref<Storage> allocate_apart(size_t size_bytes, Device device) { return allocate_now(size_bytes, device, true); }
  // ... or that others use, once this one is gone, until the next is allocated apart.
  void lend_when_gone() const;

  // Somebody else's bytes; `drop(owner)` is called once when the last reference goes, on any thread.
  static Ref<Storage> borrow(void* data, size_t size_bytes, Device device, void* owner, void (*drop)(void*),
                             bool writable);

  // ... that are allocated when they are first asked for; of CPUs.
  static Ref<Storage> promise(size_t size_bytes, Device device, uint64_t region);

  // ... that never come: whoever asks for them gets what `instead` throws. Note [Hollow tensors]
  static Ref<Storage> hollow(size_t size_bytes, Device device, Ref<Recording> instead);

  // Some of the bytes of `whole`, which live on with them. They are ours: others see no difference to allocated ones.
  static Ref<Storage> part_of(const Ref<Storage>& whole, size_t offset, size_t size_bytes);

  // In row-major order: Note [Deferred layout].
  void* data() const {
    if (attention_.load(std::memory_order_acquire)) [[unlikely]] attend();
    return data_;
  }
  // False: the bytes are row-major, and stay so.
  bool maybe_deferred() const {
    if (is_hollow()) [[unlikely]] return false;
    settle();
    return deferred_.load(std::memory_order_acquire) != nullptr;
  }
  // Says that the bytes, which nobody else has seen, will be written with channels last.
  void defer(const ChannelsLast& layout);
  size_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }
  bool writable() const { return writable_; }
  const Birth& birth() const { return birth_; }
  void set_inference(bool on) { birth_.inference = on; }  // of what a program makes, as it was when the program was recorded
  Var& var() { return var_; }
  // Every write from outside of the op that made the bytes says so here.
  void written_by(const char* op, bool notice = true) {
    var_.written_by(op, notice);
    if (keeps_.load(std::memory_order_relaxed)) [[unlikely]] drop_kept();
  }

  // ---- Note [Pending bytes]

  // Makes sure that the bytes exist and have been computed.
  void settle() const {
    if (attention_.load(std::memory_order_acquire) & ~kDeferred) [[unlikely]] settle_pending();
  }
  // Who will write the bytes, and under which number it knows this storage. Only the recording itself asks for the number.
  void set_pending(Ref<Recording> recording, uint32_t place);
  void end_pending(const Recording* of);  // nothing where it is another's by now
  bool pending_in(const Recording* r) const { return pending_here_.load(std::memory_order_acquire) == r; }
  uint32_t place() const { return place_; }
  bool is_pending() const { return (attention_.load(std::memory_order_acquire) & kPending) != 0; }
  bool is_hollow() const { return (attention_.load(std::memory_order_acquire) & kHollow) != 0; }
  const Recording& instead() const { return *pending_; }  // of a hollow one
  // ... whose size is what geometries are checked against, and nothing else.
  void pretend(size_t size_bytes) { size_bytes_ = size_bytes > size_bytes_ ? size_bytes : size_bytes_; }
  // Somebody else's bytes at that address, as they were given.
  bool borrows(const void* at) const { return data_ == at && !owned() && attention_.load(std::memory_order_acquire) == 0; }
  bool lies_deferred() const { return (attention_.load(std::memory_order_acquire) & kDeferred) != 0; }
  // The bytes as they are before what is pending is run; not of promised ones.
  const void* bytes_now() const { return data_; }
  bool is_promised() const { return (attention_.load(std::memory_order_acquire) & kPromised) != 0; }
  // Made by a thread while it recorded that region.
  bool made_in(uint64_t region) const { return region_ == region; }
  // Somewhere there is a program that uses the bytes where they lie.
  void fix() { fixed_.store(true, std::memory_order_relaxed); }
  bool is_fixed() const { return fixed_.load(std::memory_order_relaxed); }
  // A number that no other storage of this process has or will have; 0 until somebody asks for it. An address comes again.
  uint64_t number();
  uint64_t number_so_far() const { return number_.load(std::memory_order_relaxed); }
  // A recording holds references that count as nobody's.
  void hold_for_recording() { recorded_.fetch_add(1, std::memory_order_relaxed); }
  void drop_for_recording() { recorded_.fetch_sub(1, std::memory_order_relaxed); }
  uint32_t owners() const { return use_count() - recorded_.load(std::memory_order_relaxed); }
  // Recordings that will read the bytes as they are now: whoever writes them settles those first.
  std::atomic<uint32_t>& readers() { return readers_; }
  // Others read or write the bytes without asking us.
  bool shared_outside() const;
  // Takes the bytes of `other`, which nobody else has seen.
  void adopt(Storage& other);
  // Bytes were written later than written_by() said: what is kept of them is old.
  void rewritten();

  // Enlarges the bytes in place of the old ones (Tensor.resize_). Throws for bytes that are borrowed or lent.
  void grow(size_t size_bytes);

  // Moves the bytes to `data`, which is dropped as borrowed ones are: other processes see them there. Throws for bytes that are lent.
  void move_to(void* data, void* owner, void (*drop)(void*));
  // Whose the bytes are, where they are dropped like that.
  void* owner_by(void (*drop)(void*)) const { return drop_ == drop ? owner_ : nullptr; }

  // Somebody who knows only the address (a NumPy array, a DLPack consumer) reads or writes the bytes.
  void lend() {
    before_others();
    lent_.fetch_add(1, std::memory_order_acq_rel);
    outsiders_.fetch_add(1, std::memory_order_acq_rel);
    if (prepared_.load(std::memory_order_acquire)) forget_prepared();
  }
  // How often somebody got the bytes like that: who took them back may have written them.
  uint32_t outsiders() const { return outsiders_.load(std::memory_order_acquire); }
  void take_back() { lent_.fetch_sub(1, std::memory_order_acq_rel); }
  // ... and from now on nobody knows who.
  void expose() {
    before_others();
    outsiders_.fetch_add(1, std::memory_order_acq_rel);
    exposed_.store(true);
    if (prepared_.load()) forget_prepared();
  }

 private:
  friend Ref<Storage> make_ref<Storage>();
  friend class RawBytes;
  friend Ref<Storage> prepared(Storage&, const void*, const std::string&, const std::function<Ref<Storage>()>&, bool);
  friend bool used_before(Storage&, const void*, const std::string&);
  friend void drop_prepared();
  struct Deferred;
  struct Prepared;
  bool owned() const;  // a block of our allocator
  bool ours() const;   // ... or a part of one
  bool keeps_prepared() const;
  void forget_prepared();
  void drop_kept();
  void before_others() {
    if (readers_.load(std::memory_order_acquire)) [[unlikely]] settle_all_readers();
  }
  void settle_all_readers();
  void attend() const;
  void settle_pending() const;
  static Ref<Storage> allocate_now(size_t size_bytes, Device device, bool apart);
  void provide();
  void make_plain() const;
  Deferred* deferred_here() const;  // under the layout's lock
  void forget_deferred();
  void end_deferred();
  Storage() = default;
  ~Storage() override;
  // Lent memory may be that of an array, which is a view of a tensor's, and so on.
  void destroy() noexcept override {
    if (!drop_ || owned()) delete this;
    else destroy_flat();
  }

  void* data_ = nullptr;
  size_t size_bytes_ = 0;
  void* owner_ = nullptr;
  void (*drop_)(void*) = nullptr;
  Var var_;
  std::atomic<int32_t> lent_{0};
  std::atomic<uint32_t> outsiders_{0};
  Birth birth_ = birth_here;
  Device device_;
  bool writable_ = true;
  std::atomic<bool> exposed_{false};
  // Why data() is not to be had at once.
  static constexpr uint8_t kDeferred = 1, kPending = 2, kPromised = 4, kHollow = 8;
  mutable std::atomic<uint8_t> attention_{0};
  std::atomic<Deferred*> deferred_{nullptr};
  Ref<Recording> pending_;  // under the lock of all; of a hollow storage it stays
  std::atomic<const Recording*> pending_here_{nullptr};  // the same, to be compared without it
  uint32_t place_ = 0;
  uint64_t region_ = 0;
  std::atomic<bool> fixed_{false};
  std::atomic<uint32_t> recorded_{0}, readers_{0};
  std::atomic<uint64_t> number_{0};
  // Note [Prepared bytes]
  std::atomic<Prepared*> prepared_{nullptr};
  std::atomic<bool> keeps_{false};
  uint32_t forgotten_ = 0;  // how often, under the lock
};

}  // namespace fl
