"""The commands as people and scripts type them, on the real engine, model and files."""

import io
import itertools
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
import wave
from pathlib import Path

import pytest

from app import cli
from app.batch import output_stems
from app.terminal import tail, width
from engine import catalogue, whisper, writers

DATA = Path(__file__).parents[1] / "data"
SHOPPING, QUESTION = DATA / "note_shopping.flac", DATA / "question_chain.flac"
SAMPLE = Path(__file__).parents[2] / "resources" / "sample.flac"
COMMAND = [sys.executable, "-m", "app"]


def words(text):
    return re.findall(r"[a-z']+", text.lower())


@pytest.fixture
def run(capfd):
    """Runs a command in this process and gives its exit code, stdout and stderr."""

    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def interruptible():
    """Programs started now heed SIGINT, also where this one was told to ignore it, as with `nohup make test &`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# transcribe


def test_transcripts_go_to_stdout_and_one_bad_file_costs_one_line(run):
    code, out, err = run("transcribe", SHOPPING, "nowhere.wav", DATA / "README.md", QUESTION)
    assert code == 1
    assert words(out)[:5] == ["shopping", "list", "two", "pints", "of"]
    assert words(out)[-3:] == ["the", "spare", "keys"]
    complaints = err.splitlines()
    assert len(complaints) == 2
    assert complaints[0].startswith("sottovoce: nowhere.wav: no such file")
    assert "README.md: not an audio file" in complaints[1]


def test_json_on_stdout(run):
    code, out, err = run("transcribe", QUESTION, "--output_format=json", "--language", "English", "--threads", 1)
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["language"] == "en"
    assert words(record["text"])[:4] == ["are", "you", "coming", "tonight"]
    assert "".join(segment["text"] for segment in record["segments"]) == record["text"]


def test_all_formats_in_a_directory_and_nothing_overwritten(run, tmp_path):
    twin = tmp_path / "twin" / SHOPPING.name
    twin.parent.mkdir()
    twin.write_bytes(QUESTION.read_bytes())
    output = tmp_path / "new" / "output"
    code, out, err = run("transcribe", SHOPPING, twin, "--output_dir", output, "-f", "all")
    assert (code, out) == (0, "")
    assert err.count("\n") == 1
    assert "note_shopping.flac.*" in err
    endings = ["json", "srt", "tsv", "txt", "vtt"]
    names = [f"note_shopping{more}.{ending}" for more in ("", ".flac") for ending in endings]
    assert sorted(path.name for path in output.iterdir()) == sorted(names)
    assert "basil" in (output / "note_shopping.txt").read_text("utf-8")
    assert "spare keys" in (output / "note_shopping.flac.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("paths", "stems"),
    [
        (["a/x.wav", "b/y.mp3"], ["x", "y"]),
        (["a/x.wav", "b/x.mp3", "x.ogg"], ["x", "x.mp3", "x.ogg"]),
        (["a/x.wav", "b/x.wav", "c/x.wav", "d/x.wav"], ["x", "x.wav", "x-2", "x-3"]),
        (["Talk.wav", "talk.mp3"], ["Talk", "talk.mp3"]),
        (["x.mp3.wav", "x.wav", "y/x.mp3"], ["x.mp3", "x", "x-2"]),
        (["part 1.2.wav", ".wav"], ["part 1.2", ".wav"]),
    ],
)
def test_no_two_files_share_an_output(paths, stems):
    assert output_stems(paths) == stems


def test_a_directory_that_cannot_be_made_is_told_before_any_work(run, tmp_path):
    (tmp_path / "file").touch()
    code, out, err = run("transcribe", SHOPPING, "--output-dir", tmp_path / "file" / "x")
    assert (code, out) == (2, "")
    assert "cannot be made a directory" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments", [["transcribe", QUESTION], ["live", "--fast", "--input", QUESTION], ["models"], ["--version"]]
)
def test_a_full_disk_is_said_and_is_a_failure(arguments, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # most people's Python writes once more when it ends
    with open("/dev/full", "w") as full:
        result = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert result.stderr == "sottovoce: the output cannot be written: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_complaints_that_nobody_can_read_cost_nothing_else():
    command = [*COMMAND, "transcribe", "nowhere.wav", QUESTION]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True)
    assert result.returncode == 1
    assert words(result.stdout)[-3:] == ["the", "spare", "keys"]


def test_a_reader_that_goes_away_is_no_drama():
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run([*COMMAND, "transcribe", QUESTION], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, b"")


def test_interrupting_keeps_what_is_finished(interruptible, tmp_path):
    with wave.open(str(tmp_path / "long.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(os.urandom(16_000 * 2 * 600))
    output = tmp_path / "out"
    command = [*COMMAND, "transcribe", str(QUESTION), str(tmp_path / "long.wav"), "--output-dir", str(output)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (output / "question_chain.txt").exists():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.5)  # it is written, but perhaps not counted yet; the next one takes far longer
        process.send_signal(signal.SIGINT)
        err = process.communicate()[1]
    assert process.returncode == 130
    assert err == "sottovoce: interrupted; 1 of 2 files are done\n"
    assert [path.name for path in output.iterdir()] == ["question_chain.txt"]
    assert "spare keys" in (output / "question_chain.txt").read_text()


# live


def updates(out):
    records = [json.loads(line) for line in out.splitlines()]
    assert all(list(r) == ["audio_s", "wall_s", "committed", "partial", "final"] for r in records)
    assert [r["final"] for r in records[:-1]] == [None] * (len(records) - 1)
    assert all(b["committed"].startswith(a["committed"]) for a, b in itertools.pairwise(records))
    assert [r["audio_s"] for r in records] == sorted(r["audio_s"] for r in records)
    return records


def test_live_events_are_lines_of_json(run):
    code, out, err = run("live", "--input", SAMPLE, "--fast", "--events")
    assert (code, err) == (0, "")
    last = updates(out)[-1]
    assert last["audio_s"] == pytest.approx(11.6, abs=0.1)
    assert words(last["final"])[:8] == ["hello", "team", "quick", "update", "on", "the", "release", "the"]
    assert words(last["final"])[-5:] == ["report", "anything", "odd", "before", "friday"]


def test_live_on_a_pipe_prints_the_text_alone(run):
    code, out, err = run("live", "--input", QUESTION, "--fast")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    assert words(out)[-3:] == ["the", "spare", "keys"]


def test_interrupting_live_gives_the_text_so_far(interruptible):
    command = [*COMMAND, "live", "--input", str(SAMPLE), "--events"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    last = updates(first + rest)[-1]
    assert words(last["final"])[:1] == ["hello"]
    assert last["audio_s"] < 11


def test_live_says_what_is_wrong_with_its_file(run):
    code, out, err = run("live", "--input", "nowhere.wav", "--fast")
    assert (code, out) == (1, "")
    assert err.startswith("sottovoce: nowhere.wav: no such file")
    assert err.count("\n") == 1


# usage


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["transcribe"], "AUDIO"),
        (["transcribe", SHOPPING, "--speed", "2"], "--speed"),
        (["transcribe", SHOPPING, "--output-format", "docx"], "docx"),
        (["transcribe", SHOPPING, "--threads", "-1"], "--threads"),
        (["transcribe", SHOPPING, "--threads", "many"], "1 or more, or 0 for all, not 'many'"),
        (["transcribe", SHOPPING, "--model", ""], "--model: must not be empty"),
        (["transcribe", SHOPPING, "--threads", "100000"], "threads"),
        (["transcribe", SHOPPING, "--compute", "float8"], "float8"),
        (["transcribe", SHOPPING, "--model", "enormous"], "enormous: no such model; there are tiny.en, base"),
        (["transcribe", "nowhere.wav", "--model", "enormous"], "enormous: no such model"),
        (["transcribe", SHOPPING, "--language", "germn"], "did you mean german?"),
        (["transcribe", SHOPPING, "--language", "x1"], "auto"),
        (["transcribe", SHOPPING, "--language", "fr"], "knows only English, not French"),
        (["transcribe", SHOPPING, "--task", "translate"], "cannot translate"),
        (["live", "--fast"], "--input"),
        (["live", "--input", SHOPPING, "--microphone", "x"], "--microphone"),
        (["live", "--input", SHOPPING, "--model", "enormous"], "enormous: no such model"),
        (["live", "--input", SHOPPING, "--language", "fr"], "knows only English"),
        (["--model", "base", "transcribe", SHOPPING], "give them behind it"),
        (["dictate"], "dictate"),
        (["--verbose"], "--verbose"),
    ],
)
def test_wrong_usage_is_one_line_and_two(run, arguments, says):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("sottovoce: ")
    assert err.count("\n") == 1
    assert says in err


def test_a_damaged_model_is_a_failure(run, tmp_path):
    files = catalogue.find("tiny.en")
    for path in (files.config, files.vocabulary):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with files.weights[0].open("rb") as weights:
        (tmp_path / "model.bin").write_bytes(weights.read(100_000))
    for arguments in (["transcribe", SHOPPING], ["live", "--input", SHOPPING]):
        code, out, err = run(*arguments, "--model", tmp_path)
        assert (code, out) == (1, "")
        assert err.startswith(f"sottovoce: {tmp_path / 'model.bin'}: ")
        assert err.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
@pytest.mark.parametrize("command", ["transcribe {}", "live --fast --input {}"])
def test_too_little_memory_is_a_failure(command):
    program = """
import resource, sys
import app.batch, app.live, app.loading
from app.cli import main
from engine import kernels
kernels.warm_up()
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (150 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(main(sys.argv[1:]))
"""
    arguments = command.format(QUESTION).split()
    result = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("sottovoce: ")
    assert "memory" in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_display_the_app_says_so(run, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "no display" in err
    assert err.count("\n") == 1


def test_models_lists_every_known_model(run):
    code, out, _ = run("models")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [model.name for model in catalogue.known()]
    assert out.splitlines()[0].endswith("installed")


def test_version_and_help_import_nothing_heavy():
    program = """
import sys
from app.cli import main
assert [main(a.split()) for a in ("--version", "--help", "transcribe --help", "live --help")] == [0] * 4
assert not {"numpy", "numba", "av", "PySide6", "sounddevice", "tqdm"} & set(sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert re.match(r"sottovoce \d+\.\d+\.\d+\n", result.stdout)


def test_what_help_names_is_what_the_engine_has():
    assert cli.FORMATS == writers.FORMATS
    assert cli.COMPUTE == whisper.COMPUTE
    assert cli.DEFAULT_MODEL == catalogue.DEFAULT_MODEL


def test_pipes_get_utf8_whatever_the_locale(monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    cli.main(["models"])
    assert stdout.encoding == "utf-8"


# terminal


def test_a_terminal_sees_progress_and_stdout_stays_clean():
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, 80))
    command = [*COMMAND, "transcribe", str(QUESTION)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=end, text=True) as process:
        os.close(end)
        seen = b""
        while process.poll() is None or select.select([terminal], [], [], 0)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # Linux: the other end is closed
                break
        out = process.stdout.read()
    os.close(terminal)
    assert process.returncode == 0
    assert "question_chain.flac 100%|" in seen.decode()
    assert words(out)[-3:] == ["the", "spare", "keys"]
    assert "\r" not in out


@pytest.mark.parametrize(
    ("text", "columns", "seen"),
    [
        ("hello", 9, "hello"),
        ("hello", 3, "llo"),
        ("hello", 0, ""),
        ("日本語", 5, "本語"),
        ("cafe\u0301", 2, "fe\u0301"),
    ],
)
def test_the_tail_that_fits(text, columns, seen):
    assert tail(text, columns) == seen
    assert width(seen) <= columns
