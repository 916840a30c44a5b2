"""Random calls as text, each from a seed and a number alone.

Half of them start from a call that works (samples of the op table, EXAMPLES) and get some arguments changed, so that they
reach kernels and backward; the others put values of the right kind, or of any kind, into a signature.
"""

from __future__ import annotations

import ast
import random
import re

from flambeau import _C

from .catalogue import Catalogue, Parameter, Target
from .values import DTYPES, FILLS, HOWS

INTS = ("0", "1", "-1", "2", "3", "-2", "4", "5", "7", "-3", "17", "64")
HUGE = ("2**31", "2**31 - 1", "-2**31", "2**32", "2**40", "2**58", "2**59", "2**61", "2**62", "2**63 - 1", "-2**63", "-2**63 + 1", "2**63", "2**64", "10**30")
FLOATS = ("0.5", "1.0", "0.0", "-0.0", "-1.5", "1e-8", "1e30", "1e308", "inf", "-inf", "nan", "2.0", "5e-324")
ODD = (
    "None", "'text'", "''", "'\\ud800'", "b'bytes'", "()", "[]", "{}", "object()", "Ellipsis", "1j", "True", "lambda *a: None", "fl.float32", "fl.device('meta')",
    "np.zeros((2, 3))", "np.float32(2)", "np.array(['a'])", "np.zeros((0, 2**40))", "Itself()", "Liar()", "Endless()", "shrinking()", "cyclic()", "[[1, 2], [3]]",
    "slice(None)", "range(3)", "set()", "float", "'cpu'", "'cuda'", "'meta'", "fl.Generator()", "'sum'", "'mean'", "'none'",
)  # fmt: skip
DEVICES = ("None", "'cpu'", "'meta'", "'cuda'", "fl.device('cpu')", "'cpu:1'", "'nonsense'", "0")
STRINGS = ("'sum'", "'mean'", "'none'", "'constant'", "'reflect'", "'replicate'", "'circular'", "'bilinear'", "'nearest'", "'linear'", "'area'", "'bicubic'", "'tanh'",
           "'prod'", "'amax'", "'amin'", "'ij,jk->ik'", "'ii->i'", "'...'", "'a,b->ab'", "'xy'", "'valid'", "'same'", "''", "'\\x00'", "'\\udcff'", "'trunc'", "'floor'", "'fro'", "'nuc'")  # fmt: skip

# Calls that work, of what the op table has no samples for.
EXAMPLES = (
    "F.conv1d(T((2, 4, 9)), T((6, 2, 3)), T((6,)), stride=2, padding=1, dilation=1, groups=2)",
    "F.conv2d(T((2, 4, 8, 7)), T((6, 4, 3, 3)), T((6,)), stride=(1, 2), padding='same' if False else 1, dilation=2)",
    "F.conv2d(T((2, 4, 8, 7), grad=True), T((4, 1, 3, 3), grad=True), None, groups=4)",
    "F.conv_transpose1d(T((2, 4, 9)), T((4, 3, 3)), stride=2, padding=1, output_padding=1)",
    "F.conv_transpose2d(T((2, 4, 5, 5), grad=True), T((4, 3, 3, 3), grad=True), stride=2, padding=1, output_padding=1)",
    "F.max_pool2d(T((2, 3, 8, 8), grad=True), 3, stride=2, padding=1, dilation=1, ceil_mode=True, return_indices=True)",
    "F.max_pool1d(T((2, 3, 8), grad=True), 3, stride=2, padding=1)",
    "F.avg_pool2d(T((2, 3, 8, 8), 'float32', 'deferred'), 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)",
    "F.avg_pool1d(T((2, 3, 8), grad=True), 3, 2, 1)",
    "F.max_unpool2d(T((1, 1, 2, 2)), T((1, 1, 2, 2), 'int64', fill='index'), 2)",
    "F.adaptive_avg_pool2d(T((2, 3, 8, 8), grad=True), (3, 2))", "F.adaptive_max_pool2d(T((2, 3, 8, 8)), (3, None))",
    "F.lp_pool2d(T((2, 3, 8, 8)), 2, 3)", "F.batch_norm(T((4, 3, 5, 5), grad=True), T((3,)), T((3,), fill='positive'), T((3,)), T((3,)), training=True)",
    "F.batch_norm(T((4, 3), grad=True), T((3,)), T((3,), fill='positive'))", "F.layer_norm(T((4, 3, 5), grad=True), (3, 5), T((3, 5)), T((3, 5)))",
    "F.group_norm(T((4, 6, 5), grad=True), 3, T((6,)), T((6,)))", "F.instance_norm(T((4, 3, 5, 5)), None, None, T((3,)), T((3,)))", "F.rms_norm(T((4, 3)), (3,))",
    "F.local_response_norm(T((2, 6, 4, 4)), 3)", "F.embedding(T((2, 3), 'int64', fill='index'), T((5, 4), grad=True), padding_idx=1, max_norm=1.0)",
    "F.embedding_bag(T((2, 3), 'int64', fill='index'), T((5, 4), grad=True), mode='mean')", "F.embedding_bag(T((6,), 'int64', fill='index'), T((5, 4)), T((2,), 'int64', fill='zeros'), mode='max')",
    "F.one_hot(T((4,), 'int64', fill='index'), 5)", "F.cross_entropy(T((4, 5), grad=True), T((4,), 'int64', fill='index'), weight=T((5,), fill='positive'), ignore_index=1, label_smoothing=0.1)",
    "F.cross_entropy(T((4, 5, 3)), T((4, 5, 3), fill='positive'))", "F.nll_loss(T((4, 5), grad=True), T((4,), 'int64', fill='index'), reduction='sum')",
    "F.binary_cross_entropy(T((3,), fill='positive'), T((3,), fill='positive'))", "F.kl_div(T((3, 4)), T((3, 4)), reduction='batchmean', log_target=True)",
    "F.ctc_loss(F.log_softmax(T((6, 2, 5), grad=True), -1), T((2, 3), 'int64', fill='index'), T((2,), 'int64', fill='index'), T((2,), 'int64', fill='index'))",
    "F.interpolate(T((2, 3, 6, 6), grad=True), size=(4, 9), mode='bilinear', align_corners=True)", "F.interpolate(T((2, 3, 6)), scale_factor=1.7, mode='nearest')",
    "F.grid_sample(T((2, 3, 6, 6)), T((2, 4, 4, 2)), mode='bilinear', padding_mode='zeros', align_corners=False)", "F.affine_grid(T((2, 2, 3)), (2, 3, 4, 4))",
    "F.pad(T((2, 3, 6, 6), grad=True), (1, 2, 0, 1), mode='reflect')", "F.pad(T((2, 3, 6)), (1, -2), value=3.0)", "F.unfold(T((2, 3, 6, 6), grad=True), 3, dilation=1, padding=1, stride=2)",
    "F.fold(T((2, 27, 16)), (4, 4), 3, padding=1)", "F.pixel_shuffle(T((1, 8, 2, 3)), 2)", "F.pixel_unshuffle(T((1, 2, 4, 6)), 2)", "F.channel_shuffle(T((1, 8, 2, 3)), 2)",
    "F.scaled_dot_product_attention(T((2, 3, 5, 4), grad=True), T((2, 3, 6, 4), grad=True), T((2, 3, 6, 4), grad=True), is_causal=True)",
    "F.scaled_dot_product_attention(T((2, 3, 5, 4)), T((2, 3, 6, 4)), T((2, 3, 6, 4)), attn_mask=T((5, 6), 'bool'))",
    "F.linear(T((2, 3, 4), grad=True), T((5, 4), grad=True), T((5,)))", "F.bilinear(T((2, 3)), T((2, 4)), T((5, 3, 4)))", "F.dropout(T((4, 4), grad=True), 0.5, True)",
    "F.triplet_margin_loss(T((4, 3), grad=True), T((4, 3)), T((4, 3)))", "F.cosine_similarity(T((4, 3)), T((4, 3)), dim=1)", "F.gumbel_softmax(T((4, 3)), hard=True)",
    "fl.einsum('bij,bjk->bik', T((2, 3, 4)), T((2, 4, 5)))", "fl.tensordot(T((2, 3, 4)), T((3, 4, 5)), dims=2)", "fl.cat([T((2, 3), grad=True), T((2, 3), 'float64')], dim=1)",
    "fl.stack([T((2, 3)), T((2, 3))], dim=-1)", "fl.meshgrid(T((3,)), T((4,)), indexing='xy')", "fl.unique(T((5,), 'int64'), return_inverse=True, return_counts=True)",
    "fl.from_numpy(np.empty((0, 500_000_000))).as_strided((4,), (1,))", "fl.from_dlpack(np.empty((0, 500_000_000))).as_strided((4,), (1,))", "fl.from_dlpack(T((3, 4), 'float32', 'transposed'))",
    "fl.from_numpy(np.broadcast_to(np.zeros(1), (3, 4)))", "fl.from_numpy(np.zeros((4, 6))[::2, ::3])", "fl.tensor([[1, 2.5], [3, True]], dtype=fl.float64)", "fl.tensor(np.zeros((3, 2), 'int8'))",
    "fl.frombuffer(bytearray(b'12345678'), dtype=fl.int16, count=3, offset=2)", "np.asarray(T((3, 4), 'float32', 'transposed'))", "np.from_dlpack(T((3, 4), 'int32', 'strided'))", "bytes(memoryview(T((3, 4), 'int32', 'transposed')))",
    "pickled(T((3, 4), 'float32', 'strided', grad=True))", "copy.deepcopy(T((3, 4), 'float32', 'expanded'))", "copy.copy(T((3, 4)))", "T((2, 3)).tolist()", "T((1,)).expand(4).tolist()", "repr(T((3, 4)))",
    "format(T(()), '.3f')", "T((3, 4))[1:, ::2]", "T((3, 4))[T((3, 4), 'bool')]", "T((3, 4))[[0, 2], [1, 1]]", "T((3, 4))[..., None, T((2,), 'int64', fill='index')]", "T((4,)).resize_(2, 3)", "T((4,)).set_(T((5,)))",
    "T((3, 4)).as_strided((2, 2), (4, 1), 1)", "T((4,)).view(fl.int32)", "fl.autograd.grad(T((3,), grad=True).sum(), [T((3,), grad=True)], allow_unused=True)", "T((3,), grad=True).sum().backward()", "T((3,), grad=True).mul(2).backward(T((3,)))",
    "list(iter(T((3, 2))))", "divmod(T((3,)), 2)", "2 ** T((3,))", "T((3,)) @ T((3,))", "-T((3,))", "~T((3,), 'bool')", "T((3,)) << 1", "round(T((3,)))", "abs(T((3,)))", "int(T(()))", "fl.zeros(3, 4, dtype=fl.int8, device='meta')",
    "fl.full((2, 3), 7)", "fl.arange(0, 10, 3)", "fl.randint(0, 10, (3, 4))", "fl.randperm(5)", "fl.empty_strided((2, 3), (1, 2))", "fl.normal(0.0, 1.0, (3,))", "fl.multinomial(T((4,), fill='positive'), 3, True)",
    "fl.nn.GRU(3, 4, bidirectional=True)(T((5, 2, 3), grad=True))", "fl.nn.LSTM(3, 4, batch_first=True)(T((2, 5, 3)))", "fl.nn.RNNCell(3, 4)(T((2, 3)), T((2, 4)))", "fl.nn.Conv2d(3, 4, 3, padding=1)(T((2, 3, 6, 6), 'float32', 'deferred'))",
    "fl.nn.MultiheadAttention(4, 2)(T((5, 2, 4)), T((5, 2, 4)), T((5, 2, 4)))", "fl.nn.BatchNorm2d(3)(T((2, 3, 4, 4)))", "fl.nn.Embedding(5, 3)(T((2,), 'int64', fill='index'))", "fl.nn.Linear(3, 4)(T((2, 3)))", "fl.nn.TransformerEncoderLayer(4, 2, 8)(T((5, 2, 4)))",
    *(f"fl.optim.{name}([T((3, 4), grad=True), T((2, 3), grad=True)], lr=0.1).step()" for name in ("Adadelta", "Adagrad", "Adamax", "AdamW", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "Adafactor")),
    "fl.sparse_coo_tensor(T((2, 4), 'int64', fill='index'), T((4,), grad=True), (3, 3))", "fl.sparse_coo_tensor(T((1, 4), 'int64', fill='index'), T((4, 2)))", "fl.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2))",
    "T((3, 4), how='sparse') @ T((4, 2), grad=True)", "T((3, 4), how='rows') @ T((4,))", "fl.sparse.mm(T((3, 4), how='uncoalesced', grad=True), T((4, 2)))", "T((3, 4), how='sparse') + T((3, 4), how='uncoalesced')", "T((3, 4), how='sparse').sum(1)",
    "T((3, 4), how='uncoalesced').coalesce()", "T((3, 4), how='sparse').t().to_sparse_csr()", "T((3, 4), how='sparse', grad=True).to_dense()", "T((3, 4, 2), how='sparse').transpose(0, 2)", "T((3, 4)).sparse_mask(T((3, 4), how='sparse'))",
    "fl.sparse.sampled_addmm(T((3, 4), how='rows'), T((3, 2)), T((2, 4)))", "fl.sparse.softmax(T((3, 4), how='sparse'), 1)", "T((3, 4), how='sparse').index_select(0, T((2,), 'int64', fill='index'))",
    "fl.fft.fftn(T((2, 3, 4), 'complex64', grad=True), (3, 5), (0, 2), 'ortho')", "fl.fft.irfft(T((3, 4), 'complex64'), 7)", "fl.fft.rfft2(T((3, 4, 5), grad=True))", "fl.fft.hfft(T((3, 4), 'complex128'), 6)", "fl.stft(T((2, 64), grad=True), 16, 4, window=fl.hann_window(16), return_complex=True)",
    "fl.func.jvp(lambda a: (a * a).sin(), (T((2, 3)),), (T((2, 3)),))", "fl.func.vjp(lambda a, b: a @ b, T((2, 3)), T((3,)))", "fl.func.jacrev(lambda a: a.sum(0))(T((2, 3)))", "fl.func.jacfwd(lambda a: a.cumsum(0))(T((4,)))", "fl.func.hessian(lambda a: (a ** 3).sum())(T((3,)))",
    "fl.vmap(lambda a, b: a * b, in_dims=(0, 1), out_dims=1)(T((2, 3)), T((3, 2)))", "fl.vmap(lambda a: a[0], in_dims=-1, chunk_size=2)(T((2, 3)))", "fl.vmap(lambda a: F.conv2d(a, T((2, 3, 2, 2))))(T((2, 1, 3, 4, 4)))", "fl.vmap(fl.vmap(lambda a: a.softmax(0)))(T((2, 3, 4)))",
    "fl.vmap(lambda a: a + fl.rand(3), randomness='same')(T((2, 3)))", "fl.vmap(lambda a: fl.where(a > 0, a, 0 * a).scatter(0, T((2,), 'int64', fill='index'), a[:2]))(T((2, 3)))", "fl.vmap(fl.func.grad(lambda a: (a * a).sum()))(T((2, 3)))",
    "fl.autograd.functional.jacobian(lambda a: a * 2, T((3,)))", "fl.autograd.functional.hvp(lambda a: (a ** 3).sum(), T((3,)), T((3,)))", "fl.array_api.astype(T((3,)), fl.int32, copy=False)",
    "fl.nn.utils.clip_grad_norm_([T((3,), grad=True)], 1.0)", "fl.nn.utils.rnn.pack_padded_sequence(T((5, 2, 3)), [5, 3])", "fl.optim.SGD([T((3,), grad=True)], lr=0.1, momentum=0.9).step()", "fl.optim.Adam([T((3,), grad=True)], lr=0.1).step()",
)  # fmt: skip


def slow(text: str) -> bool:
    """Whether a call may take long by what it was asked for: to walk over more elements than anybody waits for, to make as many
    tensors, to repeat itself as often, or NumPy over a sequence without a last level. Where memory has no limit such calls are left out: they take minutes, or all of it."""
    parts = re.search(r"T\(\(2 ?\*\* ?3\d", text) and re.search(r"iter\(|list\(|tuple\(|unbind|split|chunk", text)
    expanded = re.search(r"T\([^T]*2 ?\*\* ?[34]\d", text) and "expanded" in text
    jacobians = re.search(r"(jac\w+|hessian)\(", text) and re.search(r"T\([^T]*\d\d.*\d\d", text)  # as many backwards as elements
    degrees = re.search(r"_polynomial_\w+\(.*T\([^T]*\d{5}", text)  # a million steps for each element
    steps = re.search(r"(n_?iter|num_iterations)=\(?(2|10) ?\*\* ?[3-9]\d|(n_?iter|num_iterations)=\d{6}", text)
    return bool(expanded or parts or jacobians or degrees or steps or re.search(r"np\.\w+\(.*Endless", text)) or any(n in text.replace(" ", "") for n in ("expand(2**", "expand(1,2**", "empty((2**", "empty((0,2**"))


def checked_parts() -> list[str]:
    """Parts of ops that graphs from files may name, and so are right for any arguments."""
    return sorted(set(_C.graph.op_names()) - set(_C.graph.trusting_names()) - set(_C.public_op_names))


# NumPy reads sizes from a list without holding its items, and crashes itself where one of them empties it.
NUMPYS_OWN = re.compile(r"(\bnp\.\w+\([^()]*)shrinking\(\)")

INSIDE = ("batched", "batched", "dual", "graded")


class Calls:
    """Text of call number `index` of a seed: `text(index)`. With `only`, of what that expression is found in."""

    def __init__(self, catalogue: Catalogue, seed: int, only: str = "") -> None:
        # Parts of ops that trust the ops that call them are called where they are asked for.
        wanted = re.compile(only or rf"^(?!ops\.(?!({'|'.join(checked_parts())})$))")
        self.targets = [t for t in catalogue.targets if wanted.search(t.name)]
        self.examples = [text for text in (*EXAMPLES, *catalogue.examples) if wanted.search(text)]
        if not self.targets and not self.examples:
            raise ValueError(f"nothing that is called matches {only!r}")
        for text in self.examples:
            ast.parse(text, mode="eval")
        self.seed, self.only = seed, only

    def text(self, index: int) -> str:
        """One or more statements; the last result is `r`."""
        return NUMPYS_OWN.sub(r"\1cyclic()", self._text(index))

    def _text(self, index: int) -> str:
        rng = random.Random(f"{self.seed}:{index}")
        kind = rng.random()
        if self.examples and (kind < 0.5 or not self.targets):
            return "r = " + self.inside(rng, Mutation(rng).of(rng.choice(self.examples)))
        if kind < 0.6 and not self.only:
            return Values(rng).indexing()
        if kind < 0.63 and not self.only:
            return Values(rng).buffer()
        return "r = " + self.inside(rng, Values(rng).call(rng.choice(self.targets)))

    @staticmethod
    def inside(rng: random.Random, text: str) -> str:
        """Now and then the call inside of a transformation, of batched or dual tensors."""
        kind = rng.random()
        if kind > 0.09 or "T(" not in text:
            return text
        if kind < 0.01:
            return f"batched(lambda T: {rng.choice(INSIDE)}(lambda T: {text}, T), T)"
        return f"{rng.choice(INSIDE)}(lambda T: {text}, T)"

    def plan(self, index: int) -> str:
        """How the call is made: alone, beside others on threads, or with a fork in the middle."""
        kind = random.Random(f"{self.seed}:{index}:plan").random()
        return "threads" if kind < 0.02 else "fork" if kind < 0.025 else "alone"


class Values:
    """Random values of one call, which tend to fit together."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.shape = [rng.choice((0, 1, 1, 2, 3, 4, 5, 8)) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 4, 5)))]
        if rng.random() < 0.01 and self.shape:
            self.shape[rng.randrange(len(self.shape))] = rng.choice((300, 40_000, 100_003))
        self.dtype = rng.choice((*DTYPES, "float32", "float32", "float64"))
        self.fill = "normal" if rng.random() < 0.6 else rng.choice(FILLS)

    def tensor(self) -> str:
        rng, shape = self.rng, list(self.shape)
        if rng.random() < 0.35:
            change = rng.random()
            if change < 0.3 and shape:
                shape[rng.randrange(len(shape))] = rng.choice((0, 1, 1, 2, 7))
            elif change < 0.5 and shape:
                shape = shape[rng.randrange(len(shape)) :]
            elif change < 0.6:
                shape = [rng.choice((1, 2)), *shape]
            elif change < 0.7:
                shape = shape[::-1]
            elif change < 0.75:
                shape = []
            elif change < 0.8:
                shape = [0]
            else:
                shape = [rng.choice((0, 1, 2, 3)) for _ in range(rng.randrange(6))]
        if rng.random() < 0.01:
            return self.huge_tensor()
        dtype = self.dtype if rng.random() < 0.75 else rng.choice(DTYPES)
        how = "" if rng.random() < 0.45 else rng.choice(HOWS)
        fill = self.fill if rng.random() < 0.8 else rng.choice(FILLS)
        text = f"T({tuple(shape)!r}, {dtype!r}"
        if how or fill != "normal":
            text += f", {how!r}"
        if fill != "normal":
            text += f", {fill!r}"
        if rng.random() < 0.3:
            text += ", grad=True"
        text += ")"
        return text

    def huge_tensor(self) -> str:
        """Many elements without memory for them."""
        size = self.rng.choice(("2**58", "2**40", "2**62, 0", "2**31, 2**27", "0, 2**62, 4", "2**61"))
        if self.rng.random() < 0.7:
            return f"fl.empty(({size},), device='meta')"
        return f"fl.ones(1).expand({size.replace('0', '1') if ', ' in size and '0' in size else size})"

    def integer(self) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.8:
            return rng.choice(INTS)
        return rng.choice(HUGE)

    def integers(self) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.15:
            return repr(tuple(self.shape))
        items = [self.integer() if rng.random() < 0.9 else rng.choice(("1", "2")) for _ in range(rng.randrange(6))]
        if kind < 0.6:  # small ones
            items = [rng.choice(INTS[:8]) for _ in items]
        inside = ", ".join(items)
        return f"[{inside}]" if rng.random() < 0.3 else f"({inside}{',' if len(items) == 1 else ''})"

    def real(self) -> str:
        return self.rng.choice(FLOATS) if self.rng.random() < 0.7 else self.integer()

    def dtype_text(self) -> str:
        return "fl." + self.rng.choice(DTYPES)

    def any(self) -> str:
        make = self.rng.choice((self.tensor, self.integer, self.integers, self.real, self.dtype_text, lambda: self.rng.choice(ODD), lambda: self.rng.choice(STRINGS)))
        return make()

    def tensors(self) -> str:
        rng = self.rng
        items = [self.tensor() for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        if rng.random() < 0.05 and items:
            items = items * rng.choice((1, 2, 3)) + [rng.choice(ODD)]
        if rng.random() < 0.05 and items:
            return f"[{items[0]}] * {rng.choice((3, 20))}"
        return "[" + ", ".join(items) + "]"

    def of(self, p: Parameter) -> str:
        """Text of a value for a parameter."""
        rng, a = self.rng, p.annotation
        if rng.random() < 0.06:
            return self.any()
        if rng.random() < 0.3 and "None" in a:
            return "None"
        makers = []
        if "Sequence[Tensor]" in a:
            makers.append(self.tensors)
        elif "Tensor" in a:
            makers += [self.tensor] * 2
        if "Number" in a or "float" in a:
            makers.append(self.real)
        if "Sequence[int]" in a:
            makers.append(self.integers)
        if "int" in a.replace("Sequence[int]", "").split(" | ") or a in ("int", "Number"):
            makers.append(self.integer)
        if "bool" in a:
            makers.append(lambda: rng.choice(("True", "False")))
        if "dtype" in a:
            makers.append(self.dtype_text)
        if "device" in a:
            makers.append(lambda: rng.choice(DEVICES))
        if "str" in a:
            makers.append(lambda: rng.choice(STRINGS))
        if "Generator" in a:
            makers.append(lambda: "fl.Generator()")
        if not makers:
            named = {"input": self.tensor, "dim": self.integer, "dtype": self.dtype_text, "device": lambda: rng.choice(DEVICES), "tensors": self.tensors, "other": self.tensor, "size": self.integers}
            makers.append(named.get(p.name, self.any))
        return rng.choice(makers)()

    def call(self, target: Target) -> str:
        rng = self.rng
        name = target.name
        if name.startswith("."):
            name = self.tensor() + name
        if target.attribute:
            return name
        parts = []
        keywords = False
        for p in target.parameters:
            if p.variadic:
                parts += [] if keywords else [self.of(p) for _ in range(rng.randrange(5))] if rng.random() < 0.6 else [self.integers()]
                keywords = True
                continue
            if not p.required and rng.random() < 0.5:
                keywords = True
                continue
            if p.required and rng.random() < 0.01:
                continue
            keywords = keywords or p.keyword_only or rng.random() < 0.1
            parts.append(f"{p.name}={self.of(p)}" if keywords else self.of(p))
        if rng.random() < 0.01:
            more = rng.choice(("axis=0", "out=None", "nonsense=1", "keepdims=True", "**{'\\ud800': 1}"))
            if not any(part.startswith(more.partition("=")[0] + "=") for part in parts):
                parts.append(more)
        return f"{name}({', '.join(parts)})"

    def index(self) -> str:
        rng = self.rng
        parts = []
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6))):
            kind = rng.randrange(12)
            if kind < 3:
                parts.append(self.integer())
            elif kind < 6:
                parts.append(":".join(rng.choice(("", self.integer())) for _ in range(rng.choice((2, 2, 3)))))
            elif kind == 6:
                parts.append(rng.choice(("...", "None", "True", "False")))
            elif kind == 7:
                parts.append(f"T({tuple(self.shape[: rng.randrange(3)])!r}, 'bool')")
            elif kind == 8:
                parts.append(f"T({tuple(rng.choice((0, 1, 2, 3)) for _ in range(rng.randrange(3)))!r}, {rng.choice(('int64', 'int32', 'uint8', 'int64'))!r}, {rng.choice(HOWS)!r}, {rng.choice(('index', 'index', 'extreme', 'negative'))!r})")
            elif kind == 9:
                parts.append("[" + ", ".join(rng.choice(INTS) for _ in range(rng.randrange(4))) + "]")
            elif kind == 10:
                parts.append(self.tensor())
            else:
                parts.append(self.any())
        return ", ".join(parts) or "()"

    def indexing(self) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.5:
            return f"r = {self.tensor()}[{self.index()}]"
        value = self.tensor() if rng.random() < 0.6 else self.any()
        if kind < 0.8:
            return f"r = {self.tensor()}\nr[{self.index()}] = {value}"
        operator = rng.choice(("+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>=", "@="))
        if kind < 0.9:
            return f"r = {self.tensor()}\nr[{self.index()}] {operator} {value}"
        return f"r = {self.tensor()}\nr {operator} {value}"

    def buffer(self) -> str:
        """Memory shared in one way and looked at in another."""
        rng = self.rng
        x = self.tensor()
        kind = rng.randrange(6)
        if kind == 0:
            return f"r = memory({x}, {rng.choice((0, 24, 56, 152, 284, 1))})"
        if kind == 1:
            return f"r = fl.from_dlpack({x}).as_strided({self.integers()}, {self.integers()})"
        if kind == 2:
            return f"r = fl.from_numpy(np.asarray({x})).as_strided({self.integers()}, {self.integers()}, {self.integer()})"
        if kind == 3:
            return f"r = {x}\nk = np.asarray(r)\nr.resize_({self.integers()})\nk.sum()"
        if kind == 4:
            return f"r = {x}\nk = r.detach()\nr.data = {self.tensor()}\nr.resize_({self.integers()})"
        return f"r = {x}\nr.grad = {self.tensor()}\nk = r.grad"


class Mutation:
    """A call that works, with up to three of its values changed."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.values = Values(rng)

    def of(self, text: str) -> str:
        tree = ast.parse(text, mode="eval")
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3))):
            slots = [
                (node, field, i)
                for node in ast.walk(tree)
                for field, i in self.slots(node)
            ]
            if not slots:
                break
            node, field, i = self.rng.choice(slots)
            old = getattr(node, field) if i is None else getattr(node, field)[i]
            new = ast.parse(self.instead(old), mode="eval").body
            if i is None:
                setattr(node, field, new)
            else:
                getattr(node, field)[i] = new
        return ast.unparse(tree)

    @staticmethod
    def slots(node: ast.AST):
        if isinstance(node, ast.Call):
            yield from (("args", i) for i in range(len(node.args)))
        elif isinstance(node, (ast.Tuple, ast.List)):
            yield from (("elts", i) for i in range(len(node.elts)))
        elif isinstance(node, ast.keyword):
            yield "value", None
        elif isinstance(node, ast.Subscript):
            yield "slice", None

    def instead(self, old: ast.expr) -> str:
        rng, values = self.rng, self.values
        if rng.random() < 0.08:
            return values.any()
        if isinstance(old, ast.Call) and isinstance(old.func, ast.Name) and old.func.id == "T" and rng.random() < 0.8:
            return self.tensor_like(old)
        if isinstance(old, ast.Call):
            return values.tensor()
        if isinstance(old, (ast.Tuple, ast.List)):
            return values.integers()
        if isinstance(old, ast.Constant):
            if isinstance(old.value, bool):
                return str(not old.value)
            if isinstance(old.value, int):
                return values.integer()
            if isinstance(old.value, float):
                return values.real()
            if old.value in DTYPES:
                return repr(rng.choice(DTYPES))
            if isinstance(old.value, str):
                return rng.choice((*STRINGS, *map(repr, HOWS), *map(repr, FILLS)))
        return values.any()

    def tensor_like(self, old: ast.Call) -> str:
        """The same shape in another state."""
        rng = self.rng
        given = {k.arg: ast.unparse(k.value) for k in old.keywords}
        given |= dict(zip(("shape", "dtype", "how", "fill", "grad"), map(ast.unparse, old.args)))
        for _ in range(rng.choice((1, 1, 2))):
            what = rng.choice(("how", "how", "dtype", "fill", "grad", "grad"))
            given[what] = {
                "how": lambda: repr(rng.choice(HOWS)),
                "dtype": lambda: repr(rng.choice(DTYPES)),
                "fill": lambda: repr(rng.choice(FILLS)),
                "grad": lambda: "True",
            }[what]()
        return "T(" + ", ".join(f"{k}={v}" for k, v in given.items()) + ")"
