#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "backend/onednn/cache.h"
#include "backend/onednn/onednn.h"
#include "base/error.h"
#include "base/parallel.h"
#include "storage/prepared.h"

namespace fl::onednn {

namespace {

// An operand as sgemm wants it: rows or columns contiguous. False for other strides.
bool plain(const Mat<float>& x, int64_t rows, int64_t cols, char& trans, int64_t& ld) {
  if (x.col == 1 && (x.row >= cols || rows == 1)) {
    trans = 'N';
    ld = std::max(x.row, cols);
    return true;
  }
  trans = 'T';
  ld = std::max(x.col, rows);
  return x.row == 1 && (x.col >= rows || cols == 1);
}

// How a matrix that is kept for many products lies: as oneDNN likes it. Without AVX-512 that is row after row, for a kernel that goes down its columns:
// where rows are a power of two apart their lines share a few sets of the cache, so that some room is left between them. (64 rows by 256 x 1024 on a
// Zen 1, one core: 1.95 ms, not kept 0.9, kept with room between its rows 0.85.)
dnnl::memory::desc kept_form(int64_t k, int64_t n, dnnl::memory::data_type type) {
  constexpr int64_t kApart = 128, kRoom = 16;
  if (type != dnnl::memory::data_type::f32 || has_avx512() || n % kApart != 0) return {{k, n}, type, dnnl::memory::format_tag::any};
  return {{k, n}, type, dnnl::memory::dims{n + kRoom, 1}};
}

// Note [Primitives of any number of rows]
// Where sentences or batches have other lengths each time, a product has a number of rows that was not there before. Making a primitive takes 0.1 to 0.3 ms, as long
// as a small product. Without AVX-512 a matmul of oneDNN is its sgemm, which needs no code for a size: one primitive is made that takes
// its rows as they come, and that of a number of rows is the same with other descriptors. With AVX-512 it has code for each.
constexpr int64_t kAnyRows = DNNL_RUNTIME_DIM_VAL;

// The matmul primitive, with the bias added as tiles are written. B is taken as it lies or packed.
std::shared_ptr<const Primitive> matmul_of(const Entry& entry, const Gemm<float>& g, int64_t m, char ta, int64_t lda, char tb, int64_t ldb, bool packed) {
  const bool bias = g.bias_n != nullptr;
  Key key(entry, Op::Product);
  key.add(m).add(g.n).add(g.k).add(ta).add(lda).add(tb).add(ldb).add(g.ldc).add(bias).add(packed);
  return cached(entry, key, [&](Primitive& out) {
    using md = dnnl::memory::desc;
    using dims = dnnl::memory::dims;
    const auto type = dnnl::memory::data_type::f32;
    out.mds = {md({m, g.k}, type, ta == 'N' ? dims{lda, 1} : dims{1, lda}), md({m, g.n}, type, dims{g.ldc, 1}), md({1, g.n}, type, dims{g.n, 1})};
    if (m != kAnyRows && !has_avx512()) {
      const auto any = matmul_of(entry, g, kAnyRows, ta, lda, tb, ldb, packed);
      if (!any) throw dnnl::error(dnnl_unimplemented, "no kernel for any number of rows");
      out.primitive = any->primitive;
      out.scratchpad = any->scratchpad;
      out.reorders = any->reorders;
      return;
    }
    const md b({g.k, g.n}, type, tb == 'N' ? dims{ldb, 1} : dims{1, ldb}), wanted = packed ? kept_form(g.k, g.n, type) : b;
    const auto pd = bias ? dnnl::matmul::primitive_desc(entry.engine(), out.mds[0], wanted, out.mds[2], out.mds[1], default_attr())
                         : dnnl::matmul::primitive_desc(entry.engine(), out.mds[0], wanted, out.mds[1], default_attr());
    add_reorder(entry, out, b, pd.weights_desc(), false);
    adopt<dnnl::matmul>(out, pd);
  });
}

// Numbers of about 1 without a pattern, which repeat after a prime number of them.
Tensor noise(int64_t n, uint32_t seed) {
  constexpr int64_t kPeriod = 8191;
  Tensor x = empty(Dims{n}, DType::Float32);
  float* to = x.data<float>();
  for (int64_t i = 0; i < std::min(n, kPeriod); ++i) {
    uint32_t h = static_cast<uint32_t>(i) * 0x9e3779b9u + seed;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    to[i] = static_cast<float>(static_cast<int32_t>(h ^ (h >> 16))) * 0x1p-30f;
  }
  for (int64_t done = kPeriod; done < n; done += kPeriod) std::copy_n(to, std::min(kPeriod, n - done), to + done);
  return x;
}

// Whether most of some elements of B are different numbers: sums of zeros or ones would be the same in any order.
bool varied(const Gemm<float>& g) {
  constexpr int64_t kLooks = 64;
  std::vector<uint32_t> seen;  // bits, which NaNs have as well
  for (int64_t i = 0; i < kLooks; ++i) seen.push_back(std::bit_cast<uint32_t>(g.b.data[i * (g.k - 1) / (kLooks - 1) * g.b.row + i * 7 % g.n * g.b.col]));
  std::sort(seen.begin(), seen.end());
  return std::unique(seen.begin(), seen.end()) - seen.begin() >= kLooks / 2;
}

// Note [The same bits, packed or not]
// Some of oneDNN's kernels add up in another order where B lies otherwise, and which kernel is taken depends on the layout, the shape and the processor.
// A weight is packed where it is used again, so a model would give other bits from its second use on than a copy of it at its first. So a packed
// product has to show that it has the bits of the plain one: both multiply numbers without a pattern by a weight without one. That takes as long as three
// products, so it is done where the same product comes for the fourth time, not for each length of a sentence.
// Where they differ B is taken as it lies. (Without AVX-512: up to 100 rows, where packing saves a quarter, they are the same; of 128 to 256 rows,
// where it saves 2 to 10 %, most are not.)
// The packed product in place of the plain one; null where there is none that has the same bits.
std::shared_ptr<const Primitive> packed_of(const Entry& entry, const Primitive& plain, const Gemm<float>& g, char ta, int64_t lda, char tb, int64_t ldb) {
  enum : int { kNew, kSeen = 3, kSame, kOther };
  const int verdict = plain.verdict.load(std::memory_order_relaxed);
  if (verdict == kOther) return nullptr;
  if (verdict < kSeen) {
    plain.verdict.store(verdict + 1, std::memory_order_relaxed);
    return nullptr;
  }
  constexpr int64_t kMost = int64_t{1} << 25;  // elements of all operands
  if (verdict == kSeen && !varied(g)) return nullptr;
  auto packed = matmul_of(entry, g, g.m, ta, lda, tb, ldb, true);
  if (verdict == kSame) return packed;
  const int64_t size_a = ta == 'N' ? (g.m - 1) * lda + g.k : (g.k - 1) * lda + g.m, size_c = (g.m - 1) * g.ldc + g.n;
  const auto found = [&] {
    if (!packed || size_a > kMost || size_c > kMost || size_a + 2 * size_c > kMost) return kOther;
    try {
      const Tensor a = noise(size_a, 1), bias = noise(g.n, 2), c = empty(Dims{size_c}, DType::Float32), other = empty(Dims{size_c}, DType::Float32);
      const auto run = [&](const Primitive& p, const Tensor& to, bool kept) {
        Args args(entry);
        args.add(DNNL_ARG_SRC, p.mds[0], a.data()).add(DNNL_ARG_DST, p.mds[1], to.data());
        if (kept) args.weight(p, 0, DNNL_ARG_WEIGHTS, *g.b.owner, g.b.data, true);
        else args.input(p, 0, DNNL_ARG_WEIGHTS, g.b.data);
        if (g.bias_n) args.add(DNNL_ARG_BIAS, p.mds[2], bias.data());
        return args.run(p);
      };
      if (!run(plain, c, false) || !run(*packed, other, true)) return kOther;
      for (int64_t i = 0; i < g.m; ++i)
        if (std::memcmp(c.data<float>() + i * g.ldc, other.data<float>() + i * g.ldc, static_cast<size_t>(g.n) * sizeof(float)) != 0) return kOther;
      return kSame;
    } catch (const OutOfMemory&) {
      return kOther;
    }
  }();
  plain.verdict.store(found, std::memory_order_relaxed);
  return found == kSame ? packed : nullptr;
}

// The product by oneDNN's matmul. B is taken as it lies or, where its storage keeps it, packed: a weight that was used before since it was written.
bool product(const Gemm<float>& g, char ta, int64_t lda, char tb, int64_t ldb) {
  constexpr int64_t kMostPacked = int64_t{1} << 24;  // elements: a second copy of larger weights gains too little
  const bool again = g.b.owner && g.n * g.k <= kMostPacked && used_before(*g.b.owner, g.b.data, "product");
  const Entry entry;
  const auto plain = matmul_of(entry, g, g.m, ta, lda, tb, ldb, false);
  if (!plain) return false;
  const auto packed = again ? packed_of(entry, *plain, g, ta, lda, tb, ldb) : nullptr;
  const auto& p = packed ? packed : plain;
  Args args(entry);
  args.add(DNNL_ARG_SRC, p->mds[0], g.a.data).add(DNNL_ARG_DST, p->mds[1], g.c);
  if (packed) args.weight(*p, 0, DNNL_ARG_WEIGHTS, *g.b.owner, g.b.data, true);
  else args.input(*p, 0, DNNL_ARG_WEIGHTS, g.b.data);
  if (g.bias_n) args.add(DNNL_ARG_BIAS, p->mds[2], g.bias_n);
  return args.run(*p);
}

// Whether the matmul primitive beats sgemm: where B is transposed (weights of linear) sgemm packs all of it for few rows
// of A. Measured on one core of AVX-512, 32 x 2048 x 784: 1.1 against 2.0 ms; 128 x 2048 x 2048: 10.3 against 12.5 ms;
// 1024 x 1152 x 384: 8.7 against 8.4 ms.
// Up to a dozen rows sgemm has a kernel of its own, which reads B at the rate of memory, but takes each row of A anew. A packed
// weight is twice as fast from four rows on (two cores of AVX-512, 8 x 1000 x 2048: 0.21 against 0.43 ms, not packed 0.35;
// AVX2: 0.29 against 0.39), but for large ones with AVX2 (4 x 4096 x 4096: 3.8 against 2.6), and for small ones that are written at each step.
bool prefers_product(const Gemm<float>& g, char tb) {
  if (tb != 'T' || g.alpha != 1 || g.beta != 0 || g.bias_m) return false;
  const int64_t weight = g.n * g.k;
  if (g.m <= 12) return g.m >= 4 && weight >= 1 << 20 && (has_avx512() || weight <= 1 << 22);
  return g.m <= (g.bias_n ? 1024 : 512) && g.m * weight >= 1 << 19;
}

// Whether sgemm reads a row-major B where it lies, down columns whose lines share a few sets of the cache. It does so without AVX-512 where C has few rows
// or columns, as if copies did not pay; our own kernels copy. (Two cores of a Zen 1, A B of 260 x 256 x 1024: 3.6 against 1.9 ms; A^T B of
// 1024 x 64 x 256: 1.27 against 0.52; of 512 x 512 x 512: 4.2 against 3.8.)
bool reads_far_apart(const Gemm<float>& g, char tb, int64_t ldb) {
  constexpr double kFew = 0.0038;  // oneDNN's
  return tb == 'N' && !has_avx512() && (ldb % 512 == 0 || ldb == 256) && 1.0 / static_cast<double>(g.m) + 1.0 / static_cast<double>(g.n) >= kFew;
}

// Whether sgemm reads a transposed A where it lies, along rows whose lines share a few sets of the cache: the gradient of a weight with many rows, from many
// samples. It does so with AVX-512 where C has few rows or columns; the matmul primitive copies. (Two cores of an Intel Xeon, 1024 samples: a weight of
// 1536 x 384 takes 4.3 against 3.6 ms, of 8192 x 384 21.8 against 19.1; 2048 samples, 2048 x 512: 15.0 against 11.7. Up to 512 samples they are equal.)
bool reads_across(const Gemm<float>& g, char ta, int64_t lda, char tb) {
  constexpr double kFew = 0.00196;  // oneDNN's
  return ta == 'T' && tb == 'N' && has_avx512() && g.alpha == 1 && g.beta == 0 && !g.bias_m && g.k > 512 && lda >= 1024 && lda % 512 == 0 &&
         1.0 / static_cast<double>(g.m) + 1.0 / static_cast<double>(g.n) >= kFew;
}

// Row i of C before the product is added to it: beta times what is there, and the bias. (Without branches in its loops: a row of 256 took as long as the
// product of 16 numbers each.)
void start_row(const Gemm<float>& g, int64_t i) {
  float* const row = g.c + i * g.ldc;
  const float add = g.bias_m ? g.bias_m[i] : 0;
  if (g.beta == 0 && g.bias_n && !g.bias_m) {
    std::memcpy(row, g.bias_n, static_cast<size_t>(g.n) * sizeof(float));
    return;
  }
  if (g.beta == 0) {
#pragma omp simd
    for (int64_t j = 0; j < g.n; ++j) row[j] = add;
  } else {
#pragma omp simd
    for (int64_t j = 0; j < g.n; ++j) row[j] = g.beta * row[j] + add;
  }
  if (!g.bias_n) return;
#pragma omp simd
  for (int64_t j = 0; j < g.n; ++j) row[j] += g.bias_n[j];
}

// Whether a product by alpha is exact. sgemm multiplies by it at another place where there are several threads, so that
// otherwise the bits would depend on their number.
bool exact_factor(float alpha) {
  int exponent;
  return std::abs(std::frexp(alpha, &exponent)) == 0.5f;
}

}  // namespace

bool sgemm(const Gemm<float>& g) {
  if (!exact_factor(g.alpha)) return false;
  char ta, tb;
  int64_t lda, ldb;
  if (g.k == 0 || !plain(g.a, g.m, g.k, ta, lda) || !plain(g.b, g.k, g.n, tb, ldb)) return false;
  lda = std::max<int64_t>(lda, 1), ldb = std::max<int64_t>(ldb, 1);
  if ((prefers_product(g, tb) || reads_across(g, ta, lda, tb)) && product(g, ta, lda, tb, ldb)) return true;
  if (reads_far_apart(g, tb, ldb)) return false;
  float beta = g.beta;
  if (g.bias_n || g.bias_m) {  // C starts as the bias
    parallel_work(g.m, g.n, 16384, [&](int64_t i0, int64_t i1) {
      for (int64_t i = i0; i < i1; ++i) start_row(g, i);
    });
    beta = 1;
  }
  return Entry().sgemm(ta, tb, g.m, g.n, g.k, g.alpha, g.a.data, lda, g.b.data, ldb, beta, g.c, g.ldc);
}

// Note [Kernels that are made ahead]
// The first sgemm of a process makes the kernels for all of them, which takes about 25 ms: half of the first training step of
// a small network. A layer whose gradients need them is made long before it is used, and what makes layers runs on one
// processor. So a thread of its own does a product then. It is inside of an Entry, for which forks wait; who needs sgemm
// meanwhile waits for it there. When Python ends it waits for the thread (end_python), since oneDNN's data would be gone under
// its feet when the process does. A C program that calls exit() within those 25 ms without ending Python is not helped.
namespace {

struct Ahead {
  std::atomic<bool> begun{false}, inside{false};
  std::thread* thread = nullptr;  // never deleted: in a forked child there is no such thread
  pid_t process = 0;
};
Ahead ahead;

void first_product() try {
  const Entry entry(1);
  ahead.inside = true;
  ahead.inside.notify_one();
  constexpr int64_t n = 64;
  std::vector<float> zeros(3 * n * n);
  entry.sgemm('N', 'N', n, n, n, 1, zeros.data(), n, zeros.data() + n * n, n, 0, zeros.data() + 2 * n * n, n);
} catch (...) {  // no memory: who wants a product will say so
  ahead.inside = true;
  ahead.inside.notify_one();
}

}  // namespace

void make_products_ahead() {
  if (ahead.begun.load(std::memory_order_relaxed) || num_threads() < 2 || ahead.begun.exchange(true)) return;
  const NoSignals quiet;  // they are the other threads' business
  try {
    ahead.thread = new std::thread(first_product);
    ahead.process = getpid();
    ahead.inside.wait(false);  // until a fork would wait for it
  } catch (...) {  // no thread to be had: the first product makes them
  }
}

void end_python() {
  if (ahead.thread && ahead.process == getpid() && ahead.thread->joinable()) ahead.thread->join();
  std::atexit(&leave_for_good);  // the last that is registered is the first that runs
}

namespace {
// c = a b, or with `add` c += a b.
dnnl::primitive_attr attr_that_adds(bool add) {
  auto attr = default_attr();
  if (!add) return attr;
  dnnl::post_ops after;
  after.append_sum();
  attr.set_post_ops(after);
  return attr;
}
}  // namespace

PackedProduct::PackedProduct(DType t, int64_t m, int64_t n, int64_t k, const void* b, int64_t b_row, int64_t b_col, Storage* owner) {
  if (!has_native(t) || m * n * k < 32 * 32 * 32 || (b_row != 1 && b_col != 1)) return;
  const Entry entry;
  Key key(entry, Op::PackedMatmul);
  key.add(static_cast<int64_t>(t)).add(m).add(n).add(k).add(b_row).add(b_col);
  primitive_ = cached(entry, key, [&](Primitive& out) {
    using md = dnnl::memory::desc;
    const auto type = data_type(t);
    const md a({m, k}, type, dnnl::memory::format_tag::ab);
    const md c({m, n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
    const auto pd = dnnl::matmul::primitive_desc(entry.engine(), a, kept_form(k, n, type), c, default_attr());
    add_reorder(entry, out, md({k, n}, type, {b_row, b_col}), pd.weights_desc(), false);
    out.mds = {a, c};
    adopt<dnnl::matmul>(out, pd);
  });
  if (!primitive_) return;
  if (owner) packed_ = kept(entry, *primitive_, 0, *owner, b);
  if (!packed_.defined()) packed_ = reordered(entry, *primitive_, 0, b);
}

bool PackedProduct::run(const void* a, float* c) const {
  if (!primitive_) return false;
  const Entry entry(primitive_->threads);
  Args args(entry);
  args.add(DNNL_ARG_SRC, primitive_->mds[0], a).add(DNNL_ARG_WEIGHTS, primitive_->reorders[0].wanted, packed_.data()).add(DNNL_ARG_DST, primitive_->mds[1], c);
  return args.run(*primitive_);
}

bool gemm16(DType t, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_batch, int64_t a_row, int64_t a_col,
            const void* b, int64_t b_batch, int64_t b_row, int64_t b_col, void* c, const void* bias_n, bool add) {
  if (!has_native(t) || m * n * k * batch < 64 * 64 * 16) return false;
  if ((a_row != 1 && a_col != 1) || (b_row != 1 && b_col != 1)) return false;
  const auto type = data_type(t);
  const Entry entry;
  Key key(entry, Op::Matmul);
  key.add(static_cast<int64_t>(t)).add(batch).add(m).add(n).add(k).add(a_batch).add(a_row).add(a_col).add(b_batch).add(b_row).add(b_col).add(bias_n != nullptr).add(add);
  const auto p = cached(entry, key, [&](Primitive& out) {
    using md = dnnl::memory::desc;
    const dnnl::memory::dims ca = {batch, m, k}, cb = {batch, k, n}, cc = {batch, m, n};
    out.mds = {md(ca, type, {a_batch, a_row, a_col}), md(cb, type, {b_batch, b_row, b_col}), md(cc, type, {m * n, n, 1})};
    const auto attr = attr_that_adds(add);
    if (bias_n) out.mds.push_back(md({1, 1, n}, type, {n, n, 1}));
    const auto pd = bias_n ? dnnl::matmul::primitive_desc(entry.engine(), out.mds[0], out.mds[1], out.mds[3], out.mds[2], attr)
                           : dnnl::matmul::primitive_desc(entry.engine(), out.mds[0], out.mds[1], out.mds[2], attr);
    adopt<dnnl::matmul>(out, pd);
  });
  if (!p) return false;
  Args args(entry);
  args.add(DNNL_ARG_SRC, p->mds[0], a).add(DNNL_ARG_WEIGHTS, p->mds[1], b).add(DNNL_ARG_DST, p->mds[2], c);
  if (bias_n) args.add(DNNL_ARG_BIAS, p->mds[3], bias_n);
  return args.run(*p);
}

bool gemm16_wide(DType t, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_row, int64_t a_col, const void* b, int64_t b_row,
                 int64_t b_col, float* c, int64_t ldc, bool add) {
  if (!convolves(t) || m * n * k < 64 * 64 * 16) return false;
  if ((a_row != 1 && a_col != 1) || (b_row != 1 && b_col != 1)) return false;
  const Entry entry;
  Key key(entry, Op::WideMatmul);
  key.add(static_cast<int64_t>(t)).add(m).add(n).add(k).add(a_row).add(a_col).add(b_row).add(b_col).add(ldc).add(add);
  const auto p = cached(entry, key, [&](Primitive& out) {
    using md = dnnl::memory::desc;
    out.mds = {md({m, k}, data_type(t), {a_row, a_col}), md({k, n}, data_type(t), {b_row, b_col}), md({m, n}, dnnl::memory::data_type::f32, {ldc, 1})};
    const auto attr = attr_that_adds(add);
    const auto pd = dnnl::matmul::primitive_desc(entry.engine(), out.mds[0], out.mds[1], out.mds[2], attr);
    adopt<dnnl::matmul>(out, pd);
  });
  if (!p) return false;
  Args args(entry);
  args.add(DNNL_ARG_SRC, p->mds[0], a).add(DNNL_ARG_WEIGHTS, p->mds[1], b).add(DNNL_ARG_DST, p->mds[2], c);
  return args.run(*p);
}

}  // namespace fl::onednn
