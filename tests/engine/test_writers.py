"""Every format against text written out by hand, and the times against arithmetic done another way."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.subtitles import SubtitleLayout, cues
from engine.transcript import Segment, Transcript, Word
from engine.writers import FORMATS, PLAIN, lines, render, timestamp, write


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
def test_lines_never_run_backwards(spans):
    found = list(lines(transcript(*spans).segments))
    assert [text for _, _, text in found] == [" ".join(t.split()) for _, _, t in spans if t.strip()]
    starts = [start for start, _, _ in found]
    assert starts == sorted(starts)
    assert all(0 <= start < end for start, end, _ in found)


# --- words ------------------------------------------------------------------------------------------------------------


def spoken(*segments):
    """A transcript of segments, each a list of words (start, end, text)."""
    spans = [(words[0][0], words[-1][1], "".join(text for _, _, text in words)) for words in segments]
    plain = transcript(*spans)
    timed = tuple(
        replace(s, words=tuple(Word(*word, 0.5) for word in words))
        for s, words in zip(plain.segments, segments, strict=True)
    )
    return replace(plain, segments=timed)


TIMED = spoken(
    [(0.1, 0.4, " One"), (0.4, 0.9995, " <two>,"), (1.5, 1.5, " three")],
    [(2.0, 2.5, " four"), (2.5, 3.0, " five")],
    [(7.0, 7.5, " six")],
)


def shown(**layout):
    """Start and end in seconds, and the text, of each subtitle of TIMED."""
    found = cues(TIMED.segments, SubtitleLayout(**layout))
    return [(c.start / 1000, c.end / 1000, "".join(c.words)) for c in found]


def test_words_in_json():
    segments = json.loads(render(TIMED, "json"))["segments"]
    assert segments[0]["words"][1] == {"word": " <two>,", "start": 0.4, "end": 0.9995, "probability": 0.5}
    assert [len(s["words"]) for s in segments] == [3, 2, 1]
    assert list(segments[0])[-2:] == ["no_speech_prob", "words"]


def test_segments_stay_apart():
    expected = [(0.1, 1.5, "One <two>, three"), (2, 3, "four five"), (7, 7.5, "six")]
    assert shown() == shown(max_line_count=1) == expected
    assert (
        shown(max_words_per_line=2)
        == [
            (0.1, 1, "One <two>,"),
            (1.5, 1.501, "three"),  # it takes no time, but must be seen
            *expected[1:],
        ]
    )
    assert shown(max_line_width=11) == [(0.1, 1.5, "One <two>,\nthree"), *expected[1:]]
    assert shown(max_line_width=3)[1] == (2, 3, "four\nfive")  # a word that is too long has a line of its own


def test_with_a_width_and_a_count_text_runs_on_to_a_long_pause():
    assert shown(max_line_width=14, max_line_count=1) == [
        (0.1, 1, "One <two>,"),
        (1.5, 2.5, "three four"),
        (2.5, 3, "five"),
        (7, 7.5, "six"),
    ]
    assert shown(max_line_width=14, max_line_count=3) == [(0.1, 3, "One <two>,\nthree four\nfive"), (7, 7.5, "six")]


def test_each_word_is_underlined_while_it_is_said():
    layout = SubtitleLayout(highlight_words=True, max_line_width=11)
    assert render(TIMED, "vtt", layout).split("\n\n")[:6] == [
        "WEBVTT",
        "00:00.100 --> 00:00.400\n<u>One</u> &lt;two>,\nthree",
        "00:00.400 --> 00:01.000\nOne <u>&lt;two>,</u>\nthree",
        "00:01.000 --> 00:01.500\nOne &lt;two>,\nthree",
        "00:01.500 --> 00:01.501\nOne &lt;two>,\n<u>three</u>",
        "00:02.000 --> 00:02.500\n<u>four</u> five",
    ]
    assert "00:00:00,400 --> 00:00:01,000\nOne <u><two>,</u>\nthree\n" in render(TIMED, "srt", layout)


def test_an_arrow_made_of_two_words_is_no_arrow():
    arrow = spoken([(0.0, 0.5, " a"), (0.5, 1.0, " --"), (1.0, 1.5, ">")])
    assert render(arrow, "srt").splitlines()[2] == "a ->"
    assert render(arrow, "srt").count("-->") == 1


def test_a_segment_without_words_is_shown_whole():
    mixed = replace(TIMED, segments=(TIMED.segments[0], replace(TIMED.segments[1], words=())))
    assert render(mixed, "srt", SubtitleLayout(max_words_per_line=1)).endswith("\nfour five\n\n")


def test_a_layout_needs_words():
    with pytest.raises(ValueError, match="word times"):
        render(TWO, "srt", SubtitleLayout(max_line_width=20))
    assert render(Transcript("", "en", (), 1.0), "srt", SubtitleLayout(max_line_width=20)) == ""
    with pytest.raises(ValueError, match="1 or more"):
        SubtitleLayout(max_line_count=0)


layouts = st.builds(
    SubtitleLayout,
    highlight_words=st.booleans(),
    max_line_width=st.none() | st.integers(1, 12),
    max_line_count=st.none() | st.integers(1, 3),
    max_words_per_line=st.none() | st.integers(1, 3),
)
timed_words = st.tuples(times, times, st.sampled_from([" a", " bcd,", " ", "ef", "\n\ng ", "日本"]))


@given(st.lists(st.lists(timed_words, min_size=1, max_size=5), max_size=4), layouts)
def test_subtitles_are_in_order_and_lose_no_word(segments, layout):
    said = spoken(*segments)
    found = list(cues(said.segments, layout))
    assert all(0 <= cue.start < cue.end for cue in found)
    assert all(a.start <= b.start and (a.end <= b.start or not layout.highlight_words) for a, b in pairwise(found))
    if layout.highlight_words:
        found = [cue for cue in found if cue.highlighted == 0]
    text = "".join(" ".join("".join(cue.words) for cue in found).split())
    assert text == "".join("".join(s.text for s in said.segments).split())
    for cue in found:
        rows = "".join(cue.words).split("\n")
        assert all(row.strip() for row in rows)
        if layout.max_line_width is not None:
            assert all(len(row.rstrip()) <= layout.max_line_width or " " not in row.strip() for row in rows)
            assert len(rows) <= (layout.max_line_count or len(rows))
    for format in ("srt", "vtt"):
        render(said, format, layout if any(s.words for s in said.segments) else PLAIN)


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
