#include "bindings/function.h"

#include <nanobind/stl/string.h>

#include "bindings/args.h"
#include "bindings/autograd.h"
#include "bindings/errors.h"
#include "bindings/tensor_object.h"
#include "dispatch/geometry.h"
#include "tensor/sparse.h"

namespace nb = nanobind;

namespace fl::py {

Tensor SavedList::unpack(size_t i) const {
  Tensor y = saved[i].unpack(*node, "saved_tensors");
  if (!leaves[i]) return y;
  Tensor leaf = leaves[i]->lock();
  const bool as_it_was = leaf.defined() && y.defined() && is_leaf(leaf) && &leaf.storage() == &y.storage() && leaf.sizes() == y.sizes() &&
                         leaf.strides() == y.strides() && leaf.offset() == y.offset();
  return as_it_was ? leaf : y;
}

void PyFunctionNode::apply(BackwardCall& call) {
  GilAcquire gil;
  if (!ctx_) raise_released(*this);  // a context without saved tensors may be asked again
  const Owned args(make_tuple(static_cast<Py_ssize_t>(call.in.size()), [&](Py_ssize_t k) {
    const auto i = static_cast<size_t>(k);
    return wrap(materialize ? metas[i].materialize(call.in[i], true) : call.in[i]);
  }));
  const Owned run(PyObject_GetAttrString(ctx_, "_run_backward"));
  const Owned returned(run.object ? call_python(run.object, args.object) : nullptr);
  PyObject* result = returned.object;
  if (!result) throw PyException();
  if (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) != static_cast<Py_ssize_t>(positions.size()))
    raise<AutogradError>(name_, ": backward returned an incorrect number of gradients (expected ", positions.size(), ", got ",
                         PyTuple_Check(result) ? PyTuple_GET_SIZE(result) : 1, "); one per argument of forward");
  for (size_t i = 0; i < positions.size(); ++i) {
    PyObject* o = PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i));
    if (o == Py_None) continue;
    if (!is_tensor(o)) raise<AutogradError>(name_, ": backward returned a ", Py_TYPE(o)->tp_name, " for argument ", i, "; expected Variable or None, that is a Tensor or None");
    const int edge = positions[i];
    if (edge < 0) raise<AutogradError>(name_, ": backward returned a gradient for argument ", i, ", which is no tensor; expected None");
    if (!edges[static_cast<size_t>(edge)].fn) continue;
    Tensor g = tensor_of(o);
    const OutMeta& want = inputs[static_cast<size_t>(edge)];
    if (is_sparse(g)) [[unlikely]] {
      if (!(g.sizes() == want.sizes) || g.dtype() != want.dtype)
        raise<AutogradError>(name_, ": backward returned a sparse gradient ", g.dtype(), " ", g.sizes(), " for argument ", i, ", which is ", want.dtype, " ", want.sizes,
                             "; expected equal shapes and types");
      call.set(static_cast<size_t>(edge), std::move(g));
      continue;
    }
    Fit fit;
    Tensor like = empty_strided(want.sizes, Dims(want.sizes.size()), want.dtype, Device{DeviceKind::Meta});
    if (!broadcasts_to(want.sizes, g.sizes()))
      raise<AutogradError>(name_, ": backward returned a gradient of shape ", g.sizes(), " for argument ", i, "; expected shape ", want.sizes);
    if (is_complex(g.dtype()) && !is_complex(want.dtype))
      raise<AutogradError>(name_, ": backward returned a gradient of ", g.dtype(), " for argument ", i, " of ", want.dtype, "; expected a real one (for example g.real)");
    fit.note(like, g);
    call.set(static_cast<size_t>(edge), fit.apply(g));
  }
}

namespace {

bool is_tracked_view(const Tensor& x) { return x.impl()->base && x.impl()->view_tracks_base; }

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
  auto edge_of_argument = [&](const Tensor& t) {
    size_t edge = 0;
    for (nb::handle a : nb::borrow<nb::sequence>(args))
      if (is_tensor(a.ptr())) {
        if (tensor_of(a.ptr()).same(t)) return edge;
        ++edge;
      }
    return edge;  // none
  };
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
    const Tensor& y = outs[i];
    if (!y.defined()) {
      node->metas.emplace_back();
      continue;
    }
    node->metas.emplace_back(y);
    const bool written = contains(dirty, y), part = written && is_tracked_view(y);
    if (written) {
      check_inplace(name.c_str(), y);
      bump_version(node->name(), y);
    }
    if (!is_inexact(y.dtype()) || contains(fixed, y)) continue;
    if (!part) {
      set_history(y, node, static_cast<uint32_t>(i));
      if (TensorImpl& impl = *y.impl(); impl.base && !written && shares_memory(impl, *impl.base)) impl.view_tracks_base = impl.from_function = true;
      continue;
    }
    if (outs.size() > 1)
      raise<AutogradError>(name, ": forward writes to a view of another tensor and returns ", outs.size(), " tensors; expected that view alone: clone() it, or take two Functions");
    rebase_history(y, node, edge_of_argument(y));
  }
  for (size_t i = 0; i < to_save.size(); ++i)
    if (const int nr = output_nr(to_save[i]); nr >= 0) saved->saved[i].save_output(to_save[i], static_cast<uint32_t>(nr));
  saved->node = node.get();
  node->saved = saved;
  node->saved_object = saved_object.inc_ref().ptr();
  return saved_object;
}

}  // namespace

void init_functions(nb::module_& m) {
  nb::class_<SavedList>(m, "SavedTensors").def("unpack", [](SavedList& list) {
    if (!list.node) throw nb::value_error("saved_tensors: the graph of this function is gone");
    nb::list out;
    for (size_t i = 0; i < list.saved.size(); ++i) out.append(nb::steal(wrap(list.unpack(i))));
    return nb::tuple(out);
  });
  m.def("finish_function", &finish_function);
}

}  // namespace fl::py
