// Linear algebra that is a composition with a choice in it: systems whose shapes broadcast, and gradients. Since these are made of
// ops, they have derivatives of their own.
#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include "autograd/meta.h"
#include "base/error.h"

#include "wrappers/checks_linalg.h"
#include "wrappers/checks_nn.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/reshape.h"
#include "op/abs.h"
#include "op/add.h"
#include "op/addcmul.h"
#include "op/addr.h"
#include "op/amax.h"
#include "op/argsort.h"
#include "op/bmm.h"
#include "op/cast.h"
#include "op/cat.h"
#include "op/clone.h"
#include "op/copy_.h"
#include "op/diagonal.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/expand.h"
#include "op/eye.h"
#include "op/fill_.h"
#include "op/gather.h"
#include "op/linalg_cofactor.h"
#include "op/linalg_det.h"
#include "op/linalg_inv_ex.h"
#include "op/linalg_keep_triangle.h"
#include "op/linalg_lu_factor_ex.h"
#include "op/linalg_lu_solve.h"
#include "op/linalg_matrix_exp.h"
#include "op/linalg_permute_rows.h"
#include "op/linalg_pivot_order.h"
#include "op/linalg_reflectors.h"
#include "op/linalg_solve_factored.h"
#include "op/linalg_svd.h"
#include "op/linalg_triangle.h"
#include "op/masked_fill.h"
#include "op/matmul.h"
#include "op/mul.h"
#include "op/narrow.h"
#include "op/ne.h"
#include "op/ones_like.h"
#include "op/neg.h"
#include "op/outer.h"
#include "op/prod.h"
#include "op/squeeze.h"
#include "op/sub.h"
#include "op/sum.h"
#include "op/transpose.h"
#include "op/tril.h"
#include "op/triu.h"
#include "op/unsqueeze.h"
#include "op/where.h"
#include "op/zeros_like.h"

namespace fl::native {

namespace {

Tensor turned(const Tensor& x) { return op::transpose(x, -2, -1); }
Tensor rows(const Tensor& x, int64_t from, int64_t count) { return op::narrow(x, -2, from, count); }
Tensor columns(const Tensor& x, int64_t from, int64_t count) { return op::narrow(x, -1, from, count); }

// Both with the batch that their own broadcast to, and their own matrices.
void broadcast_batches(const char* op, const char* name_a, Tensor& a, const char* name_b, Tensor& b) {
  const int batch = std::max(a.ndim(), b.ndim()) - 2;
  Dims shape(batch, 1);
  for (const Tensor* x : {&a, &b})
    for (int i = 0; i < x->ndim() - 2; ++i) {
      int64_t& size = shape[batch - (x->ndim() - 2) + i];
      const int64_t mine = x->size(i);
      if (size != 1 && mine != 1 && size != mine)
        raise<ShapeError>(check::linalg_name(op), ": ", name_a, " has shape ", a.sizes(), ", ", name_b, " has shape ", b.sizes(),
                          "; expected batches (all but the last two axes) that broadcast");
      if (mine != 1) size = mine;
    }
  for (Tensor* x : {&a, &b}) {
    Dims wanted = shape;
    wanted.push_back(x->size(-2)), wanted.push_back(x->size(-1));
    if (!(wanted == x->sizes())) *x = op::expand(*x, wanted);
  }
}
void one_type(const char* op, const Tensor& A, const Tensor& B) {
  if (A.dtype() != B.dtype())
    raise<DTypeError>(check::linalg_name(op), ": A is ", A.dtype(), ", B is ", B.dtype(), "; expected one dtype");
}
void fitting_sides(const char* op, const Tensor& A, const Tensor& B, bool left) {
  if (B.size(left ? -2 : -1) != A.size(-1))
    raise<ShapeError>(check::linalg_name(op), ": Incompatible shapes of A and B for the equation ", left ? "AX = B: A has shape " : "XA = B: A has shape ", A.sizes(), ", B has shape ",
                      B.sizes(), "; expected B.shape[", left ? -2 : -1, "] == A.shape[-1] with left = ", left);
}

// x T^-1 and x T^-T
Tensor by_inverse(const Tensor& x, const Tensor& T, bool upper, bool unit) { return turned(op::linalg_triangle(T, turned(x), upper, true, unit)); }
Tensor by_inverse_turned(const Tensor& x, const Tensor& T, bool upper, bool unit) { return turned(op::linalg_triangle(T, turned(x), upper, false, unit)); }

// a / b, and 0 where both are.
Tensor ratio(const Tensor& a, const Tensor& b) {
  return op::div(a, op::masked_fill(b, op::mul(op::eq(a, 0.0), op::eq(b, 0.0)), Scalar(1.0)));
}
Tensor diagonal_mask(const Tensor& x) { return op::eye(x.size(-1), {}, DType::Bool, x.device()); }
// x without its diagonal, each element divided by v_j - v_i, or v_j^2 - v_i^2.
Tensor over_differences(const Tensor& x, const Tensor& v, bool squares) {
  const Tensor j = op::unsqueeze(v, -2), i = op::unsqueeze(v, -1), diagonal = diagonal_mask(x);
  Tensor gaps = op::sub(j, i);
  if (squares) gaps = op::mul(gaps, op::add(j, i));
  return ratio(op::masked_fill(x, diagonal, Scalar(0.0)), op::masked_fill(gaps, diagonal, Scalar(1.0)));
}

}  // namespace

Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.ndim() == 0 || b.ndim() == 0) return op::mul(a, b);
  Dims shape;
  auto as_rows = [&](const Tensor& x) {
    int64_t n = 1;
    for (int i = 0; i + 1 < x.ndim(); ++i) {
      n *= x.size(i);
      shape.push_back(x.size(i));
    }
    return op::reshape(x, Dims{n, x.size(-1)});
  };
  const Tensor rows = as_rows(a), columns = as_rows(b);
  return op::reshape(op::matmul(rows, op::transpose(columns, 0, 1)), shape);
}

// beta * input + alpha * product. A beta of 0 lets nothing of the input through, NaN neither, and its gradient is zeros.
Tensor added(const Tensor& input, const Tensor& product, const Scalar& beta, const Scalar& alpha) {
  auto is = [](const Scalar& v, double value) { return !v.is_complex() && v.as_double() == value; };
  const Tensor scaled = is(alpha, 1) ? product : op::mul(product, alpha);
  if (is(beta, 0)) return op::add(scaled, op::mul(op::masked_fill(input, op::ones_like(input, DType::Bool), Scalar(0)), beta));
  return op::add(is(beta, 1) ? input : op::mul(input, beta), scaled);
}

Tensor addr(const Tensor& input, const Tensor& vec1, const Tensor& vec2, Scalar beta, Scalar alpha) {
  const Tensor product = op::outer(vec1, vec2);
  Dims shape = product.sizes();
  bool fits = input.ndim() <= 2;
  for (int i = 1; fits && i <= input.ndim(); ++i) fits = input.size(-i) == 1 || input.size(-i) == shape[2 - i];
  if (!fits) raise<ShapeError>("addr: input has shape ", input.sizes(), "; expected a shape that broadcasts to ", shape);
  return added(input, product, beta, alpha);
}

Tensor addr_(const Tensor& input, const Tensor& vec1, const Tensor& vec2, Scalar beta, Scalar alpha) {
  const bool vectors = vec1.ndim() == 1 && vec2.ndim() == 1 && vec1.dtype() == input.dtype() && vec2.dtype() == input.dtype() && is_float(input.dtype());
  if (!vectors || beta.is_complex() || alpha.is_complex() || input.sizes() != Dims{vec1.size(0), vec2.size(0)} || !may_write_over(input)) {
    const bool keeps = grad_enabled() && (requires_grad(input) || requires_grad(vec1) || requires_grad(vec2));
    const Tensor made = op::addr(keeps ? op::clone(input) : input, vec1, vec2, beta, alpha);
    check_stored("addr_", input, made);
    return op::copy_(input, made);
  }
  check_inplace("addr_", input);
  if (grad_enabled() && (requires_grad(input) || requires_grad(vec1) || requires_grad(vec2))) check_rebase("addr_", input);
  const auto apart = [&](const Tensor& v) { return may_share_bytes(v, input) ? op::clone(v) : v; };
  const Tensor column = op::unsqueeze(apart(vec1), 1), row = op::unsqueeze(apart(vec2), 0);
  if (beta.as_double() == 0) op::fill_(input, Scalar(0));
  else if (beta.as_double() != 1) op::mul_(input, beta);
  return op::addcmul_(input, column, row, alpha);
}

Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  check::addbmm_operands("addbmm", input, a, b);
  return added(input, op::sum(op::bmm(a, b), Dims{0}, false, a.dtype()), beta, alpha);
}

Tensor linalg_cholesky_backward(const Tensor& dL, const Tensor& L, bool upper) {
  const Tensor l = upper ? turned(L) : L, x = op::matmul(turned(l), upper ? turned(dL) : dL);
  const Tensor phi = op::add(op::tril(x), op::tril(x, -1));  // twice phi
  const Tensor s = by_inverse(op::linalg_triangle(l, phi, false, true, false), l, false, false);
  return op::mul(op::add(s, turned(s)), 0.25);
}

Tensor linalg_permute_rows(const Tensor& x, const Tensor& pivots, bool back) {
  Tensor order = op::linalg_pivot_order(pivots, x.size(-2));
  if (back) order = op::argsort(order);
  return op::gather(x, x.ndim() - 2, op::expand(op::unsqueeze(order, -1), x.sizes()));
}

Tensor linalg_lu_backward(const Tensor& dLU, const Tensor& LU, const Tensor& pivots) {
  const int64_t m = LU.size(-2), n = LU.size(-1), k = std::min(m, n);
  const Tensor corner = columns(rows(LU, 0, k), 0, k), g = columns(rows(dLU, 0, k), 0, k), gl = op::tril(g, -1), gu = op::triu(g);
  Tensor lower = op::add(op::matmul(turned(op::tril(corner, -1)), gl), gl), upper = op::matmul(gu, turned(op::triu(corner)));
  if (n > m) lower = op::sub(lower, op::matmul(columns(dLU, k, n - k), turned(columns(LU, k, n - k))));
  if (m > n) upper = op::sub(upper, op::matmul(turned(rows(LU, k, m - k)), rows(dLU, k, m - k)));
  const Tensor middle = op::add(op::tril(lower, -1), op::triu(upper));
  Tensor out = by_inverse_turned(op::linalg_triangle(corner, middle, false, true, true), corner, true, false);
  if (n > m) out = op::cat(std::array<Tensor, 2>{out, op::linalg_triangle(corner, columns(dLU, k, n - k), false, true, true)}, -1);
  if (m > n) out = op::cat(std::array<Tensor, 2>{out, by_inverse_turned(rows(dLU, k, m - k), corner, true, false)}, -2);
  return op::linalg_permute_rows(out, pivots, true);
}

Tensor linalg_solve_outer(const Tensor& g, const Tensor& y, bool transposed) {
  return op::neg(op::matmul(transposed ? y : g, turned(transposed ? g : y)));
}

std::tuple<Tensor, Tensor> linalg_solve_ex(const Tensor& A, const Tensor& B, bool left, bool check_errors) {
  check::square_matrices("linalg_solve", A);
  one_type("linalg_solve", A, B);
  const bool vector = B.ndim() == 1 || (A.ndim() == B.ndim() + 1 && IntList(B.sizes()).size() + 1 == IntList(A.sizes()).size() &&
                                        std::equal(B.sizes().begin(), B.sizes().end(), A.sizes().begin()));
  if (vector && !left)
    raise<ShapeError>("linalg.solve: B has shape ", B.sizes(), ", a vector for each matrix; expected matrices with left = False");
  if (!vector) check::matrices("linalg_solve", B, "B");
  Tensor a = A, b = vector ? op::unsqueeze(B, -1) : B;
  fitting_sides("linalg_solve", a, b, left);
  broadcast_batches("linalg_solve", "A", a, "B", b);
  Tensor lu, pivots, info;
  {
    const NoGrad none;
    std::tie(lu, pivots, info) = op::linalg_lu_factor_ex(a, true, check_errors, "solve");
  }
  Tensor x = left ? op::linalg_solve_factored(a, lu, pivots, b, false) : turned(op::linalg_solve_factored(a, lu, pivots, turned(b), true));
  if (vector) x = op::squeeze(x, Dims{-1});
  return {x, info};
}

Tensor linalg_keep_triangle(const Tensor& x, bool upper, bool unitriangular) {
  return upper ? op::triu(x, unitriangular ? 1 : 0) : op::tril(x, unitriangular ? -1 : 0);
}

Tensor linalg_solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool left, bool unitriangular) {
  check::square_matrices("linalg_solve_triangular", A);
  check::matrices("linalg_solve_triangular", B, "B");
  one_type("linalg_solve_triangular", A, B);
  fitting_sides("linalg_solve_triangular", A, B, left);
  Tensor a = A, b = B;
  broadcast_batches("linalg_solve_triangular", "A", a, "B", b);
  if (left) return op::linalg_triangle(a, b, upper, false, unitriangular);
  return turned(op::linalg_triangle(a, turned(b), upper, true, unitriangular));
}

Tensor linalg_lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool adjoint) {
  check::square_matrices("linalg_lu_solve", LU);
  check::matrices("linalg_lu_solve", B, "B");
  one_type("linalg_lu_solve", LU, B);
  fitting_sides("linalg_lu_solve", LU, B, left);
  if (pivots.dtype() != DType::Int32 || pivots.ndim() != LU.ndim() - 1 || !std::equal(pivots.sizes().begin(), pivots.sizes().end(), LU.sizes().begin()))
    raise<ShapeError>("linalg.lu_solve: pivots are ", pivots.dtype(), " ", pivots.sizes(), ", LU has shape ", LU.sizes(), "; expected int32 of LU's shape without its last axis");
  Tensor lu = LU, b = left ? B : turned(B);
  broadcast_batches("linalg_lu_solve", "LU", lu, "B", b);
  Dims each = lu.sizes();
  each.pop_back();
  const Tensor p = op::expand(pivots, each);
  const bool forward = left != adjoint;
  Tensor x;
  if (forward) {
    x = op::linalg_triangle(lu, op::linalg_permute_rows(b, p, false), false, false, true);
    x = op::linalg_triangle(lu, x, true, false, false);
  } else {
    x = op::linalg_triangle(lu, op::linalg_triangle(lu, b, true, true, false), false, true, true);
    x = op::linalg_permute_rows(x, p, true);
  }
  return left ? x : turned(x);
}

namespace {
// The derivative of the cofactors of real matrices in the direction dy, at any rank. Those of A = U S V^T are det(U) det(V^T) U C V^T for the
// diagonal C of the products of all singular values but one; in the direction E = U^T dy V they change by the products of all but two, P:
// diag(P diag(E)) - P * E^T.
Tensor cofactor_derivative(const Tensor& dy, const Tensor& A) {
  const auto [U, S, Vt] = op::linalg_svd(A);
  const Tensor one = op::eye(A.size(-1), std::nullopt, S.dtype(), S.device()), rest = op::sub(Scalar(1), one);
  const Tensor neither = op::mul(op::unsqueeze(rest, 1), rest);  // [i, j, k]: 1 where k is neither i nor j
  const Tensor factors = op::where(op::ne(neither, Scalar(0)), op::unsqueeze(op::unsqueeze(S, -2), -2), Scalar(1));
  const Tensor products = op::mul(op::prod(factors, Dims{-1}), rest);
  const Tensor E = op::matmul(op::matmul(turned(U), dy), turned(Vt));
  const Tensor line = op::matmul(products, op::unsqueeze(op::diagonal(E, 0, -2, -1), -1));
  const Tensor change = op::sub(op::mul(line, one), op::mul(products, turned(E)));
  const Tensor sign = op::unsqueeze(op::unsqueeze(op::mul(op::linalg_det(U), op::linalg_det(Vt)), -1), -1);
  return op::mul(sign, op::matmul(op::matmul(U, change), Vt));
}
// Whether half of the digits of some inverse are lost, or all.
bool nearly_singular(const Tensor& A, const Tensor& inverse) {
  if (A.is_meta() || A.numel() == 0) return false;
  graph::note_read("whether a matrix is singular");
  const NoGrad off;
  const Tensor condition = op::cast(op::mul(op::amax(op::abs(A)), op::amax(op::abs(inverse))), DType::Float64);
  return !(*condition.data<double>() * static_cast<double>(A.size(-1)) < (A.dtype() == DType::Float64 ? 0x1p26 : 0x1p12));
}
}  // namespace

Tensor linalg_cofactor_backward(const Tensor& dy, const Tensor& A) {
  const Tensor inverse = std::get<0>(op::linalg_inv_ex(A));
  if (nearly_singular(A, inverse)) return cofactor_derivative(dy, A);
  const Tensor z = turned(inverse), c = op::linalg_cofactor(A);
  const Tensor both = op::sum(op::mul(dy, z), Dims{-2, -1}, true);
  return op::sub(op::mul(both, c), op::matmul(c, op::matmul(turned(dy), z)));
}

Tensor linalg_slogdet_backward(const Tensor& g, const Tensor& A) {
  return op::mul(op::unsqueeze(op::unsqueeze(g, -1), -1), turned(std::get<0>(op::linalg_inv_ex(A))));
}

Tensor linalg_householder_product(const Tensor& a, const Tensor& tau) {
  check::reflectors("linalg_householder_product", a, tau, a.ndim() < 2 ? 0 : a.size(-1));
  const int64_t m = a.size(-2), n = a.size(-1);
  if (!grad_enabled() || !(requires_grad(a) || requires_grad(tau))) return op::linalg_reflectors(a, tau, n);
  const Tensor one = op::eye(m, n, a.dtype(), a.device()), v = op::add(op::tril(a, -1), one);
  Tensor q = op::expand(one, a.sizes());
  for (int64_t k = tau.size(-1) - 1; k >= 0; --k) {
    const Tensor mine = columns(v, k, 1), factor = op::unsqueeze(op::narrow(tau, -1, k, 1), -1);
    q = op::sub(q, op::mul(op::matmul(mine, op::matmul(turned(mine), q)), factor));
  }
  return q;
}

namespace {

Tensor qr_square_backward(const Tensor& dQ, const Tensor& dR, const Tensor& Q, const Tensor& R) {
  const Tensor m = op::sub(op::matmul(R, turned(dR)), op::matmul(turned(dQ), Q));
  return by_inverse_turned(op::add(dQ, op::matmul(Q, op::add(op::tril(m), turned(op::tril(m, -1))))), R, true, false);
}

}  // namespace

Tensor linalg_qr_backward(const Tensor& dQ, const Tensor& dR, const Tensor& Q, const Tensor& R, std::string_view mode) {
  if (mode == "r") raise<AutogradError>("linalg.qr: the derivative depends on Q, which mode = 'r' does not compute; use mode = 'reduced'");
  const int64_t m = Q.size(-2), n = R.size(-1);
  if (mode == "complete" && m > n)
    raise<AutogradError>("linalg.qr: A has ", m, " rows and ", n, " columns, and mode = 'complete' has no derivative there; use mode = 'reduced'");
  if (m >= n) return qr_square_backward(dQ, dR, Q, R);
  const Tensor g = columns(dR, m, n - m), y = op::matmul(Q, columns(R, m, n - m));
  const Tensor x = qr_square_backward(op::add(dQ, op::matmul(y, turned(g))), columns(dR, 0, m), Q, columns(R, 0, m));
  return op::cat(std::array<Tensor, 2>{x, op::matmul(Q, g)}, -1);
}

Tensor linalg_eigh_backward(const Tensor& dw, const Tensor& dV, const Tensor& w, const Tensor& V) {
  if (V.ndim() < 2) raise<AutogradError>("linalg.eigh: the derivative depends on eigenvectors, which were not computed; use linalg.eigh or linalg.eigvalsh");
  const Tensor x = op::matmul(turned(V), dV);
  const Tensor inner = op::mul(over_differences(op::sub(x, turned(x)), w, false), 0.5);  // symmetric, as A is
  const Tensor middle = op::add(inner, op::mul(op::unsqueeze(dw, -1), op::eye(V.size(-1), {}, V.dtype(), V.device())));
  return op::matmul(op::matmul(V, middle), turned(V));
}

Tensor linalg_svd_backward(const Tensor& dU, const Tensor& dS, const Tensor& dVh, const Tensor& U, const Tensor& S, const Tensor& Vh) {
  if (U.ndim() < 2) raise<AutogradError>("linalg.svd: the derivative depends on U and Vh, which were not computed; use linalg.svd or linalg.svdvals");
  const int64_t m = U.size(-2), n = Vh.size(-1), k = S.size(-1);
  const Tensor u = columns(U, 0, k), gu = columns(dU, 0, k), vh = rows(Vh, 0, k), gv = rows(dVh, 0, k);
  const Tensor s_row = op::unsqueeze(S, -2), s_column = op::unsqueeze(S, -1);
  const auto skew = [&](const Tensor& x) { return over_differences(op::sub(x, turned(x)), S, true); };
  Tensor inner = op::add(op::mul(skew(op::matmul(turned(u), gu)), s_row), op::mul(skew(op::matmul(vh, turned(gv))), s_column));
  inner = op::add(inner, op::mul(op::unsqueeze(dS, -1), op::eye(k, {}, S.dtype(), S.device())));
  if (m > k) {
    const Tensor beside = op::sub(gu, op::matmul(u, op::matmul(turned(u), gu)));
    return op::matmul(op::add(op::matmul(u, inner), ratio(beside, s_row)), vh);
  }
  Tensor right = op::matmul(inner, vh);
  if (n > k) right = op::add(right, ratio(op::sub(gv, op::matmul(op::matmul(gv, turned(vh)), vh)), s_column));
  return op::matmul(u, right);
}

Tensor linalg_matrix_exp_backward(const Tensor& dy, const Tensor& A) {
  const int64_t n = A.size(-1);
  const Tensor a = turned(A);
  const Tensor above = op::cat(std::array<Tensor, 2>{a, dy}, -1), below = op::cat(std::array<Tensor, 2>{op::zeros_like(a), a}, -1);
  return columns(rows(op::linalg_matrix_exp(op::cat(std::array<Tensor, 2>{above, below}, -2)), 0, n), n, n);
}

Tensor linalg_pinv_backward(const Tensor& dy, const Tensor& A, const Tensor& y) {
  const Tensor p = turned(y), g = turned(dy);
  const Tensor left = op::matmul(g, op::matmul(y, p)), right = op::matmul(op::matmul(p, y), g);
  const Tensor first = op::neg(op::matmul(op::matmul(p, dy), p));
  const Tensor second = op::sub(left, op::matmul(A, op::matmul(y, left))), third = op::sub(right, op::matmul(op::matmul(right, y), A));
  return op::add(first, op::add(second, third));
}

}  // namespace fl::native
