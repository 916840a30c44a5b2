#include "bindings/errors.h"

#include <nanobind/nanobind.h>

#include "base/error.h"
#include "bindings/types.h"

namespace nb = nanobind;

namespace fl::py {

void throw_python_error() { throw PyException(); }

PyObject* translate_exception() {
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
    set(PyExc_MemoryError, e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    set(PyExc_RuntimeError, e);
  }
  return nullptr;
}

}  // namespace fl::py
