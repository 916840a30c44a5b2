#include "graph/program.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/profile.h"
#include "graph/recompute.h"
#include "storage/allocator.h"
#include "tensor/raw.h"

namespace fl::graph {

namespace {
constexpr size_t kLargeArena = size_t{32} << 20, kScratchArena = size_t{1} << 20, kLeastGap = size_t{64} << 10;
}  // namespace

std::atomic<uint64_t> objects_version{0};

Program::Geometry Program::geometry(const Tensor& x, uint32_t buffer) { return {buffer, x.dtype(), x.sizes(), x.strides(), x.offset(), x.storage().birth().inference}; }

Ref<Program> Program::capture(const std::vector<Tensor>& args, const std::vector<Tensor>& outs, bool fold, double budget) {
  if (!recording()) raise<ArgumentError>("capture: nothing is being recorded");
  Recorder& recorder = Recorder::here();
  std::vector<Recorder::Gradient> watched = recorder.watched_gradients();
  auto program = make_ref<Program>();  // before the lock, since it enters a mutex of its own in the list
  std::vector<Tensor> made = outs;     // what lives on of what was made
  program->differentiates_ = recorder.differentiated();
  program->capture_histories(std::move(watched), args, outs);
  for (const Gradient& g : program->gradients_)
    if (g.end == Gradient::End::Fresh) made.push_back(g.now);
  const std::lock_guard lock(recorder.mutex());
  if (const auto& i = recorder.interruption(); i.happened) raise<ArgumentError>(i.what);
  if (!recorder.copies_hold()) raise<ArgumentError>("memory that NumPy or another library shares changed while it ran");
  const Tape& tape = recorder.tape();
  Program& p = *program;
  p.buffers_.resize(recorder.n_buffers());

  auto buffer_of = [&](const Tensor& x) -> uint32_t {
    for (uint32_t b = 0; b < recorder.n_buffers(); ++b)
      if (&recorder.storage(b) == &x.storage()) return b;
    return kNone;
  };
  for (uint32_t b = 0; b < p.buffers_.size(); ++b)
    p.buffers_[b] = {!recorder.is_input(b) ? Kind::Internal : recorder.storage(b).made_in(recorder.region()) ? Kind::Constant : Kind::Fixed, kNone, recorder.storage(b).size_bytes(), 0, {}, {}};
  p.met_ = std::make_unique<std::atomic<uint64_t>[]>(args.size());
  for (uint32_t i = 0; i < args.size(); ++i) {
    const uint32_t b = buffer_of(args[i]);
    p.args_.push_back(geometry(args[i], b));
    if (p.differentiates_ && autograd->made(args[i]))
      raise<ArgumentError>("an argument has a history through which its backward may go on");
    if (b == kNone) continue;
    p.met_[i] = args[i].storage().number();
    if (p.buffers_[b].kind == Kind::Fixed || p.buffers_[b].kind == Kind::Constant) p.buffers_[b].kind = Kind::Argument, p.buffers_[b].index = i;
  }
  std::vector<uint32_t> held(p.buffers_.size());  // references that `outs` hold
  for (uint32_t i = 0; i < outs.size(); ++i) {
    const Tensor& y = outs[i];
    const uint32_t b = buffer_of(y);
    if (b == kNone) raise<ArgumentError>("it returns a tensor that it neither got nor made");
    if (y.impl()->meta && !p.spent_[i]) raise<ArgumentError>("it returns a tensor that requires grad");
    p.outs_.push_back(geometry(y, b));
    Buffer& buffer = p.buffers_[b];
    if (buffer.kind == Kind::Fixed) raise<ArgumentError>("it returns a tensor that it neither got nor made");
    buffer.returned = true;
    if (buffer.kind == Kind::Internal) buffer.kind = Kind::Output, buffer.index = i;
  }
  for (Gradient& g : p.gradients_) {
    const Tensor now = std::exchange(g.now, {});
    if (g.end != Gradient::End::Fresh) continue;
    const uint32_t b = buffer_of(now);
    if (b == kNone || (p.buffers_[b].kind != Kind::Internal && p.buffers_[b].kind != Kind::Output && p.buffers_[b].kind != Kind::Gradient) || now.impl()->requires_grad)
      raise<ArgumentError>("it gives a tensor that lives on a gradient that it has not made, or that has a history");
    const auto out = std::find_if(outs.begin(), outs.end(), [&](const Tensor& y) { return y.same(now); });
    if (out != outs.end()) g.out = static_cast<uint32_t>(out - outs.begin());
    if (now.impl()->pyobj && out == outs.end())
      raise<ArgumentError>("it keeps a gradient (in a list, an attribute) that it does not return");
    if (p.buffers_[b].kind == Kind::Internal) p.buffers_[b].kind = Kind::Gradient;
    g.geometry = geometry(now, b);
  }

  // Values again, over no memory yet, since memory differs from run to run.
  p.tape_.nodes = tape.nodes;
  p.tape_.buffer_of = tape.buffer_of;
  p.tape_.next = tape.next;
  p.tape_.boxes = tape.boxes;
  p.tape_.ints = tape.ints;
  p.tape_.text = tape.text;
  p.tape_.generators = recorder.drawn_from();
  for (uint32_t v = 0; v < tape.values.size(); ++v) {
    const Tensor& x = tape.values[v];
    p.tape_.values.push_back(x.defined() ? alias(x) : x);
    if (x.defined()) p.buffers_[tape.buffer_of[v]].values.push_back(v);
  }
  for (const Buffer& b : p.buffers_)  // fits() refuses to write arguments that have a Var of their own
    if (b.kind == Kind::Argument)
      for (const uint32_t v : b.values)
        if (auto& own = p.tape_.values[v].impl()->own_var; own.get() == args[b.index].impl()->own_var.get()) own = nullptr;
  if (fold) p.fold_batch_norms();
  p.clamp_batch_norms();
  if (budget < 1) p.compute_again(budget);
  std::vector<char> wanted(p.buffers_.size());
  for (uint32_t b = 0; b < wanted.size(); ++b) wanted[b] = !p.buffers_[b].inside();
  p.tape_.find_needed(wanted, p.runs_, true);
  for (uint32_t k = 0; k < p.tape_.nodes.size(); ++k) {
    const NodeRecord& node = p.tape_.nodes[k];
    for (uint32_t v = node.first; v < node.last; ++v)
      if (p.tape_.buffer_of[v] != kNone) p.buffers_[p.tape_.buffer_of[v]].last = k;
    p.tape_.for_overwritten(node, [&](uint32_t v) { p.buffers_[p.tape_.buffer_of[v]].written = true; });
  }
  for (uint32_t b = 0; b < recorder.n_buffers(); ++b)
    if (p.buffers_[b].kind == Kind::Fixed) p.buffers_[b].storage = Ref<Storage>::share(&recorder.storage(b));
  p.find_once();

  p.find_overwriters();
  p.find_passes();
  p.ends_.resize(p.tape_.nodes.size());
  for (uint32_t b = 0; b < p.buffers_.size(); ++b) {
    const Buffer& buffer = p.buffers_[b];
    if (buffer.kind == Kind::Internal && !buffer.between && std::any_of(buffer.values.begin(), buffer.values.end(), [&](uint32_t v) { return may_defer(p.tape_.values[v].sizes()); }))
      p.ends_[buffer.last].push_back(b);
  }

  // Who else owns what was made? Values of ours are not known to the recorder: each holds one reference.
  for (uint32_t b = 0; b < recorder.n_buffers(); ++b) {
    Buffer& buffer = p.buffers_[b];
    Storage& storage = recorder.storage(b);
    // Of a constant that is written every run gets a copy: what lives on (an optimizer's new state) would not be what later calls write.
    if (buffer.inside() || buffer.kind == Kind::Gradient || buffer.kind == Kind::Output || (buffer.kind == Kind::Constant && buffer.written)) {
      std::vector<const TensorImpl*> ours;
      for (const Tensor& y : made)
        for (const TensorImpl* x : {static_cast<const TensorImpl*>(y.impl()), static_cast<const TensorImpl*>(y.impl()->base.get())})
          if (x && x->storage.get() == &storage && std::find(ours.begin(), ours.end(), x) == ours.end()) ours.push_back(x);
      const auto known = static_cast<uint32_t>(buffer.values.size() + ours.size());
      if (storage.owners() > known) {
        for (const NodeRecord& node : p.tape_.nodes) {
          bool here = false;
          p.tape_.for_written(node, [&](uint32_t v) { here |= p.tape_.buffer_of[v] == b; });
          if (here) raise<ArgumentError>("a tensor that ", node.op->name, " made lives on, but is not returned");
        }
        raise<ArgumentError>("a tensor lives on that is not returned");
      }
    }
    if (buffer.kind == Kind::Fixed) {
      p.point(buffer, buffer.storage);
      storage.fix();
    } else if (buffer.kind == Kind::Constant) {
      if (storage.shared_outside()) raise<ArgumentError>("it takes memory of NumPy or another library in");
      if (storage.lies_deferred()) raise<ArgumentError>("a constant's bytes lie channels-last");
      const Pause pause;
      buffer.storage = Storage::allocate_now(buffer.size_bytes, Device{});
      std::memcpy(buffer.storage->data(), storage.bytes_now(), buffer.size_bytes);
      p.point(buffer, buffer.storage);
    } else {
      for (const uint32_t v : buffer.values) p.tape_.values[v].impl()->storage = nullptr;
    }
  }
  return program;
}

void Program::compute_again(double budget) {
  std::vector<Room> rooms;
  for (const Buffer& b : buffers_) rooms.push_back({b.size_bytes, b.kind == Kind::Internal || b.kind == Kind::Gradient, b.kind == Kind::Internal});
  for (const size_t size_bytes : recompute(tape_, std::move(rooms), budget)) buffers_.push_back({Kind::Internal, kNone, size_bytes, 0, {}, {}});
  for (Buffer& b : buffers_) b.values.clear();
  for (uint32_t v = 0; v < tape_.values.size(); ++v)
    if (tape_.values[v].defined()) buffers_[tape_.buffer_of[v]].values.push_back(v);
}

// Note [What is computed once]. No more is kept than was read, but for small things.
void Program::find_once() {
  constexpr size_t kSmall = 4096;
  const auto stands = [&](uint32_t b) {
    const Buffer& buffer = buffers_[b];
    return buffer.kind == Kind::Kept || (buffer.kind == Kind::Fixed && !buffer.written && !buffer.storage->shared_outside()) || (buffer.kind == Kind::Constant && !buffer.written);
  };
  std::vector<char> read(buffers_.size());
  for (uint32_t k = 0; k < tape_.nodes.size(); ++k) {
    const NodeRecord& node = tape_.nodes[k];
    bool once = runs_[k] && node.op->writes == 0 && node.outs > node.first;
    tape_.for_drawn(node, [&](const auto&) { once = false; });
    size_t given = 0, made = 0;
    for (uint32_t v = node.first; v < node.last && once; ++v) {
      const uint32_t b = tape_.buffer_of[v];
      if (b == kNone) continue;
      (v < node.outs ? given : made) += buffers_[b].size_bytes;
      once = v < node.outs ? stands(b) : buffers_[b].kind == Kind::Internal && !buffers_[b].written;
    }
    if (!once || given == 0 || made > std::max(kSmall, given)) continue;
    once_.push_back(k);
    runs_[k] = 0;
    for (uint32_t v = node.first; v < node.last; ++v) {
      const uint32_t b = tape_.buffer_of[v];
      if (b == kNone) continue;
      if (v >= node.outs) buffers_[b].kind = Kind::Kept;
      else if (buffers_[b].kind == Kind::Fixed && !std::exchange(read[b], 1)) once_read_.push_back({b});
    }
  }
  std::vector<char> wanted(buffers_.size());
  for (uint32_t k = 0; k < tape_.nodes.size(); ++k)
    for (uint32_t v = tape_.nodes[k].first; runs_[k] && v < tape_.nodes[k].last; ++v)
      if (tape_.buffer_of[v] != kNone) wanted[tape_.buffer_of[v]] = 1;
  for (uint32_t b = 0; b < buffers_.size(); ++b)
    if (buffers_[b].kind == Kind::Kept && !wanted[b]) once_only_.push_back(b);
}

void Program::compute_once() {
  bool holds = once_done_;
  for (const Read& r : once_read_) {
    Storage& storage = *buffers_[r.buffer].storage;
    holds &= storage.var().version() == r.version && storage.outsiders() == r.outsiders && !storage.shared_outside();
  }
  if (holds) return;
  once_done_ = false;
  for (Read& r : once_read_) {
    r.version = buffers_[r.buffer].storage->var().version();
    r.outsiders = buffers_[r.buffer].storage->outsiders();
  }
  struct Letting {  // what was on the way is not kept
    Program& p;
    ~Letting() {
      for (const uint32_t b : p.once_only_) {
        p.buffers_[b].storage = nullptr;
        p.point(p.buffers_[b], nullptr);
      }
    }
  } const letting{*this};
  for (const uint32_t k : once_) {
    const NodeRecord& node = tape_.nodes[k];
    if (node.op->check) node.op->check(tape_.frame_of(node));
    for (uint32_t v = node.outs; v < node.last; ++v)
      if (const uint32_t b = tape_.buffer_of[v]; b != kNone) {
        buffers_[b].storage = Storage::allocate_now(buffers_[b].size_bytes, Device{});
        point(buffers_[b], buffers_[b].storage);
      }
    node.op->run(tape_.frame_of(node));
  }
  once_done_ = true;
}

// Before the recorder's lock is taken, since it takes those of autograd.
void Program::capture_histories(std::vector<Recorder::Gradient> watched, const std::vector<Tensor>& args, const std::vector<Tensor>& outs) {
  for (const Tensor& y : outs) spent_.push_back(y.impl()->requires_grad ? autograd->spent(y) : nullptr);
  for (Recorder::Gradient& w : watched) {
    Gradient g;
    g.looked = w.looked;
    if (w.looked) g.before = w.before;
    for (uint32_t i = 0; i < args.size() && g.argument == kNone; ++i)
      if (args[i].same(w.of)) g.argument = i;
    g.now = autograd->grad(w.of);
    if (g.argument == kNone) g.of = std::move(w.of);
    if (w.looked && g.now.impl() == w.before.impl()) {
      if (g.now.defined() && g.argument != kNone) raise<ArgumentError>("it uses the gradient of an argument");
    } else {
      g.end = g.now.defined() ? Gradient::End::Fresh : Gradient::End::None;
    }
    gradients_.push_back(std::move(g));
  }
}

// Note [Written over]
void Program::find_overwriters() {
  const auto n = static_cast<uint32_t>(tape_.nodes.size());
  over_.assign(n, kNone);
  uint32_t before = kNone;
  std::vector<char> alone(n, 1);
  for (uint32_t k = 0; k < n; ++k) {
    if (!runs_[k]) continue;
    if (before != kNone && tape_.may_join(tape_.nodes[before], tape_.nodes[k], 1)) alone[before] = alone[k] = 0;
    before = k;
  }
  for (uint32_t k = 0; k < n; ++k) {
    const NodeRecord& node = tape_.nodes[k];
    if (!runs_[k] || !alone[k] || node.op->writes || (!node.op->each && node.op->over_out < 0)) continue;
    const uint32_t out = node.outs + static_cast<uint32_t>(node.op->each ? 0 : node.op->over_out), o = tape_.buffer_of[out];
    if (o == kNone || buffers_[o].kind != Kind::Internal) continue;
    const Tensor& y = tape_.values[out];
    const auto fits = [&](uint32_t i) {
      const Box& box = tape_.boxes[node.args + i];
      if (box.kind != Box::Kind::Tensor) return false;
      const auto v = static_cast<uint32_t>(box.integer);
      const uint32_t b = tape_.buffer_of[v];
      if (b == kNone || b == o || buffers_[b].kind != Kind::Internal || buffers_[b].last != k || buffers_[b].size_bytes != buffers_[o].size_bytes) return false;
      const Tensor& x = tape_.values[v];
      if (x.dtype() != y.dtype() || x.offset() != 0 || y.offset() != 0 || !x.is_contiguous() || !y.is_contiguous() || !(x.sizes() == y.sizes())) return false;
      for (uint32_t u = node.first; u < node.outs; ++u)  // read as nothing else
        if (u != v && tape_.buffer_of[u] == b && (!node.op->each || !(tape_.values[u].sizes() == x.sizes()) || !(tape_.values[u].strides() == x.strides()))) return false;
      return true;
    };
    for (uint32_t i = 0; i < node.n_args && over_[k] == kNone; ++i)
      if ((node.op->each || static_cast<int>(i) == node.op->over_arg) && fits(i)) {
        over_[k] = o;
        buffers_[o].over = tape_.buffer_of[static_cast<size_t>(tape_.boxes[node.args + i].integer)];
      }
  }
}

void Program::find_passes() {
  const auto n = static_cast<uint32_t>(tape_.nodes.size());
  pass_begin_.resize(n);
  pass_end_.resize(n);
  between_.resize(n);
  kept_.resize(n);
  std::vector<uint32_t> nowhere;  // buffers without memory, which are told apart by their storages
  for (uint32_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b].values.empty() && !tape_.values[buffers_[b].values.front()].impl()->storage) {
      point(buffers_[b], Storage::borrow(nullptr, buffers_[b].size_bytes, Device{}, nullptr, nullptr, true));
      nowhere.push_back(b);
    }
  }
  const auto use = [&](uint32_t b) { return Tape::Use{buffers_[b].last, !buffers_[b].inside()}; };
  for (uint32_t k = 0, done = 1; k < n; k += done) {
    done = runs_[k] ? static_cast<uint32_t>(tape_.count_some(k, runs_, use)) : 1;
    size_t kept = 0;
    if (auto pass = runs_[k] ? tape_.keep_some(k, runs_, use, kept) : nullptr; pass && kept >= done) {
      kept_[k] = std::move(pass);
      done = static_cast<uint32_t>(kept);
    }
    std::fill_n(pass_begin_.begin() + k, done, k);
    std::fill_n(pass_end_.begin() + k, done, k + done);
  }
  for (const uint32_t b : nowhere) point(buffers_[b], nullptr);

  std::vector<uint32_t> first(buffers_.size(), kNone);
  for (uint32_t k = n; k-- > 0;)
    if (runs_[k])
      for (uint32_t v = tape_.nodes[k].first; v < tape_.nodes[k].last; ++v)
        if (tape_.buffer_of[v] != kNone) first[tape_.buffer_of[v]] = k;
  for (uint32_t b = 0; b < buffers_.size(); ++b) {
    const Buffer& buffer = buffers_[b];
    if (buffer.kind != Kind::Internal || buffer.over != kNone || first[b] == kNone) continue;
    const uint32_t k = first[b];
    const bool makes = tape_.nodes[k].outs < tape_.nodes[k].last && tape_.buffer_of[tape_.nodes[k].outs] == b;
    if (pass_end_[k] - pass_begin_[k] > 1 && buffer.last < pass_end_[k] && makes) between_[pass_begin_[k]].push_back(b);
  }
  for (const auto& here : between_)
    for (const uint32_t b : here) buffers_[b].between = true;
}

// Before node k runs: its result takes the storage of what it is written over, or gets its own.
void Program::write_over(uint32_t k) {
  Buffer& out = buffers_[over_[k]];
  const NodeRecord& node = tape_.nodes[k];
  Ref<Storage> there = tape_.values[buffers_[out.over].values.front()].impl()->storage;
  bool in_order = false;  // whether the one lies otherwise than another argument
  if (!there->lies_deferred())
    for (uint32_t v = node.first; v < node.outs; ++v)
      in_order |= tape_.buffer_of[v] != kNone && tape_.values[v].ndim() >= 3 && tape_.values[v].storage().lies_deferred();
  out.storage = in_order ? Storage::allocate_now(out.size_bytes, Device{}) : std::move(there);
  point(out, out.storage);
}

void Program::place(const std::vector<std::pair<uint32_t, size_t>>& offsets, size_t total) {
  const std::lock_guard lock(mutex_);
  for (const auto& [b, offset] : offsets) {
    if (b >= buffers_.size() || !buffers_[b].placed() || offset % 64 != 0 || offset > total || buffers_[b].size_bytes > total - offset)
      raise<ArgumentError>("place: buffer ", b, " at ", offset, " of ", total, " bytes; expected an internal buffer or a gradient within the arena");
    buffers_[b].offset = offset;
    buffers_[b].index = 0;
  }
  for (const Buffer& b : buffers_)
    if (b.placed() && b.over == kNone && b.index == kNone) raise<ArgumentError>("place: not all internal buffers have a place");
  arena_bytes_ = std::max<size_t>(total, 1);
  placed_ = true;
  if (arena_bytes_ >= kScratchArena && host_allocator().caches()) find_gaps();
}

std::vector<Program::Life> Program::lives() const {
  const auto n = static_cast<uint32_t>(tape_.nodes.size());
  std::vector<uint32_t> first(buffers_.size(), kNone), last(buffers_.size(), 0);
  for (uint32_t k = 0; k < n; ++k)
    for (uint32_t v = tape_.nodes[k].first; v < tape_.nodes[k].last; ++v)
      if (const uint32_t b = tape_.buffer_of[v]; b != kNone) first[b] = std::min(first[b], pass_begin(k)), last[b] = std::max(last[b], pass_end(k) - 1);
  for (uint32_t b = 0; b < buffers_.size(); ++b) {  // one that is written over another is in that one's place
    uint32_t under = b;
    while (buffers_[under].over != kNone) under = buffers_[under].over;
    if (under != b) last[under] = std::max(last[under], last[b]);
  }
  std::vector<Life> out;
  for (uint32_t b = 0; b < buffers_.size(); ++b)
    if (const Buffer& buffer = buffers_[b]; buffer.placed() && buffer.over == kNone)
      out.push_back({b, first[b] == kNone ? 0 : first[b], buffer.kind == Kind::Gradient ? n : last[b]});  // gradients are there afterwards, too
  return out;
}

void Program::find_gaps() {
  const auto n = static_cast<uint32_t>(tape_.nodes.size());
  gaps_.assign(n, {});
  std::vector<Life> lives = this->lives();
  std::sort(lives.begin(), lives.end(), [&](const Life& a, const Life& b) { return buffers_[a.buffer].offset < buffers_[b.buffer].offset; });
  for (uint32_t k = 0; k < n; ++k) {
    if (k != pass_begin(k)) continue;
    size_t end = 0;
    auto& gaps = gaps_[k];
    const auto consider = [&](size_t until) {
      const size_t begin = (end + 63) / 64 * 64;
      if (until >= begin + kLeastGap) gaps.push_back({begin, until - begin});
    };
    for (const Life& life : lives) {
      if (life.first >= pass_end(k) || life.last < k) continue;
      consider(buffers_[life.buffer].offset);
      end = std::max(end, buffers_[life.buffer].offset + buffers_[life.buffer].size_bytes);
    }
    consider(arena_bytes_);
    std::sort(gaps.begin(), gaps.end(), [](const ScratchRoom::Gap& a, const ScratchRoom::Gap& b) { return a.size_bytes > b.size_bytes; });
    if (gaps.size() > ScratchRoom::kMost) gaps.resize(ScratchRoom::kMost);
    std::reverse(gaps.begin(), gaps.end());  // small things go into small gaps
  }
}

// While the arena rests, others use its memory, and before it is taken what they had besides goes back to the system: kept blocks of one
// would lie beside those of the other. Gradients that lie in the arena keep it until they are dropped, so that it is lent when the last of them is.
void Program::rest() {
  {
    const std::lock_guard lock(mutex_);
    if (arena_) arena_->lend_when_gone();
    arena_ = nullptr;
  }
}

void Program::take_arena() {
  if (arena_bytes_ < kLargeArena) {
    arena_ = Storage::allocate_now(arena_bytes_, Device{});
    return;
  }
  arena_ = Storage::allocate_apart(arena_bytes_, Device{});
}

// Note [The same argument each time]
// A recording knows memory, not names: where a function was called with a tensor that it reaches by another way, too (a parameter of its module, a
// global), it can not say by which one it read it. Two recordings of different arguments that come to the same can. So an argument
// that was the same in all recordings has to be the same in a run; another one is recorded, and compared.
void Program::confirm(const Program& earlier) {
  for (size_t i = 0; i < args_.size(); ++i)
    if (met_[i] != earlier.met_[i]) met_[i] = 0;
}

bool Program::fits(const std::vector<Tensor>& args, bool known) const {
  if (args.size() != args_.size()) return false;
  for (size_t i = 0; i < args.size(); ++i) {
    const Tensor& x = args[i];
    const Geometry& g = args_[i];
    if (x.dtype() != g.dtype || x.offset() != g.offset || !(x.sizes() == g.sizes) || !(x.strides() == g.strides) || x.is_meta()) return false;
    if (g.buffer == kNone) continue;
    const Buffer& b = buffers_[g.buffer];
    if (x.storage().size_bytes() < b.size_bytes) return false;
    if (const uint64_t met = met_[i].load(std::memory_order_relaxed); known && met && met != x.storage().number_so_far()) return false;
    if (differentiates_ && autograd->made(x)) return false;
    if (b.kind == Kind::Fixed) {
      if (&x.storage() != b.storage.get()) return false;
    } else if (&x.storage() != &args[b.index].storage() || (b.written && (x.storage().shared_outside() || x.impl()->own_var))) {
      return false;  // what was one memory is two now, others read along, or its versions are counted elsewhere
    }
  }
  for (const Gradient& g : gradients_)
    if (g.looked && autograd->grad(g.tensor(args)).impl() != g.before.impl()) return false;
  // What was apart must be apart, unless nobody writes it, nor finds gradients through it.
  for (const Buffer& a : buffers_) {
    if (a.kind != Kind::Argument) continue;
    const Storage* storage = &args[a.index].storage();
    const bool traced = differentiates_ && autograd->wants(args[a.index]);
    for (const Buffer& b : buffers_) {
      const Storage* other = b.kind == Kind::Argument ? &args[b.index].storage() : b.kind == Kind::Fixed ? b.storage.get() : nullptr;
      if (&a != &b && storage == other && (a.written || b.written || traced)) return false;
    }
  }
  return true;
}

uint64_t Program::foreign(const std::vector<Tensor>& args) const {
  uint64_t sum = 0;
  for (const Buffer& b : buffers_) {
    if (b.kind != Kind::Argument && b.kind != Kind::Fixed) continue;
    const Storage& storage = b.kind == Kind::Fixed ? *b.storage : args[b.index].storage();
    if (!storage.shared_outside() || storage.is_pending()) continue;
    const char* const bytes = static_cast<const char*>(storage.bytes_now());
    uint64_t word = 0;
    for (size_t i = 0; i < storage.size_bytes(); i += sizeof word) {
      std::memcpy(&word, bytes + i, std::min(sizeof word, storage.size_bytes() - i));
      sum = (sum ^ word) * 0x9E3779B97F4A7C15u;
      sum ^= sum >> 29;
    }
  }
  return sum;
}

void Program::point(const Buffer& buffer, const Ref<Storage>& storage) {
  for (const uint32_t v : buffer.values) tape_.values[v].impl()->storage = storage;
}

// What the profiler sees of a run: an event for each node, or for each pass of several.
class Program::Seen {
 public:
  Seen(const Program& program, size_t k) : p_(program), k_(k) {
    if (on_) [[unlikely]] handle_ = profile::begin(profile::Kind::Op, p_.tape_.nodes[k].op->name, profile::stack_now(), allocated());
  }
  ~Seen() {
    if (!on_) [[likely]] return;
    measured_.allocated = allocated();
    profile::end(handle_, measured_, failed_);
  }
  void done(size_t nodes) {
    failed_ = false;
    if (!on_) [[likely]] return;
    const Tape& tape = p_.tape_;
    std::string names;
    std::vector<uint32_t> made;
    for (size_t k = k_; k < k_ + nodes; ++k) {
      const NodeRecord& node = tape.nodes[k];
      if (!p_.runs_[k]) continue;
      names += (names.empty() ? "" : " + ") + std::string(node.op->name);
      for (uint32_t v = node.first; v < node.last; ++v) {
        const uint32_t b = tape.buffer_of[v];
        if (b == kNone || p_.buffers_[b].between) continue;
        const int64_t bytes = std::min<int64_t>(tape.values[v].numel() * static_cast<int64_t>(tape.values[v].item_bytes()), static_cast<int64_t>(p_.buffers_[b].size_bytes));
        const bool ours = std::find(made.begin(), made.end(), b) != made.end();
        if (v < node.outs && !ours) measured_.in_bytes += bytes;
        if (v >= node.outs) measured_.out_bytes += bytes, made.push_back(b);
      }
      tape.for_overwritten(node, [&](uint32_t v) { measured_.out_bytes += static_cast<int64_t>(p_.buffers_[tape.buffer_of[v]].size_bytes); });
      if (node.last > node.first && !measured_.dtype && tape.values[node.last - 1].defined())
        measured_.dtype = static_cast<uint8_t>(1 + static_cast<int>(tape.values[node.last - 1].dtype()));
    }
    measured_.name = profile::interned(names);
  }

 private:
  static int64_t allocated() { return profile::options().memory ? static_cast<int64_t>(host_stats().allocated) : -1; }

  const Program& p_;
  const size_t k_;
  const bool on_ = profile::on();
  bool failed_ = true;
  profile::Handle handle_;
  profile::Event measured_;
};

std::optional<std::vector<Tensor>> Program::run(const std::vector<Tensor>& args) {
  const Pause pause;  // a run inside of a region happens at once
  if (!placed_) raise<ArgumentError>("run: place() the internal buffers first");
  if (!fits(args, true)) return std::nullopt;
  for (const Buffer& b : buffers_) {
    if (b.kind != Kind::Argument && b.kind != Kind::Fixed) continue;
    Storage& storage = b.kind == Kind::Fixed ? *b.storage : args[b.index].storage();
    if (b.written) before_write(storage);
    storage.settle();
  }
  for (const Gradient& g : gradients_)
    if (!g.looked) autograd->replace(g.tensor(args), Tensor());  // as zero_grad() did
  std::vector<Tensor> dropped;  // gradients of before; they go after the lock
  const std::lock_guard lock(mutex_);
  struct Letting {  // what is given and what is returned is not kept
    Program& p;
    ~Letting() {
      for (Buffer& b : p.buffers_) {
        if (b.over != kNone) b.storage = nullptr;
        if (b.over != kNone || b.kind == Kind::Argument || b.kind == Kind::Gradient || b.kind == Kind::Output || (b.kind == Kind::Constant && b.copied())) p.point(b, nullptr);
      }
    }
  } const letting{*this};
  if (arena_ && !gradients_apart_ && arena_->use_count() > 1) {  // a gradient of the run before is in somebody's hands
    gradients_apart_ = true;
    arena_ = nullptr;
  }
  if (!arena_) take_arena();
  for (Buffer& b : buffers_) {
    switch (b.kind) {
      case Kind::Argument: point(b, args[b.index].impl()->storage); break;
      case Kind::Gradient:
        if (!gradients_apart_) {
          point(b, Storage::part_of(arena_, b.offset, b.size_bytes));
          break;
        }
        [[fallthrough]];
      case Kind::Output: point(b, Storage::allocate_now(b.size_bytes, Device{})); break;
      case Kind::Internal: {
        if (b.over != kNone) break;
        if (b.between) {
          if (!b.storage) {
            b.storage = Storage::borrow(nullptr, b.size_bytes, Device{}, nullptr, nullptr, true);
            point(b, b.storage);
          }
          break;
        }
        void* at = static_cast<char*>(arena_->data()) + b.offset;
        if (!b.storage || !b.storage->borrows(at)) {
          b.storage = Storage::borrow(at, b.size_bytes, Device{}, nullptr, nullptr, true);
          point(b, b.storage);
        }
        break;
      }
      case Kind::Constant:
        if (b.copied()) {
          const Ref<Storage> copy = Storage::allocate_now(b.size_bytes, Device{});
          std::memcpy(copy->data(), b.storage->data(), b.size_bytes);
          point(b, copy);
        }
        break;
      case Kind::Fixed:
      case Kind::Kept: break;
    }
  }
  if (!once_.empty()) compute_once();
  const size_t n = tape_.nodes.size();
  auto use = [&](uint32_t b) { return Tape::Use{buffers_[b].last, !buffers_[b].inside()}; };
  auto end = [&](size_t k) {  // bytes that moved, to lie in order, lie outside of the arena
    for (const uint32_t b : ends_[k])
      if (Buffer& buffer = buffers_[b]; buffer.storage && (buffer.over != kNone || !buffer.storage->borrows(static_cast<char*>(arena_->data()) + buffer.offset))) {
        point(buffer, nullptr);
        buffer.storage = nullptr;
      }
  };
  struct Between {  // the ops of the pass that runs, where they run one by one
    Program& p;
    const std::vector<uint32_t>* have = nullptr;
    void take(size_t k) {
      if (have || p.between_[p.pass_begin_[k]].empty()) return;
      have = &p.between_[p.pass_begin_[k]];
      for (const uint32_t b : *have) p.point(p.buffers_[b], Storage::allocate_now(p.buffers_[b].size_bytes, Device{}));
    }
    void drop() {
      if (const auto* had = std::exchange(have, nullptr))
        for (const uint32_t b : *had) p.point(p.buffers_[b], p.buffers_[b].storage);
    }
    ~Between() { drop(); }
  } between{*this};
  ScratchRoom room;
  for (size_t k = 0, done = 1; k < n; k += done) {
    done = 1;
    if (k == pass_begin_[k]) {
      between.drop();
      if (!gaps_.empty()) room.offer(arena_->data(), gaps_[k]);
    }
    const NodeRecord& node = tape_.nodes[k];
    if (!runs_[k]) {
      // Its numbers are drawn all the same, so that those after it stay as they are.
      tape_.for_drawn(node, [](const Ref<Generator>& generator) { generator_or_default(generator.get()).next(); });
      continue;
    }
    if (node.op->check) node.op->check(tape_.frame_of(node));
    if (over_[k] != kNone) write_over(static_cast<uint32_t>(k));
    if (arena_bytes_ >= kLargeArena) host_allocator().improve();
    Seen seen(*this, k);
    if (!kept_[k]) {
      done = tape_.run_some(k, pass_end_[k], runs_, use, [&] { between.take(k); });
    } else if (kept_[k]->run()) {
      done = pass_end_[k] - k;
    } else {
      between.take(k);
      node.op->run(tape_.frame_of(node));
    }
    seen.done(done);
    for (size_t j = k; j < k + done; ++j) end(j);
    for (size_t j = k; j < k + done; ++j)
      if (runs_[j])
        tape_.for_overwritten(tape_.nodes[j], [&](uint32_t v) {
          if (!buffers_[tape_.buffer_of[v]].inside()) bump_version(tape_.nodes[j].op->name, tape_.values[v]);
        });
  }
  auto fresh = [&](const Geometry& g) {
    const Tensor& any = tape_.values[buffers_[g.buffer].values.front()];
    Tensor made(make_ref<TensorImpl>(any.impl()->storage, g.sizes, g.strides, g.offset, g.dtype));
    if (made.storage().birth().inference != g.inference) made.storage().set_inference(g.inference);
    return made;
  };
  std::vector<Tensor> out;
  for (size_t i = 0; i < outs_.size(); ++i) {
    out.push_back(fresh(outs_[i]));
    if (spent_[i]) autograd->set_spent(out.back(), spent_[i]);
  }
  for (const Gradient& g : gradients_)
    if (g.end != Gradient::End::Same)
      dropped.push_back(autograd->replace(g.tensor(args), g.end == Gradient::End::None ? Tensor() : g.out == kNone ? fresh(g.geometry) : out[g.out]));
  return out;
}

bool Program::same_memory(const Buffer& a, const Buffer& b) {
  if (a.kind != b.kind || a.size_bytes != b.size_bytes) return false;
  if (a.kind == Kind::Fixed) return a.storage.get() == b.storage.get();
  return a.kind != Kind::Constant || std::memcmp(a.storage->data(), b.storage->data(), a.size_bytes) == 0;
}

size_t Program::difference(const Program& other) const {
  const size_t n = std::min(tape_.nodes.size(), other.tape_.nodes.size());
  if (!(args_ == other.args_)) return 0;
  for (size_t k = 0; k < n; ++k) {
    const NodeRecord &a = tape_.nodes[k], &b = other.tape_.nodes[k];
    if (a.op != b.op || a.n_args != b.n_args || a.last - a.first != b.last - b.first) return k;
    for (uint32_t i = 0; i < a.n_args; ++i) {
      const Box &x = tape_.boxes[a.args + i], &y = other.tape_.boxes[b.args + i];
      if (!(x == y)) return k;
      using K = Box::Kind;
      if (x.kind == K::Ints && !std::equal(tape_.ints.data() + x.integer, tape_.ints.data() + x.integer + x.count, other.tape_.ints.data() + y.integer)) return k;
      if (x.kind == K::Text && tape_.text.compare(static_cast<size_t>(x.integer), x.count, other.tape_.text, static_cast<size_t>(y.integer), y.count) != 0) return k;
      if (x.kind == K::Draw && tape_.generators[static_cast<size_t>(x.integer)].get() != other.tape_.generators[static_cast<size_t>(y.integer)].get()) return k;
    }
    for (uint32_t v = a.first; v < a.last; ++v) {
      const Tensor &x = tape_.values[v], &y = other.tape_.values[v];
      if (x.defined() != y.defined()) return k;
      if (!x.defined()) continue;
      const Buffer &p = buffers_[tape_.buffer_of[v]], &q = other.buffers_[other.tape_.buffer_of[v]];
      if (tape_.buffer_of[v] != other.tape_.buffer_of[v] || !same_memory(p, q) || x.dtype() != y.dtype() ||
          !(x.sizes() == y.sizes()) || !(x.strides() == y.strides()) || x.offset() != y.offset())
        return k;
    }
  }
  if (n != tape_.nodes.size() || n != other.tape_.nodes.size() || !(outs_ == other.outs_) || spent_ != other.spent_ || !(gradients_ == other.gradients_)) return n;
  return kSame;
}

}  // namespace fl::graph
