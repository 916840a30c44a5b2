"""Where tensors are made when no device is given."""

import threading

import pytest

import flambeau as fl

MAKERS = {
    "empty": lambda: fl.empty(2), "zeros": lambda: fl.zeros(2), "ones": lambda: fl.ones(2), "full": lambda: fl.full((2,), 1.0), "eye": lambda: fl.eye(2),
    "empty_strided": lambda: fl.empty_strided((2,), (1,)), "arange": lambda: fl.arange(3), "linspace": lambda: fl.linspace(0, 1, 3),
    "logspace": lambda: fl.logspace(0, 1, 3), "rand": lambda: fl.rand(2), "randn": lambda: fl.randn(2), "randint": lambda: fl.randint(3, (2,)),
    "randperm": lambda: fl.randperm(3), "normal": lambda: fl.normal(0.0, 1.0, (2,)), "tensor": lambda: fl.tensor([1, 2]), "as_tensor": lambda: fl.as_tensor([1.0]),
    "scalar_tensor": lambda: fl.scalar_tensor(1.0), "hann_window": lambda: fl.hann_window(4), "tril_indices": lambda: fl.tril_indices(2, 2),
    "linear": lambda: fl.nn.Linear(2, 3).weight, "batch_norm": lambda: fl.nn.BatchNorm2d(2).running_mean, "lstm": lambda: fl.nn.LSTM(2, 3).weight_hh_l0,
}  # fmt: skip


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_makes_a_tensor_asks(make):
    with fl.device("meta"):
        assert make().device == fl.device("meta")
    assert make().device == fl.device("cpu")


def test_a_device_that_is_given_and_one_that_follows_from_a_tensor_come_first():
    x = fl.ones(2)
    with fl.device("meta"):
        assert not fl.zeros(2, device="cpu").is_meta
        assert not fl.zeros_like(x).is_meta
        assert not x.new_ones(2).is_meta
        assert not (x + 1).is_meta
        assert fl.tensor([1], device="cpu").tolist() == [1]


def test_regions_nest_and_end_with_errors():
    with fl.device("meta"):
        with pytest.raises(ZeroDivisionError), fl.device("cpu"):
            assert not fl.zeros(1).is_meta
            1 / 0  # noqa: B018
        assert fl.get_default_device() == fl.device("meta")
    assert fl.get_default_device() == fl.device("cpu")


def test_a_device_is_a_value_not_a_function():
    """Programs tell a value from what makes one: `default() if callable(default) else default`."""
    device = fl.ones(1).device
    assert not callable(device)
    with pytest.raises(TypeError, match="not callable"):
        device()


def test_it_is_set_for_a_thread_until_it_is_set_again():
    fl.set_default_device("meta")
    try:
        assert fl.zeros(1).is_meta
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(fl.zeros(1).is_meta))
        thread.start()
        thread.join()
        assert elsewhere == [False]
    finally:
        fl.set_default_device(None)
    assert not fl.zeros(1).is_meta


@pytest.mark.parametrize("device", ["cuda", "nowhere", 1.5])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises((fl.DeviceError, fl.ArgumentError, TypeError)):
        fl.set_default_device(device)
    assert not fl.zeros(1).is_meta


def test_a_size_stays_a_size():
    size = fl.ones(2, 3, 4).shape
    for part, value in ((size[1:], (3, 4)), (size[::-1], (4, 3, 2)), (size + (5,), (2, 3, 4, 5)), (size + size[:0], (2, 3, 4)), (size * 2, (2, 3, 4) * 2), (size[5:], ())):
        assert type(part) is fl.Size
        assert part == value
    assert size[1:].numel() == 12
    assert type(size + ("a",)) is tuple
    assert size[-1] == 4
    with pytest.raises(IndexError):
        size[3]
    with pytest.raises(TypeError):
        size + 1
