"""The ops that programs spend their time in, at three sizes, and strided at the middle one; other families at two.

A size is that of the op's main operand: n = 32, 256 or 1024 for matrices [n, n], and what comes near it for
images, sequences and tables. Strided operands are transposed matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.case import Case

SIZES = {"small": 32, "middle": 256, "large": 1024}

# Statements over matrices x, y [n, n], a mask m, a row r [n], indices i [n], x01 in 0.1..0.9.
MATRICES = {
    "add": "x + y", "add number": "x + 1.5", "add row": "x + r", "sub": "x - y", "mul": "x * y", "div": "x / y", "pow": "x ** 2",
    "neg": "-x", "abs": "x.abs()", "exp": "x.exp()", "log": "x01.log()", "sqrt": "x01.sqrt()", "rsqrt": "x01.rsqrt()",
    "sin": "x.sin()", "tanh": "x.tanh()", "sigmoid": "x.sigmoid()", "erf": "x.erf()", "relu": "F.relu(x)", "gelu": "F.gelu(x)",
    "silu": "F.silu(x)", "leaky_relu": "F.leaky_relu(x)", "softplus": "F.softplus(x)", "clamp": "x.clamp(-1.0, 1.0)",
    "maximum": "tl.maximum(x, y)", "where": "tl.where(m, x, y)", "masked_fill": "x.masked_fill(m, 0.0)", "compare": "x > y",
    "add_": "z.add_(y)", "mul_ number": "z.mul_(1.0)", "copy_": "z.copy_(x)", "clone": "x.clone()", "cast": "x.double()",
    "sum": "x.sum()", "sum rows": "x.sum(1)", "sum columns": "x.sum(0)", "mean rows": "x.mean(1)", "var rows": "x.var(1)",
    "max": "x.max()", "argmax rows": "x.argmax(1)", "amax columns": "x.amax(0)", "norm": "x.norm()", "cumsum": "x.cumsum(1)",
    "softmax": "F.softmax(x, 1)", "log_softmax": "F.log_softmax(x, 1)", "layer_norm": "F.layer_norm(x, (n,))",
    "matmul": "x @ y", "matmul transposed": "x @ y.t()", "matrix vector": "x @ r",
}  # fmt: skip
# Statements that are the same for a strided operand, or have none.
OTHERS = {
    "transpose copy": "x.t().contiguous()", "cat": "tl.cat([x, y], 1)", "stack": "tl.stack([x, y])", "index_select": "x.index_select(0, i)",
    "gather": "x.gather(1, g)", "scatter_add": "x.scatter_add(1, g, y)", "index rows": "x[i]", "embedding": "F.embedding(i, x)",
    "sort": "x.sort(1)", "topk": "x.topk(5, 1)", "cross_entropy": "F.cross_entropy(x, i)", "mse_loss": "F.mse_loss(x, y)",
    "dropout": "F.dropout(x, 0.1)", "rand": "tl.rand(n, n)", "bmm": "tl.bmm(b, b)",
    "conv2d 3x3": "F.conv2d(image, w3, padding=1)", "conv2d 1x1": "F.conv2d(image, w1)",
    "depthwise conv2d": "F.conv2d(image, wd, padding=1, groups=c)",
    "max_pool2d": "F.max_pool2d(image, 2)", "avg_pool2d": "F.avg_pool2d(image, 2)",
    "batch_norm": "F.batch_norm(image, None, None, training=True)", "attention": "F.scaled_dot_product_attention(q, q, q)",
}  # fmt: skip
# Families that programs meet less often, at the first two sizes: complex matrices u, v, a positive definite one s, many small
# ones t (4 x 4), integers k, l, a sparse matrix by coordinates and by rows.
FAMILIES = {
    "special": {
        "erfinv": "x01.erfinv()", "lgamma": "x01.lgamma()", "digamma": "x01.digamma()", "log1p": "x01.log1p()", "expm1": "x.expm1()",
        "logit": "x01.logit()", "xlogy": "tl.xlogy(x, x01)", "i0": "x.i0()", "i1e": "tl.special.i1e(x)", "erfcx": "tl.special.erfcx(x)",
        "ndtri": "tl.special.ndtri(x01)", "sinc": "x.sinc()",
    },
    "element by element": {
        "atan2": "tl.atan2(x, y)", "hypot": "tl.hypot(x, y)", "tan": "x.tan()", "asin": "x01.asin()", "floor_divide": "x // 0.3",
        "remainder": "x % 0.3", "round": "x.round()", "lerp": "tl.lerp(x, y, 0.3)", "addcmul": "tl.addcmul(x, y, z)",
        "logaddexp": "tl.logaddexp(x, y)", "nan_to_num": "x.nan_to_num()", "isnan": "x.isnan()", "sign": "x.sign()",
        "bitwise_and": "k & l", "logical_and": "m.logical_and(m)", "integer add": "k + l", "to bfloat16": "x.bfloat16()",
        "sub column": "x - x[:, :1]", "mul by column": "x[:, :1] * y", "outer products": "x[:, :, None] * x[:, None, :32]",
    },
    "reductions": {
        "prod rows": "x.prod(1)", "all": "m.all()", "any rows": "m.any(1)", "count_nonzero": "tl.count_nonzero(x)",
        "logsumexp": "x.logsumexp(1)", "std": "x.std()", "median rows": "x.median(1)", "cummax": "x.cummax(1)",
        "cumprod": "x01.cumprod(1)", "logcumsumexp": "x.logcumsumexp(1)", "aminmax": "tl.aminmax(x)", "kthvalue": "x.kthvalue(3, 1)",
        "quantile": "x.quantile(0.3, 1)", "unique": "k.unique()", "bincount": "i.bincount()", "histc": "x.histc(20, -3, 3)",
        "searchsorted": "tl.searchsorted(e, x)", "cdist": "tl.cdist(x, y)", "norm 1 rows": "tl.linalg.vector_norm(x, 1, 1)",
        "argsort": "x.argsort(1)",
    },
    "places": {
        "flip": "x.flip(1)", "roll": "x.roll(3, 1)", "repeat": "x.repeat(2, 2)", "tril": "x.tril()", "diag": "x.diag()",
        "kron": "tl.kron(x[:8, :8], y[:8, :8])", "outer": "tl.outer(r, r)", "einsum": "tl.einsum('ij,kj->ik', x, y)",
        "nonzero": "m.nonzero()", "masked_select": "x.masked_select(m)", "index_put": "x.index_put((i,), r)",
        "index_add": "x.index_add(0, i, y)", "scatter": "x.scatter(1, g, y)", "take_along_dim": "tl.take_along_dim(x, g, 1)",
        "pad reflect": "F.pad(image, (1, 1, 1, 1), mode='reflect')", "one_hot": "F.one_hot(i, n)",
        "meshgrid": "tl.meshgrid(r, r, indexing='ij')",
    },
    "layers": {
        "conv1d": "F.conv1d(signal, w1d, padding=1)", "conv3d": "F.conv3d(volume, w3d, padding=1)",
        "conv_transpose2d": "F.conv_transpose2d(image, w3, stride=2)", "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(image, 2)",
        "group_norm": "F.group_norm(image, 4)", "instance_norm": "F.instance_norm(image)", "rms_norm": "F.rms_norm(x, (n,))",
        "interpolate bilinear": "F.interpolate(image, scale_factor=2, mode='bilinear')", "pixel_shuffle": "F.pixel_shuffle(image, 2)",
        "grid_sample": "F.grid_sample(image, grid, align_corners=False)", "unfold": "F.unfold(image, 3)", "nll_loss": "F.nll_loss(x, i)",
        "kl_div": "F.kl_div(x, x01)", "bce": "F.binary_cross_entropy(x01, x01)", "embedding_bag": "F.embedding_bag(g, x)",
        "hardswish": "F.hardswish(x)", "elu": "F.elu(x)", "mish": "F.mish(x)",
    },
    "graphs and distances": {
        "scatter_add of rows": "z.scatter_add_(0, j, y)", "gather of rows": "x.gather(0, j)",
        "scatter_reduce": "x.scatter_reduce(0, g, y, 'amax')",
        "scatter_reduce of rows": "x.scatter_reduce(0, j, y, 'amax')", "mean of rows": "x.scatter_reduce(0, j, y, 'mean')",
        "index_reduce": "x.index_reduce(0, i, y, 'amax')", "cdist by p = 1": "tl.cdist(x[:32], y, 1.0)", "pdist": "F.pdist(x[:32])",
    },
    "others": {
        "nextafter": "tl.nextafter(x, y)", "trapezoid": "tl.trapezoid(x)", "few products": "x[:2] @ y[:2].t()", "integer matmul": "k @ l",
        "tensordot": "tl.tensordot(b, b, ([1, 2], [1, 2]))", "interpolate bicubic": "F.interpolate(image, scale_factor=2, mode='bicubic')",
        "cross_entropy of pictures": "F.cross_entropy(image, classes)", "max_pool1d": "F.max_pool1d(signal, 2)",
        "avg_pool3d": "F.avg_pool3d(volume, 2)", "half mul": "h * h", "half cumsum": "h.cumsum(1)",
        "unique_consecutive": "k.unique_consecutive()",
    },
    "short axes": {
        "boxes": "tl.maximum(x[:, None, :2], y[:32, :2])", "points by a vector": "line.view(-1, 4) @ r[:4]", "many products": "t @ t",
        "many products by columns": "t @ t[:, :, :1]", "pairs by einsum": "tl.einsum('bcd,cd->bc', b, b[0])", "diff": "x.diff(dim=1)",
        "fold": "F.fold(F.unfold(image, 3), image.shape[2:], 3)", "rot90": "tl.rot90(x)",
        "patches": "F.fold(F.unfold(image, 2, stride=2), image.shape[2:], 2, stride=2)",
        "svd of a long matrix": "tl.linalg.svd(x[:, :16], False)", "pinv of a long matrix": "tl.linalg.pinv(x[:, :16])",
    },
    "doubles": {
        "double tan": "d.tan()", "double asin": "d01.asin()", "double atan": "d.atan()", "double atan2": "tl.atan2(d, d01)",
        "double sinh": "d.sinh()", "double atanh": "d01.atanh()", "double erf": "d.erf()", "double erfc": "d.erfc()",
        "double hypot": "tl.hypot(d, d01)", "double exp": "d.exp()", "double tanh": "d.tanh()", "double matmul": "d @ d01",
        "double cumsum": "d.cumsum(1)", "double sum rows": "d.sum(1)",
    },
    "lines and masks": {
        "cumsum of a line": "line.cumsum(0)", "cumprod of a line": "line.cumprod(0)", "cummax of a line": "line.cummax(0)",
        "arange": "tl.arange(n * n, dtype=tl.float32)", "linspace": "tl.linspace(0, 1, n * n)",
        "windows": "x.unfold(1, 8, 4).contiguous()", "masked read": "x[m]", "masked write": "z.__setitem__(m, 1.0)",
        "div by 4": "x / 4", "acos": "x01.acos()", "erfc": "x.erfc()", "ndtr": "tl.special.ndtr(x)", "atanh": "x01.atanh()",
    },
    "16 bits": {
        "bfloat16 add": "p + w", "bfloat16 mul": "p * w", "bfloat16 mul number": "p * 2", "bfloat16 neg": "-p",
        "bfloat16 relu": "F.relu(p)", "bfloat16 clamp": "p.clamp(-1, 1)", "bfloat16 maximum": "tl.maximum(p, w)",
        "bfloat16 addcmul": "tl.addcmul(p, w, w)", "bfloat16 silu": "F.silu(p)", "bfloat16 gelu": "F.gelu(p)",
        "bfloat16 add float": "p + x", "bfloat16 index_add": "p.index_add(0, i, w)", "half add": "h + h", "half relu": "F.relu(h)",
        "half div": "h / 3", "half silu": "F.silu(h)",
    },
    "whole numbers": {"int64 matmul transposed": "k @ l.t()", "int64 matrix vector": "k @ l[0]"},
    "complex numbers": {
        "complex add": "u + v", "complex mul": "u * v", "complex abs": "u.abs()", "complex exp": "u.exp()", "complex matmul": "u @ v",
        "angle": "u.angle()", "complex": "tl.complex(x, y)", "polar": "tl.polar(x01, y)",
    },
    "fft": {
        "fft rows": "tl.fft.fft(u)", "rfft rows": "tl.fft.rfft(x)", "irfft rows": "tl.fft.irfft(u)", "fft2": "tl.fft.fft2(u)",
        "fftshift": "tl.fft.fftshift(x)",
    },
    "linalg": {
        "solve": "tl.linalg.solve(s, x)", "inv": "tl.linalg.inv(s)", "det": "tl.linalg.det(s)", "cholesky": "tl.linalg.cholesky(s)",
        "qr": "tl.linalg.qr(x)", "svdvals": "tl.linalg.svdvals(x)", "eigh": "tl.linalg.eigh(s)",
        "solve_triangular": "tl.linalg.solve_triangular(x.tril() + s, y, upper=False)", "matrix_power": "tl.linalg.matrix_power(x, 3)",
        "lstsq": "tl.linalg.lstsq(x, y).solution", "many solve": "tl.linalg.solve(t, t)", "many inv": "tl.linalg.inv(t)",
        "many det": "tl.linalg.det(t)", "many cholesky": "tl.linalg.cholesky(t)",
    },
    "sparse": {
        "coo product": "coo @ x", "csr product": "csr @ x", "to_sparse": "(x * (x > 2)).to_sparse()",
        "coalesce": "(coo + coo).coalesce()",
    },
    "distributions": {
        "Normal.log_prob": "tl.distributions.Normal(x, x01).log_prob(y)",
        "Categorical.sample": "tl.distributions.Categorical(logits=x).sample()",
        "Gamma.sample": "tl.distributions.Gamma(x01, x01).sample()", "multinomial": "tl.multinomial(x01, 4, True)",
        "randperm": "tl.randperm(n)", "bernoulli": "tl.bernoulli(x01)",
    },
}  # fmt: skip


def operands(n: int, strided: bool) -> Callable[[Any], dict[str, Any]]:
    """Setup for operands of size n."""

    def setup(tl: Any) -> dict[str, Any]:
        tl.manual_seed(0)

        def matrix() -> Any:
            m = tl.randn(n, n)
            return m.t() if strided else m

        def pairs() -> Any:
            return tl.complex(matrix(), matrix())

        def sparse() -> Any:
            return tl.randn(n, n) * (tl.rand(n, n) < 0.05)

        small = tl.randn(n * n // 4, 4, 4)
        square = tl.randn(n, n)
        c, side = max(8, n // 16), {32: 4, 256: 16, 1024: 32}[n]
        x = matrix()
        return {
            "tl": tl, "F": tl.nn.functional, "n": n, "x": x, "y": matrix(), "z": matrix(), "r": tl.randn(n), "m": matrix() > 0,
            "x01": x.sigmoid() * 0.8 + 0.1, "i": tl.randint(0, n, (n,)), "g": tl.randint(0, n, (n, n)), "b": tl.randn(8, n // 4, n // 4),
            "c": c, "image": tl.randn(8, c, side, side), "w3": tl.randn(c, c, 3, 3), "w1": tl.randn(c, c, 1, 1), "wd": tl.randn(c, 1, 3, 3),
            "u": pairs(), "v": pairs(), "s": square @ square.t() / n + tl.eye(n), "t": small @ small.mT + tl.eye(4),
            "e": tl.randn(n).sort()[0], "k": tl.randint(0, 100, (n, n)), "l": tl.randint(0, 100, (n, n)),
            "signal": tl.randn(8, c, side * side), "w1d": tl.randn(c, c, 3), "volume": tl.randn(2, c, side, side, 4),
            "w3d": tl.randn(c, c, 3, 3, 3), "grid": tl.rand(8, side, side, 2) * 2 - 1,
            "j": tl.randint(0, n, (n, 1)).expand(n, n), "h": matrix().half(), "classes": tl.randint(0, c, (8, side, side)),
            "coo": sparse().to_sparse(), "csr": sparse().to_sparse_csr(),
            "q": tl.randn(4, 4, max(8, n // 8), 32), "d": matrix().double(), "d01": (x.sigmoid() * 0.8 + 0.1).double(),
            "line": tl.randn(n * n), "p": matrix().bfloat16(), "w": matrix().bfloat16(),
        }  # fmt: skip

    return setup


def _cases() -> list[Case]:
    cases = []
    for name, statement in {**MATRICES, **OTHERS}.items():
        layouts = [(size, n, False) for size, n in SIZES.items()]
        if name in MATRICES:
            layouts.append(("middle, strided", SIZES["middle"], True))
        for size, n, strided in layouts:
            cases.append(Case(f"{name}, {size}", "us", operands(n, strided), statement, max_ratio=1.15, headline=False))
    for statements in FAMILIES.values():
        for name, statement in statements.items():
            for size in ("small", "middle"):
                cases.append(Case(f"{name}, {size}", "us", operands(SIZES[size], False), statement, max_ratio=1.15, headline=False))
    return cases


CASES = _cases()
