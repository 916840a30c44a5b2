#include "bindings/source.h"

#include <Python.h>
#include <frameobject.h>

#include <cstring>
#include <unordered_map>

#include "autograd/node.h"
#include "autograd/saved_tensor.h"
#include "base/error.h"
#include "base/profile.h"
#include "bindings/args.h"
#include "bindings/objects.h"

namespace fl::py {
namespace {

struct SourceTable {
  struct Place {
    PyObject* code = nullptr;  // owned
    int lasti = 0;
  };
  std::vector<Place> places{Place{}};
  std::unordered_map<uint64_t, SourceId> ids;
};
SourceTable* sources = nullptr;
constexpr size_t kMaxSources = 1 << 16;
thread_local SourceId source_before_release = 0;

std::string own_folder;  // of the package

bool is_own(PyCodeObject* code) { return !own_folder.empty() && name_of(code->co_filename).starts_with(own_folder); }
bool is_own(PyFrameObject* frame) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  const bool own = is_own(code);
  Py_DECREF(code);
  return own;
}

// The number of the place where a frame is; 0 when there are too many.
SourceId place_of(PyFrameObject* frame) {
  PyObject* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
#if PY_VERSION_HEX >= 0x030B0000
  const int lasti = PyFrame_GetLasti(frame);
#else
  const int lasti = PyFrame_GetLineNumber(frame);
#endif
  // The lines that run now are few: most are found without the table.
  struct Recent {
    PyObject* code = nullptr;
    int lasti = 0;
    SourceId id = 0;
  };
  static Recent recent[512];
  Recent& last = recent[((reinterpret_cast<uintptr_t>(code) >> 5) + static_cast<uintptr_t>(lasti)) % 512];
  if (last.code == code && last.lasti == lasti) {  // the table keeps the code alive
    Py_DECREF(code);
    return last.id;
  }
  const uint64_t key = reinterpret_cast<uintptr_t>(code) * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(lasti);
  auto it = sources->ids.find(key);
  if (it != sources->ids.end() && sources->places[it->second].code == code && sources->places[it->second].lasti == lasti) {
    Py_DECREF(code);
    last = {code, lasti, it->second};
    return it->second;
  }
  if (sources->places.size() >= kMaxSources) {  // a program that makes code for ever: later writes stay unnamed
    Py_DECREF(code);
    return 0;
  }
  const SourceId id = static_cast<SourceId>(sources->places.size());
  sources->places.push_back({code, lasti});
  sources->ids[key] = id;
  last = {code, lasti, id};
  return id;
}

// Whether a frame is one of the package's. What was found out is remembered: the line of an op is asked for each time.
bool known_as_own(PyFrameObject* frame) {
  struct Known {
    PyCodeObject* code = nullptr;  // owned: another must not get its address
    bool own = false;
  };
  static Known known[1024];
  PyCodeObject* code = PyFrame_GetCode(frame);
  Known& k = known[(reinterpret_cast<uintptr_t>(code) >> 5) % 1024];
  if (k.code == code) {
    Py_DECREF(code);
    return k.own;
  }
  Py_XDECREF(std::exchange(k.code, code));
  return k.own = is_own(code);
}

// The line of the user's program: the innermost that is none of the package, or the innermost of all.
SourceId source_with_gil() {
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  if (!frame) return 0;
  Py_INCREF(frame);
  while (known_as_own(frame)) {
    PyFrameObject* back = PyFrame_GetBack(frame);
    if (!back) break;  // a program of the package's
    Py_DECREF(frame);
    frame = back;
  }
  const SourceId place = place_of(frame);
  Py_DECREF(frame);
  return place;
}

// The calls around the running line, without the package's own frames, for the profiler. Equal stacks have one
// number: stacks are paths in a tree whose entries are a place and the stack that called it.
struct StackTree {
  struct Entry {
    uint32_t caller = 0;
    SourceId place = 0;
  };
  std::vector<Entry> entries{Entry{}};
  std::unordered_map<uint64_t, uint32_t> ids;
};
StackTree* stacks = nullptr;
constexpr size_t kMaxStacks = 1 << 20, kMaxStackDepth = 64;  // of deeper ones the innermost calls are kept
thread_local uint32_t stack_before_release = 0;

uint32_t stack_with_gil() {
  SourceId places[kMaxStackDepth];  // the innermost first
  size_t depth = 0;
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return 0;
  Py_INCREF(frame);
  while (frame && depth < kMaxStackDepth) {
    if (!is_own(frame)) places[depth++] = place_of(frame);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  if (depth == 0) places[depth++] = source_with_gil();  // a program of the package's
  uint32_t id = 0;
  while (depth > 0) {
    const SourceId place = places[--depth];
    const auto [it, made] = stacks->ids.try_emplace(uint64_t{id} << 32 | place, static_cast<uint32_t>(stacks->entries.size()));
    if (made && stacks->entries.size() >= kMaxStacks) {
      stacks->ids.erase(it);
      return 0;
    }
    if (made) stacks->entries.push_back({id, place});
    id = it->second;
  }
  return id;
}

uint32_t find_stack() { return has_gil() ? stack_with_gil() : stack_before_release; }

SourceId find_source() {
  if (!has_gil()) return source_before_release;
  return source_with_gil();
}

std::string source_text(SourceId id) {
  if (id == 0 || !Py_IsInitialized()) return "";
  GilAcquire gil;
  if (id >= sources->places.size()) return "";
  const auto& place = sources->places[id];
  auto* code = reinterpret_cast<PyCodeObject*>(place.code);
#if PY_VERSION_HEX >= 0x030B0000
  const int line = PyCode_Addr2Line(code, place.lasti);
#else
  const int line = place.lasti;
#endif
  std::string out = text(utf8(code->co_filename), ":", line, ", in ", utf8(code->co_name));
  // The line itself, where linecache has it.
  const Owned linecache(PyImport_ImportModule("linecache"));
  const Owned number(PyLong_FromLong(line));
  const Owned got(linecache.object && number.object ? call_method(linecache.object, "getline", code->co_filename, number.object) : nullptr);
  const Owned stripped(got.object ? call_method(got.object, "strip") : nullptr);
  if (stripped.object && PyObject_Size(stripped.object) > 0) out += " (`" + utf8(stripped.object) + "`)";
  PyErr_Clear();
  return out;
}

}  // namespace

void set_own_folder(const char* folder) { own_folder = folder; }

void note_source() {
  source_before_release = source_with_gil();
  if (profile::on() || anomaly.on) [[unlikely]]
    stack_before_release = profile::options().stack || anomaly.on ? stack_with_gil() : 0;
}

std::vector<std::string> stack_lines(uint32_t stack) {
  std::vector<std::string> out;
  for (; stack; stack = stacks->entries[stack].caller) out.push_back(source_text(stacks->entries[stack].place));
  return out;
}

void init_source() {
  sources = new SourceTable;
  stacks = new StackTree;
  current_source = find_source;
  describe_source = source_text;
  profile::current_stack = find_stack;
  stack_of_call = find_stack;
  describe_stack = [](uint32_t stack) {
    GilAcquire gil;
    std::string out;
    for (const std::string& line : stack_lines(stack)) out += (out.empty() ? "  " : "\n  ") + line;
    return out;
  };
}

}  // namespace fl::py
