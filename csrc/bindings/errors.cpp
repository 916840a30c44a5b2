#include "bindings/errors.h"

#include <nanobind/nanobind.h>

#include "autograd/node.h"
#include "base/error.h"
#include "bindings/gil.h"
#include "bindings/types.h"

namespace nb = nanobind;

namespace fl::py {

void throw_python_error() { throw PyException(); }

namespace {

// Which line of the forward pass a failed backward belongs to, as a note of the error that is set.
void add_backward_note(const std::string& note) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  {
    const Owned notes(PyImport_ImportModule("flambeau._notes"));
    const Owned line(PyUnicode_FromStringAndSize(note.data(), static_cast<Py_ssize_t>(note.size())));
    if (notes.object && line.object && value) Owned(call_method(notes.object, "add_note", value, line.object));
    PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
}

void set_python_error();

}  // namespace

PyObject* translate_exception() {
  set_python_error();
  if (const std::string note = take_backward_note(); !note.empty()) [[unlikely]] add_backward_note(note);
  return nullptr;
}

namespace {

void set_python_error() {
  auto set = [](PyObject* type, const std::exception& e) { PyErr_SetString(type, e.what()); };
  try {
    throw;
  } catch (PyException& e) {
    e.restore();
  } catch (const PythonError&) {
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const ShapeError& e) {
    set(error_types.shape, e);
  } catch (const DTypeError& e) {
    set(error_types.dtype, e);
  } catch (const NoDataError& e) {
    set(error_types.no_data, e);
  } catch (const DeviceError& e) {
    set(error_types.device, e);
  } catch (const AutogradError& e) {
    set(error_types.autograd, e);
  } catch (const LinAlgError& e) {
    set(error_types.linalg, e);
  } catch (const IndexError& e) {
    set(error_types.range, e);
  } catch (const ArgumentError& e) {
    set(error_types.argument, e);
  } catch (const TypeMismatch& e) {
    set(PyExc_TypeError, e);
  } catch (const OutOfMemory& e) {
    set(error_types.memory, e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    set(PyExc_RuntimeError, e);
  }
}

}  // namespace

}  // namespace fl::py
