"""Gradients by random programs beside PyTorch: views, writes in place, hooks, retained graphs, second derivatives, modules."""

from __future__ import annotations

import pytest
from cases import Deliberate, check

DELIBERATE = [
    Deliberate(r"return [\[{].*register_full_backward.*\n\[\d+\] (\[|list ).* here, ", "full backward hooks see the outputs in lists and dicts, which PyTorch does not look into"),
    Deliberate("register_full_backward.*(None here, Tensor there|True here, False there|there: .unsupported operand type.*NoneType)", "what needs no gradient or was not used gets None, not zeros"),
    Deliberate("full_backward hook of .* returned . gradients; expected.*line None there", "what hooks return is counted where no input needs a gradient, too"),
    Deliberate("there: .*(Output . of|functions that? returns? multiple views|A view was created in no_grad mode)", "the parts that split() and its kin return may be written to"),
    Deliberate("there: .*Trying to backward through the graph a second time", "less is saved: a product with a number saves nothing"),
    Deliberate(r"\.data\.\w+_\(.*saved for backward", "a write through .data is noticed, too"),
    Deliberate(r"expand.*raises here: .*more than one element of the written tensor", "what shares places is not written, not even zeros"),
    Deliberate(r"requires_grad_\(False\).*there: .a view of a leaf Variable", "a view counts as what its leaf is now"),
    Deliberate(r"c\.copy_\(b\).*stack\(\[a, c\]\).*\[1\] \[\[1.0, 1.0, 1.0\], \[1.0, 1.0, 1.0\]\] here, \[\[2.0", "leaves do not share the memory of .grad"),
    Deliberate(r"class Pair.*register_full_backward.*parts\[(-1:|:1)\].* here, list ", "a module whose outputs had no part in the loss, or none by its arguments: its hooks are not called"),
    Deliberate("no program for PyTorch: AttributeError..'NoneType' object has no attribute 'clone'", "a hook of the program that does not expect None"),
    Deliberate("there: .you can only change requires_grad flags of leaf variables", "to set what is already so is no error"),
    Deliberate("there: .Can.t detach views in-place", "a view may be detached in place"),
    Deliberate(r"\b[ab]\.detach_\(\).*there: .a view of a leaf Variable", "a detached leaf may be written to through its views"),
]

LEAVES = """a = L.tensor([[1.0, -2.0, 3.0], [0.5, 1.5, -1.0]], dtype=L.float64, requires_grad=True)
b = L.tensor([[2.0, 1.0, -1.0], [1.0, 0.0, 4.0]], dtype=L.float64, requires_grad=True)
c = L.tensor([[1.0, 2.0, 0.0], [3.0, 1.0, 1.0]], dtype=L.float64)
calls = []"""

UNARY = ["{v}.sin()", "{v}.exp()", "{v} * 2", "{v}.tanh()", "-{v}", "{v}.square()", "{v}.abs()", "{v}.relu()", "{v}.clone()", "{v}.cumsum(0)", "{v}.softmax(-1)", "{v}.sigmoid()", "{v} ** 3", "{v}.detach()", "{v}.clamp(-1, 1)", "{v}.contiguous()", "{v}.to(L.float64)", "{v}.flip(0)", "L.nn.functional.relu({v}, inplace=False)"]
BINARY = ["{v} + {w}", "{v} * {w}", "{v} - {w}", "{v} / ({w} + 9)", "L.maximum({v}, {w})", "L.where({v}.detach() > 0, {v}, {w})", "L.atan2({v}, {w} + 9)", "L.minimum({v}, {w})", "L.lerp({v}, {w}, 0.25)", "L.cat([{v}, {w}])[:2]", "L.stack([{v}, {w}]).sum(0)"]
# The result's shape is given beside; all others keep (2, 3).
VIEWS = {
    "{v}[0]": (3,), "{v}[:, 1]": (2,), "{v}.t()": (3, 2), "{v}.view(-1)": (6,), "{v}[1:]": (1, 3), "{v}.unsqueeze(0)": (1, 2, 3), "{v}.reshape(3, 2)": (3, 2), "{v}[:, ::2]": (2, 2),
    "{v}.diagonal()": (2,), "{v}.view(2, 3)": (2, 3), "{v}[...]": (2, 3), "{v}.narrow(1, 0, 2)": (2, 2), "{v}.expand(2, 2, 3)": (2, 2, 3), "{v}.select(0, 1)": (3,), "{v}.unbind(0)[0]": (3,),
    "{v}.split(1)[1]": (1, 3), "{v}.chunk(3, 1)[0]": (2, 1), "{v}.view_as({v})": (2, 3), "{v}.transpose(0, 1).transpose(0, 1)": (2, 3), "{v}[[0, 1]]": (2, 3), "{v}.flatten()": (6,), "{v}.squeeze()": (2, 3),
}  # fmt: skip
IN_PLACE = ["{v}.mul_(2)", "{v}.add_(1)", "{v}.zero_()", "{v}.exp_()", "{v}.tanh_()", "{v}[0] = 1", "{v}.sin_()", "{v}.fill_(2)", "{v}.neg_()", "{v}.relu_()", "{v}.square_()", "{v}.clamp_(0, 2)", "{v} *= 3", "{v}.detach_()", "{v}.sigmoid_()", "L.nn.functional.relu({v}, inplace=True)"]
IN_PLACE_BINARY = ["{v}.add_({w})", "{v}.mul_({w})", "{v}.copy_({w})", "{v} += {w}", "{v}.sub_({w})", "{v}[0] = {w}[1]", "{v}[:, 0] = {w}[:, 1]", "{v}.div_({w} + 9)", "{v}[:, 1] += {w}[:, 0]", "{v}.data.copy_({w})", "{v}.data.mul_(2)", "{v}.masked_fill_({w}.detach() > 0, 1.0)"]
HOOKS = [
    "{v}.register_hook(lambda g: calls.append(g.detach().clone()))",
    "{v}.register_hook(lambda g: g * 2)",
    "{v}.register_hook(lambda g: g.detach() + 1)",
    "h = {v}.register_hook(lambda g: (calls.append(1), h.remove())[1])",
    "h0 = {v}.register_hook(lambda g: g * 5); h0.remove()",
    "{v}.retain_grad()",
    "if {v}.grad_fn is not None: {v}.grad_fn.register_hook(lambda gi, go: calls.append(len(gi)))",
    "if {v}.grad_fn is not None: {v}.grad_fn.register_prehook(lambda go: calls.append(go[0].detach().clone()))",
    "if {v}.grad_fn is not None: {v}.grad_fn.register_prehook(lambda go: (go[0] * 2,))",
    "{v}.register_post_accumulate_grad_hook(lambda t: calls.append(t.grad.detach().clone()))",
]
TOGGLES = ["{v}.requires_grad_()", "{v}.requires_grad_(False)", "{v}.requires_grad = True", "{v} = {v}.detach().requires_grad_()", "{v}.grad = None", "{v}.grad = L.ones_like({v}.detach())", "if {v}.grad is not None: {v}.grad.zero_()"]


def program(rng):
    names = {"a": (2, 3), "b": (2, 3), "c": (2, 3)}
    lines = [LEAVES]
    # PyTorch crashes at a hook on a view whose base was written to under no_grad.
    unrecorded_writes = rng.random() < 0.3

    def any_of(shape=None):
        fitting = [n for n, s in names.items() if shape is None or s == shape]
        return rng.choice(fitting[-4:] + fitting)

    def fresh(shape):
        name = f"v{len(names)}"
        names[name] = shape
        return name

    def step():
        kind = rng.random()
        if kind < 0.25:
            v = any_of((2, 3))
            lines.append(f"{{}}{fresh((2, 3))} = {rng.choice(UNARY).format(v=v)}")
        elif kind < 0.42:
            v, w = any_of((2, 3)), any_of((2, 3))
            lines.append(f"{{}}{fresh((2, 3))} = {rng.choice(BINARY).format(v=v, w=w)}")
        elif kind < 0.6:
            v = any_of((2, 3))
            view, shape = rng.choice(list(VIEWS.items()))
            lines.append(f"{{}}{fresh(shape)} = {view.format(v=v)}")
        elif kind < 0.74:
            lines.append("{}" + rng.choice(IN_PLACE).format(v=any_of() if rng.random() < 0.9 else "a"))
        elif kind < 0.82:
            lines.append("{}" + rng.choice(IN_PLACE_BINARY).format(v=any_of((2, 3)), w=any_of((2, 3))))
        elif kind < 0.92 and not unrecorded_writes:
            lines.append("{}" + rng.choice(HOOKS).format(v=any_of()))
        elif kind < 0.95 and not any(shape != (2, 3) for shape in names.values()):
            lines.append("{}" + rng.choice(TOGGLES).format(v=any_of()))
        else:
            backward()
            return
        mode = rng.random()
        if 0.6 <= kind < 0.82 and not unrecorded_writes or 0.42 <= kind < 0.6:
            mode = 1.0
        context = "with L.no_grad(): " if mode < 0.06 else "with L.enable_grad(): " if mode < 0.08 else "with L.inference_mode(False): " if mode < 0.09 else ""
        lines[-1] = (context if not lines[-1].startswith("{}if ") else "") + lines[-1][2:]

    def backward():
        v = any_of()
        retain = rng.choice(["", "", "retain_graph=True", "create_graph=True"])
        kind = rng.random()
        if kind < 0.6:
            lines.append(f"{v}.sum().backward({retain})")
        elif kind < 0.7:
            lines.append(f"{v}.backward(L.ones_like({v}){', ' + retain if retain else ''})")
        elif kind < 0.75:
            lines.append(f"{v}.backward({retain})")
        else:
            inputs = ", ".join(rng.sample(list(names), rng.randint(1, 2)))
            unused = ", allow_unused=True" if rng.random() < 0.7 else ""
            zeros = ", materialize_grads=True" if unused and rng.random() < 0.2 else ""
            g = f"g{len(lines)}"
            lines.append(f"{g} = L.autograd.grad({v}.sum(), [{inputs}]{', ' + retain if retain else ''}{unused}{zeros})")
            lines.append(f"out.append([None if t is None else t.detach() for t in {g}])")
            if "create" in retain and rng.random() < 0.8:
                lines.append(f"if {g}[0] is not None: {g}[0].square().sum().backward({rng.choice(['', 'retain_graph=True'])})")
        lines.append(state())
        if rng.random() < 0.25:
            lines.append(lines[-2] if "backward" in lines[-2] else f"{v}.sum().backward()")
            lines.append(state())

    def state():
        leaves = [n for n in names if n in "abc" or rng.random() < 0.3]
        return "out.append([None if t.grad is None else t.grad.detach().clone() for t in (" + ", ".join(leaves) + ",)])"

    for _ in range(rng.randint(2, 9)):
        step()
    backward()
    everything = ", ".join(names)
    lines += [f"out += [{everything}]", f"out.append([(t.is_leaf, t.requires_grad, t.grad_fn is None) for t in ({everything},)])", "out.append(calls)"]
    return "\n".join(lines)


MODULES = """def filled(m):
    with L.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_(L.arange(p.numel(), dtype=p.dtype).reshape(p.shape).sub(2).mul(0.1 * (i + 1)))
    return m
class Pair(L.nn.Module):
    def __init__(self):
        super().__init__()
        self.left = L.nn.Linear(3, 3)
        self.right = L.nn.Linear(3, 3)
    def forward(self, x, y{more}):
        return {result}
calls = []
x = L.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 2.0]]{gx})
y = L.tensor([[0.5, 1.0, -1.0], [2.0, 0.0, 1.0]]{gy})
m = filled(Pair()){mode}"""

RESULTS = ["self.left(x) + self.right(y)", "(self.left(x), self.right(y))", "(self.left(x), y)", "self.left(x)", "(self.left(x), x * 2, y.detach())", "x * y", "[self.left(x), self.right(y)]", "{'out': self.left(x) * self.right(y)}", "(self.right(self.left(x)),)"]

MODULE_HOOKS = [
    "{m}.register_forward_hook(lambda m, i, o: calls.append(('f', len(i))))",
    "{m}.register_forward_hook(lambda m, i, o: o * 2 if isinstance(o, L.Tensor) else None)",
    "{m}.register_forward_hook(lambda m, i, k, o: calls.append(sorted(k)), with_kwargs=True)",
    "{m}.register_forward_hook(lambda m, i, o: calls.append('first'), prepend=True)",
    "{m}.register_forward_pre_hook(lambda m, i: calls.append(('p', len(i))))",
    "{m}.register_forward_pre_hook(lambda m, i: tuple(t * 2 for t in i))",
    "{m}.register_forward_pre_hook(lambda m, i: i[0] if len(i) == 1 else None)",
    "{m}.register_forward_pre_hook(lambda m, i, k: (i, k), with_kwargs=True)",
    "{m}.register_full_backward_hook(lambda m, gi, go: calls.append(('b', gi, go)))",
    "{m}.register_full_backward_hook(lambda m, gi, go: calls.append(('b', [g is None for g in gi], [g is None for g in go])))",
    "{m}.register_full_backward_hook(lambda m, gi, go: tuple(None if g is None else g * 2 for g in gi))",
    "{m}.register_full_backward_pre_hook(lambda m, go: calls.append(('q', go)))",
    "{m}.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else g * 3 for g in go))",
    "h{n} = {m}.register_forward_hook(lambda m, i, o: (calls.append('once'), h{n}.remove())[1])",
    "h{n} = {m}.register_full_backward_hook(lambda m, gi, go: (calls.append('once'), h{n}.remove())[1])",
    "h{n} = {m}.register_forward_pre_hook(lambda m, i: calls.append('never')); h{n}.remove()",
    "{m}.weight.register_hook(lambda g: g * 2)",
    "{m}.weight.requires_grad_(False)",
    "{m}.requires_grad_(False)",
    "{m}.register_full_backward_hook(lambda m, gi, go: (None,) * (len(gi) + 1))",
    "{m}.bias.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad.clone()))",
]


def modules(rng):
    grad = lambda: rng.choice([", requires_grad=True", ", requires_grad=True", ""])  # noqa: E731
    lines = [MODULES.replace("{more}", rng.choice(["", "", ", scale=1"])).replace("{result}", rng.choice(RESULTS)).replace("{gx}", grad()).replace("{gy}", grad()).replace("{mode}", rng.choice(["", "", ".eval()"]))]
    for n in range(rng.randint(1, 4)):
        hook = rng.choice(MODULE_HOOKS)
        owner = rng.choice(["m.left", "m.right"] if "{m}.weight" in hook or "{m}.bias" in hook else ["m", "m", "m.left", "m.right"])
        lines.append(hook.replace("{m}", owner).replace("{n}", str(n)))
    extra = ", scale=2" if "scale" in lines[0] else ""
    u, v = rng.choice([("x", "y"), ("x", "y"), ("x * 1", "y * 1"), ("x", "x"), ("x * 2", "y")])
    for again in range(rng.randint(1, 2)):
        call = f"r = m({u}, {v}{extra})" if rng.random() < 0.9 else f"r = m({u}, y={v}{extra})"
        lines += [call, "out.append(r)", "parts = list(r.values()) if isinstance(r, dict) else [r] if isinstance(r, L.Tensor) else list(r)"]
        used = rng.choice(["parts", "parts", "parts[:1]", "parts[-1:]"])
        lines += [f"total = sum((t.square().sum() for t in {used}), L.zeros(()))", f"total.backward({rng.choice(['', '', 'retain_graph=True'])})"]
        lines += ["out.append([None if p.grad is None else p.grad.clone() for p in [x, y, *m.parameters()]])", "out.append(list(calls))"]
        if rng.random() < 0.2:
            lines.append(f"m.zero_grad({rng.choice(['', 'set_to_none=False', 'set_to_none=True'])})")
            lines.append("out.append([None if p.grad is None else p.grad.clone() for p in m.parameters()])")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(6))
def test_graphs(seed):
    check(program, seed, 800, DELIBERATE)


@pytest.mark.parametrize("seed", range(4))
def test_modules(seed):
    check(modules, seed, 500, DELIBERATE)
