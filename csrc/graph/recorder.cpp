#include "graph/recorder.h"

#include <algorithm>
#include <mutex>

#include "base/at_load.h"

namespace fl::graph {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

ForkMutex all_mutex(LockRank::Pending);  // of the list
auto& all_recorders = *new std::vector<Recorder*>;

thread_local int depth = 0;

struct {
  std::atomic<int64_t> recorded{0}, pruned{0}, joined{0}, passes{0}, settled{0};
} counts;

// What an op that failed leaves behind.
class Failure final : public Recording {
 public:
  explicit Failure(std::exception_ptr error) : error_(std::move(error)) {}
  void settle() override { std::rethrow_exception(error_); }

 private:
  std::exception_ptr error_;
};

void settle_readers(Storage& storage) {
  std::vector<Ref<Recorder>> readers;
  {
    const std::lock_guard lock(all_mutex);
    for (Recorder* r : all_recorders)
      if (r != recorder_here && r != settling_here() && r->try_retain()) readers.push_back(Ref<Recorder>::adopt(r));
  }
  for (auto& r : readers)
    if (r->reads(storage)) r->settle();
}
[[maybe_unused]] const bool hooked = (settle_readers_of = settle_readers, true);

}  // namespace

size_t (*run_linked)(std::span<const Link>) = nullptr;

Recorder::Recorder() {
  hold_weakly();
  const std::lock_guard lock(all_mutex);
  all_recorders.push_back(this);
}

Recorder::~Recorder() {
  const std::lock_guard lock(all_mutex);
  std::erase(all_recorders, this);
}

bool Recorder::reads(const Storage& storage) {
  const std::lock_guard lock(mutex_);
  return inputs_.contains(&storage);
}

Stats stats() {
  return {counts.recorded.load(), counts.pruned.load(), counts.joined.load(), counts.passes.load(), counts.settled.load()};
}

// ---- appending

void Recorder::begin(const OpInfo& op) {
  drop_part();
  whole_ = false;
  const auto here = static_cast<uint32_t>(tensors_.size());
  nodes_.push_back({&op, static_cast<uint32_t>(boxes_.size()), 0, here, here, here, current_source ? current_source() : 0});
  at_once_ = false;
}

void Recorder::finish(std::initializer_list<const Tensor*> outs) {
  NodeRecord& node = nodes_.back();
  const auto index = static_cast<uint32_t>(nodes_.size() - 1);
  node.n_args = static_cast<uint32_t>(boxes_.size()) - node.args;
  node.outs = static_cast<uint32_t>(tensors_.size());
  for (const Tensor* y : outs) value(*y);
  node.last = static_cast<uint32_t>(tensors_.size());
  auto writes = [&](uint32_t v) {
    Buffer& b = buffers_[buffer_of_[v]];
    if (!b.written) b.storage->set_pending(Ref<Recording>::share(this), buffer_of_[v]);
    b.written = true;
  };
  for (uint32_t v = node.outs; v < node.last; ++v)
    if (buffer_of_[v] != kNone) writes(v);
  for (uint32_t i = 0; i < node.n_args; ++i)
    if (const Box& box = boxes_[node.args + i]; (node.op->writes >> i & 1) && box.kind == Box::Kind::Tensor) writes(static_cast<uint32_t>(box.integer));
  for (uint32_t v = node.first; v < node.last; ++v)
    if (buffer_of_[v] != kNone) buffers_[buffer_of_[v]].last = index;
  whole_ = true;
}

// Of a node whose recording threw: there was no memory.
void Recorder::drop_part() {
  if (!std::exchange(whole_, true)) nodes_.pop_back();
}

uint32_t Recorder::value(const Tensor& x) {
  const auto v = static_cast<uint32_t>(tensors_.size());
  if (!x.defined()) {
    tensors_.emplace_back();
    buffer_of_.push_back(kNone);
    next_.push_back(kNone);
    return v;
  }
  Storage& storage = x.storage();
  const uint32_t b = buffer(storage);
  tensors_.push_back(alias(x));
  storage.hold_for_recording();
  buffer_of_.push_back(b);
  next_.push_back(buffers_[b].value);
  buffers_[b].value = v;
  return v;
}

uint32_t Recorder::buffer(Storage& storage) {
  if (storage.pending_in(this)) return storage.place();
  if (const auto found = inputs_.find(&storage); found != inputs_.end()) return found->second;
  const auto b = static_cast<uint32_t>(buffers_.size());
  const bool input = !storage.is_promised();
  if (input) {
    at_once_ = at_once_ || storage.shared_outside();
    storage.readers().fetch_add(1, std::memory_order_acq_rel);
  }
  inputs_.emplace(&storage, b);
  buffers_.push_back({&storage, kNone, input});
  return b;
}

void Recorder::add(const Tensor& x) {
  if (x.defined()) boxes_.emplace_back(Box::Kind::Tensor, value(x));
  else boxes_.emplace_back();
}
void Recorder::add(const Operand& x) {
  if (x.is_tensor()) add(x.tensor());
  else add(x.number());
}
void Recorder::add(TensorList xs) {
  boxes_.emplace_back(Box::Kind::Tensors, static_cast<int64_t>(tensors_.size()), static_cast<uint32_t>(xs.size()));
  for (const Tensor& x : xs) value(x);
}
void Recorder::add(Scalar v) {
  if (v.is_float()) boxes_.emplace_back(v.as_double());
  else boxes_.emplace_back(v.kind() == Scalar::Kind::Bool ? Box::Kind::Bool : Box::Kind::Int, v.as_int());
}
void Recorder::add(IntList v) {
  boxes_.emplace_back(Box::Kind::Ints, static_cast<int64_t>(ints_.size()), static_cast<uint32_t>(v.size()));
  ints_.insert(ints_.end(), v.begin(), v.end());
}
void Recorder::add(std::string_view v) {
  boxes_.emplace_back(Box::Kind::Text, static_cast<int64_t>(text_.size()), static_cast<uint32_t>(v.size()));
  text_ += v;
}
void Recorder::add(Generator* v) {
  const auto [seed, offset] = generator_or_default(v).next();
  auto draw = make_ref<Generator>();
  draw->set_state(seed, offset);
  boxes_.emplace_back(Box::Kind::Draw, static_cast<int64_t>(generators_.size()));
  generators_.push_back(std::move(draw));
}

// ---- running

Frame Recorder::frame_of(const NodeRecord& node) const {
  return {boxes_.data() + node.args, tensors_.data(), ints_.data(), text_.data(), tensors_.data() + node.outs, generators_.data()};
}

// What an element-wise op writes.
const Tensor& Recorder::written_by(const NodeRecord& node) const {
  return node.op->writes ? tensors_[static_cast<size_t>(boxes_[node.args].integer)] : tensors_[node.outs];
}

// Runs node k, and with it those behind it that go into one pass; returns how many nodes are done, with those that nobody wants.
size_t Recorder::run_some(size_t k, const std::vector<char>& runs) {
  if (nodes_[k].op->each && run_linked) {
    std::vector<Link> links;
    const Dims& sizes = written_by(nodes_[k]).sizes();
    for (size_t j = k; j < nodes_.size() && links.size() < 24; ++j) {
      if (!runs[j]) continue;
      const NodeRecord& node = nodes_[j];
      if (!node.op->each) break;
      const Tensor& y = written_by(node);
      if (!(y.sizes() == sizes) || y.numel() == 0) break;
      const Buffer& b = buffers_[y.storage().place()];
      links.push_back({frame_of(node), node.op, static_cast<uint32_t>(j), b.last, b.input || b.storage->owners() > 0});
    }
    if (links.size() > 1)
      if (const size_t done = run_linked(links); done > 0) {
        counts.joined += static_cast<int64_t>(done);
        ++counts.passes;
        for (size_t i = 0; i < done; ++i)
          if (links[i].op->writes) written_by(nodes_[links[i].node]).storage().rewritten();
        return links[done - 1].node + 1 - k;
      }
  }
  run(nodes_[k]);
  return 1;
}

void Recorder::run(const NodeRecord& node) {
  for (uint32_t v = node.first; v < node.last; ++v)
    if (buffer_of_[v] != kNone) buffers_[buffer_of_[v]].storage->settle();
  node.op->run(frame_of(node));
  for (uint32_t i = 0; i < node.n_args; ++i)
    if (const Box& box = boxes_[node.args + i]; (node.op->writes >> i & 1) && box.kind == Box::Kind::Tensor)
      tensors_[static_cast<size_t>(box.integer)].storage().rewritten();
}

// Nothing recorded uses it any more.
void Recorder::let_go(Buffer& buffer) {
  if (!buffer.storage) return;
  if (buffer.written) buffer.storage->end_pending();
  if (buffer.input) buffer.storage->readers().fetch_sub(1, std::memory_order_acq_rel);
  for (uint32_t v = buffer.value; v != kNone; v = next_[v]) {
    buffer.storage->drop_for_recording();
    tensors_[v] = Tensor();
  }
  buffer.storage = nullptr;
}

void Recorder::clear() {
  for (Buffer& b : buffers_) let_go(b);
  nodes_.clear();
  tensors_.clear();
  buffer_of_.clear();
  next_.clear();
  buffers_.clear();
  boxes_.clear();
  ints_.clear();
  text_.clear();
  generators_.clear();
  inputs_.clear();
}

// Marks the thread as the one that runs a recording.
class Settling {
 public:
  explicit Settling(Recorder& r) : recording_(std::exchange(region_context, static_cast<Recording*>(&r))) {}
  ~Settling() { region_context = recording_; }

 private:
  void* recording_;
  const Pause pause_;
};

void Recorder::settle() {
  const Ref<Recorder> alive = Ref<Recorder>::share(this);
  const std::lock_guard lock(mutex_);
  drop_part();
  if (nodes_.empty()) return;
  const Settling settling(*this);
  ++counts.settled;
  counts.recorded += static_cast<int64_t>(nodes_.size());

  // From the end: a node runs if it writes what somebody owns or a later node that runs reads.
  std::vector<char> wanted(buffers_.size()), runs(nodes_.size());
  for (size_t b = 0; b < buffers_.size(); ++b) wanted[b] = buffers_[b].storage->owners() > 0;
  auto for_written = [&](const NodeRecord& node, auto&& f) {
    for (uint32_t v = node.outs; v < node.last; ++v)
      if (buffer_of_[v] != kNone) f(buffer_of_[v]);
    for (uint32_t i = 0; i < node.n_args; ++i)
      if (const Box& box = boxes_[node.args + i]; (node.op->writes >> i & 1) && box.kind == Box::Kind::Tensor) f(buffer_of_[static_cast<size_t>(box.integer)]);
  };
  for (size_t k = nodes_.size(); k-- > 0;) {
    const NodeRecord& node = nodes_[k];
    for_written(node, [&](uint32_t b) { runs[k] |= wanted[b]; });
    if (!runs[k]) continue;
    for (uint32_t v = node.first; v < node.outs; ++v)
      if (buffer_of_[v] != kNone) wanted[buffer_of_[v]] = 1;
  }
  std::vector<std::vector<uint32_t>> ends(nodes_.size());
  for (uint32_t b = 0; b < buffers_.size(); ++b) ends[buffers_[b].last].push_back(b);

  size_t k = 0;
  try {
    for (size_t done = 1; k < nodes_.size(); k += done) {
      done = 1;
      if (runs[k]) done = run_some(k, runs);
      for (size_t j = k; j < k + done; ++j) {
        counts.pruned += !runs[j];
        for (const uint32_t b : ends[j]) let_go(buffers_[b]);
      }
    }
  } catch (...) {
    const auto failure = make_ref<Failure>(std::current_exception());
    for (; k < nodes_.size(); ++k)
      for_written(nodes_[k], [&](uint32_t b) {
        Buffer& buffer = buffers_[b];
        if (!buffer.storage || buffer.input) return;
        buffer.storage->set_pending(failure, 0);
        buffer.written = false;  // so that it stays pending
      });
    clear();
    throw;
  }
  clear();
}

// ---- scopes

void begin_recording() {
  if (depth++ == 0) recorder_here = make_ref<Recorder>().detach();
}

void end_recording() {
  if (--depth > 0) return;
  const auto recorder = Ref<Recorder>::adopt(&Recorder::here());
  recorder_here = nullptr;
  recorder->settle();
}

void settle_here() {
  if (recorder_here) recorder_here->settle();
}

// ---- outputs that a kernel makes

Tensor meta_like(const Tensor& x) {
  if (!x.defined()) return x;
  return empty_strided(x.sizes(), x.strides(), x.dtype(), Device{DeviceKind::Meta});
}

Tensor promised_like(const Tensor& meta) { return empty_strided(meta.sizes(), meta.strides(), meta.dtype()); }

void adopt(const Tensor& out, Tensor made) {
  const bool whole = made.storage().use_count() == 1 && made.ref()->use_count() == 1 && made.offset() == 0 && out.offset() == 0 &&
                     made.storage().size_bytes() == out.storage().size_bytes() && made.strides() == out.strides() && !made.storage().shared_outside();
  if (whole) out.storage().adopt(made.storage());
  else copy_elements(out, made);
}

const OpInfo* all_ops = nullptr;

OpInfo::OpInfo(const char* n, const char* id, const char* s, const char* k, uint64_t w, int o, void (*r)(const Frame&),
               void (*e)(const Frame&, EachCall, void*))
    : name(n), ident(id), signature(s), kinds(k), writes(w), outs(o), run(r), each(e), next(all_ops) {
  all_ops = this;
}

const OpInfo* find_op(std::string_view ident) {
  for (const OpInfo* op = all_ops; op; op = op->next)
    if (ident == op->ident) return op;
  return nullptr;
}

}  // namespace fl::graph
