"""The package without torch: NumPy arrays and DLPack."""

import subprocess
import sys

import numpy as np
import pytest

import musaic


def test_rmsnorm():
    x = np.random.default_rng(1).standard_normal((5, 33)).astype(np.float32)
    w = np.linspace(-1, 1, 33, dtype=np.float32)
    out = np.full_like(x, np.nan)
    musaic.rmsnorm(out, x, w)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6) * w
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-7)
    again = np.full_like(x, np.nan)
    musaic.rmsnorm(out=again, input=x, weight=None, eps=1e-6)
    np.testing.assert_allclose(again * w, expected, rtol=2e-6, atol=1e-7)


def test_strided_and_float16():
    x = np.arange(24, dtype=np.float16).reshape(2, 12)
    out = np.empty((2, 3), np.float16)
    musaic.silu_and_mul(out, x[:, 3:9])
    a = x[:, 3:6].astype(np.float64)
    np.testing.assert_allclose(out, a / (1 + np.exp(-a)) * x[:, 6:9], rtol=1e-3)


def test_scratch_memory():
    out = np.full((3, 4), np.nan, np.float32)
    weight = np.zeros((4, 2 * 34), np.uint8)
    musaic.ggml_mul_mat_a8(out, weight, np.ones((3, 64), np.float32), 8, 4)
    assert (out == 0).all()


class Wrapped:
    """Speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **more):
        return self.array.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack():
    x, out = np.ones((2, 4), np.float32), np.empty((2, 4), np.float32)
    musaic.rmsnorm(Wrapped(out), Wrapped(x), Wrapped(np.full(4, 2, np.float32)))
    np.testing.assert_allclose(out, 2, rtol=1e-5)


def test_wrong_calls():
    x = np.ones((2, 4), np.float32)
    with pytest.raises(musaic.Error, match=r"rmsnorm: weight: shape \[3\], expected \[hidden_size=4\]"):
        musaic.rmsnorm(x, x, np.ones(3, np.float32))
    with pytest.raises(ValueError, match="dtype complex64"):
        musaic.rmsnorm(x, x.astype(np.complex64), None)
    with pytest.raises(musaic.Error, match="read-only"):
        musaic.rmsnorm(np.broadcast_to(x, (2, 4)), x, None)
    with pytest.raises(musaic.Error, match="list, expected an array"):
        musaic.rmsnorm(x, [1.0], None)
    with pytest.raises(TypeError, match="missing"):
        musaic.rmsnorm(x)
    with pytest.raises(TypeError, match="given twice"):
        musaic.rmsnorm(x, x, None, out=x)
    with pytest.raises(musaic.Error, match="expected one of"):
        musaic.call("nonsense")


def test_no_rows():
    musaic.rmsnorm(np.empty((0, 4), np.float32), np.empty((0, 4), np.float32), None)


def test_torch_is_not_imported():
    code = "import sys, musaic; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
