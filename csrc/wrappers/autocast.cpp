#include "wrappers/autocast.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "storage/prepared.h"
#include "op/cast.h"

namespace fl {
namespace {

struct Kept {
  Ref<WeakTensor> weight;  // the key's memory may be another tensor's by now
  const Storage* storage;
  uint32_t version;
  Tensor cast;
};
using Cache = std::unordered_map<const TensorImpl*, Kept>;

thread_local AutocastSettings settings;
thread_local Cache* cache = nullptr;  // only while there is something in it: threads may end in any order with other state

// What autocast is about: on the CPU, and of 16 or 32 bits.
bool eligible(const Tensor& x) { return x.defined() && is_float(x.dtype()) && x.dtype() != DType::Float64 && !x.is_meta(); }

bool is_weight(const Tensor& x) {
  const TensorImpl& impl = *x.impl();
  return impl.requires_grad && impl.dtype == DType::Float32 && !impl.base && !impl.storage->birth().inference && !inference_mode() && is_leaf(x);
}

// Where no graph is recorded, the values may outlive the region: Note [Prepared bytes].
Tensor cast_of_weight(const Tensor& x, DType type) {
  if (!grad_enabled() && x.is_contiguous()) {
    const std::string form = "cast " + std::to_string(static_cast<int>(type)) + ' ' + std::to_string(x.numel());
    if (Ref<Storage> bytes = prepared(x.storage(), x.data(), form, [&] { return op::cast(x, type).impl()->storage; }))
      return Tensor(make_ref<TensorImpl>(std::move(bytes), x.sizes(), row_major(x.sizes()), 0, type));
  }
  return op::cast(x, type);
}

Tensor kept_cast(const Tensor& x, DType type) {
  if (!cache) cache = new Cache;
  const uint32_t version = x.storage().var().version();
  const auto found = cache->find(x.impl());
  if (found != cache->end()) {
    const Kept& kept = found->second;
    if (kept.version == version && kept.storage == &x.storage() && kept.cast.dtype() == type && kept.weight->lock().same(x) &&
        (requires_grad(kept.cast) || !grad_enabled()))
      return kept.cast;
    cache->erase(found);
  }
  Tensor y = cast_of_weight(x, type);
  cache->emplace(x.impl(), Kept{Ref<WeakTensor>::share(&weak_of(x)), &x.storage(), version, y});
  return y;
}

}  // namespace

AutocastSettings& autocast_settings() { return settings; }

void clear_autocast_cache() { delete std::exchange(cache, nullptr); }

int enter_autocast() { return ++settings.depth; }
int leave_autocast() {
  if (--settings.depth == 0) clear_autocast_cache();
  return settings.depth;
}

AutocastCall::AutocastCall(std::initializer_list<const Tensor*> args) : type_(DType::Bool) {
  for (const Tensor* x : args)
    if (eligible(*x)) type_ = promote(type_, x->dtype());
}

Tensor AutocastCall::operator()(const Tensor& x) const {
  if (!eligible(x) || x.dtype() == type_) return x;
  if (type_ != DType::Float32 && settings.cache && settings.depth > 0 && is_weight(x)) return kept_cast(x, type_);
  return op::cast(x, type_);
}

std::optional<DType> AutocastCall::result(const Tensor& x) const { return eligible(x) ? std::optional(type_) : std::nullopt; }
std::vector<Tensor> AutocastCall::operator()(TensorList xs) const {
  std::vector<Tensor> out;
  out.reserve(xs.size());
  for (const Tensor& x : xs) out.push_back((*this)(x));
  return out;
}

}  // namespace fl
