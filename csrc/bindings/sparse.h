// Sparse tensors for Python: objects of a class of flambeau.sparse around what tensor/sparse.h has.
#pragma once

#include <nanobind/nanobind.h>

namespace fl::py {

void init_sparse(nanobind::module_& m);

}  // namespace fl::py
