"""Every format against text written out by hand, and the times against arithmetic done another way."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.transcript import Segment, Transcript
from engine.writers import FORMATS, cues, render, timestamp, write


def segment(number, start, end, text, avg_logprob=-0.25):
    return Segment(number, 0, start, end, text, (50364, 440, 50414), 0.0, avg_logprob, 1.1, 0.01)


def transcript(*spans):
    segments = tuple(segment(number, *span) for number, span in enumerate(spans))
    return Transcript("".join(s.text for s in segments), "en", segments, 10.0)


TWO = transcript((0.0, 0.9995, " Hello there."), (3661.5, 3662.0, " R&D: 1 < 2 --> fine\tüber"))


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("txt", "Hello there.\nR&D: 1 < 2 --> fine über\n"),
        (
            "srt",
            "1\n00:00:00,000 --> 00:00:01,000\nHello there.\n\n"
            "2\n01:01:01,500 --> 01:01:02,000\nR&D: 1 < 2 -> fine über\n\n",
        ),
        (
            "vtt",
            "WEBVTT\n\n00:00.000 --> 00:01.000\nHello there.\n\n"
            "01:01:01.500 --> 01:01:02.000\nR&amp;D: 1 &lt; 2 -> fine über\n\n",
        ),
        ("tsv", "start\tend\ttext\n0\t1000\tHello there.\n3661500\t3662000\tR&D: 1 < 2 --> fine über\n"),
    ],
)
def test_text_formats(format, content):
    assert render(TWO, format) == content


def test_json_has_the_keys_of_openai_whisper():
    record = json.loads(render(TWO, "json"))
    assert list(record) == ["text", "segments", "language"]
    assert record["text"] == TWO.text
    assert record["language"] == "en"
    assert record["segments"][1] == {
        "id": 1,
        "seek": 0,
        "start": 3661.5,
        "end": 3662.0,
        "text": " R&D: 1 < 2 --> fine\tüber",
        "tokens": [50364, 440, 50414],
        "temperature": 0.0,
        "avg_logprob": -0.25,
        "compression_ratio": 1.1,
        "no_speech_prob": 0.01,
    }


def test_json_stays_json_where_a_figure_is_not_finite():
    odd = Transcript("", "en", (segment(0, 0.0, 1.0, "", -math.inf),), 1.0)
    content = render(odd, "json")
    assert json.loads(content, parse_constant=pytest.fail)["segments"][0]["avg_logprob"] is None


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_said_is_still_a_sound_file(format):
    content = render(Transcript("", "en", (), 3.0), format)
    expected = {"vtt": "WEBVTT\n\n", "tsv": "start\tend\ttext\n"}.get(format, "")
    assert content == expected if format != "json" else json.loads(content)["segments"] == []


def test_an_unknown_format_is_the_callers_mistake():
    with pytest.raises(ValueError, match="docx"):
        render(TWO, "docx")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "00:00:00,000"),
        (0.9994, "00:00:00,999"),
        (0.9995, "00:00:01,000"),
        (59.9996, "00:01:00,000"),
        (3599.9996, "01:00:00,000"),
        (86_399.9996, "24:00:00,000"),
        (1_000_000.0, "277:46:40,000"),
    ],
)
def test_times_at_the_edges(seconds, text):
    assert render(transcript((seconds, seconds + 1, "x")), "srt").splitlines()[1].startswith(f"{text} --> ")


@given(st.integers(0, 10**10))
def test_a_timestamp_reads_back_as_its_milliseconds(milliseconds):
    hours, minutes, seconds = timestamp(milliseconds).split(":")
    assert int(minutes) < 60
    assert len(minutes) == 2
    assert len(seconds) == 6
    assert 3600 * int(hours) + 60 * int(minutes) + Fraction(seconds) == Fraction(milliseconds, 1000)
    short = timestamp(milliseconds, hours=False)
    assert short == timestamp(milliseconds) if milliseconds >= 3_600_000 else f"00:{short}" == timestamp(milliseconds)


times = st.floats(-1, 1e6, allow_nan=False)


@given(st.lists(st.tuples(times, times, st.sampled_from([" a", "", "  ", " b\n\nc"]))))
def test_cues_never_run_backwards(spans):
    found = list(cues(transcript(*spans).segments))
    assert [text for _, _, text in found] == [" ".join(t.split()) for _, _, t in spans if t.strip()]
    starts = [start for start, _, _ in found]
    assert starts == sorted(starts)
    assert all(0 <= start < end for start, end, _ in found)


def test_write_makes_the_directory_and_replaces_an_older_file(tmp_path):
    directory = tmp_path / "new" / "deep"
    first = write(TWO, "txt", directory, "talk.part 1")
    assert first == directory / "talk.part 1.txt"
    write(transcript((0.0, 1.0, " später")), "txt", directory, "talk.part 1")
    assert first.read_bytes() == "später\n".encode()
    assert list(directory.iterdir()) == [first]


def test_a_failed_write_leaves_the_older_file_and_no_rubbish(tmp_path):
    path = write(TWO, "txt", tmp_path, "talk")
    before = path.read_bytes()
    with pytest.raises(UnicodeEncodeError):
        write(transcript((0.0, 1.0, "\udc80")), "txt", tmp_path, "talk")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
