#include "autograd/meta.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/profile.h"
#include "dispatch/geometry.h"
#include "graph/program.h"
#include "op/as_strided_backward.h"
#include "op/as_strided_gather.h"
#include "op/as_strided_replace.h"
#include "op/cast.h"
#include "op/complex_of_pairs.h"
#include "op/real.h"
#include "op/sum_to.h"
#include "op/view_as_real.h"
#include "op/zeros_like.h"

namespace fl {

FL_HOT_THREAD_LOCAL constinit ThreadModes current_modes;
StripedMutex<LockRank::Leaf, 8> leaf_locks;
StripedMutex<LockRank::WeakTensor, 8> weak_tensor_locks;

AutogradMeta& ensure_meta(const Tensor& t) {
  auto& meta = t.impl()->meta;
  if (!meta) meta = std::make_unique<AutogradMeta>();
  return static_cast<AutogradMeta&>(*meta);
}

WeakTensor& weak_of(const Tensor& t) {
  AutogradMeta& meta = ensure_meta(t);
  if (!meta.weak) meta.weak = make_ref<WeakTensor>(t.impl());
  return *meta.weak;
}

Tensor WeakTensor::lock() {
  for (;; std::this_thread::yield()) {
    const std::lock_guard guard(weak_tensor_locks.of(this));
    if (!impl_) return {};
    if (impl_->try_retain()) return Tensor(Ref<TensorImpl>::adopt(impl_));
    if (!impl_->meta->hooked) return {};  // else its heir comes: the thread that dropped it is in bequeath()
  }
}

void AutogradMeta::bequeath(TensorImpl& dying) noexcept {
  const auto sink = Ref<AccumulateGrad>::adopt(accumulator.exchange(nullptr, std::memory_order_acq_rel));
  const bool wanted = sink && sink->use_count() > 1 && dying.requires_grad && !(hooks.empty() && post_accumulate.empty());
  if (wanted) try {
      auto heir = make_ref<TensorImpl>(dying);
      heir->meta = std::make_unique<AutogradMeta>();
      heir->requires_grad = true;
      heir->hold_weakly();
      auto& own = static_cast<AutogradMeta&>(*heir->meta);
      own.hooked = true;
      own.hooks.swap(hooks);
      own.post_accumulate.swap(post_accumulate);
      std::swap(own.grad, grad);
      std::swap(own.weak, weak);  // the sink has it, so there is one
      TensorImpl* const impl = heir.get();
      sink->adopt(std::move(heir));
      own.weak->point_to(impl);
      return;
    } catch (const std::bad_alloc&) {  // the hooks are lost: there is nobody to tell
    }
  if (weak) weak->point_to(nullptr);
}

AccumulateGrad::AccumulateGrad(Ref<WeakTensor> leaf) : Node(~uint64_t{0}, 1), leaf_(std::move(leaf)) {}

namespace {

// A base and a view of it. Where one of them is complex and the other one sees its parts, the complex one counts as pairs of real numbers,
// so that both have one kind of element.
struct Geometry {
  Dims base_sizes_, base_strides_;
  int64_t base_offset_;
  Dims sizes_, strides_;
  int64_t offset_;
  bool base_pairs_, view_pairs_;

  Geometry(const Tensor& base, const Tensor& view)
      : base_sizes_(base.sizes()), base_strides_(base.strides()), base_offset_(base.offset()), sizes_(view.sizes()),
        strides_(view.strides()), offset_(view.offset()), base_pairs_(is_complex(base.dtype()) && !is_complex(view.dtype())),
        view_pairs_(is_complex(view.dtype()) && !is_complex(base.dtype())) {
    if (base_pairs_) split(base_sizes_, base_strides_, base_offset_);
    if (view_pairs_) split(sizes_, strides_, offset_);
  }
  static void split(Dims& sizes, Dims& strides, int64_t& offset) {
    for (int i = 0; i < strides.size(); ++i) strides[i] *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    offset *= 2;
  }
  // Gradients as the geometry has them, and as the base or the view has them.
  static Tensor in(const Tensor& g, bool pairs) { return pairs ? op::view_as_real(g) : g; }
  static Tensor out(const Tensor& g, bool pairs) { return pairs ? op::complex_of_pairs(g) : g; }
  Tensor of_base(const Tensor& g) const {
    return out(op::as_strided_backward(in(g, view_pairs_), base_sizes_, base_strides_, base_offset_, sizes_, strides_, offset_), base_pairs_);
  }
  Tensor of_view(const Tensor& g) const {
    return out(op::as_strided_gather(in(g, base_pairs_), base_sizes_, base_strides_, base_offset_, sizes_, strides_, offset_), view_pairs_);
  }
  Tensor replaced(const Tensor& g, const Tensor& part) const {
    return out(op::as_strided_replace(in(g, base_pairs_), in(part, view_pairs_), base_sizes_, base_strides_, base_offset_, sizes_, strides_, offset_),
               base_pairs_);
  }
};

// Gradient of the view with the given geometry, put back into a zero gradient of the base.
class AsStridedBackward final : public Node {
 public:
  AsStridedBackward(const Tensor& base, const Tensor& view) : AsStridedBackward(Geometry(base, view), gradient_edge(base)) {}
  AsStridedBackward(const Geometry& geometry, Edge base) : geometry_(geometry) { edges.push_back(std::move(base)); }
  const char* name() const override { return "AsStridedBackward0"; }
  void apply(BackwardCall& call) override {
    call.set(0, geometry_.of_base(call.in[0]));
  }

 private:
  Geometry geometry_;
};

// Note [Writing to a view]
// `view.op_(other)` changes part of `base`. The base's new history is a CopySlices node: the gradient of
// the base outside the view passes through; the part inside goes through the op's own node.
//
//     base' = base with base'[view] = op(base[view], other)
//     grad_base = grad_base' with [view] replaced by op.grad_self(grad_base'[view]);  grad_other = op.grad_other(..)
//
// What the op's node saved of its own result has, in a second derivative, the history of base'[view]: were it the op's node itself, that node
// would run, and let go what it saved, once on its own and once more here.
class CopySlices final : public Node {
 public:
  // The base has the place of the view among the edges, or one of its own where the op does not read what it overwrites.
  CopySlices(const Tensor& base, const Tensor& view, Ref<Node> inner, size_t self)
      : geometry_(base, view), inner_(std::move(inner)), self_(std::min(self, inner_->edges.size())) {
    for (size_t i = 0; i < inner_->edges.size(); ++i) edges.push_back(i == self_ ? gradient_edge(base) : inner_->edges[i]);
    if (self_ == edges.size()) edges.push_back(gradient_edge(base));
    inner_->need_hooks().within = this;
  }
  ~CopySlices() override { inner_->hooks()->within = nullptr; }
  const char* name() const override { return "CopySlices"; }
  void apply(BackwardCall& call) override {
    if (released) raise_released(*this);
    const Tensor slice = geometry_.of_view(call.in[0]);
    BackwardCall inner;
    inner.in.push_back(slice);
    inner.out.resize(inner_->edges.size());
    inner.wanted = call.wanted;
    inner_->apply(inner);
    for (size_t i = 0; i < inner.out.size(); ++i)
      if (i != self_) call.set(i, inner.out[i]);
    if (call.needs(self_)) {
      const bool reached = self_ < inner.out.size() && inner.out[self_].defined();
      call.set(self_, geometry_.replaced(call.in[0], reached ? inner.out[self_] : op::zeros_like(slice)));
    }
  }
  void release_saved() override { inner_->release_saved(); inner_->released = true; }
  void show_saved(SavedVisitor& visitor) const override { inner_->show_saved(visitor); }
  bool divisible() const override { return inner_->divisible(); }
  void before_overwrite() override { inner_->before_overwrite(); }
  Ref<Node> view_of_result() { return make_ref<AsStridedBackward>(geometry_, Edge{Ref<Node>::share(this), 0}); }

 private:
  Geometry geometry_;
  Ref<Node> inner_;
  size_t self_;  // which edge is the base's
};

// The garbage collector reads the grad_fn of tensors on another thread, under the lock.
void replace_grad_fn(AutogradMeta& meta, Ref<Node> node) {
  if (!meta.grad_fn) {
    meta.grad_fn = std::move(node);
    return;
  }
  const std::lock_guard lock(meta.mutex());
  std::swap(meta.grad_fn, node);  // the old one goes with the argument, after the lock
}

// retain_grad() follows the tensor to its new producer.
void move_retain(const Tensor& t, Node* old, Node& node, uint32_t nr) {
  AutogradMeta& meta = *meta_of(t);
  if (!meta.retains_grad || !old || old == &node || !old->hooks()) return;
  Ref<WeakTensor> moved;
  {
    const std::lock_guard lock(old->mutex());
    auto& entries = old->hooks()->retain;
    const auto at = std::find_if(entries.begin(), entries.end(), [&](auto& e) { return e.second.get() == meta.weak.get(); });
    if (at == entries.end()) return;
    moved = std::move(at->second);
    entries.erase(at);
  }
  NodeHooks& hooks = node.need_hooks();
  const std::lock_guard lock(node.mutex());
  hooks.retain.emplace_back(nr, std::move(moved));
}

}  // namespace

Edge edge_of_result(Node& node, uint32_t nr) {
  const NodeHooks* hooks = node.hooks();
  if (hooks && hooks->within) return {static_cast<CopySlices*>(hooks->within)->view_of_result(), 0};
  return {Ref<Node>::share(&node), nr};
}

Tensor gradient_of(const Tensor& t) {
  AutogradMeta* meta = meta_of(t);
  if (!meta) return {};
  const std::lock_guard lock(meta->mutex());
  return meta->grad;
}

Tensor replace_gradient(const Tensor& t, Tensor grad) {
  AutogradMeta& meta = ensure_meta(t);
  const std::lock_guard lock(meta.mutex());
  std::swap(meta.grad, grad);
  return grad;
}

namespace {

// The history of a result whose graph was used up before anybody could go through it again: what a program returns.
class SpentNode final : public Node {
 public:
  explicit SpentNode(const char* name) : Node(1), name_(name) { released = true; }
  const char* name() const override { return name_; }
  void apply(BackwardCall&) override { raise_released(*this); }

 private:
  const char* name_;
};

// The history of a tensor that nobody knows: going through it raises, wherever the known one led.
class LostNode final : public Node {
 public:
  LostNode(std::string why, Edge known) : Node(1), why_(std::move(why)) { edges.push_back(std::move(known)); }
  const char* name() const override { return "NotImplemented"; }
  void apply(BackwardCall&) override { raise<AutogradError>("backward: ", why_); }

 private:
  std::string why_;
};

const graph::Autograd for_programs{
    gradient_of, replace_gradient,
    [](const Tensor& x) -> const char* {
      const Ref<Node> node = grad_fn(x);
      return node && node->released ? profile::interned(node->name()) : nullptr;
    },
    [](const Tensor& x, const char* name) { set_history(x, make_ref<SpentNode>(name), 0); },
    [](const Tensor& x) { return requires_grad(x); },
    [](const Tensor& x) { return requires_grad(x) && !is_leaf(x); }};
[[maybe_unused]] const bool known = (graph::autograd = &for_programs, true);

}  // namespace

void lose_history(const Tensor& t, std::string why) {
  graph::note_change(t, "it makes a history unknown");
  graph::note_object_change(t);
  set_history(t, make_ref<LostNode>(std::move(why), gradient_edge(t)), 0);
}

// A view's history is its base's as of the last write, also where that has none any more. Of a base that has got other memory since, it is
// known only if nothing was written before.
Ref<Node> grad_fn(const Tensor& t) {
  TensorImpl& impl = *t.impl();
  AutogradMeta* meta = static_cast<AutogradMeta*>(impl.meta.get());
  if (!impl.view_tracks_base) return meta ? meta->grad_fn : Ref<Node>();
  const bool follows = follows_base(impl), has_own = meta && meta->grad_fn;
  if (!has_own && !(follows && impl.base->requires_grad)) return {};
  const uint32_t version = noticed_var(impl).noticed();
  if (has_own && meta->view_version == version) return meta->grad_fn;
  const Tensor base(impl.base);
  AutogradMeta& own = ensure_meta(t);
  Ref<Node> node;
  if (follows && !impl.from_function) node = make_ref<AsStridedBackward>(base, t);
  else if (dynamic_cast<LostNode*>(own.grad_fn.get())) node = own.grad_fn;
  else if (follows)
    node = make_ref<LostNode>("this view was made by a custom Function, and its memory was written to since, of which the Function's backward knows nothing; "
                              "take the view's clone() before, or return a clone() from forward", Edge{own.grad_fn, own.output_nr});
  else node = make_ref<LostNode>("the memory of this view was written to, and then the tensor that it is a view of got other memory (`.data = ...`, set_), "
                                 "so that nobody knows the view's history; take the view's clone() before", Edge{own.grad_fn, own.output_nr});
  move_retain(t, own.grad_fn.get(), *node, 0);
  replace_grad_fn(own, std::move(node));
  own.output_nr = 0;
  own.view_version = version;
  impl.requires_grad = true;
  return own.grad_fn;
}

// Several threads may be first to use a leaf.
[[gnu::cold]] static AccumulateGrad* make_accumulator(const Tensor& t, AutogradMeta& meta) {
  const std::lock_guard lock(meta.mutex());
  AccumulateGrad* sink = meta.accumulator.load(std::memory_order_acquire);
  if (sink) return sink;
  sink = make_ref<AccumulateGrad>(Ref<WeakTensor>::share(&weak_of(t))).detach();
  meta.accumulator.store(sink, std::memory_order_release);
  return sink;
}

Edge gradient_edge(const Tensor& t) {
  if (Ref<Node> fn = grad_fn(t)) return {std::move(fn), meta_of(t)->output_nr};
  if (!requires_grad(t)) return {};
  AutogradMeta& meta = ensure_meta(t);
  AccumulateGrad* sink = meta.accumulator.load(std::memory_order_acquire);
  if (!sink) [[unlikely]] sink = make_accumulator(t, meta);
  return {Ref<AccumulateGrad>::share(sink), 0};
}

void set_history(const Tensor& t, Ref<Node> node, uint32_t nr) {
  AutogradMeta& meta = ensure_meta(t);
  move_retain(t, meta.grad_fn.get(), *node, nr);
  replace_grad_fn(meta, std::move(node));
  meta.output_nr = nr;
  meta.view_version = noticed_var(*t.impl()).noticed();
  t.impl()->requires_grad = true;
}

void set_requires_grad(const Tensor& t, bool on) {
  if (on && !is_inexact(t.dtype()))
    raise<AutogradError>("requires_grad: only Tensors of floating point and complex dtype can require gradients, not those of ", t.dtype());
  if (!on && !is_leaf(t))
    raise<AutogradError>("requires_grad: you can only change requires_grad flags of leaf variables; use y.detach() for a tensor that does not require grad");
  if (t.storage().birth().inference && on && !inference_mode())
    raise<AutogradError>("requires_grad: a tensor made in inference_mode can not require gradients; clone() it outside first");
  if (t.impl()->requires_grad != on) {
    graph::note_change(t, "it changes whether a tensor requires grad");
    graph::note_object_change(t);
  }
  if (on && is_leaf(t)) {
    ensure_meta(t);  // now: later several threads may be first to use the leaf
    t.impl()->requires_grad = true;
  }
  if (!on) t.impl()->requires_grad = false;
}

void track_view(const Tensor& view, const Tensor& x) {
  TensorImpl& impl = *view.impl();
  if (x.impl()->own_var) [[unlikely]] impl.own_var = x.impl()->own_var;
  const Ref<TensorImpl>& root = x.impl()->base ? x.impl()->base : x.ref();
  impl.base = root;
  // A view made without grad mode shares memory but not history: of what requires grad it is a leaf that does, too.
  impl.view_tracks_base = grad_enabled() && (x.impl()->base ? x.impl()->view_tracks_base : true);
  impl.from_function = x.impl()->from_function && follows_base(*x.impl());
  if (!grad_enabled() && requires_grad(x)) {
    ensure_meta(view);
    impl.requires_grad = true;
  }
}

void track_returned(const Tensor& returned, const Tensor& view, const Tensor& x) {
  if (!(returned.sizes() == view.sizes()) || returned.dtype() != view.dtype())
    raise<ArgumentError>("__torch_dispatch__ returned ", returned.dtype(), " ", returned.sizes(), "; expected ", view.dtype(), " ", view.sizes(), ", as a view of ", x.sizes(), " is");
  if (returned.same(x)) return;
  TensorImpl& impl = *returned.impl();
  if (impl.storage->is_hollow() && x.storage().is_hollow()) {  // there is no memory: where it lies is what we say
    impl.own_var = x.impl()->own_var;
    impl.storage->pretend(x.storage().size_bytes());
    impl.strides = view.strides();
    impl.offset = view.offset();
    impl.refresh();
  }
  if (shares_memory(impl, *x.impl())) track_view(returned, x);
}

void track_returned(const std::vector<Tensor>& returned, const std::vector<Tensor>& views, const Tensor& x) {
  if (returned.size() != views.size()) raise<ArgumentError>("__torch_dispatch__ returned ", returned.size(), " tensors; expected ", views.size());
  for (size_t i = 0; i < views.size(); ++i) track_returned(returned[i], views[i], x);
}

namespace {

struct StandIn final : Node {
  const char* name() const override { return "StandInBackward0"; }
  bool takes_sparse() const override { return true; }
  void apply(BackwardCall& call) override { call.set(0, std::move(call.in[0])); }
};

}  // namespace

Tensor stand_in(const Tensor& x) {
  Tensor y = alias(x);
  if (!grad_enabled() || !requires_grad(x)) return y;
  auto node = make_ref<StandIn>();
  node->edges.push_back(gradient_edge(x));
  set_history(y, std::move(node), 0);
  return y;
}

void check_inference(const char* op, const Tensor& x) {
  if (x.storage().birth().inference && !inference_mode())
    raise<AutogradError>(op, ": a tensor made in inference_mode can only be written in inference_mode; clone() it first");
}

void check_inplace(const char* op, const Tensor& x, bool one_value) {
  TensorImpl& impl = *x.impl();
  before_write(*impl.storage);
  if (!impl.storage->writable())
    raise<ArgumentError>(op, ": the tensor's memory is read-only (it came from a read-only array); clone() it first");
  for (int i = 0; i < x.ndim() && !one_value; ++i)
    if (x.strides()[i] == 0 && x.sizes()[i] > 1 && x.numel() > 0)
      raise<ArgumentError>(op, ": more than one element of the written-to tensor refers to a single memory location (shape ", x.sizes(), ", strides ",
                           x.strides(), ", from expand?); clone() it first");
  check_inference(op, x);
  for (const TensorImpl* written : {x.impl(), impl.base.get()})
    if (const auto* meta = written ? static_cast<const AutogradMeta*>(written->meta.get()) : nullptr; meta && meta->grad_fn) meta->grad_fn->before_overwrite();
  if (!grad_enabled()) {
    if (impl.base && impl.view_tracks_base && !follows_base(impl))  // a write to what is a view no more leaves its history its own
      if (AutogradMeta* meta = meta_of(x); meta && meta->grad_fn && meta->view_version == noticed_var(impl).noticed()) ++meta->view_version;
    return;
  }
  if (impl.base && !impl.view_tracks_base && impl.base->requires_grad)
    raise<AutogradError>(op, ": A view was created in no_grad mode and is being modified inplace with grad mode enabled, and its base requires grad; write to it under no_grad too, or make the view outside");
  if (impl.from_function && follows_base(impl))
    raise<AutogradError>(op, ": This view was created inside a custom Function, whose backward would know nothing of the write; write to its clone(), or return a clone() from forward");
  if (requires_grad(x) && is_leaf(x))
    raise<AutogradError>(op, ": a leaf Variable that requires grad is being used in an in-place operation; wrap the write in flambeau.no_grad(), or write to a clone()");
  if (impl.base && !follows_base(impl) && impl.view_tracks_base) return;  // its base has other memory by now
  if (impl.base && impl.view_tracks_base && !one_value) {
    const TensorImpl& base = *impl.base;
    const bool any = std::find(base.sizes.begin(), base.sizes.end(), 0) == base.sizes.end();
    for (int i = 0; i < base.sizes.size(); ++i)
      if (any && base.strides[i] == 0 && base.sizes[i] > 1)
        raise<ArgumentError>(op, ": this is a view of a tensor whose elements share places (shape ", base.sizes, ", strides ", base.strides,
                             ", from expand?); clone() it first");
  }
  // Also where the view alone requires grad, or is one of such a view: the leaf would be none any more.
  if (impl.base && impl.view_tracks_base && (impl.base->requires_grad || requires_grad(x)) && is_leaf(Tensor(impl.base)))
    raise<AutogradError>(op, ": a view of a leaf Variable that requires grad is being used in an in-place operation; wrap the write in flambeau.no_grad()");
}

void check_rebase(const char* op, const Tensor& x) {
  const TensorImpl& impl = *x.impl();
  if (impl.base && !impl.view_tracks_base && shares_memory(impl, *impl.base))
    raise<AutogradError>(op, ": what is written requires grad, and this view was made under no_grad, so that its base would not learn of it; make the view outside, or clone() it");
  if (birth_here.derivative > impl.storage->birth().derivative) [[unlikely]]
    raise<AutogradError>(op, ": inside of a function that func.grad (or vjp, jacrev, linearize ...) differentiates, a tensor ", x.sizes(),
                         " from outside of it is written, with what has a gradient, which it would keep; make the tensor inside, or clone() it there, and return it");
}

void rebase_history(const Tensor& x, Ref<Node> node, size_t self) {
  constexpr const char* kWhat = "it gives a tensor that lives on a history, by writing to it";
  graph::note_change(x, kWhat);
  graph::note_object_change(x);
  TensorImpl& impl = *x.impl();
  if (impl.base && follows_base(impl)) {
    const Tensor base(impl.base);
    graph::note_change(base, kWhat);
    set_history(base, make_ref<CopySlices>(base, x, std::move(node), self), 0);
    impl.requires_grad = true;
    if (AutogradMeta* meta = meta_of(x)) meta->view_version = noticed_var(impl).noticed() - 1;  // out of date
    (void)grad_fn(x);
    return;
  }
  set_history(x, std::move(node), 0);
}

void become_view(const Tensor& x, const Tensor& view) {
  TensorImpl &impl = *x.impl(), &made = *view.impl();
  if (impl.storage.get() != made.storage.get()) raise<ArgumentError>("a tensor of shape ", impl.sizes, " can become a view of itself alone");
  Ref<Node> node = grad_fn(view);
  if (!node) raise<ArgumentError>("a view without a history can not give one");
  const uint32_t nr = gradient_edge(view).nr;
  graph::note_change(x, "it gives a tensor that lives on a history, by changing its shape");
  graph::note_object_change(x);
  impl.sizes = made.sizes;
  impl.strides = made.strides;
  impl.offset = made.offset;
  impl.refresh();
  set_history(x, std::move(node), nr);
}

namespace {

// Stands before a node whose output has other sizes or another type by now.
struct Expected final : Node {
  Dims sizes_;
  DType dtype_;
  Expected(const Dims& sizes, DType dtype) : sizes_(sizes), dtype_(dtype) {}
  const char* name() const override { return "ExpectedBackward0"; }
  void apply(BackwardCall& call) override {
    Tensor g = std::move(call.in[0]);
    if (!(g.sizes() == sizes_)) {
      if (!broadcasts_to(sizes_, g.sizes()))
        raise<AutogradError>(edges[0].fn->name(), ": a gradient of shape ", g.sizes(), " for its output of shape ", sizes_,
                             "; that tensor was given another shape under no_grad, or other data, between forward and backward");
      g = op::sum_to(g, sizes_);
    }
    if (is_complex(g.dtype()) && !is_complex(dtype_)) g = op::real(g);
    call.set(0, g.dtype() == dtype_ ? std::move(g) : op::cast(g, dtype_));
  }
};

}  // namespace

void expect_gradient(const Tensor& x, const Dims& sizes, DType dtype) {
  const AutogradMeta* meta = meta_of(x);
  if (!meta || (x.sizes() == sizes && x.dtype() == dtype)) return;
  const Ref<Node> node = grad_fn(x);  // of a view, as it is before the change
  if (!node) return;
  auto expected = make_ref<Expected>(x.sizes(), x.dtype());
  expected->edges.push_back(gradient_edge(x));
  set_history(x, std::move(expected), 0);
}

void reshape_in_place(const Tensor& x, const Tensor& view) {
  TensorImpl &impl = *x.impl(), &made = *view.impl();
  if (impl.storage.get() != made.storage.get()) raise<ArgumentError>("a tensor of shape ", impl.sizes, " can become a view of itself alone");
  check_inference("a change of shape in place", x);
  graph::note_change(x, "it changes the shape of a tensor that lives on");
  graph::note_object_change(x);
  expect_gradient(x, made.sizes, impl.dtype);
  impl.sizes = made.sizes;
  impl.strides = made.strides;
  impl.offset = made.offset;
  impl.refresh();
}

}  // namespace fl
