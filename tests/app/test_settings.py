"""Settings survive: round trips, unknown keys, damaged files, places that cannot be written."""

import json

import pytest

from app.errors import SettingsError
from app.settings import Settings, load, save

CHOSEN = Settings(microphone="Mikrofon (Büro)", model="base", theme="dark", captions=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "settings.json"


def test_no_file_means_defaults_and_no_complaint(path):
    assert load(path) == load(path.parent / "other.json")
    assert load(path).settings == Settings()
    assert load(path).problems == ()


def test_round_trip_leaves_only_the_file_and_its_backup(path):
    save(Settings(), path)
    save(CHOSEN, path)
    assert load(path).settings == CHOSEN
    assert sorted(file.name for file in path.parent.iterdir()) == ["settings.json", "settings.json.bak"]


def test_a_name_that_is_no_utf8_survives(path):
    chosen = Settings(model=b"/models/caf\xe9".decode("utf-8", "surrogateescape"), microphone="Büro")
    save(chosen, path)
    assert "Büro" in path.read_text(encoding="utf-8")
    assert load(path).settings == chosen


def test_unknown_keys_survive(path):
    path.parent.mkdir()
    path.write_text('{"from_the_future": [1, 2], "theme": "light"}')
    assert load(path).settings == Settings(theme="light")
    save(CHOSEN, path)
    assert json.loads(path.read_text())["from_the_future"] == [1, 2]
    assert load(path).settings == CHOSEN


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"theme": "dark"', "line 1"),
        (b"", "line 1"),
        (b"\xff\xfe{}", "not UTF-8 text"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_damaged_file_is_set_aside_and_the_backup_used(path, content, reason):
    save(CHOSEN, path)
    save(Settings(), path)
    path.write_bytes(content)
    loaded = load(path)
    assert loaded.settings == CHOSEN
    (problem,) = loaded.problems
    assert str(path) in problem
    assert reason in problem
    assert (path.parent / "settings.json.damaged-1").read_bytes() == content
    assert not path.exists()


def test_damaged_twice_without_backup_keeps_both_files(path):
    path.parent.mkdir()
    for content in ("{1", "{2"):
        path.write_text(content)
        assert load(path).settings == Settings()
    assert [(path.parent / f"settings.json.damaged-{n}").read_text() for n in (1, 2)] == ["{1", "{2"]


def test_wrong_values_fall_back_one_by_one(path):
    path.parent.mkdir()
    path.write_text('{"theme": "purple", "captions": 1, "model": "base", "microphone": null}')
    loaded = load(path)
    assert loaded.settings == Settings(model="base")
    assert len(loaded.problems) == 3
    wanted = 'theme must be "system" or "light" or "dark", not "purple"; "system" is used.'
    assert any(problem.endswith(wanted) for problem in loaded.problems)
    assert any(problem.endswith("captions must be true or false, not 1; false is used.") for problem in loaded.problems)


def test_place_that_cannot_be_written_or_read(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"cannot be written .*Make the folder writable"):
        save(CHOSEN, tmp_path / "file" / "settings.json")
    (tmp_path / "settings.json").mkdir()
    loaded = load(tmp_path / "settings.json")
    assert loaded.settings == Settings()
    assert "cannot be read" in loaded.problems[0]
