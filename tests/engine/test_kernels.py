"""Every op of engine.kernels against the same op of engine.reference, on odd sizes and extreme values."""

import inspect
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from engine import kernels, reference
from engine.kernels import simd


@pytest.fixture(scope="module", autouse=True)
def warm():
    kernels.warm_up()


@pytest.fixture
def random():
    return np.random.default_rng(7)


def test_both_export_the_same_ops():
    for name in ("attention", "dtw", "layer_norm", "linear", "lstm", "pack"):
        ours = inspect.signature(getattr(kernels, name)).parameters
        assert list(ours) == list(inspect.signature(getattr(reference, name)).parameters)


@pytest.mark.parametrize("rows", [1, 2, 11, 12, 13, 97, 200])
@pytest.mark.parametrize(("n_out", "n_in"), [(1, 64), (70, 64), (51, 128), (192, 320)])
def test_linear(random, rows, n_out, n_in):
    weight = random.standard_normal((n_out, n_in), np.float32) / 8
    bias = random.standard_normal(n_out, np.float32)
    x = random.standard_normal((rows, n_in), np.float32)
    residual = random.standard_normal((rows, n_out), np.float32)
    for b in (bias, None):
        ours, theirs = kernels.pack(weight, b), reference.pack(weight, b)
        for gelu in (False, True):
            for added in (None, residual):
                expected = reference.linear(x, theirs, gelu=gelu, residual=added)
                found = kernels.linear(x, ours, gelu=gelu, residual=added)
                np.testing.assert_allclose(found, expected, atol=2e-5)


def test_linear_takes_half_precision_and_no_rows(random):
    weight = random.standard_normal((5, 64)).astype(np.float16)
    x = random.standard_normal((3, 64), np.float32)
    found = kernels.linear(x, kernels.pack(weight))
    np.testing.assert_allclose(found, x @ weight.T.astype(np.float32), atol=2e-5)
    assert kernels.linear(x[:0], kernels.pack(weight)).shape == (0, 5)


def test_gelu_over_its_whole_range():
    x = np.linspace(-30, 30, 4096, dtype=np.float32)[:, None]
    found = kernels.linear(x, kernels.pack(np.ones((1, 1), np.float32)), gelu=True)[:, 0]
    exact = [v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x[:, 0].tolist()]
    np.testing.assert_allclose(found, exact, atol=1e-6)


SIZES = [(1, 1), (1, 17), (1, 1500), (3, 3), (4, 9), (5, 5), (13, 33), (30, 224), (7, 1500)]


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(random, n, m, causal):
    heads = 3
    wide = random.standard_normal((m, 3 * heads * 64), np.float32)
    q, k, v = np.split(wide, 3, axis=1)  # rows of a wider array, as the fused projection gives them
    q = q[m - n :]
    expected = reference.attention(q, k, v, heads, causal=causal)
    np.testing.assert_allclose(kernels.attention(q, k, v, heads, causal=causal), expected, atol=2e-6)


@pytest.mark.parametrize("n", [1, 20])
def test_attention_to_one_key_far_above_the_others(random, n):
    q, k, v = (random.standard_normal((n, 64), np.float32) for _ in range(3))
    q, k = q * 200, k * 200  # scores of some ten thousands: exponentials must not overflow
    found = kernels.attention(q, k, v, 1)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, reference.attention(q, k, v, 1), atol=1e-5)


def test_later_tokens_do_not_change_earlier_ones(random):
    q, k, v = (random.standard_normal((40, 128), np.float32) for _ in range(3))
    whole = kernels.attention(q, k, v, 2, causal=True)
    first = kernels.attention(q[:25], k[:25], v[:25], 2, causal=True)
    np.testing.assert_allclose(whole[:25], first, atol=1e-6)


@pytest.mark.parametrize("n_state", [64, 384, 1280])
@pytest.mark.parametrize("offset", [0, 1000])
def test_layer_norm(random, n_state, offset):
    x = random.standard_normal((7, n_state), np.float32) * 3 + offset
    gain, bias = random.standard_normal((2, n_state), np.float32)
    exact = reference.layer_norm(x.astype(np.float64), gain, bias)
    np.testing.assert_allclose(kernels.layer_norm(x, gain, bias), exact, atol=2e-4 if offset else 1e-5)


def test_layer_norm_of_constant_rows_is_the_bias():
    x = np.full((2, 64), 5, np.float32)
    gain, bias = np.ones(64, np.float32), np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(kernels.layer_norm(x, gain, bias), [bias, bias])


@pytest.mark.parametrize("steps", [0, 1, 37])
def test_lstm(random, steps):
    width = 128
    inputs = 3 * random.standard_normal((steps, 4 * width), np.float32)
    recurrent = random.standard_normal((width, 4 * width), np.float32) / 8
    state = random.standard_normal((2, width), np.float32)
    ours, theirs = state.copy(), state.copy()
    expected = reference.lstm(inputs, recurrent, *theirs)
    np.testing.assert_allclose(kernels.lstm(inputs, recurrent, *ours), expected, atol=1e-5)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_vector_exponential():
    lanes = simd.LANES

    @njit
    def exponentials(x, y):
        for i in range(0, x.size, lanes):
            simd.store(y, i, simd.exp(simd.load(x, i)))

    x = np.linspace(-86, 0, 64 * lanes, dtype=np.float32)
    y = np.empty_like(x)
    exponentials(x, y)
    np.testing.assert_allclose(y, np.exp(x.astype(np.float64)), rtol=4e-7)
    exponentials(np.full(lanes, -np.inf, np.float32), y)
    assert 0 <= y[:lanes].max() < 2e-38


def test_kernels_release_the_gil_and_compile_once():
    for kernel, signature in kernels._KERNELS:
        assert kernel.targetoptions["nogil"]
        assert signature in kernel.signatures
    x = np.ones((3, 64), np.float32)
    kernels.linear(x, kernels.pack(np.ones((64, 64), np.float32)), residual=x)
    q = np.ones((30, 64), np.float32)
    kernels.attention(q, q, q, 1)
    kernels.attention(q[:1], q, q, 1)
    for kernel, _ in kernels._KERNELS:
        assert len(kernel.signatures) == 1, f"{kernel} was compiled for {kernel.signatures}"


def test_two_threads_at_once_do_not_end_the_process():
    program = """
import threading
import numpy as np
from engine import kernels
kernels.warm_up()
x = np.ones((300, 128), np.float32)
layer = kernels.pack(np.ones((128, 128), np.float32))
def work():
    for _ in range(30):
        assert (kernels.linear(x, layer) == 128).all()
        kernels.attention(x, x, x, 2)
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    environment = os.environ | {"NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
