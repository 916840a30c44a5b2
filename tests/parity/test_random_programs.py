"""Training programs at random beside PyTorch: modules, optimizers, schedules, averages, files and hooks, with state from one statement to the next.

After each statement everything that the program has is looked at: values, gradients, flags, what shares memory, states of optimizers.
"""

from __future__ import annotations

import pytest
from cases import Deliberate, check

DELIBERATE = [
    Deliberate("there: .*attribute 'weight' already exists|there: ..attribute .*weight.* already exists|parametrize: right_inverse gives shape", "a parametrized attribute may be assigned, with the shape that it has"),
    Deliberate("there: .*(Trying to backward through the graph a second time|one of the variables needed for gradient)", "less is saved, and what moves no value counts as no write"),
    Deliberate("there: .*(is a view and is being modified inplace|view\\+inplace|returns multiple views)", "the parts that split() and its kin return may be written to"),
    Deliberate("there: .*mixed dtype", "norms take inputs of another type than their weights"),
    Deliberate("there: .*(mutate a captured Tensor|must override the setup_context)", "hooks and counters work inside of grad()"),
    Deliberate("there: .*doesn't match the broadcast shape", "leading axes of size 1 may be written from"),
    Deliberate(r"there: .*(Serialization of parametrized modules|Boolean inputs not supported|nested_tensorlist)", "more is taken"),
    Deliberate(r"LBFGS.*\] float [\d.e-]+ here, Tensor there", "a step's length is a number"),
    Deliberate(r"checkpoint.* here, \[\S+ \S+ \S+\] there", "what no gradient asks for is not run again"),
    Deliberate(r"func\.grad.*Tensor tensor\(\[0\.\S* 0\.\S* 0\.\S* .* here, NoneType None there", "zeros for None"),
    Deliberate("no program for PyTorch: AttributeError", "a gradient that was not used"),
    Deliberate("pad_sequence: sequence . has shape", "sequences differ in length alone"),
    Deliberate(r"dict of \['(lr|func_evals)'.* here, dict of|load_state_dict.*line \d+ there: .'\w+'", "a group that was saved by another class of optimizers gets the options that it lacks"),
    Deliberate(r"requires_grad.*\[1\] \[\d\] (True|False) here", "a view counts as what its leaf is now"),
]

PRELUDE = """F = L.nn.functional
calls = []
def filled(m):
    with L.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_(L.arange(p.numel(), dtype=L.float64).reshape(p.shape).sub(2).mul(0.1 * (i % 3 + 1)).sin() + 0.3)
    return m
class Net(L.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = L.nn.Linear(3, 4, dtype=L.float64)
        self.two = L.nn.Linear(4, 3, bias=False, dtype=L.float64)
        self.register_buffer("seen", L.zeros(3, dtype=L.float64))
        self.register_buffer("gone", L.ones(2), persistent=False)
        self.scale = L.nn.Parameter(L.ones(3, dtype=L.float64))
    def forward(self, x):
        if self.training:
            self.seen += x.detach().sum(0)
        return self.two(self.one(x).tanh()) * self.scale
class Symmetric(L.nn.Module):
    def forward(self, w):
        return w + w.abs().mean()
    def right_inverse(self, w):
        return w * 1
class Square(L.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        calls.append("square")
        return 2 * ctx.saved_tensors[0] * g
class Parts(L.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        y, z = x * k, x > 0
        ctx.mark_non_differentiable(z)
        ctx.k = k
        ctx.set_materialize_grads(False)
        return y, z, x.clone()
    @staticmethod
    def backward(ctx, g, gz, gx):
        calls.append((g is None, gz is None, gx is None))
        a = None if g is None else g * ctx.k
        return (gx if a is None else a if gx is None else a + gx), None
def plain(v):
    if isinstance(v, L.Tensor):
        return v.detach().clone()
    if isinstance(v, dict):
        return {str(k): plain(e) for k, e in v.items() if k not in ("foreach", "fused", "capturable", "differentiable")}
    if isinstance(v, (list, tuple)):
        return [plain(e) for e in v]
    return v if isinstance(v, (bool, int, float)) else None
def tensor(t):
    grad = t.grad if t.is_leaf or t.retains_grad else None
    return plain(t), [t.requires_grad, t.is_leaf, t.grad_fn is None], plain(grad)
def look():
    seen = {}
    for name, v in list(globals().items()):
        if isinstance(v, L.Tensor):
            out.append([name, tensor(v), seen.setdefault(v.untyped_storage().data_ptr(), name)])
        elif isinstance(v, L.nn.Module):
            out.append([name, v.training, {k: tensor(t) for k, t in [*v.named_parameters(remove_duplicate=False), *v.named_buffers()]}])
        elif isinstance(v, L.optim.Optimizer):
            out.append([name, plain(v.state_dict())])
        elif isinstance(v, L.optim.lr_scheduler.LRScheduler):
            out.append([name, v.get_last_lr(), v.last_epoch])
    out.append(plain(calls))
a = L.tensor([[1.0, -2.0, 3.0], [0.5, 1.5, -1.0]], dtype=L.float64, requires_grad=True)
b = L.tensor([[2.0, 1.0, -1.0], [1.0, 0.5, 4.0]], dtype=L.float64, requires_grad=True)
c = L.tensor([[1.0, 2.0, 0.0], [3.0, 1.0, 1.0]], dtype=L.float64)"""

# {t} and {u} are tensors, {m} and {n} modules, {o} and {p} optimizers, {s} a schedule, {e} an average; {T} to {E} are new names for such.
MODULES = [
    "filled(L.nn.Linear(3, 3, dtype=L.float64))", "filled(Net())", "filled(L.nn.Sequential(L.nn.Linear(3, 4), L.nn.Tanh(), L.nn.Linear(4, 3)).double())", "filled(L.nn.LayerNorm(3, dtype=L.float64))",
    "L.nn.utils.parametrizations.weight_norm(filled(L.nn.Linear(3, 3, dtype=L.float64)))", "filled(L.nn.Sequential(Net(), L.nn.Softplus()))", "filled(L.nn.GRUCell(3, 3, dtype=L.float64))",
    "filled(L.nn.Sequential(collections.OrderedDict(x=L.nn.Linear(3, 3), y=L.nn.PReLU())).double())",
]  # fmt: skip
OPTIMIZERS = [
    "SGD({p}, lr=0.1)", "SGD({p}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)", "Adam({p}, lr=0.1)", "AdamW({p}, lr=0.1, amsgrad=True)", "RMSprop({p}, lr=0.1, centered=True)", "Adagrad({p}, lr=0.1)",
    "Adamax({p}, lr=0.1)", "Rprop({p}, lr=0.1)", "RAdam({p}, lr=0.1)", "Adadelta({p}, lr=0.1)", "SGD({p}, lr=0.1, maximize=True, foreach=False)", "LBFGS([*{p}], lr=0.1, max_iter=3)",
]  # fmt: skip
STATEMENTS = [  # how often, and what
    (12, ["{T} = {t} * {u}", "{T} = {t}.sin()", "{T} = {t} + {u}.detach()", "{T} = {t}.detach().requires_grad_()", "{T} = {t}[1:]", "{T} = {t}.view(-1)", "{T} = {t}.softmax(-1)", "{T} = copy.deepcopy({t}.detach())", "{T} = {t}.clone()",
         "{T} = L.where({t} > 0, {t}, {u})", "{T} = {t}.detach()", "{T} = L.zeros_like({t}) if {t}.grad is None else {t}.grad"]),
    (6, ["{t}.add_(1)", "{t}.data.mul_(2)", "{t}[0] = {u}[1].detach()", "with L.no_grad(): {t}.mul_(0.5)", "{t}.detach().mul_(2)", "{t}.copy_({u})", "{t}.grad = None", "{t}.grad = L.ones_like({t})", "{t}.requires_grad_()", "{t}.retain_grad()"]),
    (9, ["{t}.sum().backward({r})", "({t} * {u}).sum().backward({r})", "{T}, = L.autograd.grad({t}.square().sum(), {u}, allow_unused=True{R})", "{t}.sum().backward(inputs=[a, b]{R})"]),
    (5, ["{T} = Square.apply({t})", "{T} = Parts.apply({t}, 2)[0]", "{T} = sum(Parts.apply({t}, 3)[::2])", "{T} = L.utils.checkpoint.checkpoint(lambda x: (x * x).sin(), {t}, use_reentrant=False)",
        "with L.autograd.graph.saved_tensors_hooks(lambda x: x * 1, lambda x: x * 2): {T} = {t} * {u}", "{T} = L.func.grad(lambda x: (x * {u}).sin().sum())({t}.detach())", "{T} = L.vmap(lambda x: x * {u}[0])({t})",
        "{T} = L.func.jacrev(lambda x: (x * {u}.detach()).sum(0))({t}.detach())"]),
    (5, ["{t}.register_hook(lambda g: calls.append(g.detach().clone()))", "{t}.register_hook(lambda g: g * 2)", "{t}.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad.detach().clone()))", "{m}.register_forward_hook(lambda m, i, o: o * 2)",
        "{m}.register_forward_pre_hook(lambda m, i: (i[0] * 2,))", "{m}.register_full_backward_hook(lambda m, gi, go: calls.append([g is None for g in gi]))", "{m}.register_full_backward_pre_hook(lambda m, go: (go[0] * 3,))",
        "{m}.register_load_state_dict_post_hook(lambda m, k: calls.append((len(k.missing_keys), len(k.unexpected_keys))))", "if hasattr({m}, 'weight'): {m}.weight.register_hook(lambda g: g * 2)", "{o}.register_step_post_hook(lambda o, a, k: calls.append(1))"]),
    (12, ["{T} = {m}({t})", "{T} = {m}({t}.detach())", "{T} = L.func.functional_call({m}, {{k: v * 2 for k, v in {m}.named_parameters()}}, ({t},))", "{T} = L.utils.checkpoint.checkpoint({m}, {t}, use_reentrant=False)", "{m}({t}).square().sum().backward()"]),
    (14, ["{m}.eval()", "{m}.train()", "{m}.zero_grad({z})", "{m}.requires_grad_(False)", "{m}.requires_grad_()", "{m}.double()", "calls.append(len({m}.load_state_dict({n}.state_dict(), strict=False).missing_keys))", "{m}.load_state_dict({n}.state_dict())",
         "{m}.load_state_dict(copy.deepcopy({m}.state_dict()), assign=True)", "{m}.load_state_dict({{k.replace('one', 'two'): v for k, v in {n}.state_dict().items()}}, strict=False)", "{M} = copy.deepcopy({m})", "{M} = L.nn.Sequential({m}, L.nn.Tanh())",
         "if hasattr({m}, 'weight'): L.nn.utils.parametrize.register_parametrization({m}, 'weight', Symmetric())", "L.nn.utils.parametrize.remove_parametrizations({m}, 'weight')", "calls.append(L.nn.utils.clip_grad_norm_({m}.parameters(), 0.5))", "if hasattr({m}, 'weight'): {m}.weight = L.nn.Parameter({m}.weight.detach() * 2)",
         "{m}.bias = None", "{T} = L.nn.utils.parameters_to_vector({m}.parameters())", "for p in {m}.parameters(): p.grad = L.ones_like(p)", "file = io.BytesIO(); L.save({m}.state_dict(), file); file.seek(0); {n}.load_state_dict(L.load(file), strict=False)",
         "{m}.one = L.nn.Identity()", "{T} = L.func.grad(lambda p: L.func.functional_call({m}, p, ({t}.detach(),)).sum())(dict({m}.named_parameters()))['weight']", "{m}.zero_grad(); {m}({t}).sum().backward(); {m}({t}).sum().backward()"]),
    (10, ["{o}.step()", "{o}.step()", "{o}.zero_grad({z})", "{m}({t}.detach()).square().sum().backward(); {o}.step()"]),
    (8, ["{o}.step(lambda: ({o}.zero_grad(), {m}({t}.detach()).square().sum().backward(), L.tensor(1.0))[2])", "{o}.add_param_group({{'params': [{t}], 'lr': 0.3}})", "{o}.load_state_dict(copy.deepcopy({p}.state_dict()))", "{o}.param_groups[0]['lr'] *= 0.5", "{o}.state.clear()",
        "{O} = copy.deepcopy({o})", "file = io.BytesIO(); L.save({o}.state_dict(), file); file.seek(0); {p}.load_state_dict(L.load(file))"]),
    (7, ["{S} = L.optim.lr_scheduler.StepLR({o}, 1, 0.5)", "{S} = L.optim.lr_scheduler.OneCycleLR({o}, 0.3, total_steps=4, cycle_momentum=False)", "{S} = L.optim.lr_scheduler.LambdaLR({o}, lambda e: 1 / (e + 1))", "{S} = L.optim.swa_utils.SWALR({o}, 0.05, anneal_epochs=2)", "{s}.step()", "{s}.step()", "{s}.load_state_dict({s}.state_dict())"]),
    (6, ["{E} = L.optim.swa_utils.AveragedModel({m})", "{E} = L.optim.swa_utils.AveragedModel({m}, multi_avg_fn=L.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)", "{e}.update_parameters({m})", "{e}.update_parameters({m})", "{m}.load_state_dict({e}.module.state_dict())", "{T} = {e}({t})"]),
    (3, ["{T} = next(iter(L.utils.data.DataLoader(L.utils.data.TensorDataset({t}.detach()), batch_size=2)))[0]", "for batch in L.utils.data.DataLoader([{t}.detach(), {u}.detach()], batch_size=None, sampler=[1, 0]): calls.append(batch.sum())", "{T} = L.nn.utils.rnn.pad_sequence([{t}, {u}])"]),
]  # fmt: skip


def program(rng):
    names = {"t": ["a", "b", "c"], "m": [], "o": [], "s": [], "e": []}
    lines = [PRELUDE]

    def known(kind):
        return rng.choice(names[kind][-3:] + names[kind])

    def new(kind):
        names[kind].append(f"{kind}{len(lines)}")
        return names[kind][-1]

    def add(text):
        lines.append(f"{text}\nlook()")

    add(f"{new('m')} = {rng.choice(MODULES)}")
    for _ in range(rng.randint(4, 14)):
        if rng.random() < 0.06:
            add(f"{new('m')} = {rng.choice(MODULES)}")
            continue
        if not names["o"] or rng.random() < 0.05:
            parameters = rng.choice(["{m}.parameters()", "{m}.parameters()", "[a, b]", "[{{'params': {m}.parameters()}}, {{'params': [a], 'lr': 0.5}}]"]).format(m=known("m"))
            add(f"{new('o')} = L.optim.{rng.choice(OPTIMIZERS).format(p=parameters)}")
            continue
        while True:  # what speaks of something that is not there yet is drawn again
            text = rng.choice(rng.choices(STATEMENTS, [often for often, _ in STATEMENTS])[0][1])
            if all(names[kind] for kind in "se" if f"{{{kind}}}" in text):
                break
        have = {"t": known("t"), "u": known("t"), "m": known("m"), "n": known("m"), "o": known("o"), "p": known("o"), "z": rng.choice(["", "", "set_to_none=False"])}
        have |= {kind: known(kind) for kind in "se" if names[kind]}
        retain = rng.choice(["", "retain_graph=True", "create_graph=True"])
        have |= {"r": retain, "R": retain and ", " + retain}
        have |= {key: new(key.lower()) for key in "TMOSE" if f"{{{key}}}" in text}
        add(text.format(**have))
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(6))
def test_training_programs(seed):
    check(program, f"programs/{seed}", 60, DELIBERATE)
