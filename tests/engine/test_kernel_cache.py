"""Compiled kernels are kept between starts; whatever happens to the files, the kernels still run."""

import shutil

import pytest

from engine.kernels import policy


def double(x):
    return 2 * x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(policy.config, "CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 100])
def test_damaged_files_are_made_again(folder, kind, left):
    policy.kernel(double)(1.5)
    damaged = list(folder.rglob(f"*.{kind}"))
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[:left])
    assert policy.kernel(double)(1.5) == 3
    whole = policy.kernel(double)
    assert whole(1.5) == 3
    assert whole.stats.cache_hits


def test_a_cache_that_cannot_be_written_is_said_once(folder, caplog):
    kernel = policy.kernel(double)
    shutil.rmtree(folder)
    folder.write_text("no folder any more")
    assert kernel(1.5) == 3
    assert kernel(2) == 4
    assert len(caplog.records) == 1
    assert f"cannot be kept in {folder}" in caplog.text
