#include "ops/rnn/cells.h"

#include "base/element.h"
#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class S, class T>
void lstm(const S* __restrict gx, const T* __restrict gh, const T* __restrict c, T* __restrict gates, S* __restrict h_next, T* __restrict c_next,
          int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T i = vm::sigmoid(vm::wide(gx[j]) + gh[j]), f = vm::sigmoid(vm::wide(gx[n + j]) + gh[n + j]);
    const T g = vm::tanh(vm::wide(gx[2 * n + j]) + gh[2 * n + j]), o = vm::sigmoid(vm::wide(gx[3 * n + j]) + gh[3 * n + j]);
    const T next = f * c[j] + i * g;
    gates[j] = i, gates[n + j] = f, gates[2 * n + j] = g, gates[3 * n + j] = o;
    c_next[j] = next;
    h_next[j] = vm::narrow<S>(o * vm::tanh(next));
  }
}

template <class S, class T>
void lstm_backward(const T* __restrict dh, const T* __restrict dc_next, const T* __restrict gates, const T* __restrict c,
                   S* __restrict dgates, T* __restrict dc, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T i = gates[j], f = gates[n + j], g = gates[2 * n + j], o = gates[3 * n + j];
    const T next = f * c[j] + i * g, t = vm::tanh(next);
    const T d = dc_next[j] + dh[j] * o * (1 - t * t);
    dgates[j] = vm::narrow<S>(d * g * i * (1 - i));
    dgates[n + j] = vm::narrow<S>(d * c[j] * f * (1 - f));
    dgates[2 * n + j] = vm::narrow<S>(d * i * (1 - g * g));
    dgates[3 * n + j] = vm::narrow<S>(dh[j] * t * o * (1 - o));
    dc[j] = d * f;
  }
}

template <class S, class T>
void gru(const S* __restrict gx, const T* __restrict gh, const S* __restrict h, T* __restrict gates, S* __restrict h_next, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T r = vm::sigmoid(vm::wide(gx[j]) + gh[j]), z = vm::sigmoid(vm::wide(gx[n + j]) + gh[n + j]), hn = gh[2 * n + j];
    const T m = vm::tanh(vm::wide(gx[2 * n + j]) + r * hn);
    gates[j] = r, gates[n + j] = z, gates[2 * n + j] = m, gates[3 * n + j] = hn;
    h_next[j] = vm::narrow<S>(m + z * (vm::wide(h[j]) - m));
  }
}

template <class S, class T>
void gru_backward(const T* __restrict dh_next, const T* __restrict gates, const S* __restrict h, S* __restrict dgx, S* __restrict dgh,
                  T* __restrict dh, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T r = gates[j], z = gates[n + j], m = gates[2 * n + j], hn = gates[3 * n + j], d = dh_next[j];
    const T dm = d * (1 - z) * (1 - m * m), dz = d * (vm::wide(h[j]) - m) * z * (1 - z), dr = dm * hn * r * (1 - r);
    dgx[j] = vm::narrow<S>(dr), dgx[n + j] = vm::narrow<S>(dz), dgx[2 * n + j] = vm::narrow<S>(dm);
    dgh[j] = vm::narrow<S>(dr), dgh[n + j] = vm::narrow<S>(dz), dgh[2 * n + j] = vm::narrow<S>(dm * r);
    dh[j] = d * z;
  }
}

template <class S, class T>
void add(const S* __restrict y, T* __restrict x, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) x[j] += vm::wide(y[j]);
}

}  // namespace

#define FL_DEFINE(S, T, suffix)                                                                                                             \
  void lstm_row_##suffix(const S* gx, const T* gh, const T* c, T* gates, S* h, T* cn, int64_t n) { lstm(gx, gh, c, gates, h, cn, n); }       \
  void lstm_row_backward_##suffix(const T* dh, const T* dcn, const T* gates, const T* c, S* dg, T* dc, int64_t n) {                          \
    lstm_backward(dh, dcn, gates, c, dg, dc, n);                                                                                            \
  }                                                                                                                                         \
  void gru_row_##suffix(const S* gx, const T* gh, const S* h, T* gates, S* hn, int64_t n) { gru(gx, gh, h, gates, hn, n); }                  \
  void gru_row_backward_##suffix(const T* d, const T* gates, const S* h, S* dgx, S* dgh, T* dh, int64_t n) {                                 \
    gru_backward(d, gates, h, dgx, dgh, dh, n);                                                                                             \
  }                                                                                                                                         \
  void rnn_add_##suffix(const S* y, T* x, int64_t n) { add(y, x, n); }
FL_DEFINE(float, float, f32)
FL_DEFINE(double, double, f64)
FL_DEFINE(BFloat16, float, bf16)
FL_DEFINE(Float16, float, f16)

}  // namespace fl::kernels::FL_ISA
