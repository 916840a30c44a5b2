"""Tensors on the memory of a file, floats rounded as integers would be, and functions that are deprecated."""

import warnings

import numpy as np
import pytest

import flambeau as fl


def test_a_shared_file_sees_what_is_written(tmp_path):
    path = tmp_path / "x.bin"
    x = fl.from_file(path, True, 4, dtype=fl.int32)
    x.copy_(fl.arange(4))
    assert np.fromfile(path, np.int32).tolist() == [0, 1, 2, 3]
    private = fl.from_file(str(path), False, 3, dtype=fl.int32)
    private.fill_(9)
    assert np.fromfile(path, np.int32).tolist() == [0, 1, 2, 3] and private.tolist() == [9, 9, 9]
    assert fl.from_file(path, True, 6, dtype=fl.int32).tolist() == [0, 1, 2, 3, 0, 0] and fl.from_file(path).shape == (0,)
    for call, text in ((lambda: fl.from_file(path, size=99), "has 24 bytes; expected 396, 99 of"), (lambda: fl.from_file(tmp_path / "no", size=1), "No such file"),
                       (lambda: fl.from_file(path, size=-1), "size = -1"), (lambda: fl.from_file(path, True, 2**58, dtype=fl.int8), "can not have .* bytes")):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            call()


def test_rounding_to_the_values_of_integers():
    x = fl.tensor([-1.0, 0.26, 0.24, 9.0], requires_grad=True)
    y = fl.fake_quantize_per_tensor_affine(x, 0.5, 1, 0, 7)
    assert y.tolist() == [-0.5, 0.5, 0.0, 3.0]
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0]
    assert fl.equal(fl.fake_quantize_per_tensor_affine(x, fl.tensor([0.5]), fl.tensor([1]), 0, 7), y)
    rows = fl.stack([x.detach(), x.detach()])
    scale, zero = fl.tensor([0.5, 1.0]), fl.tensor([1, 0])
    found = fl.fake_quantize_per_channel_affine(rows, scale, zero, 0, 0, 7)
    assert fl.equal(found[0], y) and found[1].tolist() == [0, 0, 0, 7]
    for call, text in ((lambda: fl.fake_quantize_per_tensor_affine(x, 1.0, 0, 5, 2), "quant_min = 5, quant_max = 2"),
                       (lambda: fl.fake_quantize_per_tensor_affine(x, 1.0, 9, 0, 7), "zero_point = 9; expected 0 to 7"),
                       (lambda: fl.fake_quantize_per_tensor_affine(fl.arange(3), 1.0, 0, 0, 7), "expected floats"),
                       (lambda: fl.fake_quantize_per_channel_affine(rows, scale, zero, 1, 0, 7), r"scale has shape \[2\]; expected \[4\]"),
                       (lambda: fl.fake_quantize_per_channel_affine(rows, scale, fl.tensor([0, 8]), 0, 0, 7), "zero_point goes from 0 to 8")):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            call()


A = fl.eye(2)
OLDER = {
    "chain_matmul": lambda: fl.chain_matmul(A, A),
    "cholesky": lambda: fl.cholesky(A),
    "lu": lambda: A.lu(),
    "lu_solve": lambda: fl.lu_solve(A, *fl.linalg.lu_factor(A)),
    "qr": lambda: fl.qr(A),
    "triangular_solve": lambda: A.triangular_solve(A),
}


@pytest.mark.parametrize("name", OLDER)
def test_deprecated_functions_say_what_to_call(name):
    with pytest.warns(UserWarning, match=rf"^{name} is deprecated .* call .*linalg\.") as seen:
        OLDER[name]()
    assert [warning.filename for warning in seen] == [__file__]


def test_functions_that_replace_them_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.linalg.qr(A), fl.linalg.lu_factor(A), fl.linalg.cholesky(A), fl.linalg.solve_triangular(A, A, upper=True), fl.svd(A)
