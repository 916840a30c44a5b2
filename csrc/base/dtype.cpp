#include "base/dtype.h"

#include "base/error.h"

namespace fl {

void refuse_complex(DType t) { raise<DTypeError>("a function for real numbers was called for ", t, "; expected x.real, x.imag or x.abs()"); }

}  // namespace fl
