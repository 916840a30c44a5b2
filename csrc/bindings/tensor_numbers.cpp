// A tensor as a number: operators, comparisons, and its value as Python's bool, float, int or index.
#include "bindings/args.h"
#include "bindings/data.h"
#include "bindings/tensor_object.h"
#include "bindings/tensor_slots.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/abs.h"
#include "op/add.h"
#include "op/bitwise_and.h"
#include "op/bitwise_left_shift.h"
#include "op/bitwise_not.h"
#include "op/bitwise_or.h"
#include "op/bitwise_right_shift.h"
#include "op/bitwise_xor.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/floor_divide.h"
#include "op/ge.h"
#include "op/gt.h"
#include "op/le.h"
#include "op/lt.h"
#include "op/matmul.h"
#include "op/mul.h"
#include "op/ne.h"
#include "op/neg.h"
#include "op/pow.h"
#include "op/positive.h"
#include "op/reciprocal.h"
#include "op/remainder.h"
#include "op/rsub.h"
#include "op/sub.h"

namespace fl::py {
namespace {

// An operand that may also be a NumPy array, whose memory is then read in place through `keep`.
bool array_operand(PyObject* o, Operand& out, Tensor& keep) {
  if (try_operand(o, out)) return true;
  if (!PyObject_CheckBuffer(o) || PyBytes_Check(o) || !PyObject_HasAttrString(o, "__array_interface__")) return false;
  keep = tensor_from_buffer(o, true);
  out = Operand(keep);
  return true;
}

// Names of the method that a `__torch_function__` is given for `a + b`, and of that for `b + a` where only b is a tensor: PyTorch's, tables of
// whose methods programs keep.
struct Operator {
  const char *name, *reflected;
};

template <class F>
PyObject* binary(Operator op, PyObject* a, PyObject* b, F&& f) {
  if (taken_over(a) || taken_over(b)) [[unlikely]] return call_overridden_operator(op.name, op.reflected, a, b);
  return guarded([&]() -> PyObject* {
    Operand x{Scalar()}, y{Scalar()};
    Tensor keep_x, keep_y;
    if (!array_operand(a, x, keep_x) || !array_operand(b, y, keep_y)) Py_RETURN_NOTIMPLEMENTED;
    return wrap_here(without_gil(work_of(x) + work_of(y), [&] { return f(x, y); }));
  });
}

template <class F>
PyObject* inplace(const char* name, PyObject* a, PyObject* b, F&& f) {
  if (taken_over(a) || taken_over(b)) [[unlikely]] {
    if (!is_tensor(a)) Py_RETURN_NOTIMPLEMENTED;
    return call_overridden_operator(name, name, a, b);
  }
  return guarded([&]() -> PyObject* {
    Operand y{Scalar()};
    if (!is_tensor(a) || !try_operand(b, y)) Py_RETURN_NOTIMPLEMENTED;
    const Tensor& x = tensor_of(a);
    without_gil(work_of(x), [&] { return f(x, y); });
    Py_INCREF(a);
    return a;
  });
}

#define FL_BINARY(slot, shown, reflected, name)                                                                     \
  PyObject* slot(PyObject* a, PyObject* b) {                                                                         \
    return binary({shown, reflected}, a, b, [](const Operand& x, const Operand& y) { return op::name(x, y); });      \
  }
#define FL_INPLACE(slot, shown, name) \
  PyObject* slot(PyObject* a, PyObject* b) { return inplace(shown, a, b, [](const Tensor& x, const Operand& y) { return op::name(x, y); }); }

// Where the order does not matter, the tensor comes first: nodes and overrides see `2 * x` as they see `x * 2`.
#define FL_SYMMETRIC(slot, shown, name)                                                                                                                 \
  PyObject* slot(PyObject* a, PyObject* b) {                                                                                                           \
    return binary({shown, #name}, a, b, [](const Operand& x, const Operand& y) { return x.is_tensor() ? op::name(x, y) : op::name(y, x); });            \
  }

FL_SYMMETRIC(nb_add, "add", add)
PyObject* nb_sub(PyObject* a, PyObject* b) {
  return binary({"sub", "__rsub__"}, a, b, [](const Operand& x, const Operand& y) { return x.is_tensor() ? op::sub(x, y) : op::rsub(y.tensor(), x); });
}
FL_SYMMETRIC(nb_mul, "mul", mul)
// 1 / x is differentiated by its result, so that x may be written into afterwards.
PyObject* nb_div(PyObject* a, PyObject* b) {
  return binary({"div", "__rdiv__"}, a, b, [](const Operand& x, const Operand& y) {
    const bool reciprocal = !x.is_tensor() && !x.number().is_complex() && x.number().as_double() == 1;
    return reciprocal ? op::reciprocal(y.tensor()) : op::div(x, y);
  });
}
FL_BINARY(nb_floordiv, "__floordiv__", "__rfloordiv__", floor_divide)
FL_BINARY(nb_mod, "remainder", "__rmod__", remainder)
FL_SYMMETRIC(nb_and, "__and__", bitwise_and)
FL_SYMMETRIC(nb_or, "__or__", bitwise_or)
FL_SYMMETRIC(nb_xor, "__xor__", bitwise_xor)
FL_BINARY(nb_lshift, "__lshift__", "__rlshift__", bitwise_left_shift)
FL_BINARY(nb_rshift, "__rshift__", "__rrshift__", bitwise_right_shift)
FL_INPLACE(nb_iadd, "add_", add_)
FL_INPLACE(nb_isub, "sub_", sub_)
FL_INPLACE(nb_imul, "mul_", mul_)
FL_INPLACE(nb_idiv, "div_", div_)
FL_INPLACE(nb_ifloordiv, "floor_divide_", floor_divide_)
FL_INPLACE(nb_imod, "remainder_", remainder_)
FL_INPLACE(nb_iand, "__iand__", bitwise_and_)
FL_INPLACE(nb_ior, "__ior__", bitwise_or_)
FL_INPLACE(nb_ixor, "__ixor__", bitwise_xor_)
FL_INPLACE(nb_ilshift, "__ilshift__", bitwise_left_shift_)
FL_INPLACE(nb_irshift, "__irshift__", bitwise_right_shift_)

PyObject* nb_pow(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow: a tensor takes no third argument");
    return nullptr;
  }
  return binary({"pow", "__rpow__"}, a, b, op::pow);
}
PyObject* nb_ipow(PyObject* a, PyObject* b, PyObject*) {
  return inplace("pow_", a, b, [](const Tensor& x, const Operand& y) { return op::pow_(x, y); });
}

PyObject* nb_matmul(PyObject* a, PyObject* b) {
  if (taken_over(a) || taken_over(b)) [[unlikely]] return call_overridden_operator("matmul", "__rmatmul__", a, b);
  return guarded([&]() -> PyObject* {
    if (!is_tensor(a) || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
    const Tensor &x = tensor_of(a), &y = tensor_of(b);
    return wrap_here(without_gil(16 * (work_of(x) + work_of(y)), [&] { return op::matmul(x, y); }));
  });
}

template <class F>
PyObject* unary(const char* name, PyObject* a, F&& f) {
  if (taken_over(a)) [[unlikely]] return call_overridden_operator(name, name, a, nullptr);
  return guarded([&] {
    const Tensor& x = tensor_of(a);
    return wrap_here(without_gil(work_of(x), [&] { return f(x); }));
  });
}
PyObject* nb_neg(PyObject* a) { return unary("neg", a, [](const Tensor& x) { return op::neg(x); }); }
PyObject* nb_abs(PyObject* a) { return unary("abs", a, [](const Tensor& x) { return op::abs(x); }); }
PyObject* nb_pos(PyObject* a) { return unary("positive", a, [](const Tensor& x) { return op::positive(x); }); }
PyObject* nb_invert(PyObject* a) { return unary("__invert__", a, [](const Tensor& x) { return op::bitwise_not(x); }); }

int nb_bool(PyObject* self) {
  try {
    if (taken_over(self)) [[unlikely]] {
      const Owned answer(call_overridden_operator("__bool__", "__bool__", self, nullptr));
      if (!answer.object) return -1;
      return truth(answer.object);
    }
    const Tensor& x = tensor_of(self);
    if (x.numel() != 1)
      raise<ArgumentError>("bool: Boolean value of Tensor with ", x.numel() ? "more than one value" : "no values", " is ambiguous: it has shape ", x.sizes(),
                           "; use .any() or .all()");
    const Scalar s = item_of(x);
    return s.as<bool>();
  } catch (...) {
    translate_exception();
    return -1;
  }
}

Scalar real_item(PyObject* self, const char* what) {
  const Scalar s = item_of(tensor_of(self));
  if (!s.is_complex()) return s;
  if (s.imaginary() != 0) raise<TypeMismatch>(what, ": the tensor is ", s, "; expected a real number, such as x.real or x.abs() (value cannot be converted to type double without overflow)");
  return Scalar(s.as_double());
}
PyObject* nb_float(PyObject* self) {
  if (taken_over(self)) [[unlikely]] return call_overridden_operator("__float__", "__float__", self, nullptr);
  return guarded([&] {
    const Scalar s = real_item(self, "float");
    const bool bits = tensor_of(self).dtype() == DType::UInt64;
    return PyFloat_FromDouble(bits ? static_cast<double>(static_cast<uint64_t>(s.as_int())) : s.as_double());
  });
}
PyObject* nb_int(PyObject* self) {
  if (taken_over(self)) [[unlikely]] return call_overridden_operator("__int__", "__int__", self, nullptr);
  return guarded([&]() -> PyObject* {
    const Scalar s = real_item(self, "int");
    return s.is_float() ? PyLong_FromDouble(s.as_double()) : python_int(tensor_of(self).dtype(), s);
  });
}
PyObject* nb_index(PyObject* self) {
  if (taken_over(self)) [[unlikely]] return call_overridden_operator("__index__", "__index__", self, nullptr);
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    if (is_inexact(x.dtype()) || x.numel() != 1)
      raise<TypeMismatch>("only integer tensors of a single element can be converted to an index: this one is ", x.dtype(), " of shape ", x.sizes());
    return python_int(x.dtype(), item_of(x));
  });
}

PyObject* richcompare(PyObject* a, PyObject* b, int how) {
  static constexpr Operator kNames[] = {{"lt", "gt"}, {"le", "ge"}, {"__eq__", "__eq__"}, {"ne", "ne"}, {"gt", "lt"}, {"ge", "le"}};  // Py_LT to Py_GE
  return binary(kNames[how], a, b, [how](const Operand& x, const Operand& y) {
    switch (how) {
      case Py_EQ: return op::eq(x, y);
      case Py_NE: return op::ne(x, y);
      case Py_LT: return op::lt(x, y);
      case Py_LE: return op::le(x, y);
      case Py_GT: return op::gt(x, y);
      default: return op::ge(x, y);
    }
  });
}

}  // namespace

const PyType_Slot tensor_number_slots[] = {
    slot(Py_tp_richcompare, richcompare),
    slot(Py_nb_add, nb_add), slot(Py_nb_subtract, nb_sub), slot(Py_nb_multiply, nb_mul), slot(Py_nb_true_divide, nb_div),
    slot(Py_nb_floor_divide, nb_floordiv), slot(Py_nb_remainder, nb_mod), slot(Py_nb_power, nb_pow), slot(Py_nb_and, nb_and),
    slot(Py_nb_or, nb_or), slot(Py_nb_xor, nb_xor), slot(Py_nb_lshift, nb_lshift), slot(Py_nb_rshift, nb_rshift),
    slot(Py_nb_inplace_add, nb_iadd), slot(Py_nb_inplace_subtract, nb_isub), slot(Py_nb_inplace_multiply, nb_imul),
    slot(Py_nb_inplace_true_divide, nb_idiv), slot(Py_nb_inplace_floor_divide, nb_ifloordiv), slot(Py_nb_inplace_remainder, nb_imod),
    slot(Py_nb_inplace_power, nb_ipow), slot(Py_nb_inplace_and, nb_iand), slot(Py_nb_inplace_or, nb_ior),
    slot(Py_nb_inplace_xor, nb_ixor), slot(Py_nb_inplace_lshift, nb_ilshift), slot(Py_nb_inplace_rshift, nb_irshift),
    slot(Py_nb_matrix_multiply, nb_matmul), slot(Py_nb_negative, nb_neg), slot(Py_nb_positive, nb_pos),
    slot(Py_nb_absolute, nb_abs), slot(Py_nb_invert, nb_invert), slot(Py_nb_bool, nb_bool), slot(Py_nb_float, nb_float),
    slot(Py_nb_int, nb_int), slot(Py_nb_index, nb_index), {0, nullptr}};

}  // namespace fl::py
