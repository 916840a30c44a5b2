#include "graph/program.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/raw.h"

namespace fl::graph {

std::atomic<uint64_t> objects_version{0};

Program::Geometry Program::geometry(const Tensor& x, uint32_t buffer) { return {buffer, x.dtype(), x.sizes(), x.strides(), x.offset()}; }

Ref<Program> Program::capture(const std::vector<Tensor>& args, const std::vector<Tensor>& outs, bool fold) {
  if (!recording()) raise<ArgumentError>("capture: nothing is being recorded");
  Recorder& recorder = Recorder::here();
  std::vector<Recorder::Gradient> watched = recorder.watched_gradients();
  auto program = make_ref<Program>();  // before the lock, since it enters a mutex of its own in the list
  std::vector<Tensor> made = outs;     // what lives on of what was made
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
  for (uint32_t i = 0; i < args.size(); ++i) {
    const uint32_t b = buffer_of(args[i]);
    p.args_.push_back(geometry(args[i], b));
    if (b == kNone) continue;
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
    if (b == kNone || (p.buffers_[b].kind != Kind::Internal && p.buffers_[b].kind != Kind::Output) || now.impl()->requires_grad)
      raise<ArgumentError>("it gives a tensor that lives on a gradient that it has not made, or that has a history");
    p.buffers_[b].kind = Kind::Output;
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
  if (fold) p.fold_batch_norms();
  for (Buffer& b : p.buffers_)
    if (b.kind == Kind::Internal && std::any_of(b.values.begin(), b.values.end(), [&](uint32_t v) { return may_defer(p.tape_.values[v].sizes()); })) b.kind = Kind::Image;
  std::vector<char> wanted(p.buffers_.size());
  for (uint32_t b = 0; b < wanted.size(); ++b) wanted[b] = !p.buffers_[b].inside();
  p.tape_.find_needed(wanted, p.runs_);
  for (uint32_t k = 0; k < p.tape_.nodes.size(); ++k) {
    const NodeRecord& node = p.tape_.nodes[k];
    for (uint32_t v = node.first; v < node.last; ++v)
      if (p.tape_.buffer_of[v] != kNone) p.buffers_[p.tape_.buffer_of[v]].last = k;
    p.tape_.for_overwritten(node, [&](uint32_t v) { p.buffers_[p.tape_.buffer_of[v]].written = true; });
  }
  for (uint32_t b = 0; b < recorder.n_buffers(); ++b)
    if (p.buffers_[b].kind == Kind::Fixed) p.buffers_[b].storage = Ref<Storage>::share(&recorder.storage(b));
  p.find_once();

  p.begins_.resize(p.tape_.nodes.size());
  p.ends_.resize(p.tape_.nodes.size());
  for (uint32_t b = 0; b < p.buffers_.size(); ++b) {
    if (p.buffers_[b].kind != Kind::Image) continue;
    uint32_t first = 0;
    auto uses = [&](const NodeRecord& node) {
      for (uint32_t v = node.first; v < node.last; ++v)
        if (p.tape_.buffer_of[v] == b) return true;
      return false;
    };
    while (first < p.tape_.nodes.size() && !uses(p.tape_.nodes[first])) ++first;
    if (first == p.tape_.nodes.size()) continue;
    p.begins_[first].push_back(b);
    p.ends_[p.buffers_[b].last].push_back(b);
  }

  // Who else owns what was made? Values of ours are not known to the recorder: each holds one reference.
  for (uint32_t b = 0; b < recorder.n_buffers(); ++b) {
    Buffer& buffer = p.buffers_[b];
    Storage& storage = recorder.storage(b);
    if (buffer.inside() || buffer.kind == Kind::Output) {
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

uint32_t Program::new_value(uint32_t buffer, const Tensor& like) {
  const auto v = static_cast<uint32_t>(tape_.values.size());
  tape_.values.push_back(like.defined() ? alias(like) : like);
  tape_.buffer_of.push_back(like.defined() ? buffer : kNone);
  tape_.next.push_back(kNone);
  if (like.defined()) buffers_[buffer].values.push_back(v);
  return v;
}

// x -> convolution -> batch_norm by running statistics -> y   becomes   fold_batch_norm -> weight, bias;  x -> convolution -> y
// in the places of the two nodes. The new weight and bias depend on parameters and statistics alone, so they are computed once.
void Program::fold_batch_norms() {
  const OpInfo *const convolution = find_op("convolution"), *const norm = find_op("batch_norm"), *const folding = find_op("fold_batch_norm");
  enum { X, Weight, Bias };                                   // arguments of a convolution
  enum { NormX, Mean, Var, NormWeight, NormBias, Training, Momentum, Eps };  // ... and of a batch norm
  std::vector<std::vector<uint32_t>> users(buffers_.size());
  for (uint32_t k = 0; k < tape_.nodes.size(); ++k)
    for (uint32_t v = tape_.nodes[k].first; v < tape_.nodes[k].last; ++v)
      if (const uint32_t b = tape_.buffer_of[v]; b != kNone && (users[b].empty() || users[b].back() != k)) users[b].push_back(k);
  const auto value_of = [&](const NodeRecord& node, int i) {
    const Box& box = tape_.boxes[node.args + static_cast<uint32_t>(i)];
    return box.kind == Box::Kind::Tensor ? static_cast<uint32_t>(box.integer) : kNone;
  };
  const auto stands = [&](uint32_t v) {  // a parameter or statistic
    if (v == kNone) return true;
    const Tensor& x = tape_.values[v];
    return buffers_[tape_.buffer_of[v]].kind == Kind::Fixed && x.dtype() == DType::Float32 && x.is_contiguous();
  };
  for (uint32_t k = 0; k < tape_.nodes.size(); ++k) {
    const NodeRecord after = tape_.nodes[k];
    if (after.op != norm || tape_.boxes[after.args + Training].integer != 0) continue;
    const uint32_t x = value_of(after, NormX), mean = value_of(after, Mean), var = value_of(after, Var), y = after.outs;
    if (mean == kNone || var == kNone || !stands(mean) || !stands(var) || !stands(value_of(after, NormWeight)) || !stands(value_of(after, NormBias))) continue;
    const uint32_t between = tape_.buffer_of[x];
    if (buffers_[between].kind != Kind::Internal || users[between].size() != 2 || users[between][1] != k) continue;
    const uint32_t c = users[between][0];
    const NodeRecord conv = tape_.nodes[c];
    if (conv.op != convolution || !stands(value_of(conv, Weight)) || !stands(value_of(conv, Bias))) continue;
    const Tensor made = tape_.values[conv.outs], normed = tape_.values[x], out = tape_.values[y];
    if (made.dtype() != DType::Float32 || !(made.sizes() == normed.sizes()) || !(made.strides() == normed.strides()) || !(made.strides() == out.strides())) continue;
    bool alone = true;  // the statistics that it keeps for a backward are nobody's, and nobody writes what is read
    for (uint32_t v = y + 1; v < after.last; ++v) alone &= tape_.buffer_of[v] == kNone || users[tape_.buffer_of[v]].size() == 1;
    const uint32_t in = value_of(conv, X);
    for (uint32_t j = c + 1; j < k; ++j) {
      if (tape_.nodes[j].op == norm && tape_.boxes[tape_.nodes[j].args + Training].integer == 0) continue;  // its statistics are only read
      tape_.for_overwritten(tape_.nodes[j], [&](uint32_t v) {
        for (const uint32_t other : {in, value_of(conv, Weight), value_of(conv, Bias), mean, var, value_of(after, NormWeight), value_of(after, NormBias)})
          alone &= other == kNone || tape_.buffer_of[v] != tape_.buffer_of[other];
      });
    }
    if (!alone) continue;

    const Tensor weight = tape_.values[value_of(conv, Weight)], channels = tape_.values[mean];
    const auto fresh = [&](const Tensor& like) {  // a buffer for a tensor of this geometry
      buffers_.push_back({Kind::Internal, kNone, static_cast<size_t>(like.numel()) * like.item_bytes(), 0, {}, {}});
      return static_cast<uint32_t>(buffers_.size() - 1);
    };
    const uint32_t w = fresh(weight), b = fresh(channels);
    const auto shape = [](const Tensor& x) { return Tensor(make_ref<TensorImpl>(Storage::allocate_now(static_cast<size_t>(x.numel()) * x.item_bytes(), Device{}), x.sizes(), x.strides(), 0, x.dtype())); };
    // The one becomes fold_batch_norm(weight, bias, mean, var, norm's weight, norm's bias, eps) -> w, b
    NodeRecord fold{folding, static_cast<uint32_t>(tape_.boxes.size()), 7, 0, 0, 0, after.source};
    fold.first = static_cast<uint32_t>(tape_.values.size());
    for (const uint32_t v : {value_of(conv, Weight), value_of(conv, Bias), mean, var, value_of(after, NormWeight), value_of(after, NormBias)}) {
      if (v == kNone) {
        tape_.boxes.emplace_back();
      } else {
        const Tensor same = tape_.values[v];
        tape_.boxes.emplace_back(Box::Kind::Tensor, new_value(tape_.buffer_of[v], same));
      }
    }
    tape_.boxes.push_back(Box(tape_.boxes[after.args + Eps]));
    fold.outs = new_value(w, shape(weight));
    new_value(b, shape(channels));
    fold.last = static_cast<uint32_t>(tape_.values.size());
    // The other becomes convolution(x, w, b, ...) -> y
    NodeRecord then{convolution, static_cast<uint32_t>(tape_.boxes.size()), conv.n_args, 0, 0, 0, conv.source};
    for (uint32_t i = 0; i < conv.n_args; ++i) tape_.boxes.push_back(Box(tape_.boxes[conv.args + i]));
    then.first = static_cast<uint32_t>(tape_.values.size());
    const Tensor given = tape_.values[in], new_w = tape_.values[fold.outs], new_b = tape_.values[fold.outs + 1];
    tape_.boxes[then.args + X] = Box(Box::Kind::Tensor, new_value(tape_.buffer_of[in], given));
    tape_.boxes[then.args + Weight] = Box(Box::Kind::Tensor, new_value(w, new_w));
    tape_.boxes[then.args + Bias] = Box(Box::Kind::Tensor, new_value(b, new_b));
    then.outs = new_value(tape_.buffer_of[y], out);
    then.last = static_cast<uint32_t>(tape_.values.size());
    tape_.nodes[c] = fold;
    tape_.nodes[k] = then;
    for (const uint32_t fresh_buffer : {w, b})
      for (const uint32_t v : buffers_[fresh_buffer].values) tape_.values[v].impl()->storage = nullptr;
  }
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
    for (uint32_t i = 0; i < node.n_args; ++i) once &= tape_.boxes[node.args + i].kind != Box::Kind::Draw;
    size_t given = 0, made = 0;
    for (uint32_t v = node.first; v < node.last && once; ++v) {
      const uint32_t b = tape_.buffer_of[v];
      if (b == kNone) continue;
      (v < node.outs ? given : made) += buffers_[b].size_bytes;
      once = v < node.outs ? stands(b) : (buffers_[b].kind == Kind::Internal || buffers_[b].kind == Kind::Image) && !buffers_[b].written;
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

void Program::place(const std::vector<std::pair<uint32_t, size_t>>& offsets, size_t total) {
  const std::lock_guard lock(mutex_);
  for (const auto& [b, offset] : offsets) {
    if (b >= buffers_.size() || buffers_[b].kind != Kind::Internal || offset % 64 != 0 || offset > total || buffers_[b].size_bytes > total - offset)
      raise<ArgumentError>("place: buffer ", b, " at ", offset, " of ", total, " bytes; expected an internal buffer within the arena");
    buffers_[b].offset = offset;
    buffers_[b].index = 0;
  }
  for (const Buffer& b : buffers_)
    if (b.kind == Kind::Internal && b.index == kNone) raise<ArgumentError>("place: not all internal buffers have a place");
  const Pause pause;
  arena_ = Storage::allocate_now(std::max<size_t>(total, 1), Device{});
}

bool Program::fits(const std::vector<Tensor>& args) const {
  if (args.size() != args_.size()) return false;
  for (size_t i = 0; i < args.size(); ++i) {
    const Tensor& x = args[i];
    const Geometry& g = args_[i];
    if (x.dtype() != g.dtype || x.offset() != g.offset || !(x.sizes() == g.sizes) || !(x.strides() == g.strides) || x.is_meta()) return false;
    if (g.buffer == kNone) continue;
    const Buffer& b = buffers_[g.buffer];
    if (x.storage().size_bytes() < b.size_bytes) return false;
    if (b.kind == Kind::Fixed) {
      if (&x.storage() != b.storage.get()) return false;
    } else if (&x.storage() != &args[b.index].storage() || (b.written && x.storage().shared_outside())) {
      return false;  // what was one memory is two now, or others read along
    }
  }
  for (const Gradient& g : gradients_)
    if (g.looked && autograd->grad(g.tensor(args)).impl() != g.before.impl()) return false;
  // What was apart must be apart, unless nobody writes it.
  for (const Buffer& a : buffers_) {
    if (a.kind != Kind::Argument) continue;
    const Storage* storage = &args[a.index].storage();
    for (const Buffer& b : buffers_) {
      const Storage* other = b.kind == Kind::Argument ? &args[b.index].storage() : b.kind == Kind::Fixed ? b.storage.get() : nullptr;
      if (&a != &b && storage == other && (a.written || b.written)) return false;
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

std::optional<std::vector<Tensor>> Program::run(const std::vector<Tensor>& args) {
  const Pause pause;  // a run inside of a region happens at once
  if (!arena_) raise<ArgumentError>("run: place() the internal buffers first");
  if (!fits(args)) return std::nullopt;
  for (const Buffer& b : buffers_) {
    if (b.kind != Kind::Argument && b.kind != Kind::Fixed) continue;
    Storage& storage = b.kind == Kind::Fixed ? *b.storage : args[b.index].storage();
    if (b.written) before_write(storage);
    storage.settle();
  }
  std::vector<Tensor> dropped;  // gradients of before; they go after the lock
  const std::lock_guard lock(mutex_);
  struct Letting {  // what is given and what is returned is not kept
    Program& p;
    ~Letting() {
      for (const Buffer& b : p.buffers_)
        if (b.kind == Kind::Argument || b.kind == Kind::Output || b.kind == Kind::Image || (b.kind == Kind::Constant && b.copied())) p.point(b, nullptr);
    }
  } const letting{*this};
  for (Buffer& b : buffers_) {
    switch (b.kind) {
      case Kind::Argument: point(b, args[b.index].impl()->storage); break;
      case Kind::Output: point(b, Storage::allocate_now(b.size_bytes, Device{})); break;
      case Kind::Internal: {
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
      case Kind::Image:
      case Kind::Kept: break;
    }
  }
  if (!once_.empty()) compute_once();
  for (const Gradient& g : gradients_)
    if (!g.looked) dropped.push_back(autograd->replace(g.tensor(args), Tensor()));  // as zero_grad() did
  const size_t n = tape_.nodes.size();
  auto use = [&](uint32_t b) { return Tape::Use{buffers_[b].last, !buffers_[b].inside()}; };
  // Nodes that go through memory together do so at the first of them.
  size_t begun = 0;
  auto begin = [&](size_t end) {
    for (; begun < end; ++begun)
      for (const uint32_t b : begins_[begun]) point(buffers_[b], Storage::allocate_now(buffers_[b].size_bytes, Device{}));
  };
  for (size_t k = 0, done = 1; k < n; k += done) {
    done = 1;
    const NodeRecord& node = tape_.nodes[k];
    begin(k + 1);
    if (!runs_[k]) {
      for (uint32_t i = 0; i < node.n_args; ++i)  // its numbers are drawn all the same, so that those after it stay as they are
        if (const Box& box = tape_.boxes[node.args + i]; box.kind == Box::Kind::Draw) generator_or_default(tape_.generators[static_cast<size_t>(box.integer)].get()).next();
      for (const uint32_t b : ends_[k]) point(buffers_[b], nullptr);
      continue;
    }
    if (node.op->check) node.op->check(tape_.frame_of(node));
    if (node.op->each) {
      size_t end = k + 1;
      while (end < n && (!runs_[end] || tape_.may_join(node, tape_.nodes[end]))) ++end;
      begin(end);
    }
    done = tape_.run_some(k, runs_, use);
    for (size_t j = k; j < k + done; ++j)
      for (const uint32_t b : ends_[j]) point(buffers_[b], nullptr);
    for (size_t j = k; j < k + done; ++j)
      if (runs_[j])
        tape_.for_overwritten(tape_.nodes[j], [&](uint32_t v) {
          if (!buffers_[tape_.buffer_of[v]].inside()) tape_.values[v].storage().written_by(tape_.nodes[j].op->name);
        });
  }
  auto fresh = [&](const Geometry& g) {
    const Tensor& any = tape_.values[buffers_[g.buffer].values.front()];
    return Tensor(make_ref<TensorImpl>(any.impl()->storage, g.sizes, g.strides, g.offset, g.dtype));
  };
  std::vector<Tensor> out;
  for (size_t i = 0; i < outs_.size(); ++i) {
    out.push_back(fresh(outs_[i]));
    if (spent_[i]) autograd->set_spent(out.back(), spent_[i]);
  }
  for (const Gradient& g : gradients_)
    if (g.end != Gradient::End::Same) dropped.push_back(autograd->replace(g.tensor(args), g.end == Gradient::End::Fresh ? fresh(g.geometry) : Tensor()));
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
