"""The ops of engine.reference, compiled: same names, same meaning, held to it by tests.

Only the engine's thread calls them.
"""

from collections.abc import Callable

from engine.kernels import attention as _attention
from engine.kernels import linear as _linear
from engine.kernels import norm as _norm
from engine.kernels.attention import attention
from engine.kernels.linear import linear, pack
from engine.kernels.norm import layer_norm

__all__ = ["attention", "layer_norm", "linear", "pack", "warm_up"]


def warm_up(on_progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Compile every kernel for the types it is used with, or load it from the cache; nothing compiles later.

    `on_progress(done, total)` is called before the first kernel and after each one.
    """
    work = [*_norm.KERNELS, *_linear.KERNELS, *_attention.KERNELS]
    for done, (kernel, signature) in enumerate(work):
        on_progress(done, len(work))
        kernel.compile(signature)
    on_progress(len(work), len(work))
