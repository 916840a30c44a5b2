#include "bindings/hooks.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "autograd/saved_tensor.h"
#include "bindings/args.h"
#include "bindings/tensor_object.h"
#include "graph/program.h"

namespace nb = nanobind;

namespace fl::py {

HookCell::~HookCell() {
  locks::when_unlocked(cell_.detach(), [](void* p) {
    const auto cell = Ref<Callable>::adopt(static_cast<Callable*>(p));
    if (!Py_IsInitialized()) return;
    GilAcquire gil;
    cell->clear();
  });
}

Tensor PyTensorHook::call(const Tensor& grad) {
  GilAcquire gil;
  if (!fn.get()) return {};
  const nb::object callee = nb::borrow(fn.get());  // the hook may remove itself
  const Owned arg(wrap(grad));
  const Owned result(call_with(callee.ptr(), arg.object));
  if (!result.object) throw PyException();
  if (is_tensor(result.object)) return tensor_of(result.object);
  if (result.object != Py_None)
    raise<TypeMismatch>(name(), ": returned ", Py_TYPE(result.object)->tp_name, "; expected None or a Tensor");
  return {};
}

std::string PyTensorHook::name() const {
  GilAcquire gil;
  const Owned name(fn.get() ? PyObject_GetAttrString(fn.get(), "__qualname__") : nullptr);
  PyErr_Clear();
  return name.object && PyUnicode_Check(name.object) ? "hook '" + utf8(name.object) + "'" : "hook";
}

namespace {

PyObject* tuple_of(const std::vector<Tensor>& ts) {
  std::vector<Tensor> copy = ts;
  return wrap_list(std::move(copy));
}
Tensor checked(const char* what, Tensor g, const Tensor& before) {
  if (g.defined() && !before.defined()) raise<AutogradError>(what, ": returned a gradient where there was none; expected None");
  if (g.defined()) check_hook_result(what, g, before);
  return g;
}
void replace(std::vector<Tensor>& ts, PyObject* result, const char* what) {
  if (result == Py_None) return;
  if (ts.size() == 1 && is_tensor(result)) {
    ts[0] = checked(what, tensor_of(result), ts[0]);
    return;
  }
  if (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) != static_cast<Py_ssize_t>(ts.size()))
    raise<TypeMismatch>(what, ": expected None or a tuple of ", ts.size(), " gradients");
  for (size_t i = 0; i < ts.size(); ++i) {
    PyObject* o = PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i));
    ts[i] = o == Py_None ? Tensor() : checked(what, plain_tensor(o, what, "gradient"), ts[i]);
  }
}

}  // namespace

void PyNodeHook::before(std::vector<Tensor>& grads) {
  if (!is_pre) return;
  GilAcquire gil;
  if (!fn.get()) return;
  const nb::object callee = nb::borrow(fn.get());
  const Owned args(tuple_of(grads));
  const Owned result(call_with(callee.ptr(), args.object));
  if (!result.object) throw PyException();
  replace(grads, result.object, "prehook");
}
void PyNodeHook::after(std::vector<Tensor>& grad_inputs, const std::vector<Tensor>& grad_outputs) {
  if (is_pre) return;
  GilAcquire gil;
  if (!fn.get()) return;
  const nb::object callee = nb::borrow(fn.get());
  const Owned a(tuple_of(grad_inputs)), b(tuple_of(grad_outputs));
  const Owned result(call_with(callee.ptr(), a.object, b.object));
  if (!result.object) throw PyException();
  replace(grad_inputs, result.object, "hook");
}

namespace {

// ---- of what nodes save

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
    const Owned result(call_with(fn, packed));
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
    PyObject* packed = call_with(pack_fn, arg.object);
    if (!packed) throw PyException();
    return make_ref<PyPacked>(packed, unpack_fn, x);
  }
  PyObject *pack_fn, *unpack_fn;
};
thread_local std::vector<Ref<SavedHooks>> hooks_of_saved;

thread_local std::optional<std::string> saved_hooks_refused;  // why none may be entered

// A single step of the interpreter each: see modes.cpp.
void enter_saved_hooks(nb::handle region) {
  if (saved_hooks_refused) {
    PyErr_SetString(PyExc_RuntimeError, saved_hooks_refused->c_str());
    throw nb::python_error();
  }
  const nb::object pack = region.attr("pack_hook"), unpack = region.attr("unpack_hook");
  for (const auto& [name, fn] : {std::pair("pack_hook", pack), std::pair("unpack_hook", unpack)})
    if (!PyCallable_Check(fn.ptr())) raise<TypeMismatch>("saved_tensors_hooks: ", name, " is a ", Py_TYPE(fn.ptr())->tp_name, "; expected a function");
  hooks_of_saved.push_back(make_ref<PySavedHooks>(pack.ptr(), unpack.ptr()));
  thread_modes().saved_hooks = hooks_of_saved.back().get();
}
void leave_saved_hooks(nb::handle, nb::args) {
  if (hooks_of_saved.empty()) throw nb::value_error("saved_tensors_hooks: this thread has none to leave");
  const Ref<SavedHooks> last = std::move(hooks_of_saved.back());  // freed when the list is right
  hooks_of_saved.pop_back();
  thread_modes().saved_hooks = hooks_of_saved.empty() ? nullptr : hooks_of_saved.back().get();
}
// (pack, unpack) of the innermost block of this thread, or None: a worker that computes for it enters the same.
nb::object saved_hooks() {
  if (hooks_of_saved.empty()) return nb::none();
  const auto& last = static_cast<const PySavedHooks&>(*hooks_of_saved.back());
  return nb::make_tuple(nb::borrow(last.pack_fn), nb::borrow(last.unpack_fn));
}

// ---- lists of hooks

// Removed hooks leave their lists when the next one is added: a list may be walked while one of its hooks removes itself.
template <class Hook, class List>
void drop_removed(List& list) {
  std::erase_if(list, [](const auto& entry) {
    if constexpr (requires { entry.hook; }) return static_cast<Hook*>(entry.hook.get())->fn.get() == nullptr;
    else return static_cast<Hook*>(entry.second.get())->fn.get() == nullptr;
  });
}

// Of a leaf. Backward copies the lists under the lock.
constexpr const char* kHooked = "it registers a hook of a tensor that lives on";

HookRemover add_leaf_hook(const Tensor& x, LeafHooks AutogradMeta::*list, PyObject* fn) {
  graph::note_change(x, kHooked);
  graph::note_object_change(x);
  AutogradMeta& meta = ensure_meta(x);
  auto hook = make_ref<PyTensorHook>(fn);
  const std::lock_guard lock(meta.mutex());
  drop_removed<PyTensorHook>(meta.*list);
  (meta.*list).emplace_back(next_hook_id(), hook);
  meta.hooked = true;
  return {hook->fn.cell(), Ref<WeakTensor>::share(&weak_of(x))};
}

HookRemover register_tensor_hook(nb::handle tensor, nb::callable fn) {
  const Tensor& x = plain_tensor(tensor.ptr(), "register_hook", "self");
  if (!requires_grad(x)) raise<AutogradError>("register_hook: cannot register a hook on a tensor that doesn't require gradient; it has shape ", x.sizes());
  track(tensor.ptr());
  const Ref<Node> node = grad_fn(x);
  if (!node) return add_leaf_hook(x, &AutogradMeta::hooks, fn.ptr());
  graph::note_change(x, kHooked);
  const bool noted = graph::note_object_change(x);
  auto hook = make_ref<PyTensorHook>(fn.ptr());
  NodeHooks& hooks = node->need_hooks();
  const std::lock_guard lock(node->mutex());
  drop_removed<PyTensorHook>(hooks.tensor);
  hooks.tensor.push_back({next_hook_id(), meta_of(x)->output_nr, hook});
  return {hook->fn.cell(), {}, noted};
}

HookRemover register_post_accumulate_hook(nb::handle tensor, nb::callable fn) {
  const Tensor& x = plain_tensor(tensor.ptr(), "register_post_accumulate_grad_hook", "self");
  if (!requires_grad(x) || !is_leaf(x))
    raise<AutogradError>("register_post_accumulate_grad_hook: post accumulate grad hooks cannot be registered on non-leaf tensors, nor on those that do not require grad");
  track(tensor.ptr());
  return add_leaf_hook(x, &AutogradMeta::post_accumulate, fn.ptr());
}

void retain_grad(nb::handle tensor) {
  const Tensor& x = plain_tensor(tensor.ptr(), "retain_grad", "self");
  if (!requires_grad(x)) raise<AutogradError>("retain_grad: can't retain_grad on Tensor that has requires_grad=False; it has shape ", x.sizes());
  const Ref<Node> node = grad_fn(x);
  if (!node || std::exchange(ensure_meta(x).retains_grad, true)) return;
  graph::note_change(x, kHooked);
  graph::note_object_change(x);
  auto weak = Ref<WeakTensor>::share(&weak_of(x));
  NodeHooks& hooks = node->need_hooks();
  const std::lock_guard lock(node->mutex());
  hooks.retain.emplace_back(meta_of(x)->output_nr, std::move(weak));
}

}  // namespace

HookRemover add_node_hook(Node& node, PyObject* fn, bool pre) {
  auto hook = make_ref<PyNodeHook>(fn, pre);
  NodeHooks& hooks = node.need_hooks();
  const std::lock_guard lock(node.mutex());
  drop_removed<PyNodeHook>(hooks.node);
  hooks.node.emplace_back(next_hook_id(), hook);
  graph::note_object_change();  // of whichever tensors the node is the history
  return {hook->fn.cell(), {}, true};
}

void HookRemover::remove() {
  if (const Tensor x = leaf ? leaf->lock() : Tensor(); x.defined()) {
    graph::note_change(x, "it removes a hook of a tensor that lives on");
    graph::note_object_change(x);
  }
  if (std::exchange(noted, false)) graph::note_object_change();
  leaf = {};
  callable->clear();
}

std::vector<uint64_t> hooks_of_leaf(const Tensor& x) {
  std::vector<uint64_t> ids;
  AutogradMeta* meta = meta_of(x);
  if (!meta || !meta->hooked.load(std::memory_order_relaxed)) return ids;
  const std::lock_guard lock(meta->mutex());
  for (auto* list : {&meta->hooks, &meta->post_accumulate})
    for (const auto& [id, hook] : *list)
      if (static_cast<PyTensorHook&>(*hook).fn.get()) ids.push_back(id);
  return ids;
}

void init_hooks(nb::module_& m) {
  nb::class_<HookRemover>(m, "HookRemover").def("remove", &HookRemover::remove);
  m.def("register_tensor_hook", &register_tensor_hook);
  m.def("register_post_accumulate_hook", &register_post_accumulate_hook);
  m.def("retain_grad", &retain_grad);
  m.def("enter_saved_hooks", &enter_saved_hooks);
  m.def("leave_saved_hooks", &leave_saved_hooks);
  m.def("refuse_saved_hooks", [](std::optional<std::string> why) { return std::exchange(saved_hooks_refused, std::move(why)); }, nb::arg("why").none());
  m.def("saved_hooks", &saved_hooks);
}

}  // namespace fl::py
