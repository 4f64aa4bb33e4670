"""Packed models kept between starts: used instead of the model's files, and never to anybody's harm."""

import hashlib
import io
import json
import logging
import os
import subprocess
import sys
import time
import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import cache, catalogue, kernels, packed_file
from engine.model import Decoder, Network
from engine.weights import Weights

from .model_writers import ENGLISH, arrays_of, tokens_of, write_ctranslate2

DAY_S = 86_400


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where the entries are, instead of the user's own."""
    cache._warn_once.cache_clear()
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache" / "packed")
    return cache.folder()


@pytest.fixture
def model(tmp_path):
    return write_ctranslate2(tmp_path / "model", ENGLISH, "float16")


def load(model, compute="float32"):
    return cache.load(catalogue.find(model), compute)


def leaves(part):
    """Every array and number of a part, in order."""
    return [leaf for field in part for leaf in leaves(field)] if isinstance(part, tuple) else [part]


def leaves_of(packed):
    return [leaf for part in packed.parts.values() for leaf in leaves(part)]


def same(packed, other):
    pairs = zip(leaves_of(packed), leaves_of(other), strict=True)
    return all(np.array_equal(one, two) for one, two in pairs)


def logits(network):
    mel = np.random.default_rng(1).standard_normal((ENGLISH.n_mels, 200), np.float32)
    decoder = Decoder(network, network.encode(mel))
    return decoder.logits(decoder.read([50257, 50362, 300]))


def spoil(path, keep):
    """Overwrite all but the first bytes of a file, so that neither its size nor its time of change tell."""
    status = path.stat()
    path.write_bytes(path.read_bytes()[:keep].ljust(status.st_size, b"\xff"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


# --- the second start -------------------------------------------------------------------------------------------------


def test_a_second_start_does_not_read_the_model(model, folder):
    first = load(model)
    (entry,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700 or os.name == "nt"
    for name, keep in (("model.bin", 64), ("vocabulary.json", 0), ("config.json", 0)):
        spoil(model / name, keep)
    second = load(model)
    assert list(folder.iterdir()) == [entry]
    for packed in (first, second):
        assert packed.dimensions == ENGLISH
        assert packed.ranks == tokens_of(ENGLISH)
        assert packed.alignment_heads == ((0, 0),)
        # Mapped at the first start as well: there is no copy that this process alone has.
        assert not any(leaf.flags.writeable for leaf in leaves_of(packed) if isinstance(leaf, np.ndarray))
    kernels.warm_up()
    expected = logits(Network(Weights(ENGLISH, arrays_of(ENGLISH), tokens_of(ENGLISH), ((0, 0),))))
    np.testing.assert_array_equal(logits(Network(first)), expected)
    np.testing.assert_array_equal(logits(Network(second)), expected)


def test_a_changed_model_is_noticed_and_its_old_entry_goes(model, folder):
    before = load(model)
    (entry,) = folder.iterdir()
    changed = {name: array / 2 for name, array in arrays_of(ENGLISH).items()}
    write_ctranslate2(model, ENGLISH, "float16", changed)
    os.utime(model / "model.bin", ns=(1, 1))
    after = load(model)
    np.testing.assert_array_equal(after.parts["encoder.positions"], before.parts["encoder.positions"] / 2)
    del before
    (model / "generation_config.json").write_text("{}")  # which a reader may look at
    load(model)
    assert entry not in folder.iterdir()
    assert len(list(folder.iterdir())) == 2  # the one that `after` still uses, and the newest


def test_each_compute_has_its_own_entry(model, folder):
    for compute in ("float32", "bfloat16", "float32"):
        load(model, compute)
    assert sorted(path.name.split("-")[1] for path in folder.iterdir()) == ["bfloat16", "float32"]


# --- damage and lack of space -----------------------------------------------------------------------------------------


def cut(data):
    return data[: len(data) // 2]


def flip_in_header(data):
    return data[:-1000] + bytes([data[-1000] ^ 4]) + data[-999:]


@pytest.mark.parametrize("damage", [cut, flip_in_header, lambda data: b"", lambda data: b"no model at all" * 10])
def test_a_damaged_entry_is_silently_made_again(model, folder, caplog, damage):
    whole = load(model)
    (entry,) = folder.iterdir()
    data = entry.read_bytes()
    other = entry.with_suffix(".damaged")  # moved over the entry, which is in use
    other.write_bytes(damage(data))
    other.replace(entry)
    caplog.set_level(logging.INFO)
    assert same(load(model), whole)
    assert list(folder.iterdir()) == [entry]
    assert entry.read_bytes() == data
    assert not caplog.records


def no_folder(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file is in the way")


def folder_in_a_file(folder):
    folder.parent.write_text("a file is in the way")


@pytest.mark.parametrize("hinder", [no_folder, folder_in_a_file])
def test_without_a_folder_the_model_is_read_each_time(model, folder, caplog, hinder):
    hinder(folder)
    for _ in range(2):
        packed = load(model)
        np.testing.assert_array_equal(packed.parts["decoder.ln"].gain, arrays_of(ENGLISH)["decoder.ln.weight"])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"the model cannot be kept ready in {folder} (" in caplog.text


def test_a_disk_that_fills_up_leaves_nothing_behind(model, folder, caplog):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))  # the write past it fails, as on a full disk
    try:
        packed = load(model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    np.testing.assert_array_equal(packed.parts["decoder.ln"].gain, arrays_of(ENGLISH)["decoder.ln.weight"])
    assert list(folder.iterdir()) == []
    assert "File too large" in caplog.text


def test_two_processes_at_once(model, folder):
    code = (
        "import sys; from pathlib import Path; from engine import cache, catalogue\n"
        "cache.folder = lambda: Path(sys.argv[1])\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(cache.load(catalogue.find(sys.argv[2]), 'float32').parts['decoder.embedding'].sum())"
    )
    command = [sys.executable, "-c", code, str(folder), str(model)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as two:
        assert [process.stdout.readline() for process in (one, two)] == ["ready\n", "ready\n"]
        ends = [process.communicate("\n", timeout=60) for process in (one, two)]
    expected = arrays_of(ENGLISH)["decoder.token_embedding.weight"].sum()
    assert ends == [(f"{expected}\n", "")] * 2
    (entry,) = folder.iterdir()
    assert entry.suffix == ".packed"


# --- what is kept -----------------------------------------------------------------------------------------------------


def put(folder, name, size, unused_days):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(bytes(size))
    used = time.time() - unused_days * DAY_S
    os.utime(path, (used, used))
    return path


def test_entries_go_when_they_are_old_or_too_many_or_unfinished(model, folder, monkeypatch):
    load(model)
    (entry,) = folder.iterdir()
    monkeypatch.setattr(cache, "_MOST_BYTES", entry.stat().st_size + 2500)
    recent = [put(folder, f"{i}-float32-0.packed", 1000, unused_days=i + 1) for i in range(4)]
    old = put(folder, "9-float32-0.packed", 1, unused_days=61)
    killed = put(folder, "a.tmp", 1, unused_days=2)
    running, foreign = put(folder, "b.tmp", 1, unused_days=0), put(folder, "notes.txt", 1, unused_days=100)
    load(model)
    assert set(folder.iterdir()) == {entry, recent[0], recent[1], running, foreign}
    assert not old.exists()
    assert not killed.exists()


def test_an_entry_in_use_stays_and_use_is_noted(tmp_path, model, folder, monkeypatch):
    other = write_ctranslate2(tmp_path / "other", ENGLISH, "float16")
    packed = load(model)
    (entry,) = folder.iterdir()
    monkeypatch.setattr(cache, "_MOST_BYTES", 0)
    load(other)
    assert entry.exists()
    assert packed.parts["decoder.ln"].gain.size
    put_back = time.time() - 3 * DAY_S
    os.utime(entry, (put_back, put_back))
    load(model)
    assert entry.stat().st_mtime > put_back + DAY_S
    del packed
    load(other)
    assert not entry.exists()


# --- the file ---------------------------------------------------------------------------------------------------------


class Small(NamedTuple):
    numbers: np.ndarray
    scale: float
    n: int


PARTS = {
    "plain": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty": np.zeros((0, 5), np.int8),
    "scalar": np.array(7, np.uint16),
    "nested": (Small(np.arange(5, dtype=np.int8), 0.5, 3), (Small(np.ones(1, np.float16), 1e-9, -2), True)),
}


@pytest.fixture(scope="module")
def small_file():
    file = io.BytesIO()
    ranks = [bytes([byte]) for byte in range(256)]
    packed_file.write(file, Weights(ENGLISH, {}, ranks, ((1, 2), (3, 4))), PARTS.items())
    return file.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("small") / "file"


def test_any_parts_come_back(small_file, place):
    place.write_bytes(small_file)
    packed, _ = packed_file.read(place, [Small])
    assert packed.dimensions == ENGLISH
    assert packed.ranks == [bytes([byte]) for byte in range(256)]
    assert packed.alignment_heads == ((1, 2), (3, 4))
    assert packed.parts.keys() == PARTS.keys()
    first, (second, third) = packed.parts["nested"]
    assert (first[1:], second[1:], third) == ((0.5, 3), (1e-9, -2), True)
    assert isinstance(second, Small)
    found, expected = leaves_of(packed), [leaf for part in PARTS.values() for leaf in leaves(part)]
    arrays = [pair for pair in zip(found, expected, strict=True) if isinstance(pair[1], np.ndarray)]
    assert len(arrays) == 5
    for array, wanted in arrays:
        assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(array, wanted)
        assert array.ctypes.data % 64 == 0 or not array.size
        assert not array.flags.writeable


def test_what_is_no_part_is_refused():
    weights = Weights(ENGLISH, {}, [])
    for thing in (np.array([None]), "text", None, [np.zeros(1)]):
        with pytest.raises(TypeError, match="is nothing that a network consists of"):
            packed_file.write(io.BytesIO(), weights, [("thing", thing)])


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_whatever_happens_to_the_header_is_seen(small_file, place, data):
    header = int.from_bytes(small_file[8:16], "little")
    damaged = bytearray(small_file)
    if data.draw(st.booleans(), "cut"):
        del damaged[data.draw(st.integers(0, len(damaged) - 1), "length") :]
    else:
        for _ in range(data.draw(st.integers(1, 3), "flips")):
            at = data.draw(st.one_of(st.integers(0, 55), st.integers(header, len(damaged) - 1)), "at")
            damaged[at] = data.draw(st.integers(0, 255).filter(lambda byte, at=at: byte != damaged[at]), "byte")
    if damaged == small_file:  # flipped there and back
        return
    place.write_bytes(damaged)
    tracemalloc.start()
    try:
        with pytest.raises(packed_file.DamagedError):
            packed_file.read(place, [Small])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "part",
    [
        {"dtype": "<f4", "shape": [1 << 40], "offset": 64},
        {"dtype": "<f4", "shape": [1 << 70], "offset": 64},
        {"dtype": "<f4", "shape": [-1], "offset": 64},
        {"dtype": "<f4", "shape": [1], "offset": 1 << 40},
        {"dtype": "<f4", "shape": [1], "offset": -4},
        {"dtype": "<f4", "shape": [1.5], "offset": 64},
        {"dtype": "|O", "shape": [1], "offset": 64},
        {"dtype": "nonsense", "shape": [1], "offset": 64},
        {"type": "Popen", "fields": ["ls"]},
        {"type": "Small", "fields": [1]},
        {"fields": []},
        "text",
        None,
    ],
)
def test_a_header_with_a_true_digest_is_not_believed_either(small_file, place, part):
    header = int.from_bytes(small_file[8:16], "little")
    document = json.loads(small_file[header:])
    document["parts"] = {"part": part}
    text = json.dumps(document).encode()
    start = packed_file._START.pack(packed_file._MAGIC, header, len(text), hashlib.sha256(text).digest())
    place.write_bytes(start + small_file[len(start) : header] + text)
    with pytest.raises(packed_file.DamagedError):
        packed_file.read(place, [Small])
