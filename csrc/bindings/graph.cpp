// Recordings as Python sees them, and single ops of the registry.
#include "bindings/graph.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/args.h"
#include "bindings/call_key.h"
#include "bindings/dispatch.h"
#include "bindings/errors.h"
#include "bindings/source.h"
#include "dispatch/chain.h"
#include "graph/program.h"
#include "wrappers/custom_call.h"
#include "wrappers/wrap.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

// What was recorded runs without the GIL.
template <class F>
void without(F&& f) {
  note_source();
  const GilRelease release;
  f();
}

}  // namespace

nb::object tuple_of(IntList values) {
  return nb::steal(make_tuple(static_cast<Py_ssize_t>(values.size()), [&](Py_ssize_t i) { return PyLong_FromLongLong(values[static_cast<size_t>(i)]); }));
}

nb::object plain_argument(const graph::Tape& tape, const graph::Box& box) {
  using Kind = graph::Box::Kind;
  const auto first = static_cast<size_t>(box.integer);
  const graph::Frame frame{&box, nullptr, tape.ints.data(), nullptr, nullptr, nullptr};
  switch (box.kind) {
    case Kind::Bool: return nb::bool_(box.integer != 0);
    case Kind::Int: return nb::int_(box.integer);
    case Kind::Float: return nb::float_(box.real);
    case Kind::Ints: return tuple_of({tape.ints.data() + first, box.count});
    case Kind::Text: return nb::str(tape.text.data() + first, box.count);
    case Kind::Type: return nb::borrow(dtype_object(static_cast<DType>(box.integer)));
    case Kind::Place: return nb::cast(graph::Unbox<Device>::get(frame, 0));
    case Kind::Complex: {
      const Scalar v = frame.scalar(0);
      return nb::steal(PyComplex_FromDoubles(v.as_double(), v.imaginary()));
    }
    default: return nb::none();
  }
}

namespace {

// ("value", 3), ("values", (1, 2)), ("dtype", float32), ("device", "cpu"), ("draw",), or the number, text, tuple or None itself.
nb::object argument(const graph::Tape& tape, const graph::Box& box) {
  using Kind = graph::Box::Kind;
  const auto first = static_cast<size_t>(box.integer);
  switch (box.kind) {
    case Kind::Tensor: return nb::make_tuple("value", box.integer);
    case Kind::Tensors: {
      nb::list values;
      for (size_t i = 0; i < box.count; ++i) values.append(tape.values[first + i].defined() ? nb::cast(first + i) : nb::none());
      return nb::make_tuple("values", nb::tuple(values));
    }
    case Kind::Type: return nb::make_tuple("dtype", plain_argument(tape, box));
    case Kind::Place: return nb::make_tuple("device", nb::cast(nb::str(plain_argument(tape, box))));
    case Kind::Draw: return nb::make_tuple("draw");
    default: return plain_argument(tape, box);
  }
}

// {"nodes": [(op, args, outs, writes, source)], "values": [(buffer, dtype, sizes, strides, offset) or None],
//  "buffers": [(bytes, is it an input, does somebody own it, a tensor of its bytes)]}, of what is recorded and not run yet.
nb::dict recorded() {
  nb::list nodes, values, buffers;
  nb::dict out;
  out["nodes"] = nodes;
  out["values"] = values;
  out["buffers"] = buffers;
  if (!graph::recording()) return out;
  auto& recorder = graph::Recorder::here();
  graph::Tape tape;
  std::vector<char> inputs, owned;
  {
    const std::lock_guard lock(recorder.mutex());
    tape = recorder.tape();
    for (uint32_t b = 0; b < recorder.n_buffers(); ++b) {
      inputs.push_back(recorder.is_input(b));
      owned.push_back(recorder.is_owned(b));
    }
  }
  std::vector<const Tensor*> of_buffer;
  for (size_t v = 0; v < tape.values.size(); ++v) {
    const Tensor& x = tape.values[v];
    if (!x.defined()) {
      values.append(nb::none());
      continue;
    }
    const uint32_t b = tape.buffer_of[v];
    if (b >= of_buffer.size()) of_buffer.resize(b + 1);
    of_buffer[b] = &x;
    values.append(nb::make_tuple(b, nb::borrow(dtype_object(x.dtype())), tuple_of(x.sizes()), tuple_of(x.strides()), x.offset()));
  }
  for (uint32_t b = 0; b < of_buffer.size(); ++b) {
    const Tensor& x = *of_buffer[b];
    buffers.append(nb::make_tuple(x.storage().size_bytes(), inputs[b] != 0, owned[b] != 0, nb::steal(wrap(alias(x)))));
  }
  for (const graph::NodeRecord& node : tape.nodes) {
    nb::list args, outs, writes;
    for (uint32_t i = 0; i < node.n_args; ++i) args.append(argument(tape, tape.boxes[node.args + i]));
    tape.for_overwritten(node, [&](uint32_t v) { writes.append(v); });
    for (uint32_t v = node.outs; v < node.last; ++v)
      if (tape.values[v].defined()) outs.append(v);
    nodes.append(nb::make_tuple(node.op->ident, nb::tuple(args), nb::tuple(outs), nb::tuple(writes), describe_source(node.source)));
  }
  return out;
}

// Arguments of one call, from Python's objects by the letters of the op.
class Call {
 public:
  Call(const graph::OpInfo& op, nb::handle args, nb::handle outs) : op_(op) {
    const auto given = nb::borrow<nb::tuple>(args);
    const std::string_view kinds = op.kinds;
    if (given.size() * 2 != kinds.size()) raise<ArgumentError>(op.ident, ": ", given.size(), " arguments; expected ", kinds.size() / 2, ": ", op.signature);
    for (size_t i = 0; i < given.size(); ++i) add(kinds[2 * i], kinds[2 * i + 1] == '?', given[i].ptr());
    n_args_ = tensors_.size();
    for (nb::handle o : nb::borrow<nb::tuple>(outs)) tensors_.push_back(plain_tensor(o.ptr(), op.ident, "out"));
    if (tensors_.size() - n_args_ != static_cast<size_t>(op.outs))
      raise<ArgumentError>(op.ident, ": ", tensors_.size() - n_args_, " outputs; expected ", op.outs);
  }
  void run() {
    const graph::Frame frame{boxes_.data(), tensors_.data(), ints_.data(), text_.data(), tensors_.data() + n_args_, generators_.data()};
    op_.run(frame);
  }

 private:
  using Kind = graph::Box::Kind;
  void add(char kind, bool may_lack, PyObject* o) {
    const char* arg = "an argument";
    if (o == Py_None && kind != 'g') {
      if (!may_lack) raise<TypeMismatch>(op_.ident, ": an argument is None: ", op_.signature);
      boxes_.emplace_back();
      return;
    }
    switch (kind) {
      case 'T': return tensor(plain_tensor(o, op_.ident, arg));
      case 'O':
        if (is_tensor(o)) return tensor(plain_tensor(o, op_.ident, arg));
        return number(to_scalar(o, op_.ident, arg));
      case 'L': {
        const auto list = nb::borrow<nb::tuple>(o);
        boxes_.emplace_back(Kind::Tensors, static_cast<int64_t>(tensors_.size()), static_cast<uint32_t>(list.size()));
        for (nb::handle x : list) tensors_.push_back(x.is_none() ? Tensor() : plain_tensor(x.ptr(), op_.ident, arg));
        return;
      }
      case 'i': boxes_.emplace_back(Kind::Int, to_int(o, op_.ident, arg)); return;
      case 'd': boxes_.emplace_back(to_double(o, op_.ident, arg)); return;
      case 'b': boxes_.emplace_back(Kind::Bool, to_bool(o, op_.ident, arg)); return;
      case 'n': return number(to_scalar(o, op_.ident, arg));
      case 'l': {
        const Dims dims = to_dims(o, op_.ident, arg);
        boxes_.emplace_back(Kind::Ints, static_cast<int64_t>(ints_.size()), static_cast<uint32_t>(dims.size()));
        ints_.insert(ints_.end(), dims.begin(), dims.end());
        return;
      }
      case 's': {
        const std::string_view s = to_string_view(o, op_.ident, arg);
        boxes_.emplace_back(Kind::Text, static_cast<int64_t>(text_.size()), static_cast<uint32_t>(s.size()));
        text_ += s;
        return;
      }
      case 'y': boxes_.emplace_back(Kind::Type, static_cast<int64_t>(to_dtype(o, op_.ident, arg))); return;
      case 'p': {
        const Device device = to_optional_device(o, op_.ident, arg).value_or(Device{});
        boxes_.emplace_back(Kind::Place, static_cast<int64_t>(device.kind) << 32 | static_cast<uint8_t>(device.index));
        return;
      }
      default:
        boxes_.emplace_back(Kind::Draw, static_cast<int64_t>(generators_.size()));
        generators_.push_back(Ref<Generator>::share(to_generator(o, op_.ident, arg)));
    }
  }
  void tensor(const Tensor& x) {
    boxes_.emplace_back(Kind::Tensor, static_cast<int64_t>(tensors_.size()));
    tensors_.push_back(x);
  }
  void number(Scalar v) {
    if (v.is_complex()) {
      boxes_.emplace_back(Kind::Complex, static_cast<int64_t>(ints_.size()), 2);
      for (double part : {v.as_double(), v.imaginary()}) ints_.push_back(std::bit_cast<int64_t>(part));
    } else if (v.is_float()) boxes_.emplace_back(v.as_double());
    else boxes_.emplace_back(v.kind() == Scalar::Kind::Bool ? Kind::Bool : Kind::Int, v.as_int());
  }

  const graph::OpInfo& op_;
  size_t n_args_ = 0;
  std::vector<graph::Box> boxes_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> ints_;
  std::string text_;
  std::vector<Ref<Generator>> generators_;
};

void run_node(const std::string& ident, nb::handle args, nb::handle outs) {
  const graph::OpInfo* op = graph::find_op(ident);
  if (!op) raise<ArgumentError>("run_node: op '", ident, "' is not in the registry");
  Call call(*op, args, outs);
  without([&] {
    graph::settle_here();
    const graph::Pause pause;
    call.run();
  });
}

struct PyProgram {
  Ref<graph::Program> program;
};

std::vector<Tensor> tensors_of(nb::handle o, const char* arg) { return to_tensor_list(o.ptr(), "program", arg); }

// [(buffer, bytes, first node, last node)] of internal buffers: what a planner needs to know.
nb::list lives(const PyProgram& p) {
  nb::list out;
  for (const auto& life : p.program->lives()) out.append(nb::make_tuple(life.buffer, p.program->buffers()[life.buffer].size_bytes, life.first, life.last));
  return out;
}

}  // namespace

void init_graph(nb::module_& m) {
  // A single step of the interpreter each: see modes.cpp.
  m.def("enter_lazy", [](nb::handle region) {
    graph::begin_recording(nb::cast<double>(region.attr("_budget")));
    return nb::borrow(region);
  });
  m.def("leave_lazy", [](nb::handle, nb::handle kind, nb::handle, nb::handle) {
    if (kind.is_none()) return without([] { graph::end_recording(); });
    try {
      without([] { graph::end_recording(); });
    } catch (...) {  // what goes wrong now stays with its tensors, and the error that left the region came first
      translate_exception();
      if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
      PyErr_Clear();
    }
  }, nb::arg("region"), nb::arg("kind").none(), nb::arg("error").none(), nb::arg("trace").none());
  m.def("watch", [] {
    if (graph::recording()) graph::Recorder::here().watch();
  });
  m.def("watched", [] { return graph::recording() && graph::Recorder::here().watched(); });
  m.def("interrupt", [](const std::string& what) { graph::note_read(profile::interned(what)); });
  m.def("objects_version", [] { return graph::objects_version.load(std::memory_order_relaxed); });
  m.def("objects_changed", [] { graph::objects_version.fetch_add(1, std::memory_order_relaxed); });
  m.def("check_later", [](bool on) { return recorder_here && recorder_here->check_later(on); });
  m.def("settle", [] { without([] { graph::settle_here(); }); });
  m.def("call_key", call_key);
  m.def("recording", [] { return graph::recording() && !graph::Recorder::here().takes(); });
  m.def("worth", [] {
    const auto worth = graph::worth();
    return nb::make_tuple(worth.ops, worth.spared);
  });
  m.def("stats", [] {
    const graph::Stats s = graph::stats();
    nb::dict out;
    out["recorded"] = s.recorded;
    out["pruned"] = s.pruned;
    out["joined"] = s.joined;
    out["in_registers"] = steps_in_registers();
    out["passes"] = s.passes;
    out["settled"] = s.settled;
    return out;
  });
  m.def("op_names", [] {
    nb::dict out;
    for (const graph::OpInfo* op = graph::all_ops; op; op = op->next) out[op->ident] = op->signature;
    return out;
  });
  m.def("trusting_names", [] {
    nb::list out;
    for (const graph::OpInfo* op = graph::all_ops; op; op = op->next)
      if (op->trusts) out.append(op->ident);
    return out;
  });
  m.def("writing_names", [] {
    nb::list out;
    for (const graph::OpInfo* op = graph::all_ops; op; op = op->next)
      if (op->writes) out.append(op->ident);
    return out;
  });
  m.def("elementwise_names", [] {
    nb::list out;
    for (const graph::OpInfo* op = graph::all_ops; op; op = op->next)
      if (op->each) out.append(op->ident);
    return out;
  });
  m.def("recorded", recorded);
  m.def("discard", [] { if (graph::recording()) graph::Recorder::here().discard(); });
  // Gives `out`, whose recording was discarded, the bytes of `made`.
  m.def("adopt", [](nb::handle out, nb::handle made) {
    const Tensor& to = plain_tensor(out.ptr(), "adopt", "out");
    const Tensor& from = plain_tensor(made.ptr(), "adopt", "made");
    if (!(to.sizes() == from.sizes()) || to.dtype() != from.dtype()) raise<ArgumentError>("adopt: ", from.dtype(), " ", from.sizes(), "; expected ", to.dtype(), " ", to.sizes());
    copy_elements(to, from);
  });
  m.def("custom_call", [](const std::string& op, const std::string& arguments, nb::handle reads, nb::handle writes) {
    custom_call(op, arguments, tensors_of(reads, "reads"), tensors_of(writes, "writes"));
  });
  nb::class_<PyProgram>(m, "Program")
      .def("lives", lives)
      .def("__len__", [](const PyProgram& p) { return p.program->tape().nodes.size(); })
      .def("n_kept", [](const PyProgram& p) { return p.program->n_kept(); })
      .def("place", [](PyProgram& p, const std::vector<std::pair<uint32_t, size_t>>& offsets, size_t total) { p.program->place(offsets, total); })
      .def("run", [](PyProgram& p, nb::handle args) -> nb::object {
        const std::vector<Tensor> given = tensors_of(args, "args");
        std::optional<std::vector<Tensor>> out;
        without([&] { out = p.program->run(given); });
        return out ? nb::steal(wrap_list(std::move(*out))) : nb::none();
      })
      .def("nodes", [](const PyProgram& p) {  // each node's op, and whether it runs with every call
        nb::list out;
        const graph::Tape& tape = p.program->tape();
        for (size_t k = 0; k < tape.nodes.size(); ++k) out.append(nb::make_tuple(tape.nodes[k].op->name, p.program->runs()[k] != 0));
        return out;
      })
      .def("rest", [](PyProgram& p) { p.program->rest(); })
      .def("is_gone", [](const PyProgram& p) { return p.program->is_gone(); })
      .def("foreign", [](const PyProgram& p, nb::handle args) { return p.program->foreign(tensors_of(args, "args")); })
      .def("takes", [](const PyProgram& p, nb::handle args) { return p.program->takes(tensors_of(args, "args")); })
      .def("confirm", [](PyProgram& p, const PyProgram& earlier) { p.program->confirm(*earlier.program); })
      .def("difference", [](const PyProgram& p, const PyProgram& other) -> nb::object {
        const size_t k = p.program->difference(*other.program);
        if (k == graph::Program::kSame) return nb::none();
        const auto& nodes = p.program->tape().nodes;
        return nb::make_tuple(k, k < nodes.size() ? nodes[k].op->name : "the end", k < nodes.size() ? describe_source(nodes[k].source) : "");
      });
  // How many tensors and others have the memory of each, but for `made`.
  m.def("owners", [](nb::handle args, nb::handle made) {
    const std::vector<Tensor> given = tensors_of(args, "args");
    std::vector<const TensorImpl*> known;
    for (const Tensor& x : given)
      for (const TensorImpl* impl : {static_cast<const TensorImpl*>(x.impl()), static_cast<const TensorImpl*>(x.impl()->base.get())}) known.push_back(impl);
    const size_t theirs = known.size();
    for (const Tensor& y : tensors_of(made, "made"))
      for (const TensorImpl* impl : {static_cast<const TensorImpl*>(y.impl()), static_cast<const TensorImpl*>(y.impl()->base.get())})
        if (impl && std::find(known.begin(), known.end(), impl) == known.end()) known.push_back(impl);
    std::vector<int64_t> out;
    for (const Tensor& x : given)
      if (const Storage* s = x.impl()->storage.get())
        out.push_back(s->owners() - (graph::recording() ? graph::Recorder::here().originals(*s) : 0) -
                      std::count_if(known.begin() + static_cast<std::ptrdiff_t>(theirs), known.end(), [&](const TensorImpl* impl) { return impl->storage.get() == s; }));
      else out.push_back(0);
    return out;
  });
  m.def("capture", [](nb::handle args, nb::handle outs, bool fold, double budget) { return PyProgram{graph::Program::capture(tensors_of(args, "args"), tensors_of(outs, "outs"), fold, budget)}; },
        nb::arg("args"), nb::arg("outs"), nb::arg("fold") = false, nb::arg("budget") = 1.0);
  m.def("interruption", []() -> nb::object {
    if (!graph::recording()) return nb::none();
    const auto& i = graph::Recorder::here().interruption();
    if (!i.happened) return nb::none();
    return nb::make_tuple(i.what, describe_source(i.source));
  });
  m.def("latest_interruption", []() -> nb::object {
    if (!graph::recording()) return nb::none();
    const graph::Recorder& r = graph::Recorder::here();
    const auto& i = r.latest_interruption();
    return nb::make_tuple(r.interruptions(), i.what, describe_source(i.source));
  });
  m.def("run_node", run_node, nb::arg("op"), nb::arg("args"), nb::arg("outs"));
  init_dispatch(m);
}

}  // namespace fl::py
