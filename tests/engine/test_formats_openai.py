"""The reader of OpenAI's .pt files: every float type, damaged archives, and pickles that would do harm."""

import builtins
import copyreg
import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats import read

from .model_writers import (
    ENGLISH,
    MULTILINGUAL,
    arrays_of,
    checkpoint_pickle,
    openai_tokens,
    write_openai,
    write_zip,
)


def with_pickle(directory, pickled):
    """An archive of this pickle and no numbers."""
    return write_zip(directory / "model.pt", {"data.pkl": pickled})


@pytest.mark.parametrize("dimensions", [ENGLISH, MULTILINGUAL], ids=["English", "multilingual"])
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_a_checkpoint_is_read_back(tmp_path, kind, dimensions):
    weights = read(write_openai(tmp_path / "model.pt", dimensions, kind))
    assert weights.dimensions == dimensions
    assert weights.arrays.keys() == arrays_of(dimensions).keys()
    for name, array in arrays_of(dimensions).items():
        assert weights.arrays[name].shape == array.shape
        np.testing.assert_array_equal(np.array(weights.arrays[name], np.float32), array)
    assert weights.ranks == openai_tokens(dimensions)


@pytest.mark.parametrize("prefix", ["model.", "module."])
def test_a_network_saved_within_another(tmp_path, prefix):
    weights = read(write_openai(tmp_path / "model.pt", prefix=prefix))
    np.testing.assert_array_equal(weights.arrays["decoder.ln.bias"], arrays_of(ENGLISH)["decoder.ln.bias"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"dims": vars(ENGLISH)}, "lacks dims or model_state_dict"),
        ([1, 2], "lacks dims or model_state_dict"),
        (7, "lacks dims or model_state_dict"),
        ({"dims": {}, "model_state_dict": {}}, "dims lacks n_mels"),
        ({"dims": {**vars(ENGLISH), "n_mels": "80"}, "model_state_dict": {}}, "n_mels should be a whole number"),
        ({"dims": {**vars(ENGLISH), "n_mels": True}, "model_state_dict": {}}, "n_mels should be a whole number"),
        (
            {"dims": vars(ENGLISH), "model_state_dict": {"encoder.conv1.weight": 5}},
            r"encoder\.conv1\.weight is missing",
        ),
    ],
)
def test_what_is_no_whisper_is_named(tmp_path, content, words):
    with pytest.raises(ModelFormatError, match=words):
        read(with_pickle(tmp_path, pickle.dumps(content, 2)))


def test_dimensions_that_are_too_large_are_refused(tmp_path):
    content = {"dims": {**vars(ENGLISH), "n_text_layer": 10**12}, "model_state_dict": {}}
    with pytest.raises(ModelUnsupportedError, match="n_text_layer is 1000000000000"):
        read(with_pickle(tmp_path, pickle.dumps(content, 2)))


# --- archives ---------------------------------------------------------------------------------------------------------


def test_an_archive_beyond_4_gb_is_understood(tmp_path):
    """The 64-bit fields, in an archive that says of each size and place: see there."""
    path = write_openai(tmp_path / "model.pt", kind="float16")
    data = bytearray(path.read_bytes())
    end = data.rindex(b"PK\5\6")
    count, _, start = struct.unpack("<HII", data[end + 10 : end + 20])
    directory, at = b"", start
    for _ in range(count):
        entry = data[at : at + 46]
        packed, size, n_name = struct.unpack("<IIH", entry[20:30])
        (place,) = struct.unpack("<I", entry[42:46])
        entry[20:28], entry[30:32], entry[42:46] = b"\xff" * 8, struct.pack("<H", 32), b"\xff" * 4
        extra = struct.pack("<HH", 1, 24) + struct.pack("<QQQ", size, packed, place) + struct.pack("<HH", 0x7777, 0)
        directory += bytes(entry) + bytes(data[at + 46 : at + 46 + n_name]) + extra
        at += 46 + n_name
    end_64 = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(directory), start)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, start + len(directory), 1)
    last = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(bytes(data[:start]) + directory + end_64 + locator + last)
    assert zipfile.ZipFile(path).testzip() is None  # Python's own reader agrees
    np.testing.assert_array_equal(read(path).arrays["encoder.conv2.weight"], arrays_of(ENGLISH)["encoder.conv2.weight"])


def test_compressed_archives_are_refused(tmp_path):
    """Nothing is ever inflated, so no archive can be a bomb."""
    bomb = write_zip(tmp_path / "bomb.pt", {"data.pkl": b"N." + bytes(100 << 20)}, method=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(ModelUnsupportedError, match=r"archive/data\.pkl is compressed"):
        read(bomb)


def directory_of(data):
    (start,) = struct.unpack("<I", data[data.rindex(b"PK\5\6") + 16 :][:4])
    return start


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d, start: d.__delitem__(slice(-22, None)), "lacks the end of a ZIP archive"),
        (lambda d, start: d.__setitem__(start, 0), "archive is damaged at byte"),
        (lambda d, start: d.__setitem__(slice(start + 24, start + 28), b"\1\0\0\0"), "has two sizes"),
        (lambda d, start: d.__setitem__(slice(start + 20, start + 28), b"\xfe\xff\xff\xff" * 2), "cut short"),
        (lambda d, start: d.__setitem__(slice(start + 42, start + 46), b"\xfe\xff\xff\xff"), "cut short"),
        (lambda d, start: d.__setitem__(slice(-12, -10), b"\xfe\xff"), "an archive of 65534 files"),
        (lambda d, start: d.__setitem__(slice(-6, -2), b"\xfe\xff\xff\xff"), "cut short"),
        (lambda d, start: d.__setitem__(slice(-12, -10), b"\xff\xff"), "archive is damaged"),
    ],
)
def test_a_damaged_archive_is_named(tmp_path, change, words):
    path = write_openai(tmp_path / "model.pt")
    data = bytearray(path.read_bytes())
    change(data, directory_of(data))
    path.write_bytes(data)
    with pytest.raises(ModelFormatError, match=words):
        read(path)


def test_files_that_overlap_are_refused(tmp_path):
    """Many names for one file, as in archives that unpack to more than a disk holds."""
    path = write_zip(tmp_path / "model.pt", {f"data/{i}": bytes(1000) for i in range(9)}, "archive")
    data = bytearray(path.read_bytes())
    start = directory_of(data)
    for i in range(9):
        place = data.index(f"archive/data/{i}".encode(), start) - 46
        data[place + 42 : place + 46] = bytes(4)
        data[place + 20 : place + 28] = struct.pack("<II", start - 100, start - 100)
    path.write_bytes(data)
    with pytest.raises(ModelFormatError, match="overlap"):
        read(path)


@pytest.mark.parametrize(
    ("files", "error", "words"),
    [
        ({"other": b""}, ModelFormatError, r"0 files data\.pkl"),
        ({"data.pkl": b"N.", "more/data.pkl": b"N."}, ModelFormatError, r"2 files data\.pkl"),
        ({"data.pkl": b"N.", "byteorder": b"big"}, ModelUnsupportedError, "not little-endian"),
        ({"data.pkl": b""}, ModelFormatError, "cut short"),
        (
            {"data.pkl": checkpoint_pickle(ENGLISH, arrays_of(ENGLISH))},
            ModelFormatError,
            "numbers that the file does not",
        ),
        ({"data.pkl": checkpoint_pickle(ENGLISH, arrays_of(ENGLISH)), "data/0": b"\0"}, ModelFormatError, "cut short"),
        ({"data.pkl": b"N." + bytes(1 << 20)}, ModelFormatError, "which no model needs"),
    ],
)
def test_an_archive_of_something_else_is_named(tmp_path, files, error, words):
    with pytest.raises(error, match=words):
        read(write_zip(tmp_path / "model.pt", files))


def array_pickle(offset, shape, strides):
    """An instruction for instruction pickle of one array of float32 on the file data/0."""

    def numbers(values):
        return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values) + b"t"

    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" + b"0X\3\0\0\0cpuK\1tQ"
    array = (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + numbers([offset])[1:-1] + numbers(shape) + numbers(strides)
    )
    return b"\x80\2" + array + b"\x89NtR."


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "error", "words"),
    [
        (0, (4, 4), (0, 0), ModelUnsupportedError, "does not lie in one piece"),  # one number, sixteen times
        (0, (2, 2), (1, 2), ModelUnsupportedError, "does not lie in one piece"),
        (0, (5,), (1,), ModelFormatError, "larger than its numbers"),
        (1, (4,), (1,), ModelFormatError, "larger than its numbers"),
        (-1, (4,), (1,), ModelFormatError, "impossible shape"),
        (0, (-4,), (1,), ModelFormatError, "impossible shape"),
        (0, (0,), (1,), ModelFormatError, "impossible shape"),
        (0, (2**62, 2**62, 2**62), (2**62, 1, 1), ModelUnsupportedError, "one piece"),
        (0, (1,) * 5, (1,) * 5, ModelFormatError, "impossible array"),
        (0, (4,), (1, 1), ModelFormatError, "impossible array"),
        (0, (4,), (1,), ModelFormatError, "lacks dims"),  # nothing wrong with that array
    ],
)
def test_impossible_arrays_are_refused(tmp_path, offset, shape, strides, error, words):
    files = {"data.pkl": array_pickle(offset, shape, strides), "data/0": bytes(16)}
    with pytest.raises(error, match=words):
        read(write_zip(tmp_path / "model.pt", files))


# --- pickles that would do harm ---------------------------------------------------------------------------------------


class Call:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


class Stateful:
    """Pickles as an object whose state is set."""

    def __getstate__(self):
        return {"x": 1}

    def __setstate__(self, state):
        raise AssertionError("ran")


def opened(path):
    return Call(builtins.open, str(path), "w")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "harm",
    [
        lambda path: Call(os.system, f"touch '{path}'"),
        lambda path: Call(builtins.eval, f"open({str(path)!r}, 'w')"),
        lambda path: Call(builtins.exec, f"open({str(path)!r}, 'w')"),
        opened,
        lambda path: {"dims": vars(ENGLISH), "model_state_dict": OrderedDict(a=opened(path))},
        lambda path: OrderedDict([(opened(path), 1)]),
        lambda path: Call(builtins.getattr, os, "system"),
        lambda path: Stateful(),
        lambda path: Stateful,
        lambda path: np.dtype("f4"),
        lambda path: io.BytesIO(b"x"),
    ],
    ids=["os.system", "eval", "exec", "open", "within a model", "as a key", "getattr", "state", "class", "numpy", "io"],
)
def test_no_pickle_can_call_or_construct_anything(tmp_path, harm, protocol):
    marker = tmp_path / "ran"
    try:
        pickled = pickle.dumps(harm(marker), protocol)
    except (TypeError, pickle.PicklingError):  # modules cannot be pickled as arguments; by their name, they can
        pickled = b"\x80\2cbuiltins\ngetattr\n(cos\nsystem\nX\1\0\0\0atR."
    with pytest.raises(ModelFormatError, match=r"its pickle .* not opened"):
        read(with_pickle(tmp_path, pickled))
    assert not marker.exists()


@pytest.mark.parametrize("name", ["torch._utils _rebuild_tensor_v2", "collections OrderedDict", "torch FloatStorage"])
def test_even_what_a_model_may_name_is_never_reached(tmp_path, name):
    """Not imported, no attributes of it, no state set on it, no instance of it made."""
    module, attribute = name.split()
    named = f"c{module}\n{attribute}\n".encode()
    for rest in (
        b")\x81.",
        b"}b.",
        b"X\1\0\0\0ab.",
        b"(NNNNtR.",
        b"Q.",
        b"(c__main__\n__dict__\nR.",
        b"o.",
        b"}}\x92.",
    ):
        with pytest.raises(ModelFormatError, match="its pickle"):
            read(with_pickle(tmp_path, b"\x80\2" + named + rest))


@pytest.mark.parametrize(
    "pickled",
    [
        b"cos\nsystem\n(X\4\0\0\0trueR.",
        b"cos.path\nos.system\n)R.",  # through another module's attributes
        b"ccollections\nOrderedDict.__init__\n)R.",
        b"ctorch\n_utils._rebuild_tensor_v2\n)R.",
        b"c\n\n)R.",
        b"(ios\nsystem\n.",
        b"(cos\nsystem\nX\1\0\0\0ao.",
        b"\x8c\2os\x8c\6system\x93)R.",
        b"Pos.system\n.",
        b"X\2\0\0\0osQ.",
        b"c" + b"a" * 100_000 + b"\nb\n.",
        b"cos\x1b[2J\nsystem\n.",
    ],
)
def test_every_way_to_name_things_is_closed(tmp_path, pickled):
    with pytest.raises(ModelFormatError) as caught:
        read(with_pickle(tmp_path, b"\x80\2" + pickled))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


@pytest.mark.parametrize("code", [b"\x82\7", b"\x83\7\0", b"\x84\7\0\0\0"], ids=["EXT1", "EXT2", "EXT4"])
def test_python_s_registry_of_extensions_is_not_consulted(tmp_path, code):
    copyreg.add_extension("os", "system", 7)
    try:
        pickle.loads(b"\x80\2" + code + b".")  # Python's own unpickler gives os.system, and keeps it at hand
        with pytest.raises(ModelFormatError, match="uses instruction"):
            read(with_pickle(tmp_path, b"\x80\2" + code + b"(X\4\0\0\0truetR."))
    finally:
        copyreg.remove_extension("os", "system", 7)


MANY = 100_000
LAUGHS = b"N\x85" + b"q\0h\0\x86" * 60  # a pair of the last value, sixty times: 2**60 leaves


@pytest.mark.parametrize(
    "pickled",
    [
        b"N" + b"\x85" * MANY + b".",
        b"(" * MANY + b"t" * MANY + b".",
        b"]" * MANY + b"a" * (MANY - 1) + b".",
        b"}N" + b"\x85" * MANY + b"Ns.",  # as a key, it would be hashed
        b"}" + LAUGHS + b"Ns.",
        b"}X\4\0\0\0dims}X\6\0\0\0n_mels" + LAUGHS + b"ssX\x10\0\0\0model_state_dict}s.",
        b"]q\0h\0a.",  # a list within itself
        b"}q\0X\4\0\0\0dimsh\0sX\x10\0\0\0model_state_dicth\0s.",
        b"Nr\xff\xff\xff\xff.",  # the memo's last place: Python's unpickler makes room for all
        b"j\xff\xff\xff\xff.",
        b"X\xff\xff\xff\xffa.",
        b"\x8b\xff\xff\xff\x7f.",
        b"\x8a\xff" + bytes(255) + b".",
        b"B\xff\xff\xff\x7fa.",
        b"\x8d" + b"\xff" * 7 + b"\x7fa.",
        b"\x95" + b"\xff" * 7 + b"\x7f.",
        b"I" + b"9" * 100_000 + b"\n.",
        b"(" * MANY,
        b"N" * MANY,
        b"}" * MANY + b".",
        b"s.",
        b"t.",
        b".",
        b"(N.",
        b"}(Nu.",
        b"NNR.",
        b"\x80\x63.",
        b"\xff.",
    ],
)
def test_no_pickle_can_exhaust_anything(tmp_path, pickled):
    path = with_pickle(tmp_path, b"\x80\2" + pickled)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
