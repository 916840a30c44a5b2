// Preloaded: while this thread says so, the library's own requests for memory are refused.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {
thread_local __attribute__((tls_model("initial-exec"))) bool refusing = false;
thread_local __attribute__((tls_model("initial-exec"))) long refused = 0;
uintptr_t first = 0, last = 0;  // the library's code

bool refuses(void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (!refusing || at < first || at >= last) return false;
  ++refused;
  return true;
}
using Malloc = void* (*)(size_t);
Malloc next_malloc() {
  static const auto f = reinterpret_cast<Malloc>(dlsym(RTLD_NEXT, "malloc"));
  return f;
}
}  // namespace

extern "C" {
void refuse_calls_from(uintptr_t begin, uintptr_t end) { first = begin, last = end; }
void refuse_memory(int on) { refusing = on != 0; }
long refused_requests() { return refused; }
void* malloc(size_t bytes) { return refuses(__builtin_return_address(0)) ? nullptr : next_malloc()(bytes); }
}

void* operator new(size_t bytes) {
  if (refuses(__builtin_return_address(0))) throw std::bad_alloc();
  if (void* p = next_malloc()(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return refuses(__builtin_return_address(0)) ? nullptr : next_malloc()(bytes ? bytes : 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
