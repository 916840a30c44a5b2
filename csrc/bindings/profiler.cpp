// flambeau._C.profiler: switching the recorder on and off, ranges and modules of Python's, and handing over
// what was recorded, as bytes that Python reads by NumPy (src/flambeau/profiler/_events.py).
#include "bindings/profiler.h"

#include <nanobind/nanobind.h>

#include <unordered_set>

#include "autograd/meta.h"
#include "base/profile.h"
#include "bindings/args.h"
#include "bindings/source.h"
#include "storage/allocator.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

using profile::Handle;

nb::bytes bytes_of(const void* data, size_t size_bytes) { return nb::bytes(data, size_bytes); }

nb::tuple collect() {
  nb::list threads;
  nb::dict names, stacks;
  std::unordered_set<const char*> seen;
  std::unordered_set<uint32_t> described;
  for (const auto& t : profile::collect()) {
    for (const auto& e : t.events) {
      if (seen.insert(e.name).second) names[nb::int_(reinterpret_cast<uintptr_t>(e.name))] = nb::str(e.name);
      if (!e.stack || !described.insert(e.stack).second) continue;
      nb::list lines;
      for (const std::string& line : stack_lines(e.stack)) lines.append(nb::str(line.c_str()));
      stacks[nb::int_(e.stack)] = lines;
    }
    threads.append(nb::make_tuple(t.thread, bytes_of(t.events.data(), t.events.size() * sizeof(profile::Event)),
                                  bytes_of(t.shapes.data(), t.shapes.size() * sizeof(int64_t))));
  }
  nb::list types;
  for (const char* n : kDTypeName) types.append(nb::str(n));
  return nb::make_tuple(threads, names, stacks, types);
}

}  // namespace

void init_profiler(nb::module_& m) {
  m.def("start", [](int64_t limit, bool shapes, bool memory, bool stack) { profile::start({limit, shapes, memory, stack}); },
        nb::arg("limit"), nb::arg("shapes"), nb::arg("memory"), nb::arg("stack"));
  m.def("set_own_folder", [](nb::str folder) { set_own_folder(folder.c_str()); });
  m.def("stop", &profile::stop);
  m.def("clear", &profile::clear);
  m.def("recording", &profile::on);
  m.def("dropped", &profile::dropped);
  m.def("now_ns", &profile::now_ns);
  m.def("collect", &collect);
  // A range of the user's, a call of a module ("module") or an optimizer's step: (recording, index, ...) for end().
  m.def("begin", [](nb::str name, int kind) {
    const int64_t allocated = profile::options().memory ? static_cast<int64_t>(host_stats().allocated) : -1;
    const Handle h = profile::begin(static_cast<profile::Kind>(kind), profile::interned(name.c_str()), profile::stack_now(), allocated);
    return nb::make_tuple(h.recording, h.index, h.parent, h.backward);
  });
  // `made`: a result, whose node belongs to the event.
  m.def("end", [](nb::tuple token, bool failed, nb::handle made) {
    const Handle h{nb::cast<uint64_t>(token[0]), nb::cast<int64_t>(token[1]), nb::cast<int64_t>(token[2]), true, nb::cast<bool>(token[3])};
    profile::Event measured;
    if (profile::options().memory) measured.allocated = static_cast<int64_t>(host_stats().allocated);
    if (is_tensor(made.ptr()))
      if (const Ref<Node> node = grad_fn(tensor_of(made.ptr()))) {
        measured.node = node.get();
        measured.sequence = node->sequence;
      }
    profile::end(h, measured, failed);
  }, nb::arg("token"), nb::arg("failed"), nb::arg("made").none() = nb::none());
}

}  // namespace fl::py
