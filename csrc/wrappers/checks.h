// Check functions of the op table: what a comparison can not say. Each throws with its own text.
#pragma once

#include "base/error.h"
#include "dispatch/op_types.h"

#include "wrappers/checks_index.h"
#include "wrappers/checks_linalg.h"
#include "wrappers/checks_nn.h"
#include "wrappers/checks_sequences.h"
#include "wrappers/checks_sparse.h"

namespace fl::check {

void copyable(const char* op, const Tensor& x, const Tensor& src);
void single_element(const char* op, const char* arg, const Operand& value);
void viewable(const char* op, const Tensor& x, IntList size);
void permutation(const char* op, const Tensor& x, IntList dims);
void expandable(const char* op, const Tensor& x, IntList size);
// x has the shape of something that `shape` was broadcast to.
void sums_to(const char* op, const Tensor& x, IntList shape);
// An axis that is counted from the front already.
void axis(const char* op, const Tensor& x, int64_t dim);
void insertable(const char* op, const Tensor& x, int64_t dim);
void index_in_axis(const char* op, const Tensor& x, int64_t dim, int64_t index);
void positive_step(const char* op, int64_t step);
void unfoldable(const char* op, const Tensor& x, int64_t dim, int64_t size, int64_t step);
void inside_storage(const char* op, const Tensor& x, IntList size, IntList stride, int64_t offset);
void splits_axis(const char* op, const Tensor& x, IntList sizes, int64_t dim);
void joinable(const char* op, TensorList xs, int64_t dim);
void probability(const char* op, const char* arg, double p);
// Every element lies in [0, 1]; with `or_nan` it may be NaN.
void probabilities(const char* op, const char* arg, const Tensor& x, bool or_nan);
// A number that is written to elements of an integer type is one of its values; of unsigned types also the negative of one, which wraps.
[[noreturn]] void does_not_fit(const char* op, const char* arg, DType type, const Scalar& value);
inline void holds_exactly(const char* op, const char* arg, DType type, const Scalar& value) {
  if (!holds(type, value)) does_not_fit(op, arg, type, value);
}
inline bool negative_of_unsigned(DType type, const Scalar& value) {
  return (type == DType::UInt8 || type == DType::UInt16 || type == DType::UInt32) && !value.is_complex() && !value.is_float() && value.as_int() < 0 && value.as_int() >= -int_range(type).high;
}
inline void fits(const char* op, const char* arg, DType type, const Scalar& value) {
  if (!holds(type, value) && !negative_of_unsigned(type, value)) does_not_fit(op, arg, type, value);
}
// Real tensors hold no complex values.
inline void not_complex_for(const char* op, const char* arg, const Tensor& x, const Tensor& value) {
  if (is_complex(value.dtype()) && !is_complex(x.dtype()))
    raise<DTypeError>(op, ": ", arg, " is ", value.dtype(), ", which can not be stored in ", x.dtype(), "; expected a real tensor, such as ", arg, ".real");
}
inline void not_complex_for(const char* op, const char* arg, const Tensor& x, const Operand& value) {
  if (value.is_tensor()) not_complex_for(op, arg, x, value.tensor());
  else if (value.number().is_complex()) fits(op, arg, x.dtype(), value.number());
}
inline void fits(const char* op, const char* arg, const Tensor& x, const Operand& value) {
  if (value.is_tensor()) not_complex_for(op, arg, x, value.tensor());
  else fits(op, arg, x.dtype(), value.number());
}
// Warns where as many elements as are reduced, less the correction, are none: the variance is NaN or infinite.
void freedom(const char* op, const Tensor& x, std::optional<IntList> dim, double correction);
// Every element is 0 or more, and none is NaN.
void not_negative(const char* op, const char* arg, const Tensor& x);
void draws_fit(const char* op, const Tensor& x, int64_t from, int64_t to);
void floating(const char* op, const Tensor& x);
void of_complex(const char* op, const Tensor& x);
// Lines along dim are of a size and a type that Fourier transforms here take; `points` are those of half a transform, n those of a whole one.
void transformable(const char* op, const Tensor& x, int64_t dim);
void half_of(const char* op, const char* arg, int64_t points, const Tensor& x, int64_t dim);
void whole_of(const char* op, const char* arg, int64_t n, const Tensor& x, int64_t dim);
void pairs(const char* op, const Tensor& x);  // whose last axis can be the parts of complex numbers
void range(const char* op, const char* low_name, double low, const char* high_name, double high);
void finite_width(const char* op, const Tensor& x, double low, double high);

// Predicates of conditions (`when`): they throw nothing.
// Whether elements of x have more than 16 bits, so that a value near a limit is told from the limit.
inline bool wide(const Tensor& x) { return x.item_bytes() > 2; }
// Whether v, in the type that x is computed in, is kept as it is by x's own type.
bool exact(const Tensor& x, double v);

void padding(const char* op, const Tensor& x, IntList pad);
void multinomial(const char* op, const Tensor& x, int64_t k, bool replacement);

}  // namespace fl::check
