#include "bindings/autograd.h"

#include <nanobind/stl/string.h>

#include <string>
#include <unordered_map>

#include "autograd/meta.h"
#include "autograd/recorded.h"
#include "autograd/sparse.h"
#include "bindings/args.h"
#include "bindings/collector.h"
#include "bindings/data.h"
#include "bindings/dispatch.h"
#include "bindings/function.h"
#include "bindings/hollow.h"
#include "bindings/hooks.h"
#include "wrappers/autocast.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

// The Python objects of nodes, each as long as somebody holds it: `y.grad_fn is y.grad_fn` then, as it was before. Under the GIL.
std::unordered_map<const Node*, PyObject*>& node_objects() {
  static auto& objects = *new std::unordered_map<const Node*, PyObject*>;
  return objects;
}

struct PyNodeRef {
  explicit PyNodeRef(Ref<Node> n) : node(std::move(n)) {}
  PyNodeRef(const PyNodeRef&) = delete;
  PyNodeRef& operator=(const PyNodeRef&) = delete;
  ~PyNodeRef() { node_objects().erase(node.get()); }
  Ref<Node> node;
};

Node* referred(PyObject* self) { return nb::inst_ready(self) ? nb::inst_ptr<PyNodeRef>(self)->node.get() : nullptr; }

int traverse_node_ref(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return traverse_node(referred(self), self, visit, arg);
}

int clear_node_ref(PyObject* self) {
  clear_node(referred(self));
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

// The dict of a node that programs may write what they like into.
nb::object metadata_of(Node& node) {
  NodeHooks& hooks = node.need_hooks();
  std::unique_ptr<NodeMetadata> fresh;
  if (!hooks.metadata) fresh = std::make_unique<PyNodeMetadata>(nb::dict().ptr());
  const std::lock_guard lock(node.mutex());
  if (!hooks.metadata) hooks.metadata = std::move(fresh);
  return nb::borrow(static_cast<PyNodeMetadata&>(*hooks.metadata).dict.get());
}

constexpr std::string_view kSaved = "_saved_";

// What a node keeps under a name, as `node._saved_self` shows it: a tensor, a number, a tuple.
struct SavedByName final : SavedVisitor {
  SavedByName(Node& n, std::string_view w) : node(n), wanted(w) {}
  using SavedVisitor::meet;
  void meet(const char* name, const SavedTensor& x) override {
    if (wanted == name) found = nb::steal(wrap(x.unpack(node, name)));
  }
  void meet(const char* name, const std::vector<SavedTensor>& xs) override {
    if (wanted != name) return;
    found = nb::steal(make_tuple(static_cast<Py_ssize_t>(xs.size()), [&](Py_ssize_t i) { return wrap(xs[static_cast<size_t>(i)].unpack(node, name)); }));
  }
  void meet_number(const char* name, const Scalar& x) override {
    if (wanted == name) found = nb::steal(python_number(x));
  }
  void meet_sizes(const char* name, IntList x) override {
    if (wanted == name) found = nb::steal(make_tuple(static_cast<Py_ssize_t>(x.size()), [&](Py_ssize_t i) { return PyLong_FromLongLong(x[static_cast<size_t>(i)]); }));
  }
  void meet_nothing(const char* name) override {
    if (wanted == name) found = nb::none();
  }
  Node& node;
  std::string_view wanted;
  nb::object found;
};

struct SavedNames final : SavedVisitor {
  using SavedVisitor::meet;
  void meet(const char* name, const SavedTensor&) override { names.append(std::string(kSaved) + name); }
  void meet(const char* name, const std::vector<SavedTensor>&) override { names.append(std::string(kSaved) + name); }
  void meet_number(const char* name, const Scalar&) override { names.append(std::string(kSaved) + name); }
  void meet_sizes(const char* name, IntList) override { names.append(std::string(kSaved) + name); }
  void meet_nothing(const char* name) override { names.append(std::string(kSaved) + name); }
  nb::list names;
};

// What is no attribute of nodes themselves: what this one keeps, or what the context of a custom Function has.
nb::object attribute_of_node(PyNodeRef& n, const std::string& name) {
  if (std::string_view(name).starts_with(kSaved)) {
    const std::string_view wanted = std::string_view(name).substr(kSaved.size());
    SavedByName look(*n.node, wanted == "input" ? "self" : wanted);
    n.node->show_saved(look);
    if (look.found.is_valid()) return look.found;
  }
  if (auto* function = dynamic_cast<PyFunctionNode*>(n.node.get()); function && function->ctx())
    return nb::borrow(function->ctx()).attr(name.c_str());
  throw nb::attribute_error(text("'", n.node->name(), "' object has no attribute '", name, "'").c_str());
}

nb::object names_of_node(nb::handle self) {
  SavedNames saved;
  nb::cast<PyNodeRef&>(self).node->show_saved(saved);
  nb::object names = nb::module_::import_("builtins").attr("object").attr("__dir__")(self);
  names.attr("extend")(saved.names);
  return names;
}

HookRemover hooked_node(Node& node, nb::callable fn, bool pre) {
  track_leaf(node);
  return add_node_hook(node, fn.ptr(), pre);
}

}  // namespace

namespace {

// Nodes have types of their names, so that programs that print or draw graphs find them there: MulBackward0 is a Node.
nb::handle type_of_node(const std::string& name) {
  static std::unordered_map<std::string, PyObject*> types;  // under the GIL; made once for each name and kept
  PyObject*& type = types[name];
  if (!type) {
    nb::handle base = nb::type<PyNodeRef>();
    nb::dict members;
    members["__module__"] = base.attr("__module__");
    members["__slots__"] = nb::make_tuple();
    type = nb::handle(reinterpret_cast<PyObject*>(&PyType_Type))(name, nb::make_tuple(base), members).release().ptr();
  }
  return type;
}

}  // namespace

PyObject* wrap_node(Ref<Node> node) {
  if (!node) Py_RETURN_NONE;
  const Node* key = node.get();
  if (const auto known = node_objects().find(key); known != node_objects().end()) return Py_NewRef(known->second);
  nb::object object = nb::inst_alloc(type_of_node(node->name()));
  new (nb::inst_ptr<PyNodeRef>(object)) PyNodeRef(std::move(node));
  nb::inst_mark_ready(object);
  node_objects().emplace(key, object.ptr());
  return object.release().ptr();
}

Ref<Node> node_of(const Tensor& x) { return requires_grad(x) ? gradient_edge(x).fn : Ref<Node>(); }

std::vector<Tensor> tensors_of(nb::handle list, bool none_allowed) {
  std::vector<Tensor> out;
  for (nb::handle o : nb::borrow<nb::sequence>(list)) {
    if (none_allowed && o.is_none()) out.emplace_back();
    else out.push_back(plain_tensor(o.ptr(), "autograd", "tensor"));
  }
  return out;
}

namespace {

nb::object run_part(SplitBackward& split, std::vector<Tensor> (SplitBackward::*part)()) {
  std::vector<Tensor> out;
  {
    note_source();
    GilRelease release;
    out = (split.*part)();
  }
  return nb::steal(wrap_list(std::move(out)));
}

}  // namespace

void init_autograd(nb::module_& m) {
  init_hooks(m);
  init_functions(m);

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
      .def("register_hook", [](PyNodeRef& n, nb::callable fn) { return hooked_node(*n.node, fn, false); })
      .def("register_prehook", [](PyNodeRef& n, nb::callable fn) { return hooked_node(*n.node, fn, true); })
      .def("_sequence_nr", [](const PyNodeRef& n) { return n.node->sequence; })
      .def_prop_ro("metadata", [](PyNodeRef& n) { return metadata_of(*n.node); })
      .def("__getattr__", attribute_of_node)
      .def("__dir__", [](nb::handle self) { return names_of_node(self); })
      .def("__repr__", [](const PyNodeRef& n) { return text("<", n.node->name(), " object at ", static_cast<const void*>(n.node.get()), ">"); });

  m.def("run_backward", [](nb::handle roots, nb::handle grads, bool retain, bool create, nb::handle inputs, bool accumulate, bool unused, bool leaf_hooks) {
    std::vector<Tensor> r = tensors_of(roots, false), g = tensors_of(grads, true), in = tensors_of(inputs, false), out;
    std::optional<TakenRegion> region;  // saved tensors may be hollow
    if (Hollow::any()) region.emplace();
    {
      note_source();
      GilRelease release;
      std::vector<std::pair<size_t, Tensor>> sparse;  // inputs, whose history is that of their values
      for (size_t i = 0; i < in.size(); ++i)
        if (is_sparse(in[i])) [[unlikely]] {
          sparse.emplace_back(i, in[i]);
          in[i] = Tensor(sparse_parts(in[i])->values);
        }
      out = run_backward(r, std::move(g), retain, create, in, accumulate, unused, leaf_hooks);
      for (const auto& [i, x] : sparse)
        if (i < out.size() && out[i].defined()) out[i] = with_values(x, *sparse_parts(x), std::move(out[i]));
    }
    return nb::steal(wrap_list(std::move(out)));
  },
        nb::arg("roots"), nb::arg("grads"), nb::arg("retain"), nb::arg("create"), nb::arg("inputs"), nb::arg("accumulate"), nb::arg("unused"),
        nb::arg("leaf_hooks") = true);

  m.def("keeps_graph", &keeps_graph);
  m.def("runs_for_inputs", &runs_for_inputs);
  m.def("stand_in", [](nb::handle x) { return nb::steal(wrap(stand_in(plain_tensor(x.ptr(), "stand_in", "x")))); });
  m.def("check_inplace", [](const char* op, nb::handle x) { check_inplace(op, plain_tensor(x.ptr(), "check_inplace", "x")); });
  m.def("lose_history", [](nb::handle x, std::string why, nb::handle from) {
    const Tensor t = plain_tensor(x.ptr(), "lose_history", "x");
    std::vector<Edge> more;  // now: t may be a source itself
    for (const Tensor& source : tensors_of(from, false))
      if (!source.same(t)) more.push_back(gradient_edge(source));
    lose_history(t, std::move(why));
    const Ref<Node> node = grad_fn(t);
    for (Edge& edge : more) node->edges.push_back(std::move(edge));
  });
  m.def("become_view", [](nb::handle x, nb::handle view) { become_view(plain_tensor(x.ptr(), "become_view", "x"), plain_tensor(view.ptr(), "become_view", "view")); });
  m.def("reshape_in_place", [](nb::handle x, nb::handle view) {
    reshape_in_place(plain_tensor(x.ptr(), "reshape_in_place", "x"), plain_tensor(view.ptr(), "reshape_in_place", "view"));
  });
  m.def("reaches_others", [](nb::handle roots, nb::handle leaves) { return reaches_others(tensors_of(roots, false), tensors_of(leaves, false)); });

  nb::class_<SplitBackward>(m, "SplitBackward")
      .def("__init__", [](SplitBackward* self, nb::handle roots, nb::handle grads, nb::handle first, nb::handle second) {
        new (self) SplitBackward(tensors_of(roots, false), tensors_of(grads, true), tensors_of(first, false), tensors_of(second, false));
      }, nb::arg("roots"), nb::arg("grads"), nb::arg("first"), nb::arg("second"))
      .def("first", [](SplitBackward& self) { return run_part(self, &SplitBackward::first); })
      .def("second", [](SplitBackward& self) { return run_part(self, &SplitBackward::second); });

  m.def("is_grad_enabled", [] { return thread_modes().asked_grad; });
  m.def("set_grad_enabled", &set_grad_mode);
  m.def("is_autocast_enabled", [] { return thread_modes().autocast; });
  m.def("set_autocast_enabled", [](bool on) { return std::exchange(thread_modes().autocast, on); });
  m.def("is_autocast_cache_enabled", [] { return autocast_settings().cache; });
  m.def("set_autocast_cache_enabled", [](bool on) { return std::exchange(autocast_settings().cache, on); });
  m.def("enter_autocast", &enter_autocast);
  m.def("leave_autocast", &leave_autocast);
  m.def("clear_autocast_cache", &clear_autocast_cache);
  m.def("anomaly", [] { return nb::make_tuple(anomaly.on.load(), anomaly.check_nan.load()); });
  m.def("is_inference_mode_enabled", [] { return inference_mode(); });

  // How many nodes hang from a tensor, the bytes that they keep of the forward pass (leaves', which live anyway, left out), the
  // line that made it, and the lines that made most nodes.
  m.def("graph_size", [](nb::handle tensor) {
    const Tensor x = plain_tensor(tensor.ptr(), "graph_size", "x");
    const GraphSize size = graph_size(x);
    nb::list lines;
    for (const auto& [line, nodes] : size.lines) lines.append(nb::make_tuple(describe_source(line), nodes));
    return nb::make_tuple(size.nodes, size.bytes, size.made_at ? describe_source(size.made_at) : std::string(), lines);
  });
  m.def("gradient_node", [](nb::handle tensor) {
    if (is_tensor(tensor.ptr())) track(tensor.ptr());  // the node may get hooks
    return nb::steal(wrap_node(node_of(plain_tensor(tensor.ptr(), "gradient_node", "x"))));
  });
}

}  // namespace fl::py
