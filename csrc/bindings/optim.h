// The fused optimizer steps.
#pragma once

namespace nanobind {
class module_;
}

namespace fl::py {
void init_optim(nanobind::module_& m);
}
