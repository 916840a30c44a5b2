#include "wrappers/custom_call.h"

#include "autograd/meta.h"
#include "base/profile.h"
#include "graph/recorder.h"
#include "wrappers/wrap.h"

namespace fl {
namespace {

using graph::Unbox;

const graph::OpInfo info_custom_call{
    "custom_call", "custom_call", "custom_call(str op, str arguments, Tensor[] reads, Tensor[] writes) -> ()", "s s L L ", 1 << 3, 0,
    [](const graph::Frame& f) {
      raise<ArgumentError>(Unbox<std::string_view>::get(f, 0), ": it is recorded as a node of a graph, so its results have no numbers yet; a graph can not read values");
    },
    nullptr, nullptr, -1, -1, /*trusts=*/true};

}  // namespace

void custom_call(std::string_view op, std::string_view arguments, TensorList reads, TensorList writes) {
  if (!graph::recording()) raise<ArgumentError>("custom_call: ", op, " is to be recorded, but this thread does not record");
  for (const Tensor& x : writes) check_inplace("custom_call", x);
  graph::record(info_custom_call, false, {}, op, arguments, reads, writes);
  for (const Tensor& x : writes) bump_version(profile::interned(std::string(op)), x);
}

}  // namespace fl
