"""The flags about word times and subtitles, as typed; the engine's own defaults where nothing is."""

import argparse
import json
from pathlib import Path

import pytest

from app import cli, word_flags
from engine import TranscribeOptions
from engine.subtitles import SubtitleLayout

QUESTION = Path(__file__).parents[1] / "data" / "question_chain.flac"


@pytest.fixture
def run(capfd):
    def run(*arguments):
        code = cli.main(["transcribe", str(QUESTION), *map(str, arguments)])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def parse():
    def parse(*arguments, task="transcribe"):
        parser = argparse.ArgumentParser()
        word_flags.describe(parser)
        choices = parser.parse_args(arguments)
        choices.task = task
        return choices

    return parse


def test_nothing_typed_is_the_engine_s_own(parse):
    choices = parse()
    assert TranscribeOptions(**word_flags.word_options(choices)) == TranscribeOptions()
    assert word_flags.subtitle_layout(choices) == SubtitleLayout()


def test_what_is_typed_arrives(parse):
    flags = "--word-timestamps TRUE --prepend-punctuations ¿ --append-punctuations !? --highlight-words true"
    limits = "--max-line-width 42 --max-line-count 2 --max-words-per-line None --hallucination-silence-threshold 2"
    choices = parse(*flags.split(), *limits.split())
    options = TranscribeOptions(**word_flags.word_options(choices))
    assert (options.word_timestamps, options.hallucination_silence_threshold) == (True, 2.0)
    assert (options.prepend_punctuations, options.append_punctuations) == ("¿", "!?")
    assert word_flags.subtitle_layout(choices) == SubtitleLayout(True, 42, 2, None)


@pytest.mark.parametrize(
    ("flags", "task", "warning"),
    [
        ("--max-line-count 2", "transcribe", "--max-line-count has no effect without --max-line-width"),
        ("--max-line-width 9 --max-line-count 2 --max-words-per-line 3", "transcribe", "--max-words-per-line has no"),
        ("", "translate", "translation"),
    ],
)
def test_what_has_no_effect_is_said(parse, caplog, flags, task, warning):
    word_flags.word_options(parse("--word-timestamps", "True", *flags.split(), task=task))
    (record,) = caplog.records
    assert warning in record.message


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--highlight_words True", "--highlight-words requires --word-timestamps True"),
        ("--max_line_width 40", "--max-line-width requires --word-timestamps True"),
        ("--max_line_count 2", "--max-line-count requires --word-timestamps True"),
        ("--max_words_per_line 2", "--max-words-per-line requires --word-timestamps True"),
        ("--hallucination_silence_threshold 2", "--hallucination-silence-threshold requires --word-timestamps True"),
        ("--word_timestamps yes", "True or False"),
        ("--word_timestamps True --max_line_width 0", "1 or more"),
        ("--word_timestamps True --max_line_width wide", "1 or more"),
        ("--word_timestamps True --hallucination_silence_threshold inf", "seconds"),
        ("--word_timestamps True --hallucination_silence_threshold soon", "seconds"),
    ],
)
def test_wrong_usage_is_one_line_and_two(run, flags, says):
    code, out, err = run(*flags.split())
    assert (code, out) == (2, "")
    assert err.startswith("sottovoce: ")
    assert err.count("\n") == 1
    assert says in err


def test_words_and_subtitles_of_a_file(run, tmp_path):
    code, _, err = run("--word_timestamps", "True", "--max_words_per_line", 4, "-f", "all", "-o", tmp_path)
    assert (code, err) == (0, "")
    (segment, *_) = json.loads((tmp_path / "question_chain.json").read_text("utf-8"))["segments"]
    assert [word["word"] for word in segment["words"]][:4] == [" Are", " you", " coming", " tonight,"]
    first = (tmp_path / "question_chain.srt").read_text("utf-8").split("\n\n")[0].splitlines()
    assert first[2] == "Are you coming tonight,"
    assert first[1].startswith("00:00:00,")
