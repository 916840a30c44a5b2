#pragma once

#include <nanobind/nanobind.h>

namespace fl::py {

void init_engine(nanobind::module_& m);

}  // namespace fl::py
