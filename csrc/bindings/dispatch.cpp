#include "bindings/dispatch.h"

#include <nanobind/stl/string.h>

#include "autograd/meta.h"
#include "bindings/args.h"
#include "bindings/errors.h"
#include "bindings/gil.h"
#include "bindings/graph.h"
#include "bindings/objects.h"
#include "bindings/source.h"
#include "graph/recorder.h"

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

// Hands calls to a function of Python's.
class Handler final : public graph::Taker {
 public:
  explicit Handler(nb::handle function) : function_(Py_NewRef(function.ptr())) {}
  ~Handler() override {
    if (has_gil()) Py_DECREF(function_);  // a thread that ends in a region has none
  }
  void take(graph::TakenCall call) override {
    const GilAcquire gil;
    const nb::object taken = nb::cast(Taken(std::move(call)));
    const Taken& whole = nb::cast<const Taken&>(taken);
    const Owned made(call_with(function_, taken.ptr()));
    if (!made.object) throw PythonError{};
    const std::vector<Tensor> results = to_tensor_list(made.object, whole.node().op->name, "what __torch_dispatch__ returned");
    const char* const name = whole.node().op->name;
    if (results.size() != whole.n_outs()) raise<ArgumentError>(name, ": __torch_dispatch__ returned ", results.size(), " tensors; expected ", whole.n_outs());
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor &out = whole.out(i), &result = results[i];
      if (!(out.sizes() == result.sizes()) || out.dtype() != result.dtype() || !(out.device() == result.device()))
        raise<ArgumentError>(name, ": __torch_dispatch__ returned ", result.dtype(), " ", result.sizes(), " on ", result.device().str(), "; expected ", out.dtype(), " ",
                             out.sizes(), " on ", out.device().str(), ", as autograd knows the result already");
      if (!out.is_meta() && out.numel() > 0) copy_elements(out, result);
    }
  }

 private:
  PyObject* function_;
};

// Per thread, as recordings are.
struct Taking {
  Ref<graph::Recorder> recorder;
  std::unique_ptr<Handler> handler;
  Recording* outer = nullptr;
};
thread_local Taking taking;

}  // namespace

void init_dispatch(nb::module_& m) {
  nb::class_<Taken>(m, "Taken")
      .def_prop_ro("name", [](const Taken& t) { return t.node().op->name; })
      .def_prop_ro("ident", [](const Taken& t) { return t.node().op->ident; })
      .def_prop_ro("signature", [](const Taken& t) { return t.node().op->signature; })
      .def("args", &Taken::args)
      .def("writes", &Taken::writes)
      .def("sizes", &Taken::sizes)
      .def("run", &Taken::run);
  m.def("begin_taking", [](nb::handle function) {
    if (taking.recorder) raise<ArgumentError>("begin_taking: this thread's calls are taken already");
    {
      const GilRelease release;
      graph::settle_here();
    }
    taking = {make_ref<graph::Recorder>(), std::make_unique<Handler>(function), nullptr};
    taking.recorder->hand_to(taking.handler.get());
    taking.outer = std::exchange(recorder_here, taking.recorder.get());
  });
  m.def("end_taking", [] {
    if (!taking.recorder) return;
    if (recorder_here == taking.recorder.get()) recorder_here = graph::in_region() ? taking.outer : nullptr;
    graph::forget(*taking.recorder);
    taking = {};
  });
  // Whether calls are taken from here on; returns whether they were.
  m.def("set_taking", [](bool on) {
    if (!taking.recorder) return false;
    const bool before = recorder_here == taking.recorder.get();
    if (before != on) recorder_here = on ? taking.recorder.get() : nullptr;
    return before;
  });
}

}  // namespace fl::py
