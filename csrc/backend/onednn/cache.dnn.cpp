#include "backend/onednn/cache.h"

#include <sys/mman.h>

#include <cstring>
#include <list>
#include <unordered_map>

#include "base/fork_mutex.h"
#include "base/isa.h"
#include "base/error.h"
#include "storage/allocator.h"
#include "storage/prepared.h"
#include "tensor/scratch.h"

namespace fl::onednn {
namespace {

constexpr size_t kMaxPrimitives = 1024;

struct Cache {
  ForkMutex mutex{LockRank::PrimitiveCache};
  std::list<std::pair<Key, std::shared_ptr<const Primitive>>> recent;  // most recent first; null: cannot be made
  std::unordered_multimap<uint64_t, decltype(recent)::iterator> by_hash;
};

Cache& cache = *new Cache;  // outlives every static destructor that might still run an op

std::shared_ptr<const Primitive>* find(Cache& c, const Key& key) {
  const auto [first, last] = c.by_hash.equal_range(key.hash());
  for (auto it = first; it != last; ++it)
    if (it->second->first == key) {
      c.recent.splice(c.recent.begin(), c.recent, it->second);
      return &it->second->second;
    }
  return nullptr;
}

Tensor bytes(size_t n) { return empty(Dims{static_cast<int64_t>(n)}, DType::UInt8); }
Tensor bytes_for_now(size_t n) { return scratch_memory(static_cast<int64_t>(n), DType::UInt8); }

// Note [Room for code]
// oneDNN's kernels are code that it writes when a primitive is made. Where no address is left for one (`ulimit -v`), oneDNN 3.2 goes on without it,
// and jumps to nothing when it is wanted. So there has to be room for many before it is asked.
bool has_room() {
  constexpr size_t kRoom = size_t{64} << 20;
  void* p = mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, kRoom);
  return true;
}
void require_room() {
  if (has_room()) return;
  host_allocator().empty_cache();
  if (!has_room()) raise<OutOfMemory>("out of memory (DefaultCPUAllocator: can't allocate memory): no 64 MiB of addresses are left for a kernel of oneDNN (ulimit -v)");
}

const dnnl::cpu_isa effective_isa = dnnl::get_effective_cpu_isa();
bool at_least(dnnl::cpu_isa wanted) { return (static_cast<int>(effective_isa) & static_cast<int>(wanted)) == static_cast<int>(wanted); }

}  // namespace

dnnl::memory::data_type data_type(DType t) {
  switch (t) {
    case DType::Float16: return dnnl::memory::data_type::f16;
    case DType::BFloat16: return dnnl::memory::data_type::bf16;
    case DType::Float32: return dnnl::memory::data_type::f32;
    default: return dnnl::memory::data_type::undef;
  }
}

bool has_float16_tiles() { return at_least(dnnl::cpu_isa::avx512_core_amx_fp16); }
bool has_avx512() { return at_least(dnnl::cpu_isa::avx512_core); }

bool has_native(DType t) {
  switch (t) {
    case DType::Float32: return true;
    case DType::BFloat16: return at_least(dnnl::cpu_isa::avx512_core_bf16);
    case DType::Float16: return at_least(dnnl::cpu_isa::avx512_core_fp16);
    default: return false;
  }
}

dnnl::primitive_attr default_attr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

std::shared_ptr<const Primitive> cached(const Entry& entry, const Key& key, const std::function<void(Primitive&)>& make) {
  Cache& c = cache;
  {
    const std::lock_guard lock(c.mutex);
    if (auto* found = find(c, key)) return *found;
  }
  require_room();
  std::shared_ptr<const Primitive> made;
  try {
    auto p = std::make_shared<Primitive>();
    p->threads = entry.threads();
    make(*p);
    made = std::move(p);
  } catch (const dnnl::error&) {
    made = nullptr;  // remembered: the next call does not try again
  }
  const std::lock_guard lock(c.mutex);
  if (auto* found = find(c, key)) return *found;  // another thread was faster
  c.recent.emplace_front(key, made);
  c.by_hash.emplace(key.hash(), c.recent.begin());
  if (c.recent.size() > kMaxPrimitives) {
    const auto oldest = std::prev(c.recent.end());
    const auto [first, last] = c.by_hash.equal_range(oldest->first.hash());
    for (auto it = first; it != last; ++it)
      if (it->second == oldest) {
        c.by_hash.erase(it);
        break;
      }
    c.recent.pop_back();
  }
  return made;
}

namespace {
// A text that two descriptors share only if they are the same layout; empty for layouts that only oneDNN knows.
std::string name_of(const dnnl::memory::desc& d) {
  std::string name;
  const auto add = [&](const auto& list) {
    for (const auto v : list) name += std::to_string(v) + ',';
    name += ';';
  };
  if (d.get_format_kind() != dnnl::memory::format_kind::blocked) return name;
  name = std::to_string(static_cast<int>(d.get_data_type())) + ';';
  add(d.get_dims()), add(d.get_padded_dims()), add(d.get_strides()), add(d.get_inner_blks()), add(d.get_inner_idxs());
  return name;
}
}  // namespace

void add_reorder(const Entry& entry, Primitive& p, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted, bool is_output) {
  Primitive::Reorder r;
  r.plain = plain;
  r.wanted = wanted;
  r.needed = plain != wanted;
  if (r.needed) {
    const auto pd = is_output ? dnnl::reorder::primitive_desc(entry.engine(), wanted, entry.engine(), plain, default_attr())
                              : dnnl::reorder::primitive_desc(entry.engine(), plain, entry.engine(), wanted, default_attr());
    r.scratchpad = pd.scratchpad_desc();
    r.primitive = dnnl::reorder(pd);
    if (const auto name = name_of(wanted); !is_output && !name.empty()) r.form = name_of(plain) + name;
  }
  p.reorders.push_back(std::move(r));
}

namespace {
void run_reorder(const Entry& entry, const Primitive::Reorder& r, dnnl::memory& from, dnnl::memory& to, std::vector<Tensor>& scratch) {
  std::vector<dnnl_exec_arg_t> args = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
  dnnl::memory pad;
  if (r.scratchpad.get_size()) {
    scratch.push_back(bytes_for_now(r.scratchpad.get_size()));
    pad = dnnl::memory(r.scratchpad, entry.engine(), scratch.back().data());
    args.push_back({DNNL_ARG_SCRATCHPAD, pad.get()});
  }
  if (!entry.execute(r.primitive, args)) throw dnnl::error(dnnl_runtime_error, "could not execute a reorder");
}
}  // namespace

Args& Args::add(int id, const dnnl::memory::desc& md, const void* data) {
  keep_.emplace_back(md, entry_.engine(), const_cast<void*>(data));
  args_.push_back({id, keep_.back().get()});
  return *this;
}

Tensor reordered(const Entry& entry, const Primitive& p, int i, const void* data, bool for_now) {
  const auto& r = p.reorders[i];
  const Tensor out = for_now ? bytes_for_now(r.wanted.get_size()) : bytes(r.wanted.get_size());
  if (!r.needed) {
    std::memcpy(out.data(), data, r.wanted.get_size());
    return out;
  }
  std::vector<Tensor> scratch;
  dnnl::memory from(r.plain, entry.engine(), const_cast<void*>(data)), to(r.wanted, entry.engine(), out.data());
  run_reorder(entry, r, from, to, scratch);
  return out;
}

Args& Args::input(const Primitive& p, int i, int id, const void* data) {
  if (!p.reorders[i].needed) return add(id, p.reorders[i].plain, data);
  scratch_.push_back(reordered(entry_, p, i, data, true));
  return add(id, p.reorders[i].wanted, scratch_.back().data());
}

Tensor kept(const Entry& entry, const Primitive& p, int i, Storage& owner, const void* data, bool again) {
  const auto& r = p.reorders[i];
  if (!r.needed || r.form.empty()) return {};
  Ref<Storage> bytes = prepared(owner, data, r.form, [&] { return reordered(entry, p, i, data).impl()->storage; }, again);
  if (!bytes) return {};
  const auto size = static_cast<int64_t>(bytes->size_bytes());
  return Tensor(make_ref<TensorImpl>(std::move(bytes), Dims{size}, Dims{1}, 0, DType::UInt8));
}

Args& Args::weight(const Primitive& p, int i, int id, Storage& owner, const void* data, bool again) {
  Tensor bytes = kept(entry_, p, i, owner, data, again);
  if (!bytes.defined()) return input(p, i, id, data);
  scratch_.push_back(std::move(bytes));
  return add(id, p.reorders[i].wanted, scratch_.back().data());
}

Args& Args::output(const Primitive& p, int i, int id, void* data) {
  const auto& r = p.reorders[i];
  if (!r.needed) return add(id, r.plain, data);
  scratch_.push_back(bytes_for_now(r.wanted.get_size()));
  add(id, r.wanted, scratch_.back().data());
  after_.push_back({&r, keep_.back(), data});
  return *this;
}

bool Args::run(const Primitive& p) {
  if (p.threads != entry_.threads()) return false;
  if (p.scratchpad.get_size()) {
    scratch_.push_back(bytes_for_now(p.scratchpad.get_size()));
    add(DNNL_ARG_SCRATCHPAD, p.scratchpad, scratch_.back().data());
  }
  if (!entry_.execute(p.primitive, args_)) return false;
  for (auto& a : after_) {
    dnnl::memory to(a.reorder->plain, entry_.engine(), a.to);
    run_reorder(entry_, *a.reorder, a.from, to, scratch_);
  }
  return true;
}

}  // namespace fl::onednn
