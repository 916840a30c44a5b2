// Memory of a file without a name, which other processes see, too: Note [Shared memory] in src/flambeau/multiprocessing/_sharing.py.
#pragma once

#include <nanobind/nanobind.h>

namespace fl::py {

void init_shared_memory(nanobind::module_& m);

}  // namespace fl::py
