"""The ring: order and counts under any interleaving, and between two real threads."""

import random
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ring import Ring

STEPS = st.lists(st.tuples(st.sampled_from(["write", "read"]), st.integers(0, 12)), max_size=60)


def numbered(start: int, count: int) -> np.ndarray:
    """Frames of two channels whose values tell their place: 5 is (5, -5)."""
    places = np.arange(start, start + count, dtype=np.float32)
    return np.stack([places, -places], axis=1)


@given(st.integers(1, 9), STEPS)
def test_any_interleaving_keeps_order_and_counts(capacity: int, steps: list[tuple[str, int]]) -> None:
    ring = Ring(capacity, 2, 8000)
    unread: list[int] = []
    said = written = lost = 0
    for action, size in steps:
        if action == "write":
            placed = min(size, capacity - len(unread))
            assert ring.room == capacity - len(unread)
            ring.write(numbered(said, size))
            unread += range(said, said + placed)
            said += size
            written += placed
            lost += size - placed
        else:
            block = ring.read(size)
            expected, unread = unread[:size], unread[size:]
            assert block.dtype == np.float32
            assert block.tolist() == [[place, -place] for place in expected]
        assert (ring.written, ring.lost) == (written, lost)
    assert ring.read()[:, 0].tolist() == unread


def test_what_was_read_does_not_change_when_its_place_is_written_again() -> None:
    ring = Ring(4, 1, 8000)
    ring.write(np.full((4, 1), 1, np.float32))
    block = ring.read()
    ring.write(np.full((4, 1), 2, np.float32))
    assert block.tolist() == [[1]] * 4


def test_two_threads_pass_every_frame_in_order() -> None:
    total = 50_000
    ring = Ring(1000, 2, 8000)

    def write() -> None:
        sizes = random.Random(1)
        said = 0
        while said < total:
            size = min(sizes.randint(1, 700), total - said, ring.room)
            ring.write(numbered(said, size))
            said += size
            time.sleep(0)

    writer = threading.Thread(target=write)
    writer.start()
    blocks = []
    sizes = random.Random(2)
    while sum(map(len, blocks)) < total:
        blocks.append(ring.read(sizes.randint(1, 700)))
        time.sleep(0)
    writer.join()
    assert np.array_equal(np.concatenate(blocks), numbered(0, total))
    assert (ring.written, ring.lost) == (total, 0)


def test_a_slow_reader_costs_counted_frames_but_never_order() -> None:
    total = 100_000
    ring = Ring(256, 1, 8000)
    writer = threading.Thread(target=lambda: [ring.write(numbered(n, 100)[:, :1]) for n in range(0, total, 100)])
    writer.start()
    blocks = []
    while writer.is_alive():
        blocks.append(ring.read())
    blocks.append(ring.read())
    places = np.concatenate(blocks)[:, 0]
    assert (np.diff(places) > 0).all()
    assert len(places) == ring.written
    assert ring.written + ring.lost == total


@pytest.mark.parametrize("shape", [(0, 1, 8000), (1, 0, 8000), (1, 1, 0)])
def test_an_impossible_ring_is_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Ring(*shape)
