#include <algorithm>
#include <bit>

#include "backend/onednn/cache.h"
#include "backend/onednn/onednn.h"

namespace fl::onednn {

bool sgemm(const Gemm<float>& g) {
  const auto plain = [](const Mat<float>& x, int64_t rows, int64_t cols, char& trans, int64_t& ld) {
    if (x.col == 1 && (x.row >= cols || rows == 1)) {
      trans = 'N';
      ld = std::max(x.row, cols);
      return true;
    }
    trans = 'T';
    ld = std::max(x.col, rows);
    return x.row == 1 && (x.col >= rows || cols == 1);
  };
  char ta, tb;
  int64_t lda, ldb;
  if (g.k == 0 || !plain(g.a, g.m, g.k, ta, lda) || !plain(g.b, g.k, g.n, tb, ldb)) return false;
  float beta = g.beta;
  if (g.bias_n || g.bias_m) {  // C starts as the bias
    for (int64_t i = 0; i < g.m; ++i) {
      float* row = g.c + i * g.ldc;
      const float add = g.bias_m ? g.bias_m[i] : 0;
      for (int64_t j = 0; j < g.n; ++j) {
        const float start = add + (g.bias_n ? g.bias_n[j] : 0);
        row[j] = g.beta != 0 ? g.beta * row[j] + start : start;
      }
    }
    beta = 1;
  }
  return dnnl_sgemm(ta, tb, g.m, g.n, g.k, g.alpha, g.a.data, std::max<int64_t>(lda, 1), g.b.data, std::max<int64_t>(ldb, 1), beta, g.c,
                    g.ldc) == dnnl_success;
}

PackedProduct::PackedProduct(DType t, int64_t m, int64_t n, int64_t k, const void* b, int64_t b_row, int64_t b_col) {
  if (!has_native(t) || m * n * k < 32 * 32 * 32 || (b_row != 1 && b_col != 1)) return;
  Key key(Op::PackedMatmul);
  key.add(static_cast<int64_t>(t)).add(m).add(n).add(k).add(b_row).add(b_col);
  primitive_ = cached(key, [&](Primitive& out) {
    using md = dnnl::memory::desc;
    const auto type = data_type(t);
    const md a({m, k}, type, dnnl::memory::format_tag::ab), any({k, n}, type, dnnl::memory::format_tag::any);
    const md c({m, n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
    const auto pd = dnnl::matmul::primitive_desc(engine(), a, any, c, default_attr());
    add_reorder(out, md({k, n}, type, {b_row, b_col}), pd.weights_desc(), false);
    out.mds = {a, c};
    out.scratchpad = pd.scratchpad_desc();
    out.primitive = dnnl::matmul(pd);
  });
  if (primitive_) packed_ = reordered(*primitive_, 0, b);
}

bool PackedProduct::run(const void* a, float* c) const {
  if (!primitive_) return false;
  Args args;
  args.add(DNNL_ARG_SRC, primitive_->mds[0], a).add(DNNL_ARG_WEIGHTS, primitive_->reorders[0].wanted, packed_.data()).add(DNNL_ARG_DST, primitive_->mds[1], c);
  return args.run(*primitive_);
}

bool gemm16(DType t, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_batch, int64_t a_row, int64_t a_col,
            const void* b, int64_t b_batch, int64_t b_row, int64_t b_col, void* c, const void* bias_n) {
  if (!has_native(t) || m * n * k * batch < 64 * 64 * 16) return false;
  if ((a_row != 1 && a_col != 1) || (b_row != 1 && b_col != 1)) return false;
  const auto type = data_type(t);
  Key key(Op::Matmul);
  key.add(static_cast<int64_t>(t)).add(batch).add(m).add(n).add(k).add(a_batch).add(a_row).add(a_col).add(b_batch).add(b_row).add(b_col).add(bias_n != nullptr);
  const auto p = cached(key, [&](Primitive& out) {
    using md = dnnl::memory::desc;
    const dnnl::memory::dims ca = {batch, m, k}, cb = {batch, k, n}, cc = {batch, m, n};
    out.mds = {md(ca, type, {a_batch, a_row, a_col}), md(cb, type, {b_batch, b_row, b_col}), md(cc, type, {m * n, n, 1})};
    const auto attr = default_attr();
    if (bias_n) out.mds.push_back(md({1, 1, n}, type, {n, n, 1}));
    const auto pd = bias_n ? dnnl::matmul::primitive_desc(engine(), out.mds[0], out.mds[1], out.mds[3], out.mds[2], attr)
                           : dnnl::matmul::primitive_desc(engine(), out.mds[0], out.mds[1], out.mds[2], attr);
    out.scratchpad = pd.scratchpad_desc();
    out.primitive = dnnl::matmul(pd);
  });
  if (!p) return false;
  Args args;
  args.add(DNNL_ARG_SRC, p->mds[0], a).add(DNNL_ARG_WEIGHTS, p->mds[1], b).add(DNNL_ARG_DST, p->mds[2], c);
  if (bias_n) args.add(DNNL_ARG_BIAS, p->mds[3], bias_n);
  return args.run(*p);
}

bool gemm16_wide(DType t, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_row, int64_t a_col, const void* b, int64_t b_row,
                 int64_t b_col, float* c, int64_t ldc, float alpha, float beta) {
  if (!has_native(t) || m * n * k < 64 * 64 * 16) return false;
  if ((a_row != 1 && a_col != 1) || (b_row != 1 && b_col != 1)) return false;
  Key key(Op::WideMatmul);
  key.add(static_cast<int64_t>(t)).add(m).add(n).add(k).add(a_row).add(a_col).add(b_row).add(b_col).add(ldc);
  key.add(std::bit_cast<int32_t>(alpha)).add(std::bit_cast<int32_t>(beta));
  const auto p = cached(key, [&](Primitive& out) {
    using md = dnnl::memory::desc;
    out.mds = {md({m, k}, data_type(t), {a_row, a_col}), md({k, n}, data_type(t), {b_row, b_col}), md({m, n}, dnnl::memory::data_type::f32, {ldc, 1})};
    dnnl::post_ops after;
    if (alpha != 1) after.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
    if (beta != 0) after.append_sum(beta);
    auto attr = default_attr();
    attr.set_post_ops(after);
    const auto pd = dnnl::matmul::primitive_desc(engine(), out.mds[0], out.mds[1], out.mds[2], attr);
    out.scratchpad = pd.scratchpad_desc();
    out.primitive = dnnl::matmul(pd);
  });
  if (!p) return false;
  Args args;
  args.add(DNNL_ARG_SRC, p->mds[0], a).add(DNNL_ARG_WEIGHTS, p->mds[1], b).add(DNNL_ARG_DST, p->mds[2], c);
  return args.run(*p);
}

}  // namespace fl::onednn
