// What the ops use of oneDNN. Each function returns false where oneDNN does not apply: the caller then
// takes its own kernel. Without oneDNN (FLAMBEAU_ONEDNN = 0) all of them do.
#pragma once

#include <memory>

#include "ops/matmul/gemm.h"
#include "tensor/tensor.h"

namespace fl::onednn {

// Extents of a convolution over any number of spatial axes.
struct ConvShape {
  Dims x, w, y;  // [N, C, *], [O, C / groups, *], [N, O, *]
  Dims stride, padding, dilation;
  int64_t groups = 1;
};

struct Primitive;

// c = a b for many row-major a [m, k], with b packed once, or as its owner keeps it: Note [Prepared bytes]. a and b of type
// `t`, c float32. run() is false where oneDNN does not apply.
class PackedProduct {
 public:
  PackedProduct() = default;
#if FLAMBEAU_ONEDNN
  PackedProduct(DType t, int64_t m, int64_t n, int64_t k, const void* b, int64_t b_row, int64_t b_col, Storage* owner);
  bool run(const void* a, float* c) const;
  explicit operator bool() const { return primitive_ != nullptr; }
#else
  PackedProduct(DType, int64_t, int64_t, int64_t, const void*, int64_t, int64_t, Storage*) {}
  bool run(const void*, float*) const { return false; }
  explicit operator bool() const { return false; }
#endif

 private:
  std::shared_ptr<const Primitive> primitive_;
  Tensor packed_;
};

#if FLAMBEAU_ONEDNN
// Whether oneDNN convolves this type on this processor.
bool convolves(DType t);
bool sgemm(const Gemm<float>& g);
// Has another thread make the kernels of sgemm, once, where there may be one: Note [Kernels that are made ahead].
void make_products_ahead();
void end_python();  // when Python has ended: the process may end soon
// Products of 16-bit floats with float32 sums, with `add` added to what is there; all pointers of type `t`, C row-major.
bool gemm16(DType t, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_batch, int64_t a_row, int64_t a_col,
            const void* b, int64_t b_batch, int64_t b_row, int64_t b_col, void* c, const void* bias_n, bool add);
// c = a b, or with `add` c += a b, in float32, for a and b of 16-bit type `t`; c is row-major with rows `ldc` apart.
bool gemm16_wide(DType t, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_row, int64_t a_col, const void* b, int64_t b_row,
                 int64_t b_col, float* c, int64_t ldc, bool add);
// Weights are row-major. Activations are row-major tensors, or with `last` channels-last bytes (ChannelRows).
bool conv_forward(const ConvShape& s, bool last, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
bool conv_backward_data(const ConvShape& s, bool last, const Tensor& dy, const Tensor& w, const Tensor& dx);
// db may be undefined.
bool conv_backward_weight(const ConvShape& s, bool last, const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db);
#else
inline bool convolves(DType) { return false; }
inline bool sgemm(const Gemm<float>&) { return false; }
inline void make_products_ahead() {}
inline void end_python() {}
inline bool gemm16(DType, int64_t, int64_t, int64_t, int64_t, const void*, int64_t, int64_t, int64_t, const void*, int64_t, int64_t,
                   int64_t, void*, const void*, bool) {
  return false;
}
inline bool gemm16_wide(DType, int64_t, int64_t, int64_t, const void*, int64_t, int64_t, const void*, int64_t, int64_t, float*, int64_t, bool) {
  return false;
}
inline bool conv_forward(const ConvShape&, bool, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { return false; }
inline bool conv_backward_data(const ConvShape&, bool, const Tensor&, const Tensor&, const Tensor&) { return false; }
inline bool conv_backward_weight(const ConvShape&, bool, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { return false; }
#endif

}  // namespace fl::onednn
