"""The ops of engine.reference, compiled: same names, same meaning, held to it by tests.

Only the engine's thread calls them.
"""

from collections.abc import Callable

from engine.kernels import attention as _attention
from engine.kernels import dtw as _dtw
from engine.kernels import linear as _linear
from engine.kernels import lstm as _lstm
from engine.kernels import norm as _norm
from engine.kernels.attention import attention
from engine.kernels.dtw import dtw
from engine.kernels.linear import LAYERS, linear, pack
from engine.kernels.lstm import lstm
from engine.kernels.norm import layer_norm

__all__ = ["KERNEL_COUNT", "LAYERS", "attention", "dtw", "layer_norm", "linear", "lstm", "pack", "warm_up"]


_KERNELS = [*_norm.KERNELS, *_linear.KERNELS, *_attention.KERNELS, *_dtw.KERNELS, *_lstm.KERNELS]
KERNEL_COUNT = len(_KERNELS)


def warm_up(on_progress: Callable[[int], None] = lambda done: None) -> None:
    """Compile every kernel for the types it is used with, or load it from the cache; nothing compiles later.

    `on_progress(done)` is called after each of the KERNEL_COUNT kernels.
    """
    for done, (kernel, signature) in enumerate(_KERNELS, start=1):
        if signature not in kernel.signatures:
            kernel.compile(signature)
            kernel.disable_compile()  # an array of another layout is converted, not compiled for
        on_progress(done)
