#include "bindings/dispatch.h"

#include <nanobind/stl/string.h>

#include "autograd/meta.h"
#include "bindings/args.h"
#include "bindings/errors.h"
#include "bindings/gil.h"
#include "bindings/graph.h"
#include "bindings/hollow.h"
#include "bindings/objects.h"
#include "bindings/source.h"
#include "graph/recorder.h"
#include "wrappers/wrap.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

// What `__torch_dispatch__` is told of a call, and how it is run.
class Taken {
 public:
  explicit Taken(graph::TakenCall call) : call_(std::move(call)) {}
  const graph::NodeRecord& node() const { return call_.tape.nodes.front(); }
  size_t n_outs() const { return node().last - node().outs; }
  const Tensor& out(size_t i) const { return call_.given[node().outs + i]; }

  nb::tuple args() const {
    return nb::steal<nb::tuple>(make_tuple(node().n_args, [&](Py_ssize_t i) {
      return argument(call_.tape.boxes[node().args + static_cast<uint32_t>(i)]).release().ptr();
    }));
  }
  // Whether the op writes over an argument.
  bool writes() const {
    bool any = false;
    call_.tape.for_overwritten(node(), [&](uint32_t) { any = true; });
    return any;
  }
  bool is_given(const Tensor& x) const {
    return std::any_of(call_.given.begin(), call_.given.end(), [&](const Tensor& y) { return y.same(x); });
  }
  // Whether it is to be answered whole: what comes back are its results.
  bool whole() const { return !node().op->run; }
  // Of what it returns.
  nb::list sizes() const {
    nb::list all;
    for (size_t i = 0; i < n_outs(); ++i) all.append(out(i).defined() ? tuple_of(out(i).sizes()) : nb::none());
    return all;
  }
  // The op over these tensors in place of its own, in their order; what it writes to fresh outputs.
  nb::object run(nb::handle tensors) const {
    const auto given = nb::borrow<nb::sequence>(tensors);
    std::vector<Tensor> values = call_.given;
    if (nb::len(given) != node().outs) raise<ArgumentError>(node().op->name, ": ", nb::len(given), " tensors; expected ", node().outs);
    for (uint32_t v = 0; v < node().outs; ++v) {
      const nb::object o = given[v];
      if (o.is_none() && !values[v].defined()) continue;
      const Tensor x = plain_tensor(o.ptr(), node().op->name, "a tensor");
      const Tensor& own = values[v];
      if (!own.defined() || !(x.sizes() == own.sizes()) || x.dtype() != own.dtype() || !(x.device() == own.device()))
        raise<ArgumentError>(node().op->name, ": ", x.dtype(), " ", x.sizes(), " in place of ", own.dtype(), " ", own.sizes(),
                             "; expected tensors like those that the op was called with");
      values[v] = alias(x);
    }
    bool meta = false;
    for (uint32_t v = 0; v < node().last; ++v) {
      Tensor& x = values[v];
      if (!x.defined()) continue;
      if (v >= node().outs) x = empty_strided(x.sizes(), x.strides(), x.dtype(), x.device());
      meta |= x.is_meta();
    }
    std::vector<Ref<Generator>> draws;
    for (const Ref<Generator>& g : call_.tape.generators) {
      draws.push_back(make_ref<Generator>());
      draws.back()->set_state(g->state().first, g->state().second);
    }
    if (!meta) {
      const graph::Tape& tape = call_.tape;
      const graph::Frame frame{tape.boxes.data() + node().args, values.data(), tape.ints.data(), tape.text.data(), values.data() + node().outs, draws.data()};
      note_source();
      const GilRelease release;
      const graph::Pause pause;
      node().op->run(frame);
    }
    return nb::steal(wrap_list({values.begin() + node().outs, values.begin() + node().last}));
  }

 private:
  nb::object tensor(size_t v) const { return call_.given[v].defined() ? nb::steal(wrap(call_.given[v])) : nb::none(); }
  nb::object argument(const graph::Box& box) const {
    const auto first = static_cast<size_t>(box.integer);
    if (box.kind == graph::Box::Kind::Tensor) return tensor(first);
    if (box.kind != graph::Box::Kind::Tensors) return plain_argument(call_.tape, box);
    nb::list out;
    for (size_t i = 0; i < box.count; ++i) out.append(tensor(first + i));
    return out;
  }

  graph::TakenCall call_;
};

// What takes calls: `flambeau.compat._torch.overlay.utils._python_dispatch._take(taken, of_modes)`, kept once it is known.
PyObject* take_in_python() {
  static PyObject* function = nullptr;
  if (!function) {
    const Owned module(PyImport_ImportModule("flambeau.compat._torch.overlay.utils._python_dispatch"));
    function = module.object ? PyObject_GetAttrString(module.object, "_take") : nullptr;
    if (!function) throw PythonError{};
  }
  return function;
}

// Whether this thread's calls are taken; returns whether they were.
bool switched(bool on);
struct Switched {
  bool before;
  explicit Switched(bool on) : before(switched(on)) {}
  Switched(const Switched&) = delete;
  Switched& operator=(const Switched&) = delete;
  ~Switched() { switched(before); }
};

// Hands calls to modes, and to the classes of arguments.
class Handler final : public graph::Taker {
 public:
  bool modes = false;

  void take(graph::TakenCall call) override {
    const GilAcquire gil;
    const Inside inside;
    if (modes || std::any_of(call.given.begin(), call.given.end(), classed)) return ask(std::move(call));
    const graph::NodeRecord& node = call.tape.nodes.front();
    const auto n = static_cast<std::ptrdiff_t>(node.outs);
    if (std::any_of(call.given.begin(), call.given.end(), [](const Tensor& x) { return x.defined() && x.is_meta(); })) return;
    const graph::Tape& tape = call.tape;
    const graph::Frame frame{tape.boxes.data() + node.args, call.given.data(), tape.ints.data(), tape.text.data(), call.given.data() + n, tape.generators.data()};
    const GilRelease release;
    const graph::Pause pause;
    node.op->run(frame);
  }
  bool wants_all() override { return modes; }
  bool wants(const Tensor& x) override {
    if (x.storage().is_hollow()) return true;
    if (!x.impl()->pyobj) return false;
    const GilAcquire gil;
    return classed(x);
  }
  std::vector<Tensor> make(graph::TakenCall call) override {
    const GilAcquire gil;
    const Inside inside;
    const nb::object taken = nb::cast(Taken(std::move(call)));
    const Switched here(modes);
    const Owned made = call_python_part(taken, modes);
    std::vector<Tensor> results = results_of(made.object, name_of(taken));
    for (Tensor& y : results)
      if (y.impl()->meta || requires_grad(y) || given_to(taken, y)) y = alias(y);  // it will have a history of its own
      else keep(y);
    return results;
  }

 private:
  // Whether the object of a tensor, or the one that a hollow tensor had, is of a class with a `__torch_dispatch__`.
  static bool classed(const Tensor& x) {
    PyObject* const object = x.defined() ? x.impl()->pyobj : nullptr;
    return object ? Py_TYPE(object) != tensor_type && dispatches(Py_TYPE(object)) : is_hollow(x);
  }
  static const char* name_of(const nb::object& taken) { return nb::cast<const Taken&>(taken).node().op->name; }
  static bool given_to(const nb::object& taken, const Tensor& y) { return nb::cast<const Taken&>(taken).is_given(y); }

  static std::vector<Tensor> results_of(PyObject* made, const char* name) {
    const OverrideFlags plainly(kSubclassesOff);
    return to_tensor_list(made, name, "what __torch_dispatch__ returned");
  }

  static Owned call_python_part(const nb::object& taken, bool of_modes) {
    const OverrideFlags none(0);
    const Owned args(PyTuple_Pack(2, taken.ptr(), of_modes ? Py_True : Py_False));
    Owned made(args.object ? call_python(take_in_python(), args.object) : nullptr);
    if (!made.object) throw PythonError{};
    return made;
  }

  void ask(graph::TakenCall call) {
    const nb::object taken = nb::cast(Taken(std::move(call)));
    const Taken& whole = nb::cast<const Taken&>(taken);
    const Switched here(modes);  // which switch themselves off one by one
    const Owned made = call_python_part(taken, modes);
    const char* const name = whole.node().op->name;
    const std::vector<Tensor> results = results_of(made.object, name);
    if (results.size() != whole.n_outs()) raise<ArgumentError>(name, ": __torch_dispatch__ returned ", results.size(), " tensors; expected ", whole.n_outs());
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor &out = whole.out(i), &result = results[i];
      if (!(out.sizes() == result.sizes()) || out.dtype() != result.dtype() || !(out.device() == result.device()))
        raise<ArgumentError>(name, ": __torch_dispatch__ returned ", result.dtype(), " ", result.sizes(), " on ", result.device().str(), "; expected ", out.dtype(), " ",
                             out.sizes(), " on ", out.device().str(), ", as autograd knows the result already");
      if (classed(result) || is_hollow(result)) become(out, result, whole.is_given(result));
      else if (!out.is_meta() && out.numel() > 0) copy_elements(out, result);
    }
  }

  // The output, which nobody has seen, is the tensor that the class returned: its memory, and its object where that is new.
  static void become(const Tensor& out, const Tensor& result, bool given) {
    TensorImpl &to = *out.impl(), &from = *result.impl();
    to.storage = from.storage;
    to.own_var = from.own_var;
    to.strides = from.strides;
    to.offset = from.offset;
    to.refresh();
    if (given || from.meta || requires_grad(result) || to.pyobj) return;
    auto* const object = reinterpret_cast<TensorObject*>(from.pyobj);
    if (!object) return;
    to.pyobj = std::exchange(from.pyobj, nullptr);
    object->tensor = out;
    keep(out);
  }
  // The object of a result, until the call from Python that this is in has returned it.
  static void keep(const Tensor& result);
  // While a call is answered. One that no other is around of begins with what the last one left: a mode's region has no end of calls.
  struct Inside {
    Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside();
  };
};

// Per thread, as recordings are.
struct Taking {
  Ref<graph::Recorder> recorder;
  std::unique_ptr<Handler> handler;
  Recording* outer = nullptr;
  int regions = 0;
  int inside = 0;           // calls from Python whose results are being made
  std::vector<Owned> kept;  // objects of results of theirs
};
thread_local Taking taking;

void Handler::keep(const Tensor& result) {
  if (PyObject* const object = result.impl()->pyobj; object && Py_TYPE(object) != tensor_type) taking.kept.emplace_back(Py_NewRef(object));
}

// Those behind the first n. They may run programs as they go.
void drop_kept(size_t n) {
  while (taking.kept.size() > n) {
    const Owned last = std::move(taking.kept.back());
    taking.kept.pop_back();
  }
}

Handler::Inside::Inside() {
  if (taking.inside++ == 0) drop_kept(0);
}
Handler::Inside::~Inside() { --taking.inside; }

void enter() {
  if (taking.regions++ > 0) return;
  {
    const GilRelease release;
    graph::settle_here();
  }
  taking.recorder = make_ref<graph::Recorder>();
  taking.handler = std::make_unique<Handler>();
  taking.recorder->hand_to(taking.handler.get());
  taking.outer = recorder_here;
}

void leave() {
  if (--taking.regions > 0) return;
  if (!recorder_here || recorder_here == taking.recorder.get()) recorder_here = graph::in_region() ? taking.outer : nullptr;
  graph::forget(*taking.recorder);
  const Taking ended = std::exchange(taking, {});  // what it kept may run programs
}

bool switched(bool on) {
  if (!taking.recorder) return false;
  const bool before = recorder_here == taking.recorder.get();
  if (before != on) recorder_here = on ? taking.recorder.get() : nullptr;
  return before;
}

}  // namespace

bool dispatches(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_dispatch__");
  const Owned handler(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
  if (!handler.object) PyErr_Clear();
  return handler.object && handler.object != Py_None && handler.object != no_dispatch;
}

TakenRegion::TakenRegion() : before_(recorder_here), kept_(taking.kept.size()) {
  enter();
  switched(true);
  ++taking.inside;
}
TakenRegion::~TakenRegion() {
  --taking.inside;
  if (before_ != taking.recorder.get()) recorder_here = graph::in_region() ? before_ : nullptr;
  drop_kept(kept_);
  leave();
}

Tensor detached_hollow(const Tensor& x) {
  static const graph::OpInfo info{"detach", "detach", "detach(Tensor x) -> Tensor y"};
  const TakenRegion region;
  Tensor y;
  graph::handed_on(info, y, x);
  if (is_hollow(y)) y.impl()->own_var = x.impl()->own_var;
  return y;
}

namespace {

// make_hollow(cls, size, strides, dtype, device): a tensor of the class without memory.
nb::object make_hollow(nb::handle cls, nb::handle size, nb::handle strides, nb::handle dtype, nb::handle device) {
  constexpr const char* kName = "_make_wrapper_subclass";
  if (!PyType_Check(cls.ptr()) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls.ptr()), tensor_type)) raise<TypeMismatch>(kName, ": cls is no subclass of Tensor");
  auto* const type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  if (!dispatches(type)) raise<ArgumentError>(kName, ": class ", type->tp_name, " has no __torch_dispatch__; expected one, since there is nothing else to compute with");
  const Dims sizes = to_dims(size.ptr(), kName, "size");
  const int64_t numel = checked_numel(kName, sizes);
  if (sizes.size() > kMaxAxes) raise<ShapeError>(kName, ": size has ", sizes.size(), " axes; expected at most ", kMaxAxes);
  const Dims steps = strides.is_none() ? row_major(sizes) : to_dims(strides.ptr(), kName, "strides");
  if (steps.size() != sizes.size()) raise<ShapeError>(kName, ": size = ", sizes, ", strides = ", steps, "; expected equal lengths");
  const DType kind = dtype.is_none() ? default_dtype() : to_dtype(dtype.ptr(), kName, "dtype");
  const Device place = to_optional_device(device.is_none() ? nullptr : device.ptr(), kName, "device").value_or(Device{});
  require_device(place);
  const std::optional<Reach> touched = reach(sizes, steps, 0);
  if (!touched || touched->first < 0) raise<ShapeError>(kName, ": size = ", sizes, ", strides = ", steps, " reach past what memory can address, or before its start");
  const nb::dict attributes;
  auto storage = Storage::hollow(static_cast<size_t>(std::max(touched->end, numel)) * item_size(kind), place, make_ref<Hollow>(type, attributes.ptr()));
  Tensor x(make_ref<TensorImpl>(std::move(storage), sizes, steps, 0, kind));
  x.impl()->own_var = make_ref<OwnVar>();  // which its views share
  return nb::steal(wrap(std::move(x)));
}

}  // namespace

void init_dispatch(nb::module_& m) {
  m.def("make_hollow", &make_hollow, nb::arg("cls"), nb::arg("size"), nb::arg("strides").none(), nb::arg("dtype").none(), nb::arg("device").none());
  m.def("is_hollow", [](nb::handle x) { return is_tensor(x.ptr()) && is_hollow(tensor_of(x.ptr())); });
  // Whether one of a list of tensors is.
  m.def("any_hollow", [](nb::list tensors) {
    if (Hollow::any())
      for (nb::handle x : tensors)
        if (is_tensor(x.ptr()) && is_hollow(tensor_of(x.ptr()))) return true;
    return false;
  });
  nb::class_<Taken>(m, "Taken")
      .def_prop_ro("name", [](const Taken& t) { return t.node().op->name; })
      .def_prop_ro("ident", [](const Taken& t) { return t.node().op->ident; })
      .def_prop_ro("signature", [](const Taken& t) { return t.node().op->signature; })
      .def_prop_ro("whole", &Taken::whole)
      .def("args", &Taken::args)
      .def("writes", &Taken::writes)
      .def("sizes", &Taken::sizes)
      .def("run", &Taken::run);
  // Of modes: begin and end a region in which calls are taken. What set_taking returned before is to be set again behind it.
  m.def("begin_taking", &enter);
  m.def("end_taking", [] {
    if (taking.regions > 0) leave();
  });
  // Who is asked from here on: 0 nobody, 1 classes, 2 modes; returns what it was.
  m.def("set_taking", [](int who) {
    if (!taking.handler) return 0;
    const bool asks_modes = std::exchange(taking.handler->modes, who == 2);
    return !switched(who > 0) ? 0 : asks_modes ? 2 : 1;
  });
}

}  // namespace fl::py
