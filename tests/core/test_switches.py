"""Switches of backends that are kept and change nothing: what they were comes back."""

from __future__ import annotations

import pytest

import flambeau as fl


def test_flags_of_onednn_are_set_and_told():
    before = fl.backends.mkldnn.set_flags(False, _allow_tf32=True, _fp32_precision="ieee")
    try:
        assert fl.backends.mkldnn.enabled is False and fl.backends.mkldnn.allow_tf32 is True
        assert fl.backends.mkldnn.deterministic is before[1]
        assert fl.backends.mkldnn.set_flags() == (False, before[1], True, "ieee")
    finally:
        fl.backends.mkldnn.enabled, _, fl.backends.mkldnn.allow_tf32, fl.backends.mkldnn.fp32_precision = before


def test_the_flag_of_nnpack_is_set_and_told():
    with fl.backends.nnpack.flags(enabled=False):
        assert fl.backends.nnpack.set_flags(False) == (False,)
    assert fl.backends.nnpack.set_flags(True) == (True,)
    assert not fl.backends.nnpack.is_available()


@pytest.mark.parametrize("name", ["mkl", "mkldnn"])
def test_nothing_is_said_where_nothing_is_asked_for(name):
    module = getattr(fl.backends, name)
    with module.verbose(module.VERBOSE_OFF) as region:
        assert isinstance(region, module.verbose)


def test_there_is_no_library_of_a_gpu_to_prefer():
    default = fl.backends.cuda.preferred_blas_library()
    assert default.name == "Default" and fl.backends.cuda.preferred_blas_library("default") is default
    with pytest.raises(RuntimeError, match="backend = 'cublas'; expected 'default'"):
        fl.backends.cuda.preferred_blas_library("cublas")
