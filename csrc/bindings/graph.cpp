#include "bindings/graph.h"

#include <nanobind/stl/string.h>

#include "bindings/args.h"
#include "graph/recorder.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

// What was recorded runs without the GIL.
template <class F>
void without(F&& f) {
  note_source();
  const GilRelease release;
  f();
}

}  // namespace

void init_graph(nb::module_& m) {
  m.def("begin_recording", [] { graph::begin_recording(); });
  m.def("end_recording", [] { without([] { graph::end_recording(); }); });
  m.def("settle", [] { without([] { graph::settle_here(); }); });
  m.def("recording", [] { return graph::recording(); });
  m.def("stats", [] {
    const graph::Stats s = graph::stats();
    nb::dict out;
    out["recorded"] = s.recorded;
    out["pruned"] = s.pruned;
    out["joined"] = s.joined;
    out["passes"] = s.passes;
    out["settled"] = s.settled;
    return out;
  });
  m.def("op_names", [] {
    nb::dict out;
    for (const graph::OpInfo* op = graph::all_ops; op; op = op->next) out[op->ident] = op->signature;
    return out;
  });
}

}  // namespace fl::py
