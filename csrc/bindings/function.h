// Custom functions: nodes whose backward is Python.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "autograd/saved_tensor.h"
#include "wrappers/wrap.h"
#include "bindings/objects.h"

namespace fl::py {

struct SavedList {
  std::vector<SavedTensor> saved;
  std::vector<Ref<WeakTensor>> leaves;  // that were saved: backward is handed them themselves while they live
  Tensor unpack(size_t i) const;        // saved[i], or the leaf that it was made of
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
  void apply(BackwardCall& call) override;
  void release_saved() override {
    if (!saved) return;
    for (auto& s : saved->saved) s.clear();
  }

  void show_saved(SavedVisitor& visitor) const override {
    if (saved) visitor.meet("saved_tensors", saved->saved);
  }
  bool divisible() const override { return false; }
  bool takes_sparse() const override { return true; }

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

void init_functions(nanobind::module_& m);

}  // namespace fl::py
