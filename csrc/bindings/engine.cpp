// flambeau._C.engine: the dependency engine for functions of Python's. A task takes the GIL on the thread that runs it; who
// waits gives it up.
#include "bindings/engine.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <limits>
#include <unordered_map>

#include "autograd/saved_tensor.h"
#include "bindings/args.h"
#include "bindings/errors.h"
#include "dispatch/generator.h"
#include "engine/engine.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

PyObject *engine_error = nullptr, *engine_error_group = nullptr;

struct PyVar {
  Ref<engine::Resource> resource;
};

// ---- exceptions of tasks

// The exception that a task has raised. Its traceback is kept as text: the frames of one would keep alive what the task
// used, the Var that keeps this among it.
struct TaskFailure final : std::exception {
  struct Held {
    PyObject* value;
    std::string what, trace;
    ~Held() { drop_from_anywhere(value); }
  };
  explicit TaskFailure(std::shared_ptr<Held> h) : held(std::move(h)) {}
  const char* what() const noexcept override { return held->what.c_str(); }
  std::shared_ptr<Held> held;
};

// The exception itself, and those that it names as its causes, lose their frames.
void forget_frames(nb::object value) {
  for (int depth = 0; value.is_valid() && PyExceptionInstance_Check(value.ptr()) && depth < 100; ++depth) {
    PyException_SetTraceback(value.ptr(), Py_None);
    nb::object next = nb::steal(PyException_GetCause(value.ptr()));
    value = next.is_valid() ? next : nb::steal(PyException_GetContext(value.ptr()));
  }
}

TaskFailure failure_of(nb::object value) {
  auto held = std::make_shared<TaskFailure::Held>();
  held->value = nb::object(value).release().ptr();
  held->what = Py_TYPE(value.ptr())->tp_name;
  const Owned said(PyObject_Str(value.ptr()));
  if (!said.object) PyErr_Clear();
  else if (const std::string s = utf8(said.object); !s.empty()) held->what += ": " + s;
  try {
    if (const nb::object trace = nb::steal(PyException_GetTraceback(value.ptr())); trace.is_valid())
      held->trace = nb::cast<std::string>(nb::str("").attr("join")(nb::module_::import_("traceback").attr("format_tb")(trace)));
  } catch (nb::python_error&) {  // told without its lines
  }
  forget_frames(std::move(value));
  return TaskFailure(std::move(held));
}

[[noreturn]] void throw_failure() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  throw failure_of(nb::steal(value));
}

std::shared_ptr<TaskFailure::Held> python_cause(const engine::ErrorRecord& record) {
  if (!record.cause) return nullptr;
  try {
    std::rethrow_exception(record.cause);
  } catch (const TaskFailure& e) {
    return e.held;
  } catch (...) {
    return nullptr;
  }
}

nb::object error_object(const engine::ErrorRecord& record) {
  nb::object error = nb::borrow(engine_error)(engine::describe(record));
  error.attr("op") = record.op;
  error.attr("op_id") = record.id;
  error.attr("line") = describe_source && record.source ? describe_source(record.source) : std::string();
  nb::list chain;
  for (const auto& step : record.chain) chain.append(nb::make_tuple(step.op, step.id, step.through));
  error.attr("chain") = chain;
  error.attr("traceback") = "";
  if (const auto cause = python_cause(record)) {
    error.attr("traceback") = cause->trace;
    Py_INCREF(cause->value);
    PyException_SetCause(error.ptr(), cause->value);
  }
  return error;
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const engine::OpErrors& e) {
    nb::object group = nb::borrow(engine_error_group)(e.what());
    nb::list errors;
    for (const engine::ErrorRef& r : e.records) errors.append(error_object(*r));
    group.attr("errors") = nb::tuple(errors);
    PyErr_SetObject(engine_error_group, group.ptr());
  } catch (const engine::OpError& e) {
    // What ends a program (Ctrl-C in an op that a push ran) goes on as it is.
    if (const auto cause = python_cause(*e.record); cause && !PyObject_IsInstance(cause->value, PyExc_Exception))
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause->value)), cause->value);
    else PyErr_SetObject(engine_error, error_object(*e.record).ptr());
  } catch (const engine::EngineError& e) {
    PyErr_SetString(engine_error, e.what());
  }
}

// ---- tasks

struct PyCompletion {
  Ref<engine::Completion> completion;
};

class Task final : public engine::Work {
 public:
  explicit Task(nb::handle function) : function_(function.inc_ref().ptr()) {}
  ~Task() override { drop_from_anywhere(function_); }

  void run(const Ref<engine::Completion>& completion) override {
    GilAcquire gil;
    nb::object result;
    if (completion) {
      nb::object on_complete = nb::cast(PyCompletion{completion});
      result = nb::steal(call_with(function_, on_complete.ptr()));
    } else {
      result = nb::steal(call_with(function_));
    }
    if (!result.is_valid()) throw_failure();
    Py_CLEAR(function_);
  }

 private:
  PyObject* function_;
};

Ref<engine::Resource> resource_of(nb::handle var, const char* op) {
  PyVar* found = nullptr;
  if (!nb::try_cast<PyVar*>(var, found) || !found) raise<TypeMismatch>(op, ": var is a ", Py_TYPE(var.ptr())->tp_name, "; expected a Var");
  return found->resource;
}

int to_count(nb::handle o, const char* op, const char* arg, int64_t most) {
  const int64_t n = to_int(o.ptr(), op, arg);
  if (n < 1 || n > most) raise<ArgumentError>(op, ": ", arg, " = ", n, "; expected 1 to ", most);
  return static_cast<int>(n);
}

void collect(std::vector<engine::Use>& uses, std::vector<nb::object>& held, nb::handle vars, uint8_t how, const char* op, const char* arg) {
  const nb::object items = nb::steal(PySequence_Fast(vars.ptr(), ""));
  if (!items.is_valid()) {
    PyErr_Clear();
    raise<TypeMismatch>(op, ": ", arg, " is a ", Py_TYPE(vars.ptr())->tp_name, "; expected a list of Vars");
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.ptr());
  for (Py_ssize_t i = 0; i < n; ++i) {
    const nb::handle item = PySequence_Fast_GET_ITEM(items.ptr(), i);
    PyVar* var = nullptr;
    if (!nb::try_cast<PyVar*>(item, var) || !var) raise<TypeMismatch>(op, ": ", arg, "[", i, "] is a ", Py_TYPE(item.ptr())->tp_name, "; expected a Var");
    uses.push_back({var->resource.get(), how});
  }
  held.push_back(items);
}

std::string name_of(nb::handle function) {
  const nb::object name = nb::steal(PyObject_GetAttrString(function.ptr(), "__qualname__"));
  if (!name.is_valid()) PyErr_Clear();
  return name.is_valid() && PyUnicode_Check(name.ptr()) ? utf8(name.ptr()) : Py_TYPE(function.ptr())->tp_name;
}

void push(const char* op, bool asynchronous, nb::handle function, nb::handle reads, nb::handle writes, nb::handle partial_writes,
          nb::handle device, nb::handle given_priority, nb::handle given_name, nb::handle given_omp) {
  if (!PyCallable_Check(function.ptr())) raise<TypeMismatch>(op, ": fn is a ", Py_TYPE(function.ptr())->tp_name, "; expected a function");
  if (const auto where = to_optional_device(device.ptr(), op, "device"); where && where->kind != DeviceKind::CPU)
    raise<DeviceError>(op, ": device = '", where->str(), "'; expected 'cpu', which is the only one that has threads of the engine's");
  const int64_t priority = to_int(given_priority.ptr(), op, "priority");
  if (priority != static_cast<int>(priority)) raise<ArgumentError>(op, ": priority = ", priority, "; expected a number of 32 bits");
  const auto name = to_optional_string_view(given_name.ptr(), op, "name");
  const bool omp = to_bool(given_omp.ptr(), op, "omp");
  std::vector<engine::Use> uses;
  std::vector<nb::object> held;
  collect(uses, held, reads, engine::kRead, op, "reads");
  collect(uses, held, writes, engine::kWrite, op, "writes");
  collect(uses, held, partial_writes, engine::kPartialWrite, op, "partial_writes");
  engine::push_work(std::make_unique<Task>(function), asynchronous, uses, {static_cast<int>(priority), omp, name ? std::string(*name) : name_of(function)});
}

class PyBulk {
 public:
  explicit PyBulk(nb::handle limit) : limit_(to_count(limit, "bulk", "n", std::numeric_limits<int>::max())) {}
  PyBulk(const PyBulk&) = delete;
  PyBulk& operator=(const PyBulk&) = delete;
  ~PyBulk() { (void)bulk_.release(); }  // never left: the engine still knows it
  void enter() {
    if (bulk_) raise<engine::EngineError>("bulk: entered twice; make one for each with statement");
    bulk_ = std::make_unique<engine::Bulk>(limit_);
  }
  void leave() {
    if (!bulk_ || !bulk_->on_own_thread())
      raise<engine::EngineError>("bulk: left on another thread than it was entered on, or before one that was entered later");
    bulk_.reset();
  }

 private:
  int limit_;
  std::unique_ptr<engine::Bulk> bulk_;
};

// The Var of a generator: ops that draw from it list it in their writes, and draw in the order of their pushes.
PyVar random_var(nb::handle generator) {
  using Entry = std::pair<Ref<Generator>, Ref<engine::Resource>>;
  static auto& vars = *new std::unordered_map<Generator*, Entry>;  // guarded by the GIL
  Generator* g = to_generator(generator.ptr(), "random_var", "generator");
  if (!g) g = &default_generator();
  std::erase_if(vars, [g](const auto& v) { return v.first != g && v.second.first->use_count() == 1; });
  Entry& entry = vars[g];
  if (!entry.first) entry = {Ref<Generator>::share(g), make_ref<engine::Resource>("generator")};
  return {entry.second};
}

nb::dict stats() {
  const engine::Stats s = engine::stats();
  nb::dict d;
  d["pushed"] = s.pushed, d["completed"] = s.completed, d["failed"] = s.failed, d["skipped"] = s.skipped;
  d["bulks"] = s.bulks, d["pending"] = s.pending, d["ready"] = s.ready, d["running"] = s.running;
  d["workers"] = engine::workers();
  return d;
}

// Seconds that `n` pushes from C++ take, each writing one Var; that it takes until these ops, which spin for so long each, are
// over; and that the ops themselves took.
nb::tuple time_pushes(int64_t n, double op_us) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const auto time = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::micro>(op_us));
  const auto var = make_ref<engine::Resource>();
  Clock::duration inside{0};
  const auto begin = Clock::now();
  for (int64_t i = 0; i < n; ++i)
    engine::push([time, &inside] {
      const auto started = Clock::now();
      auto now = started;
      while (now - started < time) now = Clock::now();
      inside += now - started;
    }, {engine::write(var)});
  const auto pushed = Clock::now();
  engine::wait_for(*var);
  return nb::make_tuple(seconds(pushed - begin), seconds(Clock::now() - begin), seconds(inside));
}

constexpr const char* kModes[] = {"threaded", "naive", "null"};

PyObject* error_class(nb::module_& m, const char* name, PyObject* base, const char* doc) {
  PyObject* type = PyErr_NewExceptionWithDoc((std::string("flambeau.engine.") + name).c_str(), doc, base, nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::borrow(type);
  return type;
}

// Python's state of a thread of the engine's, made once: PyGILState_Ensure would make and drop one for each task, under a lock
// of CPython's that a child, forked meanwhile by who has the GIL, finds locked for ever (up to 3.11 at least).
thread_local PyThreadState* thread_state = nullptr;

void init_hooks() {
  engine::hooks.begin_thread = [] { thread_state = PyThreadState_New(PyInterpreterState_Main()); };
  engine::hooks.end_thread = [] {
    if (!thread_state || !Py_IsInitialized()) return;
    take_gil(thread_state);
    PyThreadState_Clear(thread_state);
    PyThreadState_DeleteCurrent();
  };
  engine::hooks.poll = [] {
    GilAcquire gil;
    if (PyErr_CheckSignals() != 0) throw_python_error();
  };
  engine::hooks.begin_blocking = []() -> void* {
    if (!has_gil()) return nullptr;
    note_source();
    return give_gil();
  };
  engine::hooks.end_blocking = [](void* state) {
    if (state) take_gil(static_cast<PyThreadState*>(state));
  };
  engine::hooks.describe_source = [](SourceId source) { return describe_source(source); };
}

}  // namespace

void init_engine(nb::module_& m) {
  engine_error = error_class(m, "EngineError", PyExc_RuntimeError, "An op of the engine that failed or was skipped, or a use of the engine that is refused.");
  engine_error_group = error_class(m, "EngineErrorGroup", engine_error, "What wait_all() found; the single errors are in `errors`.");
  nb::register_exception_translator(translate);
  init_hooks();

  nb::class_<PyVar>(m, "Var", nb::is_weak_referenceable())
      .def("__init__", [](PyVar* self, nb::handle name) { new (self) PyVar{make_ref<engine::Resource>(std::string(to_optional_string_view(name.ptr(), "Var", "name").value_or("")))}; },
           nb::arg("name").none() = nb::none())
      .def_prop_ro("name", [](const PyVar& v) { return v.resource->name(); })
      .def_prop_ro("version", [](const PyVar& v) { return v.resource->version(); })
      .def_prop_ro("error", [](const PyVar& v) -> nb::object {
        const engine::ErrorRef error = v.resource->error();
        return error ? error_object(*error) : nb::none();
      })
      .def("__eq__", [](const PyVar& a, nb::handle b) { return nb::isinstance<PyVar>(b) && nb::cast<const PyVar&>(b).resource.get() == a.resource.get(); },
           nb::arg("other").none())
      .def("__hash__", [](const PyVar& v) { return reinterpret_cast<intptr_t>(v.resource.get()) >> 4; })
      .def("__repr__", [](const PyVar& v) {
        const bool failed = v.resource->error() != nullptr;
        return text("Var('", v.resource->name(), "', version=", v.resource->version(), failed ? ", with an error)" : ")");
      });
  nb::class_<PyCompletion>(m, "OnComplete").def("__call__", [](PyCompletion& c, nb::handle error) {
    if (error.is_none()) return c.completion->done();
    if (!PyExceptionInstance_Check(error.ptr()))
      raise<TypeMismatch>("on_complete: error is a ", Py_TYPE(error.ptr())->tp_name, "; expected an exception or None");
    c.completion->fail(std::make_exception_ptr(failure_of(nb::borrow(error))));
  }, nb::arg("error").none() = nb::none());
  nb::class_<PyBulk>(m, "bulk")
      .def(nb::init<nb::handle>(), nb::arg("n").none() = 15)
      .def("__enter__", [](nb::handle self) {
        nb::cast<PyBulk&>(self).enter();
        return nb::borrow(self);
      })
      .def("__exit__", [](PyBulk& b, nb::handle, nb::handle, nb::handle) { b.leave(); }, nb::arg().none(), nb::arg().none(), nb::arg().none());

  const auto def_push = [&m](const char* name, auto function) {
    m.def(name, function, nb::arg("fn"), nb::arg("reads") = nb::tuple(), nb::arg("writes") = nb::tuple(), nb::arg("partial_writes") = nb::tuple(),
          nb::arg("device") = nb::none(), nb::arg("priority").none() = 0, nb::arg("name").none() = nb::none(), nb::arg("omp").none() = false);
  };
  def_push("push", [](nb::handle f, nb::handle r, nb::handle w, nb::handle p, nb::handle device, nb::handle priority, nb::handle name, nb::handle omp) {
    push("push", false, f, r, w, p, device, priority, name, omp);
  });
  def_push("push_async", [](nb::handle f, nb::handle r, nb::handle w, nb::handle p, nb::handle device, nb::handle priority, nb::handle name, nb::handle omp) {
    push("push_async", true, f, r, w, p, device, priority, name, omp);
  });
  m.def("wait_for_var", [](nb::handle var) { engine::wait_for(*resource_of(var, "wait_for_var")); }, nb::arg("var").none());
  m.def("wait_to_write", [](nb::handle var) { engine::wait_for(*resource_of(var, "wait_to_write"), true); }, nb::arg("var").none());
  m.def("wait_all", &engine::wait_all);
  m.def("get_engine", [] { return kModes[static_cast<int>(engine::mode())]; });
  m.def("switch_engine", [](nb::handle given) {
    const std::string_view name = to_string_view(given.ptr(), "set_engine", "name");
    for (int i = 0; i < 3; ++i)
      if (name == kModes[i]) return engine::set_mode(static_cast<engine::Mode>(i));
    raise<ArgumentError>("set_engine: name = '", name, "'; expected 'threaded', 'naive' or 'null'");
  }, nb::arg("name").none());
  m.def("get_workers", &engine::workers);
  m.def("set_workers", [](nb::handle n) { engine::set_workers(to_count(n, "set_workers", "workers", 1024)); }, nb::arg("workers").none());
  m.def("stats", &stats);
  m.def("pending", &engine::pending_report);
  m.def("set_watchdog", [](nb::handle seconds) { engine::set_watchdog(to_double(seconds.ptr(), "set_watchdog", "seconds")); }, nb::arg("seconds").none());
  m.def("random_var", &random_var, nb::arg("generator").none() = nb::none());
  m.def("shut_down", &engine::shut_down);
  m.def("time_pushes", &time_pushes, nb::arg("n"), nb::arg("op_us") = 0.0);
}

}  // namespace fl::py
