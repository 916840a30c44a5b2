// The extension module flambeau._C.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "autograd/meta.h"
#include "backend/onednn/onednn.h"
#include "base/isa.h"
#include "base/live_objects.h"
#include "base/parallel.h"
#include "bindings/args.h"
#include "bindings/autograd.h"
#include "bindings/source.h"
#include "bindings/data.h"
#include "bindings/draws.h"
#include "bindings/engine.h"
#include "bindings/graph.h"
#include "bindings/modes.h"
#include "bindings/optim.h"
#include "bindings/profiler.h"
#include "bindings/shared_memory.h"
#include "bindings/sparse.h"
#include "bindings/types.h"
#include "ops/conv/winograd.h"
#include "ops/fft/fft.h"
#include "ops/linalg/lapack.h"
#include "storage/allocator.h"
#include "storage/prepared.h"
#include "tensor/raw.h"
#include "wrappers/autocast.h"
#include "wrappers/native.h"
#include "wrappers/warn.h"

#if FLAMBEAU_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace nb = nanobind;

namespace fl::py {

static Device named_device(PyObject* o, const char* op, const char* arg);

ErrorTypes error_types{};

namespace {

struct PyDType {
  DType value;
};
PyObject* dtype_objects[kDTypes];
PyTypeObject* dtype_class = nullptr;

struct PyGenerator {
  Ref<Generator> generator;
};
PyTypeObject* generator_class = nullptr;

Tensor state_tensor(Generator& g) {
  graph::note_read("the state of a generator was read");
  const auto [seed, offset] = g.state();
  Tensor y = empty(Dims{16}, DType::UInt8);
  std::memcpy(y.data(), &seed, 8);
  std::memcpy(y.data<char>() + 8, &offset, 8);
  return y;
}

void set_state(Generator& g, const Tensor& state) {
  if (state.dtype() != DType::UInt8 || state.numel() != 16 || !state.is_contiguous())
    raise<ArgumentError>("set_state: got ", state.dtype(), " ", state.sizes(), "; expected the uint8 [16] tensor of get_state()");
  uint64_t seed, offset;
  std::memcpy(&seed, state.data(), 8);
  std::memcpy(&offset, state.data<char>() + 8, 8);
  graph::note_read("the state of a generator was set");
  g.set_state(seed, offset);
}

uint64_t seed_of(nb::handle o) {
  graph::note_read("a generator was seeded");
  PyObject* n = PyNumber_Index(o.ptr());
  if (!n) throw nb::python_error();
  const uint64_t v = PyLong_AsUnsignedLongLongMask(n);
  Py_DECREF(n);
  if (PyErr_Occurred()) throw nb::python_error();
  return v;
}

void init_types(nb::module_& m) {
  nb::class_<PyDType> dtype(m, "dtype");
  dtype.def_prop_ro("itemsize", [](const PyDType& t) { return item_size(t.value); })
      .def_prop_ro("is_floating_point", [](const PyDType& t) { return is_float(t.value); })
      .def_prop_ro("is_complex", [](const PyDType& t) { return is_complex(t.value); })
      .def("to_real", [](const PyDType& t) { return nb::borrow(dtype_objects[static_cast<int>(to_real(t.value))]); })
      .def("to_complex", [](const PyDType& t) { return nb::borrow(dtype_objects[static_cast<int>(t.value == DType::Float16 ? DType::Complex32 : to_complex(t.value))]); })
      .def_prop_ro("is_signed", [](const PyDType& t) { return t.value != DType::Bool && t.value != DType::UInt8 && !is_wide_unsigned(t.value) && t.value != DType::Float8E8M0; })
      .def_prop_ro("name", [](const PyDType& t) { return std::string(name(t.value)); })
      .def("__repr__", [](const PyDType& t) { return std::string("flambeau.") + name(t.value); })
      .def("__reduce__", [](const PyDType& t) { return std::string(name(t.value)); })
      .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
      .def("__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); });
  dtype_class = reinterpret_cast<PyTypeObject*>(dtype.ptr());
  for (int i = 0; i < kDTypes; ++i) {
    nb::object o = nb::cast(PyDType{static_cast<DType>(i)});
    m.attr(kDTypeName[i]) = o;
    dtype_objects[i] = o.release().ptr();
  }
  constexpr std::pair<const char*, DType> kAliases[] = {{"float", DType::Float32}, {"double", DType::Float64}, {"half", DType::Float16},
                                                        {"long", DType::Int64},    {"int", DType::Int32},      {"short", DType::Int16},
                                                        {"chalf", DType::Complex32},  {"cfloat", DType::Complex64}, {"cdouble", DType::Complex128}};
  for (auto& [alias, t] : kAliases) m.attr(alias) = nb::borrow(dtype_objects[static_cast<int>(t)]);

  nb::class_<Device>(m, "device")
      .def("__init__", [](Device* self, nb::handle type, nb::object index) {
        Device d = named_device(type.ptr(), "device", "type");
        if (!index.is_none()) {
          const int64_t i = to_int(index.ptr(), "device", "index");
          if (d.index >= 0 || i < 0 || i > 127) raise<ArgumentError>("device: index = ", i, " for '", d, "'; expected one index from 0 to 127");
          d.index = static_cast<int8_t>(i);
        }
        new (self) Device(d);
      }, nb::arg("type"), nb::arg("index") = nb::none())
      .def("__init__", [](Device* self, nb::handle device) { new (self) Device(named_device(device.ptr(), "device", "device")); }, nb::arg("device"))
      .def_prop_ro("type", [](const Device& d) { return Device{d.kind, -1}.str(); })
      .def_prop_ro("index", [](const Device& d) { return d.index < 0 ? std::optional<int>() : std::optional<int>(d.index); })
      .def("__str__", [](const Device& d) { return d.str(); })
      .def("__repr__", [](const Device& d) {
        return d.index < 0 ? text("device(type='", d.str(), "')") : text("device(type='", Device{d.kind, -1}.str(), "', index=", int{d.index}, ")");
      })
      .def("__eq__", [](const Device& a, nb::handle b) {
        Device other;
        if (PyUnicode_Check(b.ptr())) return false;
        return nb::try_cast<Device>(b, other) && a == other;
      }, nb::arg("other").none())
      .def("__hash__", [](const Device& d) { return static_cast<int>(d.kind) * 256 + d.index; })
      .def("__reduce__", [m](const Device& d) { return nb::make_tuple(m.attr("device"), nb::make_tuple(d.str())); });

  nb::class_<PyGenerator> generator(m, "Generator");
  generator
      .def("__init__", [](PyGenerator* self, nb::handle device) {
        if (!device.is_none()) require_device(device_value(device.ptr(), "Generator", "device"));
        new (self) PyGenerator{make_ref<Generator>()};
      }, nb::arg("device").none() = "cpu")
      .def_prop_ro("device", [](const PyGenerator&) { return Device{}; })
      .def("manual_seed", [](nb::handle self, nb::handle seed) {
        nb::cast<PyGenerator&>(self).generator->seed(seed_of(seed));
        return nb::borrow(self);
      })
      .def("initial_seed", [](PyGenerator& g) { return g.generator->state().first; })
      .def("get_state", [](PyGenerator& g) { return nb::steal(wrap(state_tensor(*g.generator))); })
      .def("set_state", [](nb::handle self, nb::handle state) {
        set_state(*nb::cast<PyGenerator&>(self).generator, plain_tensor(state.ptr(), "set_state", "state"));
        return nb::borrow(self);
      });
  generator_class = reinterpret_cast<PyTypeObject*>(generator.ptr());
  m.attr("default_generator") = nb::cast(PyGenerator{Ref<Generator>::share(&program_generator())});
}

PyObject* new_error(nb::module_& m, const char* name, PyObject* base, const char* doc) {
  const std::string full = std::string("flambeau.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::borrow(type);
  return type;
}

nb::dict stats_dict(const AllocatorStats& s) {
  nb::dict d;
  d["allocated_bytes"] = s.allocated;
  d["peak_allocated_bytes"] = s.peak_allocated;
  d["reserved_bytes"] = s.reserved;
  d["peak_reserved_bytes"] = s.peak_reserved;
  d["allocations"] = s.allocations;
  d["frees"] = s.frees;
  d["segments"] = s.segments;
  d["retries"] = s.retries;
  return d;
}

nb::object wrapped(Tensor t) { return nb::steal(wrap(std::move(t))); }

void init_functions(nb::module_& m) {
  m.def("tensor_from", [](nb::handle data, nb::handle dtype) { return wrapped(tensor_from(data.ptr(), to_optional_dtype(dtype.ptr(), "tensor", "dtype"))); },
        nb::arg("data").none(), nb::arg("dtype").none());
  m.def("move_to_buffer", [](nb::handle x, nb::handle exporter) { move_to_buffer(plain_tensor(x.ptr(), "share_memory_", "self"), exporter.ptr()); });
  m.def("buffer_of", [](nb::handle x) {
    PyObject* owner = is_tensor(x.ptr()) ? buffer_of(tensor_of(x.ptr())) : nullptr;
    return owner ? nb::borrow(owner) : nb::none();
  });
  m.def("from_buffer", [](nb::handle o) { return wrapped(tensor_from_buffer(o.ptr())); }, nb::arg("exporter").none());
  m.def("to_list", [](nb::handle t) { return nb::steal(to_list(plain_tensor(t.ptr(), "tolist", "self"))); });
  m.def("to_dlpack", [](nb::handle t, bool versioned, bool copy) { return nb::steal(to_dlpack(t.ptr(), versioned, copy)); });
  m.def("from_dlpack", [](nb::handle c) { return wrapped(from_dlpack(c.ptr())); });
  m.def("to", [](nb::handle t, nb::handle dtype, nb::handle device, bool copy) {
    return wrapped(to(plain_tensor(t.ptr(), "to", "x"), to_optional_dtype(dtype.ptr(), "to", "dtype"), to_optional_device(device.ptr(), "to", "device"), copy));
  }, nb::arg("x"), nb::arg("dtype").none(), nb::arg("device").none(), nb::arg("copy"));
  m.def("version_of", [](nb::handle t) { return noticed_var(*plain_tensor(t.ptr(), "version_of", "t").impl()).noticed(); });
  m.def("bump_version", [](nb::handle t, const std::string& op) { bump_version(profile::interned(op), plain_tensor(t.ptr(), "bump_version", "t")); });

  m.def("get_autocast_dtype", [] { return nb::borrow(dtype_objects[static_cast<int>(autocast_settings().dtype)]); });
  m.def("set_autocast_dtype", [](nb::handle t) { autocast_settings().dtype = to_dtype(t.ptr(), "set_autocast_dtype", "dtype"); });
  m.def("get_default_complex_dtype", [] { return nb::borrow(dtype_objects[static_cast<int>(to_complex(default_dtype()))]); });
  m.def("get_default_dtype", [] { return nb::borrow(dtype_objects[static_cast<int>(default_dtype())]); });
  m.def("set_default_dtype", [](nb::handle t) {
    if (PyType_Check(t.ptr())) raise<TypeMismatch>("set_default_dtype: dtype is a class of numbers; expected flambeau.float32 or flambeau.float64");
    set_default_dtype(to_dtype(t.ptr(), "set_default_dtype", "dtype"));
  });
  m.def("promote_types", [](nb::handle a, nb::handle b) {
    return nb::borrow(dtype_objects[static_cast<int>(promote(to_dtype(a.ptr(), "promote_types", "a"), to_dtype(b.ptr(), "promote_types", "b")))]);
  }, nb::arg("type1"), nb::arg("type2"));
  m.def("result_type", [](nb::handle a, nb::handle b) {
    // Of a tensor whose class takes calls over, too: its type is that of its elements.
    const auto operand = [](nb::handle v, const char* arg) { return is_tensor(v.ptr()) ? Operand(tensor_of(v.ptr())) : to_operand(v.ptr(), "result_type", arg); };
    const Operand x = operand(a, "a"), y = operand(b, "b");
    return nb::borrow(dtype_objects[static_cast<int>(dt::promote(x, y))]);
  }, nb::arg("tensor"), nb::arg("other"));

  m.def("get_num_threads", &num_threads);
  m.def("is_fft_size", &is_fft_size);
  m.def("make_products_ahead", [awaited = Py_AtExit(&onednn::end_python) == 0] {
    if (awaited) onednn::make_products_ahead();
  });
  m.def("set_num_threads", [](int64_t n) { set_num_threads(static_cast<int>(std::clamp<int64_t>(n, 0, 4096))); });
  m.def("use_lapack", [](const std::string& path, const std::string& prefix, const std::string& suffix) {
    return linalg::use_lapack(path.c_str(), prefix.c_str(), suffix.c_str());
  }, nb::arg("path"), nb::arg("prefix"), nb::arg("suffix"));
  m.def("has_lapack", &linalg::has_lapack);
  m.def("call_lapack", [](int64_t size, nb::callable f, nb::args args, nb::kwargs kwargs) {
    const linalg::LapackThreads threads(size);
    return f(*args, **kwargs);
  });
  m.def("threads_origin", &threads_origin);
  m.def("isa_name", &isa_name);
  m.def("onednn_version", []() -> nb::object {
#if FLAMBEAU_ONEDNN
    const dnnl_version_t* v = dnnl_version();
    return nb::cast(text(v->major, ".", v->minor, ".", v->patch));
#else
    return nb::none();
#endif
  });
  m.def("onednn_multiplies", [](nb::handle t) { return onednn::convolves(to_dtype(t.ptr(), "onednn_multiplies", "dtype")); });
  m.def("compiler", [] { return std::string(__VERSION__); });

  m.def("set_thread_generator", [](nb::handle g) -> nb::object {
    Ref<Generator> old = set_thread_generator(g.is_none() ? Ref<Generator>() : nb::cast<PyGenerator&>(g).generator);
    return old ? nb::cast(PyGenerator{std::move(old)}) : nb::none();
  },
        nb::arg("generator").none());
  m.def("current_generator", [] { return PyGenerator{Ref<Generator>::share(&default_generator())}; });
  m.def("draws_of", [](PyGenerator& g) { return g.generator->state().second; });  // since it was seeded
  m.def("manual_seed", [](nb::handle seed) { default_generator().seed(seed_of(seed)); });
  m.def("memory_stats", [] { return stats_dict(host_stats()); });
  m.def("available_memory", &available_memory);
  m.def("live_objects", &live_objects);
  m.def("layout_reorders", &layout_reorders);
  m.def("channel_rows", [](nb::handle x) -> nb::object {
    Tensor rows = channel_rows(plain_tensor(x.ptr(), "channel_rows", "x"));
    return rows.defined() ? nb::steal(wrap(std::move(rows))) : nb::none();
  });
  m.def("from_channel_rows", [](nb::handle rows, nb::handle sizes) {
    return nb::steal(wrap(from_channel_rows(plain_tensor(rows.ptr(), "from_channel_rows", "rows"), to_dims(sizes.ptr(), "from_channel_rows", "sizes", 0))));
  });
  m.def("set_deferred_layout", [](bool on) { set_layout_mode(on ? LayoutMode::Deferred : LayoutMode::Plain); });
  m.def("set_winograd", [](int mode) {
    if (mode < 0 || mode > 2) raise<ArgumentError>("set_winograd: mode = ", mode, "; expected 0 (never), 1 (where it pays) or 2 (always)");
    conv::set_winograd_mode(static_cast<conv::Winograd>(mode));
  });
  m.def("get_winograd", [] { return static_cast<int>(conv::winograd_mode()); });
  m.def("get_deferred_layout", [] { return layout_mode() == LayoutMode::Deferred; });
  m.def("prepared_stats", [] {
    const PreparedStats s = prepared_stats();
    nb::dict d;
    d["bytes"] = s.bytes, d["made"] = s.made, d["reused"] = s.reused;
    return d;
  });
  m.def("memory_owners", [] {  // (line, bytes, blocks), those of most bytes first
    nb::list out;
    for (const MemoryOwner& owner : host_allocator().owners()) out.append(nb::make_tuple(describe_source(owner.made_at), owner.bytes, owner.blocks));
    return out;
  });
  m.def("name_all_memory", [](bool on) {
    const bool before = host_allocator().names_all();
    host_allocator().name_all(on);
    return before;
  });
  m.def("empty_cache", [] {
    drop_prepared();
    host_allocator().empty_cache();
  });
  m.def("reset_peak_memory_stats", [] { host_allocator().reset_peak(); });
}

}  // namespace

bool is_dtype(PyObject* o) { return Py_TYPE(o) == dtype_class; }
DType dtype_value(PyObject* o) { return nb::inst_ptr<PyDType>(nb::handle(o))->value; }
PyObject* dtype_object(DType dtype) { return dtype_objects[static_cast<int>(dtype)]; }
bool is_generator(PyObject* o) { return Py_TYPE(o) == generator_class; }
PyObject* make_device(const Device& device) { return nb::cast(device).release().ptr(); }
Scalar item_scalar(PyObject* tensor) { return item_of(tensor_of(tensor)); }
DType default_float_type() { return default_dtype(); }

static Device named_device(PyObject* o, const char* op, const char* arg) {
  if (PyUnicode_Check(o)) return Device::parse(utf8(o));
  Device d;
  if (nb::try_cast<Device>(nb::handle(o), d)) return d;
  if (PyLong_Check(o)) {
    const long i = PyLong_AsLong(o);
    if (i < 0 || i > 127) raise<ArgumentError>(op, ": ", arg, " = ", i, "; expected a CUDA index from 0 to 127");
    return {DeviceKind::CUDA, static_cast<int8_t>(i)};
  }
  raise<TypeMismatch>(op, ": ", arg, " is a ", Py_TYPE(o)->tp_name, "; expected 'cpu', 'meta', 'cuda', 'cuda:N' or a device");
}

// The device that tensors are on: there is one CPU, though a device may be named 'cpu:0'.
Device device_value(PyObject* o, const char* op, const char* arg) {
  Device device = named_device(o, op, arg);
  if (device.kind < DeviceKind::CUDA) device.index = -1;
  return device;
}

std::optional<Device> to_optional_device(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return std::nullopt;
  return device_value(o, op, arg);
}

static thread_local std::optional<Device> new_device;  // set_default_device, `with device(...)`
static thread_local std::vector<std::optional<Device>> devices_before;  // of the regions around the current line

std::optional<Device> to_new_device(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return new_device;
  return device_value(o, op, arg);
}

static void bind_default_device(nb::module_& m) {
  m.def("new_device", [] { return new_device; }, "The device on which this thread makes tensors where none is given; None: the CPU.");
  m.def("set_new_device", [](nb::handle device) {
    const std::optional<Device> before = new_device;
    const std::optional<Device> wanted = to_optional_device(device.ptr(), "set_default_device", "device");
    if (wanted) require_device(*wanted);
    new_device = wanted;
    return before;
  }, nb::arg("device").none(), "Changes it and returns what it was.");
  // A single step of the interpreter each: see modes.cpp.
  m.def("enter_device", [](nb::handle device) {
    const Device wanted = device_value(device.ptr(), "device", "self");
    require_device(wanted);
    devices_before.push_back(std::exchange(new_device, wanted));
    return nb::borrow(device);
  });
  m.def("leave_device", [](nb::handle, nb::args) {
    if (devices_before.empty()) throw nb::value_error("device: this thread has none to leave");
    new_device = devices_before.back();
    devices_before.pop_back();
  });
}

Generator* to_generator(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return nullptr;
  if (!is_generator(o)) raise<TypeMismatch>(op, ": ", arg, " is a ", Py_TYPE(o)->tp_name, "; expected a Generator or None");
  return nb::inst_ptr<PyGenerator>(nb::handle(o))->generator.get();
}

extern PyMethodDef* const op_function_tables[];
extern const char* const public_op_names[];
extern const OpTraits op_traits[];

}  // namespace fl::py

NB_MODULE(_C, m) {
  // Types that all interpreters of the process would share keep methods of the one that imported last.
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    throw std::runtime_error("flambeau: imported in a sub-interpreter; expected the main one: use threads, or processes (multiprocessing)");
  using namespace fl::py;
  nb::set_leak_warnings(false);  // types and singletons live as long as the process
  // Everything thrown by a nanobind function takes the same road as what generated bindings throw.
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (nb::python_error&) {
      (void)fl::take_backward_note();
      throw;
    } catch (nb::builtin_exception&) {
      throw;
    } catch (...) {
      translate_exception();
    }
  });
  // What PyTorch refuses with a RuntimeError is caught as one here, too.
  const nb::tuple value = nb::make_tuple(nb::handle(PyExc_ValueError), nb::handle(PyExc_RuntimeError));
  const nb::tuple type = nb::make_tuple(nb::handle(PyExc_TypeError), nb::handle(PyExc_NotImplementedError));  // a RuntimeError
  const nb::tuple index = nb::make_tuple(nb::handle(PyExc_IndexError), nb::handle(PyExc_RuntimeError));
  const nb::tuple asserted = nb::make_tuple(nb::handle(PyExc_RuntimeError), nb::handle(PyExc_AssertionError));
  error_types.shape = new_error(m, "ShapeError", value.ptr(), "Shapes that do not fit an op.");
  error_types.dtype = new_error(m, "DTypeError", type.ptr(), "An element type that an op is not defined for.");
  error_types.argument = new_error(m, "ArgumentError", value.ptr(), "A value that an op has no meaning for.");
  error_types.range = new_error(m, "RangeError", index.ptr(), "An axis or an index that is not there.");
  error_types.device = new_error(m, "DeviceError", asserted.ptr(), "A device that is not there, or data that is not on it.");
  error_types.no_data = new_error(m, "NoDataError", nb::make_tuple(nb::handle(error_types.device), nb::handle(PyExc_NotImplementedError)).ptr(),
                                  "Elements are wanted of a meta tensor, which has none.");
  error_types.autograd = new_error(m, "AutogradError", PyExc_RuntimeError, "A gradient that can not be computed.");
  error_types.linalg = new_error(m, "LinAlgError", PyExc_RuntimeError, "A matrix that can not be factored, inverted or solved with.");
  error_types.memory = new_error(m, "OutOfMemoryError", nb::make_tuple(nb::handle(PyExc_RuntimeError), nb::handle(PyExc_MemoryError)).ptr(),
                                 "There is less memory than was asked for.");
  fl::warn = [](const char* text) {
    const GilAcquire gil;
    if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw_python_error();
  };
  init_types(m);
  if (!init_tensor_type(m.ptr())) throw nb::python_error();
  init_functions(m);
  if (!init_draws(m.ptr()) || !init_modes(m.ptr())) throw nb::python_error();
  init_source();
  init_autograd(m);
  init_sparse(m);
  init_shared_memory(m);
  bind_default_device(m);
  nb::module_ ops = m.def_submodule("ops", "Every op of the table by name.");
  for (PyMethodDef* const* table = op_function_tables; *table; ++table)
    if (PyModule_AddFunctions(ops.ptr(), *table) < 0) throw nb::python_error();
  nb::list names;
  for (const char* const* n = public_op_names; *n; ++n) names.append(nb::str(*n));
  m.attr("public_op_names") = nb::tuple(names);
  m.def("op_traits", [] {
    nb::list rows;
    for (const OpTraits* t = op_traits; t->name; ++t) rows.append(nb::make_tuple(t->name, t->signature, t->body, t->aliases, t->linear, t->batch, t->draws, t->inplace));
    return rows;
  });
  nb::module_ optim = m.def_submodule("optim", "One pass over all parameters per step.");
  init_optim(optim);
  nb::module_ profiler = m.def_submodule("profiler", "The recorder behind flambeau.profiler.");
  init_profiler(profiler);
  nb::module_ engine = m.def_submodule("engine", "The dependency engine behind flambeau.engine.");
  init_engine(engine);
  nb::module_ graph = m.def_submodule("graph", "Recording of ops behind flambeau.lazy and flambeau.compile.");
  init_graph(graph);
}
