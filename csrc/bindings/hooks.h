// Hooks whose callables are Python's: of tensors, of nodes, and of what nodes save.
#pragma once

#include <nanobind/nanobind.h>

#include "autograd/meta.h"
#include "bindings/errors.h"

namespace fl::py {

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
  ~HookCell();
  PyObject* get() const { return cell_->get(); }
  const Ref<Callable>& cell() const { return cell_; }

 private:
  Ref<Callable> cell_;
};

struct PyTensorHook final : TensorHook {
  explicit PyTensorHook(PyObject* f) : fn(f) {}
  Tensor call(const Tensor& grad) override;
  std::string name() const override;
  HookCell fn;
};

struct PyNodeHook final : NodeHook {
  PyNodeHook(PyObject* f, bool pre) : fn(f), is_pre(pre) {}
  void before(std::vector<Tensor>& grads) override;
  void after(std::vector<Tensor>& grad_inputs, const std::vector<Tensor>& grad_outputs) override;
  HookCell fn;
  bool is_pre;
};

struct PyNodeMetadata final : NodeMetadata {
  explicit PyNodeMetadata(PyObject* d) : dict(d) {}
  HookCell dict;
};

// What register_hook() returns: takes the hook away again.
struct HookRemover {
  Ref<Callable> callable;
  Ref<WeakTensor> leaf;  // of a leaf's hooks: programs that go through the leaf are to notice
  bool noted = false;    // of other hooks: programs were told of it
  void remove();
};

// Numbers of the hooks that a leaf has, none twice in a process.
std::vector<uint64_t> hooks_of_leaf(const Tensor& x);

HookRemover add_node_hook(Node& node, PyObject* fn, bool pre);
void init_hooks(nanobind::module_& m);

}  // namespace fl::py
