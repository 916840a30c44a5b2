"""Functions and methods called at random beside PyTorch: arguments by position and by keyword, in the types that its schemas name and in those that users write instead.

A schema says which arguments there are (`torch._C._jit_get_schemas_for_operator`). A dimension may be negative, a NumPy integer or a tensor; dimensions a tuple, a list or one
number; a number a bool, NumPy's, a 0-d tensor. Tensors are of all element types, strided, expanded, empty, with NaN. Compared are the results with their classes, types and strides where
they are views, which arguments they share memory with or are, what became of the arguments, and the gradients.
"""

from __future__ import annotations

import re

import pytest
from beside import torch
from cases import UNIMPLEMENTED, Deliberate, broadcastable, check, shape_of, tensor

import flambeau as fl

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 float32 float64 float32 float64".split()
SPACES = {"linalg_": "linalg", "special_": "special", "fft_": "fft"}

# What draws numbers, changes the process, has no schema that says what it takes, or is compared by other tests alone. PyTorch's median returns memory
# that nothing was written to where rows are strided, and its lcm of the lowest integer ends the process.
LEFT_OUT = re.compile(
    r"^_|^set_|^is_set_to|rand|normal|bernoulli|binomial|poisson|multinomial|dropout|cauchy|exponential|geometric|uniform|empty|rrelu|dirichlet|resize|record_stream|pin|from_file|seed"
    r"|backward|retain_grad|quant|^q_|int_repr|fused_|fake_|fbgemm|dnn|miopen|vulkan|sparse|coalesce|values$|crow|ccol|nested|rename|names|align_|refine|tensordot|stft|lobpcg|data$|share_memory"
    r"|eig|svd|lstsq|lowrank|ormqr|geqrf|orgqr|lu|ldl|qr$|cholesky|solve|pinv|inv|det|cond|rank|batch_norm_|^rnn|^lstm|^gru|resolve_|is_distributed|is_inference|conv|airy|bessel|polynomial|hash_tensor"
    r"|_loss|loss$|triplet|kl_div|put|^new$|native_|_copy$|storage|stride|Generator|broadcast_shapes|frobenius|nuclear|with_logits|^cuda$|chalf|promote_types|result_type|histc|igamma|gammainc|requires_grad_|^tensor$|^embedding|batch_norm|zeta|gcd|lcm|median"
)
PRELUDE = """def tensors(v):
    return [v] if isinstance(v, L.Tensor) else [t for e in v for t in tensors(e)] if isinstance(v, (list, tuple)) else []
def place(t):
    return t.untyped_storage().data_ptr() if t.numel() else None
"""
# After the call: `given` are its tensors, `leaves` what requires grad.
AFTER = """made = tensors(r)
out.append(r)
out.append(type(r).__name__ if isinstance(r, (tuple, list)) else None)
out.append([[t is g for g in given] for t in made])
out.append([[place(t) == place(g) and place(g) is not None for g in given] for t in made])
out.append([[s for s, n in zip(t.stride(), t.shape) if n > 1] for t in made if any(place(t) == place(g) for g in given) and t.numel() > 1])
out.append(given)
rough = [t.double() for t in made if t.requires_grad and not t.is_complex()]
if rough: out.append([L.zeros(a.shape) if g is None else L.zeros(a.shape, dtype=g.dtype) + g for a, g in zip(leaves, L.autograd.grad(sum((t * L.cos(L.arange(t.numel(), dtype=L.float64).reshape(t.shape))).sum() for t in rough), leaves, allow_unused=True))])
"""

DELIBERATE = [
    *UNIMPLEMENTED,
    Deliberate(r"\nline None raises here", "what is taken here and refused there: test_databases.py and test_errors.py look at it"),
    Deliberate(r"r = (L\.(all|any)\(|x0\.(all|any)\().*(L\.bool|flambeau\.bool|shape \(\)) here", "any and all are bool; dim=() is all axes"),
    Deliberate(r"(arccosh|acosh|logit)(_|\().*nan", "outside of its domain a function has no derivative"),
    Deliberate(r"(digamma|polygamma|psi)(_|\().*inf", "a pole is an infinity"),
    Deliberate(r"r = .*histogram\(.*np\.bool_", "a bool of NumPy's is one, and what is taken here has no derivative"),
    Deliberate(r"(conj_physical|positive)\(.*\n\[[23]\] \[0\] \[0\] False here", "a tensor of its own, for real numbers too"),
    Deliberate(r"(channel_shuffle|pixel_shuffle|pixel_unshuffle|sum_to_size)\(.*True here, False there", "nothing is copied where there is nothing to do"),
    Deliberate(r"more than one element of the written tensor lies at the same place", "an expanded tensor is not written to, whatever the value"),
    Deliberate(r"adjoint: x has shape \[\]|mT: the tensor has shape \[\]", "a number has no rows"),
    Deliberate(r"r = x0\.logical_\w+_\(.*is being used in an in-place operation", "a leaf that requires grad is not written to"),
    Deliberate(r"r = x0\.(eq|ne|lt|gt|le|ge|not_equal|less|greater|less_equal|greater_equal)_\(.*requires_grad", "a comparison in place has no history"),
    Deliberate(r"(cummax|cummin|mode|kthvalue|vector_norm|index_reduce|scatter_reduce|pairwise_distance|dist|renorm)\(.*\n\[6\]", "gradients of empty tensors, of p = 0 and of no limit are zeros or numbers of the leaf's type; PyTorch's are None, of another type, or NaN"),
    Deliberate(r"(norm|sort): (no form of it takes .*NoneType|stable is a NoneType)", "a number that may be left out is not given as None"),
    Deliberate(r"xlogy.*(le: expected at least one tensor|\n\[6\])", "a known defect: the derivative beside a number is refused, and beside integers it is computed in float32"),
    Deliberate(r"softmax: x is .*; expected a float, or dtype= a float", "a softmax of integers is refused where it has one element or none, too"),
    Deliberate(r"L\.zeros\(\(0,\).*r = L\.(concat|cat|concatenate)\(", "an empty tensor among those that are joined has a history or none"),
    Deliberate(r"unique_consecutive\(", "bools of NumPy's are taken for flags, and a flag by position means what its name says"),
    Deliberate(r"sparse_grad=.*got a sparse gradient", "a sparse gradient goes to a leaf"),
    Deliberate(r"cumprod_: result type int64", "a bool holds no product"),
    Deliberate(r"L\.zeros\(.*diff\(.*\n\[2\]", "nothing is copied where there is nothing to do"),
    Deliberate(r"number = -?\d+ does not fit into u?int", "numbers that do not fit an integer type are refused where another number would be meant"),
    Deliberate(r"scatter(_reduce)?: index has shape .*\b0\b.*expected index no larger than src", "sizes are looked at where nothing is written, too"),
    Deliberate(r"L\.zeros\(.*slice_scatter\(.*this is a view of a tensor whose elements share places", "... and places"),
    Deliberate(r"\.to\((True|False)", "a flag by position is `copy` or `non_blocking`, no type"),
    Deliberate(r"r = L\.cov\(.*\n\[5\]", "PyTorch writes to the argument where it is a number"),
    Deliberate(r"matrix_exp: A is (b?float16)", "matrices of 16 bits are cast by the caller"),
    Deliberate(r"r = (L|x0)\.(std|var|std_mean|var_mean)\(.*(\n\[6\]|nan there)", "() means all axes for the gradient, too, and nothing varies by 0 where the divisor is above 0"),
    Deliberate(r"=L\.uint8.*threshold_?\(", "a threshold below 0 is below all bytes"),
    Deliberate(r"L\.uint8.*L\.cosine_similarity\(", "a norm of bytes is computed in the result's type; PyTorch's in float32"),
    Deliberate(r"L\.uint8.*atan2\(.*\n\[6\]|\n\[6\].*L\.uint8.*atan2\(", "squares of bytes wrap round in PyTorch's slope"),
    Deliberate(r"fftfreq: n = -?\d+|float division by zero", "no frequencies of no points, or of points at one place"),
]


def arguments(schema):
    """(name, type, has a default, by keyword alone) of each argument of a schema's text, or None where one is no plain one."""
    out, only_keywords = [], False
    inside = re.sub(r"\([a-z]!?(?: -> \*)?\)", "", schema[schema.index("(") + 1 : schema.rindex(") ->")])
    for part in re.split(r", (?![^\[(]*[\])])", inside):
        if part == "*":
            only_keywords = True
        elif part:
            found = re.fullmatch(r"(\S+) (\w+)(=.*)?", part)
            if found is None:
                return None
            out.append((found[2], found[1], found[3] is not None, only_keywords))
    return out


def targets():
    """(how it is called, its schemas) of what both libraries have."""
    by_name = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if schema.name == name or any(a.is_out for a in schema.arguments):
            continue
        space = next((s for p, s in SPACES.items() if name.startswith(p)), "")
        plain = name.removeprefix(f"{space}_") if space else name
        if LEFT_OUT.search(plain) or not (parsed := arguments(str(schema))):
            continue
        where = (getattr(lib, space) if space else lib for lib in (torch, fl))
        if all(callable(getattr(lib, plain, None)) for lib in where):
            by_name.setdefault(f"L.{space}.{plain}" if space else f"L.{plain}", []).append(parsed)
        if not space and parsed[0][0] == "self" and all(callable(getattr(lib.Tensor, plain, None)) for lib in (torch, fl)):
            by_name.setdefault(f".{plain}", []).append(parsed)
    return sorted(by_name.items())


TARGETS = targets()


class Call:
    """A program that makes tensors and hands them to one function."""

    def __init__(self, rng):
        self.rng = rng
        self.shape = shape_of(rng, 3, 3)
        self.dtype = rng.choice(DTYPES)
        self.several = rng.random() < 0.2  # element types
        self.lines = []
        self.given = []
        self.leaves = []

    def source_of(self):
        """A function and how it is called, or None where an argument is of a type that is not drawn."""
        rng = self.rng
        name, schemas = rng.choice(TARGETS)
        positional, named = [], []
        for k, (argument, kind, optional, only_keyword) in enumerate(rng.choice(schemas)):
            if optional and rng.random() < 0.5:
                continue
            first = k == 0 and name.startswith(".")
            value = self.value(argument, kind) if kind == "Tensor" or not first else None
            if value is None:
                return None
            skipped = k > len(positional) + len(named)
            if not first and (only_keyword or named or skipped or rng.random() < 0.15):
                named.append(f"{'input' if argument == 'self' else argument}={value}")
            else:
                positional.append(value)
        call = f"{positional.pop(0)}{name}" if name.startswith(".") else name
        self.lines.append(f"given, leaves = [{', '.join(self.given)}], [{', '.join(self.leaves)}]")
        self.lines.append(f"r = {call}({', '.join([*positional, *named])})")
        return PRELUDE + "\n".join(self.lines) + "\n" + AFTER

    def value(self, name, kind):
        rng = self.rng
        if kind.endswith("?") and rng.random() < 0.25:
            return "None"
        kind = kind.removesuffix("?")
        if kind == "Tensor":
            return self.tensor(name)
        if kind in ("Tensor[]", "Tensor?[]"):
            return "[" + ", ".join(self.tensor(name) for _ in range(rng.randint(1, 3))) + "]"
        if kind in ("Scalar", "number", "float"):
            return self.number()
        if kind in ("int", "SymInt"):
            return self.whole(name)
        if re.match(r"(Sym)?[Ii]nt\[", kind):
            return self.sizes(name)
        if kind == "bool":
            return rng.choice(["True", "False", "True", "False", "np.bool_(True)"])
        if kind == "ScalarType":
            return f"L.{rng.choice(DTYPES)}"
        words = {"rounding_mode": ["'floor'", "'trunc'"], "reduce": ["'sum'", "'prod'", "'mean'", "'amax'"], "norm": ["'ortho'", "'forward'"], "approximate": ["'tanh'"]}
        return rng.choice(words[name]) if kind == "str" and name in words else None

    def tensor(self, name):
        rng = self.rng
        shape = broadcastable(rng, self.shape) if rng.random() < 0.25 else self.shape
        dtype = rng.choice(DTYPES) if self.several else self.dtype
        values = (lambda r: str(r.randint(-8, 12) / 2)) if dtype.startswith(("float", "bfloat")) else None  # NaN and infinities are for other tests
        if name.startswith(("index", "indices")):
            dtype, values = "int64", lambda r: str(r.randrange(max(1, min(self.shape, default=1))))
        elif name in ("mask", "condition"):
            dtype = "bool"
        made, view = shape, ""
        if shape and rng.random() < 0.4:
            made, view = rng.choice(
                [
                    ((*shape[:-1], 2 * shape[-1]), "[..., ::2]"),
                    ((shape[0] + 1, *shape[1:]), "[1:]"),
                    ((shape[-1], *shape[1:-1], shape[0]) if len(shape) > 1 else shape, ".transpose(0, -1)"),
                    ((*shape[:-1], 1), f".expand({shape})"),
                ]
            )
        n = len(self.given)
        self.given.append(f"x{n}")
        self.lines.append(f"a{n} = {tensor(rng, made, dtype, values)}")
        if dtype.startswith(("float", "bfloat")) and rng.random() < 0.4:
            self.leaves.append(f"a{n}")
            self.lines.append(f"a{n}.requires_grad_()")
        self.lines.append(f"x{n} = a{n}{view}")
        return f"x{n}"

    def number(self):
        value = self.rng.choice(["0", "1", "2", "3", "-1", "0.5", "1.5", "-2.5", "2.0", "True", "False", "inf"])
        if self.rng.random() < 0.2 and value != "inf":
            return f"{self.rng.choice(['np.float32', 'np.float64', 'np.int64', 'L.tensor'])}({value})"
        return value

    def whole(self, name):
        rng, n = self.rng, max(1, len(self.shape))
        value = rng.randint(-n, n - 1) if re.search("dim|axis", name) else rng.choice([0, 1, 1, 2, 2, 3, -1])
        return rng.choice([f"{value}"] * 8 + [f"np.int64({value})", f"L.tensor({value})"])

    def sizes(self, name):
        rng, n = self.rng, max(1, len(self.shape))
        if re.search("dim|axes", name):
            values = [d - n if rng.random() < 0.4 else d for d in rng.sample(range(n), n if name == "dims" else rng.randint(0, n))]
        elif re.search("size|shape", name):
            values = list(rng.choice([self.shape, self.shape[::-1], (1, *self.shape), (2, *self.shape), (-1,), (-1, *self.shape[1:])]))
        else:
            values = [rng.choice([0, 1, 1, 2, 2, -1]) for _ in range(rng.randint(1, n))]
        texts = rng.choice([[str(v) for v in values]] * 4 + [[f"np.int64({v})" for v in values], [f"L.tensor({v})" for v in values]])
        if len(values) == 1 and rng.random() < 0.3:
            return texts[0]
        return f"[{', '.join(texts)}]" if rng.random() < 0.5 else f"({''.join(t + ', ' for t in texts)})" if rng.random() < 0.8 else f"L.Size({values})"


def call(rng):
    while True:
        source = Call(rng).source_of()
        if source is not None:
            return source


@pytest.mark.parametrize("seed", range(4))
def test_calls(seed):
    check(call, seed, 2500, DELIBERATE, scale=10)
