#include "storage/prepared.h"

#include <unordered_set>
#include <utility>
#include <vector>

#include "base/fork_mutex.h"
#include "storage/allocator.h"
#include "storage/storage.h"

namespace fl {
namespace {

// Per storage, and per address in it; the one that was used longest ago goes first.
constexpr size_t kEntries = 512, kForms = 8;

ForkMutex mutex(LockRank::Prepared);  // of every storage's `prepared_`, and of what is below
PreparedStats counts{};
auto& kept_by = *new std::unordered_set<Storage*>;  // storages may outlive every destructor

}  // namespace

struct Storage::Prepared {
  struct Entry {
    const void* from;
    std::string form;
    uint32_t version;
    Ref<Storage> bytes;
  };
  std::vector<Entry> entries;  // the most recently used last

  // Moved to the end.
  Entry* find(const void* from, const std::string& form) {
    for (size_t i = entries.size(); i-- > 0;)
      if (entries[i].from == from && entries[i].form == form) {
        for (; i + 1 < entries.size(); ++i) std::swap(entries[i], entries[i + 1]);
        return &entries.back();
      }
    return nullptr;
  }

  // True iff this form of this version was used before. Old bytes go to `garbage`, to be freed without the lock.
  static bool touch(Storage& s, const void* from, const std::string& form, std::vector<Ref<Storage>>& garbage) {
    if (!s.prepared_.load(std::memory_order_relaxed)) {
      s.prepared_.store(new Prepared, std::memory_order_release);
      kept_by.insert(&s);
    }
    auto& entries = s.prepared_.load(std::memory_order_relaxed)->entries;
    const uint32_t version = s.var_.version();
    if (Entry* e = s.prepared_.load(std::memory_order_relaxed)->find(from, form)) {
      if (e->version == version) return true;
      e->version = version;
      drop(*e, garbage);
      return false;
    }
    size_t here = 0, oldest = entries.size();
    for (size_t i = entries.size(); i-- > 0;)
      if (entries[i].from == from) ++here, oldest = i;
    if (here < kForms) oldest = entries.size() < kEntries ? entries.size() : 0;
    if (oldest < entries.size()) {
      drop(entries[oldest], garbage);
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(oldest));
    }
    entries.push_back({from, form, version, {}});
    return false;
  }

  static void drop(Entry& e, std::vector<Ref<Storage>>& garbage) {
    if (!e.bytes) return;
    counts.bytes -= e.bytes->size_bytes_;
    garbage.push_back(std::move(e.bytes));
    e.bytes = {};
  }
};

bool Storage::keeps_prepared() const { return lent_.load(std::memory_order_acquire) == 0 && !exposed_.load(std::memory_order_acquire) && owned(); }

// What is kept is of an old version now. That it was used stays known.
void Storage::drop_kept() {
  std::vector<Ref<Storage>> garbage;
  const std::lock_guard lock(mutex);
  keeps_.store(false, std::memory_order_relaxed);
  if (Prepared* p = prepared_.load(std::memory_order_relaxed))
    for (auto& e : p->entries) Prepared::drop(e, garbage);
}

void Storage::rewritten() {
  if (!prepared_.load(std::memory_order_acquire)) return;
  std::vector<Ref<Storage>> garbage;
  const std::lock_guard lock(mutex);
  keeps_.store(false, std::memory_order_relaxed);
  if (Prepared* p = prepared_.load(std::memory_order_relaxed))
    for (auto& e : p->entries) {
      Prepared::drop(e, garbage);
      e.version = ~var_.version();  // none that there is
    }
}

void Storage::forget_prepared() {
  std::vector<Ref<Storage>> garbage;
  const std::lock_guard lock(mutex);
  ++forgotten_;
  Prepared* p = prepared_.exchange(nullptr, std::memory_order_acq_rel);
  if (!p) return;
  for (auto& e : p->entries) Prepared::drop(e, garbage);
  kept_by.erase(this);
  delete p;
}

bool used_before(Storage& source, const void* from, const std::string& form) {
  std::vector<Ref<Storage>> garbage;
  const std::lock_guard lock(mutex);
  return source.keeps_prepared() && Storage::Prepared::touch(source, from, form, garbage);
}

Ref<Storage> prepared(Storage& source, const void* from, const std::string& form, const std::function<Ref<Storage>()>& make, bool again) {
  const uint32_t version = source.var().version();
  uint32_t forgotten;
  size_t kept;
  {
    std::vector<Ref<Storage>> garbage;
    const std::lock_guard lock(mutex);
    if (!source.keeps_prepared() || (!Storage::Prepared::touch(source, from, form, garbage) && !again)) return {};
    forgotten = source.forgotten_;
    kept = counts.bytes;
    if (auto& bytes = source.prepared_.load(std::memory_order_relaxed)->entries.back().bytes) {
      ++counts.reused;
      return bytes;
    }
  }
  if (available_memory() / 2 < kept + 2 * source.size_bytes()) return {};
  Ref<Storage> made = make();
  const std::lock_guard lock(mutex);
  Storage::Prepared* p = source.prepared_.load(std::memory_order_relaxed);
  if (!p || source.forgotten_ != forgotten || !source.keeps_prepared()) return made;  // lent meanwhile
  if (auto* e = p->find(from, form); e && e->version == version && source.var().version() == version && !e->bytes) {
    e->bytes = made;
    source.keeps_.store(true, std::memory_order_relaxed);
    counts.bytes += made->size_bytes();
    ++counts.made;
  }
  return made;
}

void drop_prepared() {
  std::vector<Ref<Storage>> garbage;
  const std::lock_guard lock(mutex);
  for (Storage* s : kept_by)
    for (auto& e : s->prepared_.load(std::memory_order_relaxed)->entries) Storage::Prepared::drop(e, garbage);
}

PreparedStats prepared_stats() {
  const std::lock_guard lock(mutex);
  return counts;
}

}  // namespace fl
