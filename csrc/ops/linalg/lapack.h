// LAPACK of a library that the process has already, NumPy's: for spectra of larger matrices, where its blocked
// algorithms are several times as fast as the loops of this folder. Nothing depends on it: without one, those loops do everything.
#pragma once

#include <cstdint>

namespace fl::linalg {

// From there on kernels use the functions of the shared library at `path`, whose names are prefix + "dsyevd" + suffix and so on,
// and whose integers have 64 bits. False, and nothing changes, where it can not be loaded or lacks one of them.
bool use_lapack(const char* path, const char* prefix, const char* suffix);
bool has_lapack();

// While one lives, LAPACK works with as many threads as a matrix of `size` rows is worth, at most num_threads(): OpenBLAS
// else takes all processors, whatever the size, and its threads spin while they wait for one another, which takes hundreds of
// times as long where something else runs. Its number is the process's: the last to go puts it back.
class LapackThreads {
 public:
  explicit LapackThreads(int64_t size);
  LapackThreads(const LapackThreads&) = delete;
  ~LapackThreads();

 private:
  bool counted_;
};
// Whether a matrix of this many rows gets one thread, so that several matrices may go beside one another.
bool lapack_is_serial(int64_t size);

// Eigenvalues, ascending, and eigenvectors in the rows of a [n, n], of which the triangle below (`lower`) or above the diagonal is
// read; without `vectors` a is only destroyed. Returns LAPACK's info: 0 where it succeeded.
int64_t lapack_eigen(float* a, int64_t n, bool lower, bool vectors, float* w);
int64_t lapack_eigen(double* a, int64_t n, bool lower, bool vectors, double* w);
// a [m, n], which is destroyed, = u diag(s) vh; u [m, m or k] and vh [n or k, n] for k = min(m, n), null where not wanted.
int64_t lapack_svd(float* a, int64_t m, int64_t n, bool full, float* u, float* s, float* vh);
int64_t lapack_svd(double* a, int64_t m, int64_t n, bool full, double* u, double* s, double* vh);

}  // namespace fl::linalg
