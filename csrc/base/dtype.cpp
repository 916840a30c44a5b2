#include "base/dtype.h"

#include "base/error.h"

namespace fl {

void refuse_type(DType t) {
  if (is_rare(t)) raise<DTypeError>("a function was called for ", t, ", which it does not take; cast to ", compute_type(t), " first");
  raise<DTypeError>("a function for real numbers was called for ", t, "; expected x.real, x.imag or x.abs()");
}

void refuse_promotion(DType a, DType b) {
  if (is_float8(a) || is_float8(b)) raise<DTypeError>("Promotion for Float8 Types is not supported: ", a, " and ", b, "; cast one of them first");
  raise<DTypeError>("no integer type holds both ", a, " and ", b, "; cast one of them first");
}

}  // namespace fl
