"""`torch._foreach_*`: lists of tensors by one call, as optimizers of other people's use them."""

from __future__ import annotations

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")


def test_results_are_those_of_the_ops_one_by_one():
    assert says("""
        import torch
        xs, ys = [torch.tensor([0.5, 2.0]), torch.tensor([[3.0]])], [torch.tensor([1.0, 1.0]), torch.tensor([[4.0]])]
        print([x.tolist() for x in torch._foreach_maximum(xs, 1)], [x.tolist() for x in torch._foreach_minimum(xs, ys)])
        print([x.tolist() for x in torch._foreach_lerp(xs, ys, 0.5)], [x.tolist() for x in torch._foreach_addcdiv(xs, ys, xs, [2, 3])])
        print([x.tolist() for x in torch._foreach_pow(2.0, xs)][1], [x.tolist() for x in torch._foreach_powsum(xs, 2)])
        print([x.dtype for x in torch._foreach_mul([torch.ones(2, dtype=torch.long)], 2.5)], [x.dtype for x in torch._foreach_exp([torch.tensor([1])])])
    """) == [
        "[[1.0, 2.0], [[3.0]]] [[0.5, 1.0], [[3.0]]]",
        "[[0.75, 1.5], [[3.5]]] [[4.5, 3.0], [[7.0]]]",
        "[[8.0]] [4.25, 9.0]",
        "[torch.float32] [torch.float32]",
    ]  # fmt: skip


def test_a_new_list_has_the_history_of_the_op_and_memory_of_its_own():
    assert says("""
        import torch
        ps = [torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)]
        made = torch._foreach_mul(ps, 3.0)
        sum(x.sum() for x in made).backward()
        copies = torch._foreach_clone([p.detach() for p in ps])
        copies[0].zero_()
        print(made[0].grad_fn.name(), ps[0].grad.tolist(), ps[0].tolist())
    """) == ["MulBackward0 [3.0, 3.0] [1.0, 1.0]"]


def test_a_bound_that_an_integer_can_not_be_is_refused_in_place():
    assert says("""
        import torch
        xs = [torch.tensor([1, 2])]
        try: torch._foreach_maximum_(xs, 2.5)
        except RuntimeError as e: print("refused", xs[0].tolist())
        torch._foreach_maximum_(xs, 2)
        print(xs[0].tolist())
    """) == ["refused [1, 2]", "[2, 2]"]


def test_they_are_operators_of_atens_by_every_overload():
    assert says("""
        import torch
        aten, xs, ys = torch.ops.aten, [torch.tensor([1.0, 5.0])], [torch.tensor([3.0, 2.0])]
        aten._foreach_maximum_(xs, ys)
        print(xs[0].tolist(), [f(xs, y)[0].tolist() for f, y in ((aten._foreach_add.List, ys), (aten._foreach_add.Scalar, 1), (aten._foreach_mul, 2))])
        print(sorted(o for o in aten._foreach_sub.overloads() if "out" not in o), aten._foreach_sub.List(xs, ys)[0].tolist(), aten._foreach_abs.default(ys)[0].tolist())
        print(aten._softmax.default(torch.zeros(2), 0, False).tolist(), hasattr(aten, "_foreach_nothing"), hasattr(aten, "_nothing"))
    """) == [
        "[3.0, 5.0] [[6.0, 7.0], [4.0, 6.0], [6.0, 10.0]]",
        "['List', 'Scalar', 'ScalarList'] [0.0, 3.0] [3.0, 2.0]",
        "[0.5, 0.5] False False",
    ]  # fmt: skip


def test_in_place_they_return_the_list_that_they_got():
    assert says("""
        import torch
        for xs in ([torch.ones(2)], (torch.ones(2),)):
            print([f(xs, *beside) is xs for f, *beside in ((torch._foreach_add_, 1), (torch._foreach_zero_,), (torch._foreach_copy_, [torch.ones(2)]))])
    """) == ["[True, True, True]"] * 2


def test_arguments_may_be_named_and_are_counted():
    assert says("""
        import torch
        xs, ys = [torch.ones(1)], [torch.full((1,), 3.0)]
        print([f(xs, **named)[0].item() for f, named in (
            (torch._foreach_addcmul, {"tensor1": ys, "tensor2": ys, "value": 2}), (torch._foreach_lerp, {"tensors1": ys, "weight": 0.5}),
            (torch._foreach_add, {"other": ys, "alpha": 2}), (torch._foreach_pow, {"exponent": 2}))], torch._foreach_pow(2.0, exponent=ys)[0].item())
        for wrong in (lambda: torch._foreach_addcmul(xs, ys), lambda: torch._foreach_abs(xs, 1), lambda: torch._foreach_copy_(xs, 2.0), lambda: torch._foreach_add(xs),
                      lambda: torch._foreach_maximum(xs), lambda: torch._foreach_abs(torch.ones(2)), lambda: torch._foreach_abs([3]), lambda: torch._foreach_norm([])):
            try: print(wrong())
            except (TypeError, RuntimeError) as e: print(e)
    """) == [
        "[19.0, 2.0, 7.0, 1.0] 8.0",
        "_foreach_addcmul: tensor2 is missing",
        "_foreach_abs: got 1 arguments beside the list; expected 0",
        "_foreach_copy_: src is a float; expected a list or tuple of tensors",
        "_foreach_add: other or scalar or scalars or exponent is missing",
        "_foreach_maximum: other or scalar or scalars or exponent is missing",
        "_foreach_abs: self is a Tensor; expected a list or tuple of tensors",
        "_foreach_abs: self[0] is a int; expected a tensor",
        "_foreach_norm: self is empty; expected at least one tensor",
    ]  # fmt: skip
