#include "backend/onednn/cache.h"

#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>

#include "base/isa.h"
#include "storage/prepared.h"

namespace fl::onednn {
namespace {

constexpr size_t kMaxPrimitives = 1024;

struct Cache {
  std::mutex mutex;
  std::list<std::pair<Key, std::shared_ptr<const Primitive>>> recent;  // most recent first; null: cannot be made
  std::unordered_multimap<uint64_t, decltype(recent)::iterator> by_hash;
};

Cache& cache() {
  static Cache* c = new Cache;  // outlives every static destructor that might still run an op
  return *c;
}

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

dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *e;
}

dnnl::memory::data_type data_type(DType t) {
  switch (t) {
    case DType::Float16: return dnnl::memory::data_type::f16;
    case DType::BFloat16: return dnnl::memory::data_type::bf16;
    case DType::Float32: return dnnl::memory::data_type::f32;
    default: return dnnl::memory::data_type::undef;
  }
}

bool has_native(DType t) {
  static const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  const auto at_least = [](dnnl::cpu_isa wanted) { return (static_cast<int>(isa) & static_cast<int>(wanted)) == static_cast<int>(wanted); };
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

std::shared_ptr<const Primitive> cached(const Key& key, const std::function<void(Primitive&)>& make) {
  Cache& c = cache();
  {
    const std::lock_guard lock(c.mutex);
    if (auto* found = find(c, key)) return *found;
  }
  std::shared_ptr<const Primitive> made;
  try {
    auto p = std::make_shared<Primitive>();
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

void add_reorder(Primitive& p, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted, bool is_output) {
  Primitive::Reorder r;
  r.plain = plain;
  r.wanted = wanted;
  r.needed = plain != wanted;
  if (r.needed) {
    const auto pd = is_output ? dnnl::reorder::primitive_desc(engine(), wanted, engine(), plain, default_attr())
                              : dnnl::reorder::primitive_desc(engine(), plain, engine(), wanted, default_attr());
    r.scratchpad = pd.scratchpad_desc();
    r.primitive = dnnl::reorder(pd);
    if (const auto name = name_of(wanted); !is_output && !name.empty()) r.form = name_of(plain) + name;
  }
  p.reorders.push_back(std::move(r));
}

namespace {
void run_reorder(const Primitive::Reorder& r, dnnl::memory& from, dnnl::memory& to, std::vector<Tensor>& scratch) {
  std::vector<dnnl_exec_arg_t> args = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
  dnnl::memory pad;
  if (r.scratchpad.get_size()) {
    scratch.push_back(bytes(r.scratchpad.get_size()));
    pad = dnnl::memory(r.scratchpad, engine(), scratch.back().data());
    args.push_back({DNNL_ARG_SCRATCHPAD, pad.get()});
  }
  dnnl::error::wrap_c_api(dnnl_primitive_execute(r.primitive.get(), stream().get(), static_cast<int>(args.size()), args.data()),
                          "could not execute a reorder");
}
}  // namespace

Args& Args::add(int id, const dnnl::memory::desc& md, const void* data) {
  keep_.emplace_back(md, engine(), const_cast<void*>(data));
  args_.push_back({id, keep_.back().get()});
  return *this;
}

Tensor reordered(const Primitive& p, int i, const void* data) {
  const auto& r = p.reorders[i];
  const Tensor out = bytes(r.wanted.get_size());
  if (!r.needed) {
    std::memcpy(out.data(), data, r.wanted.get_size());
    return out;
  }
  std::vector<Tensor> scratch;
  dnnl::memory from(r.plain, engine(), const_cast<void*>(data)), to(r.wanted, engine(), out.data());
  run_reorder(r, from, to, scratch);
  return out;
}

Args& Args::input(const Primitive& p, int i, int id, const void* data) {
  if (!p.reorders[i].needed) return add(id, p.reorders[i].plain, data);
  scratch_.push_back(reordered(p, i, data));
  return add(id, p.reorders[i].wanted, scratch_.back().data());
}

Tensor kept(const Primitive& p, int i, Storage& owner, const void* data, bool again) {
  const auto& r = p.reorders[i];
  if (!r.needed || r.form.empty()) return {};
  Ref<Storage> bytes = prepared(owner, data, r.form, [&] { return reordered(p, i, data).impl()->storage; }, again);
  if (!bytes) return {};
  const auto size = static_cast<int64_t>(bytes->size_bytes());
  return Tensor(make_ref<TensorImpl>(std::move(bytes), Dims{size}, Dims{1}, 0, DType::UInt8));
}

Args& Args::weight(const Primitive& p, int i, int id, Storage& owner, const void* data, bool again) {
  Tensor bytes = kept(p, i, owner, data, again);
  if (!bytes.defined()) return input(p, i, id, data);
  scratch_.push_back(std::move(bytes));
  return add(id, p.reorders[i].wanted, scratch_.back().data());
}

Args& Args::output(const Primitive& p, int i, int id, void* data) {
  const auto& r = p.reorders[i];
  if (!r.needed) return add(id, r.plain, data);
  scratch_.push_back(bytes(r.wanted.get_size()));
  add(id, r.wanted, scratch_.back().data());
  after_.push_back({&r, keep_.back(), data});
  return *this;
}

bool Args::run(const Primitive& p) {
  if (p.scratchpad.get_size()) {
    scratch_.push_back(bytes(p.scratchpad.get_size()));
    add(DNNL_ARG_SCRATCHPAD, p.scratchpad, scratch_.back().data());
  }
  if (dnnl_primitive_execute(p.primitive.get(), stream().get(), static_cast<int>(args_.size()), args_.data()) != dnnl_success) return false;
  for (auto& a : after_) {
    dnnl::memory to(a.reorder->plain, engine(), a.to);
    run_reorder(*a.reorder, a.from, to, scratch_);
  }
  return true;
}

}  // namespace fl::onednn
