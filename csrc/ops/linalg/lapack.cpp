#include "ops/linalg/lapack.h"

#include <dlfcn.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "base/parallel.h"

namespace fl::linalg {
namespace {

using Int = int64_t;
// Fortran passes everything by address, and the lengths of strings behind the other arguments.
template <class T>
struct Functions {
  void (*syevd)(const char*, const char*, const Int*, T*, const Int*, T*, T*, const Int*, Int*, const Int*, Int*, size_t, size_t);
  void (*gesdd)(const char*, const Int*, const Int*, T*, const Int*, T*, T*, const Int*, T*, const Int*, T*, const Int*, Int*, Int*, size_t);
};
struct Lapack {
  Functions<float> single;
  Functions<double> twice;
  void (*set_threads)(const Int*) = nullptr;  // as Fortran calls it; null where the library has no such function
  int (*get_threads)() = nullptr;
};
std::atomic<const Lapack*> loaded{nullptr};

constexpr int64_t kSeveralThreads = 512;  // rows from which a matrix is worth several

ForkMutex threads_mutex(LockRank::LapackThreads);  // of the two below
Int threads_users = 0, threads_before = 0;

template <class T>
const Functions<T>& functions() {
  const Lapack& l = *loaded.load();
  if constexpr (sizeof(T) == 4) return l.single;
  else return l.twice;
}

template <class F>
bool find(void* library, const std::string& name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name.c_str()));
  return function != nullptr;
}
template <class T>
bool find_all(void* library, const std::string& prefix, const std::string& suffix, Functions<T>& out) {
  const std::string letter = prefix + (sizeof(T) == 4 ? "s" : "d");
  return find(library, letter + "syevd" + suffix, out.syevd) && find(library, letter + "gesdd" + suffix, out.gesdd);
}

// Asks how much memory the call wants, and calls again with it.
template <class T, class F>
Int with_work(F&& call) {
  T size = 0;
  if (const Int info = call(&size, Int{-1})) return info;
  std::vector<T> work(static_cast<size_t>(size) + 1);
  return call(work.data(), static_cast<Int>(work.size()));
}

template <class T>
Int eigen(T* a, Int n, bool lower, bool vectors, T* w) {
  // Columns there are rows here: the other triangle is meant, and eigenvectors come in rows.
  const char job = vectors ? 'V' : 'N', triangle = lower ? 'U' : 'L';
  std::vector<Int> indices(static_cast<size_t>(vectors ? 3 + 5 * n : 1));
  const Int count = static_cast<Int>(indices.size());
  return with_work<T>([&](T* work, Int size) {
    Int info = 0;
    const Int asked = size < 0 ? -1 : count;
    functions<T>().syevd(&job, &triangle, &n, a, &n, w, work, &size, indices.data(), &asked, &info, 1, 1);
    return info;
  });
}
template <class T>
Int svd(T* a, Int m, Int n, bool full, T* u, T* s, T* vh) {
  // The transpose is what is given, so that u and vh change places.
  const char job = !u ? 'N' : full ? 'A' : 'S';
  const Int k = m < n ? m : n, left = n, right = !u ? 1 : full ? m : k;
  std::vector<Int> indices(static_cast<size_t>(8 * k + 1));
  return with_work<T>([&](T* work, Int size) {
    Int info = 0;
    functions<T>().gesdd(&job, &n, &m, a, &n, s, vh, &left, u, &right, work, &size, indices.data(), &info, 1);
    return info;
  });
}

}  // namespace

bool use_lapack(const char* path, const char* prefix, const char* suffix) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  auto* found = new Lapack;  // lives as long as the process
  if (!find_all(library, prefix, suffix, found->single) || !find_all(library, prefix, suffix, found->twice)) {
    delete found;
    dlclose(library);
    return false;
  }
  if (!find(library, std::string(prefix) + "openblas_set_num_threads" + suffix, found->set_threads) ||
      !find(library, std::string(prefix) + "openblas_get_num_threads" + suffix, found->get_threads))
    found->set_threads = nullptr;
  loaded.store(found);
  return true;
}

bool lapack_is_serial(int64_t size) { return size < kSeveralThreads || num_threads() == 1; }

LapackThreads::LapackThreads(int64_t size) : counted_(has_lapack() && loaded.load()->set_threads) {
  if (!counted_) return;
  const Lapack& l = *loaded.load();
  const Int wanted = lapack_is_serial(size) ? 1 : num_threads();
  const std::lock_guard lock(threads_mutex);
  if (threads_users++ == 0) threads_before = l.get_threads();
  if (l.get_threads() != wanted) l.set_threads(&wanted);
}
LapackThreads::~LapackThreads() {
  if (!counted_) return;
  const Lapack& l = *loaded.load();
  const std::lock_guard lock(threads_mutex);
  if (--threads_users == 0 && l.get_threads() != threads_before) l.set_threads(&threads_before);
}
bool has_lapack() { return loaded.load() != nullptr; }

int64_t lapack_eigen(float* a, int64_t n, bool lower, bool vectors, float* w) { return eigen(a, n, lower, vectors, w); }
int64_t lapack_eigen(double* a, int64_t n, bool lower, bool vectors, double* w) { return eigen(a, n, lower, vectors, w); }
int64_t lapack_svd(float* a, int64_t m, int64_t n, bool full, float* u, float* s, float* vh) { return svd(a, m, n, full, u, s, vh); }
int64_t lapack_svd(double* a, int64_t m, int64_t n, bool full, double* u, double* s, double* vh) { return svd(a, m, n, full, u, s, vh); }

}  // namespace fl::linalg
