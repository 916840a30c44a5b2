#include "bindings/autograd.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <string>
#include <unordered_map>

#include "autograd/saved_tensor.h"
#include "bindings/args.h"
#include "bindings/types.h"
#include "wrappers/autocast.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

// A Python error on its way through C++ frames that may not hold the GIL.
struct PyException final : std::exception {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyException() { PyErr_Fetch(&type, &value, &trace); }
  PyException(const PyException& o) : type(o.type), value(o.value), trace(o.trace) {
    GilAcquire gil;
    Py_XINCREF(type);
    Py_XINCREF(value);
    Py_XINCREF(trace);
  }
  ~PyException() override {
    for (PyObject* o : {type, value, trace}) drop_from_anywhere(o);
  }
  void restore() {
    PyErr_Restore(std::exchange(type, nullptr), std::exchange(value, nullptr), std::exchange(trace, nullptr));
  }
  const char* what() const noexcept override { return "a Python exception"; }
};

// ---- where in the user's program we are (see engine/var.h)

struct SourceTable {
  struct Place {
    PyObject* code = nullptr;  // owned
    int lasti = 0;
  };
  std::vector<Place> places{Place{}};
  std::unordered_map<uint64_t, SourceId> ids;
};
SourceTable* sources = nullptr;
constexpr size_t kMaxSources = 1 << 16;
thread_local SourceId source_before_release = 0;

std::string own_folder;  // of the package

bool is_own(PyFrameObject* frame) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const bool own = file && !own_folder.empty() && std::strncmp(file, own_folder.data(), own_folder.size()) == 0;
  if (!file) PyErr_Clear();
  Py_DECREF(code);
  return own;
}

// The number of the place where a frame is; 0 when there are too many.
SourceId place_of(PyFrameObject* frame) {
  PyObject* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
#if PY_VERSION_HEX >= 0x030B0000
  const int lasti = PyFrame_GetLasti(frame);
#else
  const int lasti = PyFrame_GetLineNumber(frame);
#endif
  const uint64_t key = reinterpret_cast<uintptr_t>(code) * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(lasti);
  auto it = sources->ids.find(key);
  if (it != sources->ids.end() && sources->places[it->second].code == code && sources->places[it->second].lasti == lasti) {
    Py_DECREF(code);
    return it->second;
  }
  if (sources->places.size() >= kMaxSources) {  // a program that makes code for ever: later writes stay unnamed
    Py_DECREF(code);
    return 0;
  }
  const SourceId id = static_cast<SourceId>(sources->places.size());
  sources->places.push_back({code, lasti});
  sources->ids[key] = id;
  return id;
}

SourceId source_with_gil() {
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  return frame ? place_of(frame) : 0;
}

// The calls around the running line, without the package's own frames, for the profiler. Equal stacks have one
// number: stacks are paths in a tree whose entries are a place and the stack that called it.
struct StackTree {
  struct Entry {
    uint32_t caller = 0;
    SourceId place = 0;
  };
  std::vector<Entry> entries{Entry{}};
  std::unordered_map<uint64_t, uint32_t> ids;
};
StackTree* stacks = nullptr;
constexpr size_t kMaxStacks = 1 << 20, kMaxStackDepth = 64;  // of deeper ones the innermost calls are kept
thread_local uint32_t stack_before_release = 0;

uint32_t stack_with_gil() {
  SourceId places[kMaxStackDepth];  // the innermost first
  size_t depth = 0;
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return 0;
  Py_INCREF(frame);
  while (frame && depth < kMaxStackDepth) {
    if (!is_own(frame)) places[depth++] = place_of(frame);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  if (depth == 0) places[depth++] = source_with_gil();  // a program of the package's
  uint32_t id = 0;
  while (depth > 0) {
    const SourceId place = places[--depth];
    const auto [it, made] = stacks->ids.try_emplace(uint64_t{id} << 32 | place, static_cast<uint32_t>(stacks->entries.size()));
    if (made && stacks->entries.size() >= kMaxStacks) {
      stacks->ids.erase(it);
      return 0;
    }
    if (made) stacks->entries.push_back({id, place});
    id = it->second;
  }
  return id;
}

uint32_t find_stack() { return PyGILState_Check() ? stack_with_gil() : stack_before_release; }

SourceId find_source() {
  if (!PyGILState_Check()) return source_before_release;
  return source_with_gil();
}

std::string source_text(SourceId id) {
  if (id == 0 || !Py_IsInitialized()) return "";
  GilAcquire gil;
  if (id >= sources->places.size()) return "";
  const auto& place = sources->places[id];
  auto* code = reinterpret_cast<PyCodeObject*>(place.code);
#if PY_VERSION_HEX >= 0x030B0000
  const int line = PyCode_Addr2Line(code, place.lasti);
#else
  const int line = place.lasti;
#endif
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const char* function = PyUnicode_AsUTF8(code->co_name);
  if (!file || !function) {
    PyErr_Clear();
    return "";
  }
  std::string out = text(file, ":", line, ", in ", function);
  // The line itself, where linecache has it.
  PyObject* linecache = PyImport_ImportModule("linecache");
  PyObject* got = linecache ? PyObject_CallMethod(linecache, "getline", "Oi", code->co_filename, line) : nullptr;
  if (got) {
    PyObject* stripped = PyObject_CallMethod(got, "strip", nullptr);
    const char* s = stripped ? PyUnicode_AsUTF8(stripped) : nullptr;
    if (s && *s) out += std::string(" (`") + s + "`)";
    Py_XDECREF(stripped);
  }
  Py_XDECREF(got);
  Py_XDECREF(linecache);
  PyErr_Clear();
  return out;
}

// ---- hooks

// A hook's Python callable. The hook owns it and takes it along; a handle, which shares the cell, can only empty it. So a
// handle that the callable itself holds is no cycle. Touched with the GIL.
struct Callable final : RefCounted {
  explicit Callable(PyObject* f) : fn(Py_NewRef(f)) {}
  void clear() { Py_CLEAR(fn); }
  PyObject* get() const { return fn; }
  PyObject* fn;
};

class HookCell {
 public:
  explicit HookCell(PyObject* f) : cell_(make_ref<Callable>(f)) {}
  HookCell(const HookCell&) = delete;
  HookCell& operator=(const HookCell&) = delete;
  ~HookCell() {
    locks::when_unlocked(cell_.detach(), [](void* p) {
      const auto cell = Ref<Callable>::adopt(static_cast<Callable*>(p));
      if (!Py_IsInitialized()) return;
      GilAcquire gil;
      cell->clear();
    });
  }
  PyObject* get() const { return cell_->get(); }
  const Ref<Callable>& cell() const { return cell_; }

 private:
  Ref<Callable> cell_;
};

struct PyTensorHook final : TensorHook {
  explicit PyTensorHook(PyObject* f) : fn(f) {}
  Tensor call(const Tensor& grad) override {
    GilAcquire gil;
    if (!fn.get()) return {};
    const nb::object callee = nb::borrow(fn.get());  // the hook may remove itself
    const Owned arg(wrap(grad));
    const Owned result(PyObject_CallOneArg(callee.ptr(), arg.object));
    if (!result.object) throw PyException();
    if (is_tensor(result.object)) return tensor_of(result.object);
    if (result.object != Py_None && !ignore_result)
      raise<TypeMismatch>("hook: returned a ", Py_TYPE(result.object)->tp_name, "; expected None or a Tensor");
    return {};
  }
  HookCell fn;
  bool ignore_result = false;
};

struct PyNodeHook final : NodeHook {
  PyNodeHook(PyObject* f, bool pre) : fn(f), is_pre(pre) {}
  static PyObject* tuple_of(const std::vector<Tensor>& ts) {
    std::vector<Tensor> copy = ts;
    return wrap_list(std::move(copy));
  }
  static Tensor checked(const char* what, Tensor g, const Tensor& before) {
    if (g.defined() && !before.defined()) raise<AutogradError>(what, ": returned a gradient where there was none; expected None");
    return g.defined() ? like_gradient(what, std::move(g), before) : g;
  }
  static void replace(std::vector<Tensor>& ts, PyObject* result, const char* what) {
    if (result == Py_None) return;
    if (ts.size() == 1 && is_tensor(result)) {
      ts[0] = checked(what, tensor_of(result), ts[0]);
      return;
    }
    if (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) != static_cast<Py_ssize_t>(ts.size()))
      raise<TypeMismatch>(what, ": expected None or a tuple of ", ts.size(), " gradients");
    for (size_t i = 0; i < ts.size(); ++i) {
      PyObject* o = PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i));
      ts[i] = o == Py_None ? Tensor() : checked(what, to_tensor(o, what, "gradient"), ts[i]);
    }
  }
  void before(std::vector<Tensor>& grads) override {
    if (!is_pre) return;
    GilAcquire gil;
    if (!fn.get()) return;
    const nb::object callee = nb::borrow(fn.get());
    const Owned args(tuple_of(grads));
    const Owned result(PyObject_CallOneArg(callee.ptr(), args.object));
    if (!result.object) throw PyException();
    replace(grads, result.object, "prehook");
  }
  void after(std::vector<Tensor>& grad_inputs, const std::vector<Tensor>& grad_outputs) override {
    if (is_pre) return;
    GilAcquire gil;
    if (!fn.get()) return;
    const nb::object callee = nb::borrow(fn.get());
    const Owned a(tuple_of(grad_inputs)), b(tuple_of(grad_outputs));
    const Owned result(PyObject_CallFunctionObjArgs(callee.ptr(), a.object, b.object, nullptr));
    if (!result.object) throw PyException();
    replace(grad_inputs, result.object, "hook");
  }
  HookCell fn;
  bool is_pre;
};

// ---- hooks of saved tensors

struct PyPacked final : Packed {
  PyPacked(PyObject* object, PyObject* unpack, const Tensor& x)
      : packed(object), fn(unpack), sizes(x.sizes()), dtype(x.dtype()), device(x.device()) {
    Py_INCREF(fn);
  }
  ~PyPacked() override {
    for (PyObject* o : {packed, fn}) drop_from_anywhere(o);
  }
  Tensor unpack() override {
    GilAcquire gil;
    const Owned result(PyObject_CallOneArg(fn, packed));
    if (!result.object) throw PyException();
    if (!is_tensor(result.object))
      raise<TypeMismatch>("saved_tensors_hooks: unpack returned a ", Py_TYPE(result.object)->tp_name, "; expected a Tensor");
    const Tensor& x = tensor_of(result.object);
    if (!(x.sizes() == sizes) || x.dtype() != dtype || !(x.device() == device))  // kernels of backward rely on it
      raise<AutogradError>("saved_tensors_hooks: unpack returned ", x.dtype(), " ", x.sizes(), "; expected ", dtype, " ", sizes, ", as what was packed");
    return x;
  }
  PyObject *packed, *fn;
  Dims sizes;
  DType dtype;
  Device device;
};

struct PySavedHooks final : SavedHooks {
  PySavedHooks(PyObject* p, PyObject* u) : pack_fn(p), unpack_fn(u) {
    Py_INCREF(p);
    Py_INCREF(u);
  }
  ~PySavedHooks() override {
    for (PyObject* o : {pack_fn, unpack_fn}) drop_from_anywhere(o);
  }
  Ref<Packed> pack(const Tensor& x) override {
    GilAcquire gil;
    const Owned arg(wrap(x));
    PyObject* packed = PyObject_CallOneArg(pack_fn, arg.object);
    if (!packed) throw PyException();
    return make_ref<PyPacked>(packed, unpack_fn, x);
  }
  PyObject *pack_fn, *unpack_fn;
};
thread_local std::vector<Ref<SavedHooks>> hooks_of_saved;

void push_saved_hooks(nb::callable pack, nb::callable unpack) {
  hooks_of_saved.push_back(make_ref<PySavedHooks>(pack.ptr(), unpack.ptr()));
  thread_modes().saved_hooks = hooks_of_saved.back().get();
}
void pop_saved_hooks() {
  if (hooks_of_saved.empty()) throw nb::value_error("saved_tensors_hooks: this thread has none to leave");
  const Ref<SavedHooks> last = std::move(hooks_of_saved.back());  // freed when the list is right
  hooks_of_saved.pop_back();
  thread_modes().saved_hooks = hooks_of_saved.empty() ? nullptr : hooks_of_saved.back().get();
}

struct HookRemover {
  Ref<Callable> callable;
  void remove() { callable->clear(); }
};

// Removed hooks leave their lists when the next one is added: a list may be walked while one of its hooks removes itself.
template <class Hook, class List>
void drop_removed(List& list) {
  std::erase_if(list, [](const auto& entry) {
    if constexpr (requires { entry.hook; }) return static_cast<Hook*>(entry.hook.get())->fn.get() == nullptr;
    else return static_cast<Hook*>(entry.second.get())->fn.get() == nullptr;
  });
}

NodeHooks& hooks_of(Node& node) {
  if (!node.hooks) node.hooks = std::make_unique<NodeHooks>();
  return *node.hooks;
}

// ---- nodes

struct PyNodeRef {
  Ref<Node> node;
};

// ---- custom functions

struct SavedList {
  std::vector<SavedTensor> saved;
  std::vector<Ref<WeakTensor>> leaves;  // that were saved: backward is handed them themselves while they live
  // saved[i], or the leaf that it was made of.
  Tensor unpack(size_t i) const {
    Tensor y = saved[i].unpack(*node, "saved_tensors");
    if (!leaves[i]) return y;
    Tensor leaf = leaves[i]->lock();
    const bool as_it_was = leaf.defined() && y.defined() && is_leaf(leaf) && &leaf.storage() == &y.storage() && leaf.sizes() == y.sizes() &&
                           leaf.strides() == y.strides() && leaf.offset() == y.offset();
    return as_it_was ? leaf : y;
  }
  Node* node = nullptr;  // while it lives
};

class PyFunctionNode final : public Node {
 public:
  PyFunctionNode(PyObject* ctx, std::string name, uint32_t outputs) : Node(outputs), ctx_(ctx), name_(std::move(name)) { Py_INCREF(ctx); }
  ~PyFunctionNode() override {
    if (saved) saved->node = nullptr;
    drop_from_anywhere(saved_object);
    drop_from_anywhere(ctx_);
  }
  const char* name() const override { return name_.c_str(); }
  void apply(BackwardCall& call) override {
    GilAcquire gil;
    if (released || !ctx_) raise<AutogradError>(name_, ": the graph was already used by a backward; pass retain_graph=True to the first backward()");
    const Owned args(make_tuple(static_cast<Py_ssize_t>(call.in.size()), [&](Py_ssize_t k) {
      const auto i = static_cast<size_t>(k);
      return wrap(materialize ? metas[i].materialize(call.in[i]) : call.in[i]);
    }));
    const Owned run(PyObject_GetAttrString(ctx_, "_run_backward"));
    const Owned returned(run.object ? PyObject_Call(run.object, args.object, nullptr) : nullptr);
    PyObject* result = returned.object;
    if (!result) throw PyException();
    if (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) != static_cast<Py_ssize_t>(positions.size()))
      raise<AutogradError>(name_, ": backward returned ", PyTuple_Check(result) ? PyTuple_GET_SIZE(result) : 1, " gradients; expected ", positions.size(),
                           ", one per argument of forward");
    for (size_t i = 0; i < positions.size(); ++i) {
      PyObject* o = PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i));
      if (o == Py_None) continue;
      if (!is_tensor(o)) raise<AutogradError>(name_, ": backward returned a ", Py_TYPE(o)->tp_name, " for argument ", i, "; expected a Tensor or None");
      const int edge = positions[i];
      if (edge < 0) raise<AutogradError>(name_, ": backward returned a gradient for argument ", i, ", which is no tensor; expected None");
      if (!edges[static_cast<size_t>(edge)].fn) continue;
      Tensor g = tensor_of(o);
      const OutMeta& want = inputs[static_cast<size_t>(edge)];
      Fit fit;
      Tensor like = empty_strided(want.sizes, Dims(want.sizes.size()), want.dtype, Device{DeviceKind::Meta});
      if (!(g.sizes() == want.sizes)) {
        bool expandable = g.ndim() >= want.sizes.size();
        for (int k = 1; expandable && k <= want.sizes.size(); ++k)
          expandable = want.sizes[want.sizes.size() - k] == 1 || want.sizes[want.sizes.size() - k] == g.size(-k);
        if (!expandable)
          raise<AutogradError>(name_, ": backward returned a gradient of shape ", g.sizes(), " for argument ", i, " of shape ", want.sizes, "; expected equal shapes");
      }
      fit.note(like, g);
      call.set(static_cast<size_t>(edge), fit.apply(g));
    }
  }
  void release_saved() override {
    if (!saved) return;
    for (auto& s : saved->saved) s.clear();
  }

  PyObject* ctx() const { return ctx_; }
  void drop_ctx() { Py_CLEAR(ctx_); }  // with the GIL

  std::vector<int> positions;    // argument -> edge, -1 for what is no tensor
  std::vector<OutMeta> inputs, metas;
  bool materialize = true;
  SavedList* saved = nullptr;
  PyObject* saved_object = nullptr;

 private:
  PyObject* ctx_;
  std::string name_;
};

std::vector<Tensor> tensors_of(nb::handle list, bool none_allowed) {
  std::vector<Tensor> out;
  for (nb::handle o : nb::borrow<nb::sequence>(list)) {
    if (none_allowed && o.is_none()) out.emplace_back();
    else out.push_back(to_tensor(o.ptr(), "autograd", "tensor"));
  }
  return out;
}

// Makes a PyFunctionNode the history of `outputs`. `args`: forward's arguments; `dirty`, `fixed`: outputs
// that were written in place, and that are not differentiable; `save`: tensors to keep (or None).
nb::object finish_function(nb::handle ctx, const std::string& name, nb::handle args, nb::handle outputs, nb::handle dirty,
                           nb::handle fixed, nb::handle save, bool materialize) {
  std::vector<Tensor> outs = tensors_of(outputs, true);
  auto contains = [](nb::handle list, const Tensor& t) {
    for (nb::handle o : nb::borrow<nb::sequence>(list))
      if (is_tensor(o.ptr()) && tensor_of(o.ptr()).same(t)) return true;
    return false;
  };
  // The context may keep any of them.
  for (nb::handle list : {args, outputs})
    for (nb::handle o : nb::borrow<nb::sequence>(list))
      if (is_tensor(o.ptr())) track(o.ptr());
  auto node = make_ref<PyFunctionNode>(ctx.ptr(), name, static_cast<uint32_t>(outs.size()));
  node->materialize = materialize;
  for (nb::handle a : nb::borrow<nb::sequence>(args)) {
    if (!is_tensor(a.ptr())) {
      node->positions.push_back(-1);
      continue;
    }
    const Tensor& t = tensor_of(a.ptr());
    node->positions.push_back(static_cast<int>(node->edges.size()));
    node->edges.push_back(edge_of(t));
    node->inputs.emplace_back(t);
  }
  nb::object saved_object = nb::cast(new SavedList, nb::rv_policy::take_ownership);
  auto* saved = nb::cast<SavedList*>(saved_object);
  std::vector<Tensor> to_save = tensors_of(save, true);
  auto output_nr = [&](const Tensor& t) {
    for (size_t i = 0; i < outs.size(); ++i)
      if (t.defined() && outs[i].defined() && outs[i].same(t)) return static_cast<int>(i);
    return -1;
  };
  saved->saved.resize(to_save.size());
  saved->leaves.resize(to_save.size());
  for (size_t i = 0; i < to_save.size(); ++i) {  // inputs before histories change
    if (output_nr(to_save[i]) >= 0) continue;
    saved->saved[i].save(to_save[i]);
    if (to_save[i].defined() && is_leaf(to_save[i])) saved->leaves[i] = Ref<WeakTensor>::share(&weak_of(to_save[i]));
  }
  for (size_t i = 0; i < outs.size(); ++i) {
    if (!outs[i].defined()) {
      node->metas.emplace_back();
      continue;
    }
    node->metas.emplace_back(outs[i]);
    const bool written = contains(dirty, outs[i]);
    if (written) {
      const TensorImpl& impl = *outs[i].impl();
      if (impl.base && impl.view_tracks_base)
        raise<AutogradError>(name, ": mark_dirty on a view is not supported; clone() the view and return the clone");
      bump_version(node->name(), outs[i]);
    }
    if (is_float(outs[i].dtype()) && !contains(fixed, outs[i])) set_history(outs[i], node, static_cast<uint32_t>(i));
  }
  for (size_t i = 0; i < to_save.size(); ++i)
    if (const int nr = output_nr(to_save[i]); nr >= 0) saved->saved[i].save_output(to_save[i], static_cast<uint32_t>(nr));
  saved->node = node.get();
  node->saved = saved;
  node->saved_object = saved_object.inc_ref().ptr();
  return saved_object;
}

Ref<Node> node_of(const Tensor& x) { return requires_grad(x) ? gradient_edge(x).fn : Ref<Node>(); }

// ---- what the garbage collector is told

template <class Hook, class Base>
int visit_hook(Base& hook, visitproc visit, void* arg) {
  if (hook.use_count() == 1) Py_VISIT(static_cast<Hook&>(hook).fn.get());
  return 0;
}

// Visits what `root` and the nodes below it keep of Python, as far as each has one owner. Frees nothing, calls nothing.
int traverse_nodes(Node* root, visitproc visit, void* arg) {
  std::vector<Node*> stack;
  auto push = [&](Node* node) {
    if (node && node->use_count() == 1) stack.push_back(node);
  };
  push(root);
  while (!stack.empty()) {
    Node& node = *stack.back();
    stack.pop_back();
    if (node.hooks) {
      for (auto& entry : node.hooks->tensor)
        if (const int stop = visit_hook<PyTensorHook>(*entry.hook, visit, arg)) return stop;
      for (auto& [id, hook] : node.hooks->node)
        if (const int stop = visit_hook<PyNodeHook>(*hook, visit, arg)) return stop;
    }
    if (auto* function = dynamic_cast<PyFunctionNode*>(&node)) Py_VISIT(function->ctx());
    for (size_t i = 0; i < node.edges.size(); ++i) push(node.edges[i].fn.get());
  }
  return 0;
}

int traverse_node_ref(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? traverse_nodes(nb::inst_ptr<PyNodeRef>(self)->node.get(), visit, arg) : 0;
}

// The node stays, for whoever still asks for its name.
int clear_node_ref(PyObject* self) {
  Node* node = nb::inst_ready(self) ? nb::inst_ptr<PyNodeRef>(self)->node.get() : nullptr;
  if (!node || node->use_count() != 1) return 0;
  const auto hooks = std::move(node->hooks);
  if (auto* function = dynamic_cast<PyFunctionNode*>(node)) function->drop_ctx();
  node->edges.clear();
  return 0;
}

PyType_Slot node_ref_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_node_ref)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_node_ref)},
                                {0, nullptr}};

// Hooks of a leaf's node are the leaf's.
void track_leaf(Node& node) {
  auto* sink = dynamic_cast<AccumulateGrad*>(&node);
  Tensor leaf = sink ? sink->variable() : Tensor();
  if (!leaf.defined()) return;
  const Owned object(wrap(std::move(leaf)));
  if (object.object) track(object.object);
}

}  // namespace

void throw_python_error() { throw PyException(); }

PyObject* wrap_node(Ref<Node> node) {
  if (!node) Py_RETURN_NONE;
  return nb::cast(PyNodeRef{std::move(node)}).release().ptr();
}

bool owns_python(const Tensor& x) {
  const AutogradMeta* meta = meta_of(x);
  return meta && (!meta->hooks.empty() || !meta->post_accumulate.empty() || (meta->grad_fn && meta->grad_fn->hooks));
}

int traverse_owned(const Tensor& x, visitproc visit, void* arg) {
  // A chain of gradients of gradients, each its owner's alone. The lock keeps the rest as it is.
  AutogradMeta* outer = meta_of(x);
  if (!outer || x.ref()->use_count() != 1) return 0;
  const std::lock_guard lock(outer->mutex());
  for (AutogradMeta* meta = outer; meta;) {
    for (auto* list : {&meta->hooks, &meta->post_accumulate})
      for (auto& [id, hook] : *list)
        if (const int stop = visit_hook<PyTensorHook>(*hook, visit, arg)) return stop;
    if (const int stop = traverse_nodes(meta->accumulator.load(std::memory_order_acquire), visit, arg)) return stop;
    if (const int stop = traverse_nodes(meta->grad_fn.get(), visit, arg)) return stop;
    const Tensor& grad = meta->grad;
    meta = grad.defined() && grad.ref()->use_count() == 1 ? meta_of(grad) : nullptr;
  }
  return 0;
}

void clear_owned(const Tensor& x) {
  AutogradMeta* meta = meta_of(x);
  if (!meta || x.ref()->use_count() != 1) return;
  // Dropped after the lock, since it runs programs.
  Ref<Node> node;
  Tensor grad;
  decltype(meta->hooks) hooks, post_accumulate;
  std::unique_ptr<NodeHooks> sink_hooks;
  {
    const std::lock_guard lock(meta->mutex());
    hooks.swap(meta->hooks);
    post_accumulate.swap(meta->post_accumulate);
    std::swap(grad, meta->grad);
    if (meta->grad_fn && meta->grad_fn->use_count() == 1) std::swap(node, meta->grad_fn);
    AccumulateGrad* sink = meta->accumulator.load(std::memory_order_acquire);
    if (sink && sink->use_count() == 1) sink_hooks = std::move(sink->hooks);
  }
}

void set_own_folder(const char* folder) { own_folder = folder; }

void note_source() {
  source_before_release = source_with_gil();
  if (profile::on() || anomaly.on) [[unlikely]]
    stack_before_release = profile::options().stack || anomaly.on ? stack_with_gil() : 0;
}

std::vector<std::string> stack_lines(uint32_t stack) {
  std::vector<std::string> out;
  for (; stack; stack = stacks->entries[stack].caller) out.push_back(source_text(stacks->entries[stack].place));
  return out;
}

PyObject* translate_exception() {
  auto set = [](PyObject* type, const std::exception& e) { PyErr_SetString(type, e.what()); };
  try {
    throw;
  } catch (PyException& e) {
    e.restore();
  } catch (const PythonError&) {
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const ShapeError& e) {
    set(error_types.shape, e);
  } catch (const DTypeError& e) {
    set(error_types.dtype, e);
  } catch (const DeviceError& e) {
    set(error_types.device, e);
  } catch (const AutogradError& e) {
    set(error_types.autograd, e);
  } catch (const IndexError& e) {
    set(PyExc_IndexError, e);
  } catch (const ArgumentError& e) {
    set(PyExc_ValueError, e);
  } catch (const TypeMismatch& e) {
    set(PyExc_TypeError, e);
  } catch (const OutOfMemory& e) {
    set(PyExc_MemoryError, e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    set(PyExc_RuntimeError, e);
  }
  return nullptr;
}

void init_autograd(nb::module_& m) {
  sources = new SourceTable;
  stacks = new StackTree;
  current_source = find_source;
  describe_source = source_text;
  profile::current_stack = find_stack;
  stack_of_call = find_stack;
  describe_stack = [](uint32_t stack) {
    GilAcquire gil;
    std::string out;
    for (const std::string& line : stack_lines(stack)) out += (out.empty() ? "  " : "\n  ") + line;
    return out;
  };

  nb::class_<HookRemover>(m, "HookRemover").def("remove", &HookRemover::remove);

  nb::class_<PyNodeRef>(m, "Node", nb::type_slots(node_ref_slots))
      .def("name", [](const PyNodeRef& n) { return std::string(n.node->name()); })
      .def_prop_ro("next_functions",
                   [](const PyNodeRef& n) {
                     nb::list out;
                     for (size_t i = 0; i < n.node->edges.size(); ++i) {
                       const Edge& e = n.node->edges[i];
                       out.append(nb::make_tuple(nb::steal(wrap_node(e.fn)), e.nr));
                     }
                     return nb::tuple(out);
                   })
      .def_prop_ro("variable",
                   [](const PyNodeRef& n) -> nb::object {
                     auto* sink = dynamic_cast<AccumulateGrad*>(n.node.get());
                     if (!sink) throw nb::attribute_error("variable: only AccumulateGrad nodes have one");
                     return nb::steal(wrap(sink->variable()));
                   })
      .def("register_hook",
           [](PyNodeRef& n, nb::callable fn) {
             auto hook = make_ref<PyNodeHook>(fn.ptr(), false);
             drop_removed<PyNodeHook>(hooks_of(*n.node).node);
             hooks_of(*n.node).node.emplace_back(next_hook_id(), hook);
             track_leaf(*n.node);
             return HookRemover{hook->fn.cell()};
           })
      .def("register_prehook",
           [](PyNodeRef& n, nb::callable fn) {
             auto hook = make_ref<PyNodeHook>(fn.ptr(), true);
             drop_removed<PyNodeHook>(hooks_of(*n.node).node);
             hooks_of(*n.node).node.emplace_back(next_hook_id(), hook);
             track_leaf(*n.node);
             return HookRemover{hook->fn.cell()};
           })
      .def("__eq__", [](const PyNodeRef& a, nb::handle b) {
        PyNodeRef* other = nullptr;
        return nb::try_cast<PyNodeRef*>(b, other) && other && other->node.get() == a.node.get();
      }, nb::arg("other").none())
      .def("__hash__", [](const PyNodeRef& n) { return reinterpret_cast<uintptr_t>(n.node.get()) >> 4; })
      .def("__repr__", [](const PyNodeRef& n) { return text("<", n.node->name(), " at ", static_cast<const void*>(n.node.get()), ">"); });

  nb::class_<SavedList>(m, "SavedTensors").def("unpack", [](SavedList& list) {
    if (!list.node) throw nb::value_error("saved_tensors: the graph of this function is gone");
    nb::list out;
    for (size_t i = 0; i < list.saved.size(); ++i) out.append(nb::steal(wrap(list.unpack(i))));
    return nb::tuple(out);
  });
  m.def("finish_function", &finish_function);

  m.def("run_backward", [](nb::handle roots, nb::handle grads, bool retain, bool create, nb::handle inputs, bool accumulate, bool unused) {
    std::vector<Tensor> r = tensors_of(roots, false), g = tensors_of(grads, true), in = tensors_of(inputs, false), out;
    {
      note_source();
      GilRelease release;
      out = run_backward(r, std::move(g), retain, create, in, accumulate, unused);
    }
    return nb::steal(wrap_list(std::move(out)));
  });

  m.def("is_grad_enabled", [] { return thread_modes().grad; });
  m.def("set_grad_enabled", [](bool on) { return std::exchange(thread_modes().grad, on); });
  m.def("is_autocast_enabled", [] { return thread_modes().autocast; });
  m.def("set_autocast_enabled", [](bool on) { return std::exchange(thread_modes().autocast, on); });
  m.def("is_autocast_cache_enabled", [] { return autocast_settings().cache; });
  m.def("set_autocast_cache_enabled", [](bool on) { return std::exchange(autocast_settings().cache, on); });
  m.def("enter_autocast", &enter_autocast);
  m.def("leave_autocast", &leave_autocast);
  m.def("clear_autocast_cache", &clear_autocast_cache);
  m.def("push_saved_hooks", &push_saved_hooks);
  m.def("pop_saved_hooks", &pop_saved_hooks);
  m.def("saved_hooks_depth", [] { return hooks_of_saved.size(); });
  m.def("set_anomaly", [](bool on, bool check_nan) {
    anomaly.on = on;
    anomaly.check_nan = check_nan;
  });
  m.def("anomaly", [] { return nb::make_tuple(anomaly.on.load(), anomaly.check_nan.load()); });
  m.def("is_inference_mode_enabled", [] { return thread_modes().inference; });
  m.def("set_inference_mode", [](bool on) { return std::exchange(thread_modes().inference, on); });

  m.def("register_tensor_hook", [](nb::handle tensor, nb::callable fn) {
    const Tensor& x = to_tensor(tensor.ptr(), "register_hook", "self");
    if (!requires_grad(x)) raise<AutogradError>("register_hook: the tensor ", x.sizes(), " does not require grad, so no gradient will arrive");
    auto hook = make_ref<PyTensorHook>(fn.ptr());
    if (Ref<Node> node = grad_fn(x)) {
      drop_removed<PyTensorHook>(hooks_of(*node).tensor);
      hooks_of(*node).tensor.push_back({next_hook_id(), meta_of(x)->output_nr, hook});
    } else {
      drop_removed<PyTensorHook>(ensure_meta(x).hooks);
      ensure_meta(x).hooks.emplace_back(next_hook_id(), hook);
    }
    track(tensor.ptr());
    return HookRemover{hook->fn.cell()};
  });
  m.def("register_post_accumulate_hook", [](nb::handle tensor, nb::callable fn) {
    const Tensor& x = to_tensor(tensor.ptr(), "register_post_accumulate_grad_hook", "self");
    if (!requires_grad(x) || !is_leaf(x))
      raise<AutogradError>("register_post_accumulate_grad_hook: expected a leaf tensor that requires grad");
    auto hook = make_ref<PyTensorHook>(fn.ptr());
    hook->ignore_result = true;
    drop_removed<PyTensorHook>(ensure_meta(x).post_accumulate);
    ensure_meta(x).post_accumulate.emplace_back(next_hook_id(), hook);
    track(tensor.ptr());
    return HookRemover{hook->fn.cell()};
  });
  m.def("retain_grad", [](nb::handle tensor) {
    const Tensor& x = to_tensor(tensor.ptr(), "retain_grad", "self");
    if (!requires_grad(x)) raise<AutogradError>("retain_grad: the tensor ", x.sizes(), " does not require grad");
    Ref<Node> node = grad_fn(x);
    if (!node || ensure_meta(x).retains_grad) return;
    ensure_meta(x).retains_grad = true;
    hooks_of(*node).retain.emplace_back(meta_of(x)->output_nr, Ref<WeakTensor>::share(&weak_of(x)));
  });
  m.def("gradient_node", [](nb::handle tensor) {
    if (is_tensor(tensor.ptr())) track(tensor.ptr());  // the node may get hooks
    return nb::steal(wrap_node(node_of(to_tensor(tensor.ptr(), "gradient_node", "x"))));
  });
}

}  // namespace fl::py
