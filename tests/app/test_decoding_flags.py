"""The flags about decoding, as typed: openai-whisper's defaults where nothing is, and its rules where several are."""

import argparse
import json
from pathlib import Path

import pytest

from app import cli, decoding_flags
from app.errors import UsageError
from app.flag_values import or_none, several, text
from engine import TranscribeOptions

QUESTION = Path(__file__).parents[1] / "data" / "question_chain.flac"


@pytest.fixture
def run(capfd):
    def run(*arguments, command="transcribe"):
        start = ["live", "--fast", "--input"] if command == "live" else [command]
        code = cli.main([*start, str(QUESTION), *map(str, arguments)])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


def options(*flags):
    parser = argparse.ArgumentParser()
    decoding_flags.describe(parser)
    return TranscribeOptions(**decoding_flags.decoding_options(parser.parse_args(flags)))


def test_nothing_typed_is_openai_whisper_s_command_line():
    assert options() == TranscribeOptions(
        temperatures=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        best_of=5,
        beam_size=5,
        patience=1.0,
        length_penalty=None,
        compression_ratio_threshold=2.4,
        logprob_threshold=-1.0,
        no_speech_threshold=0.6,
        condition_on_previous_text=True,
        initial_prompt="",
        carry_initial_prompt=False,
        clip_timestamps=(0.0,),
        suppress_tokens=(-1,),
    )


def test_what_is_typed_arrives():
    flags = {
        "best_of": ("3", 3),
        "beam_size": ("2", 2),
        "patience": ("1.5", 1.5),
        "length_penalty": ("0.5", 0.5),
        "repetition_penalty": ("1.2", 1.2),
        "no_repeat_ngram_size": ("3", 3),
        "suppress_tokens": ("11,13", (11, 13)),
        "suppress_blank": ("False", False),
        "compression_ratio_threshold": ("2", 2.0),
        "logprob_threshold": ("-2", -2.0),
        "no_speech_threshold": ("0.9", 0.9),
        "initial_prompt": ("Anna, Ben", "Anna, Ben"),
        "carry_initial_prompt": ("true", True),
        "condition_on_previous_text": ("FALSE", False),
        "prefix": ("Well", "Well"),
        "hotwords": ("Sottovoce", "Sottovoce"),
        "clip_timestamps": ("0,5,10", (0.0, 5.0, 10.0)),
        "without_timestamps": ("True", True),
        "max_initial_timestamp": ("0.5", 0.5),
        "vad": ("False", False),
        "batch_size": ("8", 8),
    }
    typed = [part for name, (value, _) in flags.items() for part in (f"--{name.replace('_', '-')}", value)]
    assert options(*typed) == TranscribeOptions(**{name: value for name, (_, value) in flags.items()})


@pytest.mark.parametrize(
    ("flag", "field", "value"),
    [
        ("--best-of", "best_of", 1),
        ("--beam-size", "beam_size", None),
        ("--patience", "patience", 1.0),
        ("--length-penalty", "length_penalty", None),
        ("--compression-ratio-threshold", "compression_ratio_threshold", None),
        ("--logprob-threshold", "logprob_threshold", None),
        ("--no-speech-threshold", "no_speech_threshold", None),
        ("--max-initial-timestamp", "max_initial_timestamp", None),
        ("--temperature-increment-on-fallback", "temperatures", (0.0,)),
        ("--suppress-tokens", "suppress_tokens", ()),
    ],
)
def test_none_is_what_it_is_there(flag, field, value):
    assert getattr(options(flag, "None"), field) == value


@pytest.mark.parametrize(
    ("temperature", "increment", "expected"),
    [
        ("0.4", "0.3", (0.4, 0.7, 1.0)),
        ("0.5", "0.2", (0.5, 0.7, 0.9)),
        ("0.5", "None", (0.5,)),
        ("1", "0.2", (1.0,)),
        ("1.5", "0.2", (1.5,)),
        ("0", "2", (0.0,)),
    ],
)
def test_the_increment_gives_every_temperature_up_to_one(temperature, increment, expected):
    flags = ("--temperature", temperature, "--temperature-increment-on-fallback", increment)
    assert options(*flags).temperatures == pytest.approx(expected)


def test_an_empty_list_is_the_whole_and_no_token():
    both = options("--clip-timestamps", "", "--suppress-tokens", "")
    assert (both.clip_timestamps, both.suppress_tokens) == ((0.0,), ())


def test_small_parsers():
    assert several(text)("en, de ,fr") == ("en", "de", "fr")
    assert or_none(text)("None") is None
    with pytest.raises(argparse.ArgumentTypeError, match="must not be empty"):
        several(text)("en,,fr")


def test_a_prompt_carried_nowhere_is_said(caplog):
    options("--carry-initial-prompt", "True")
    (record,) = caplog.records
    assert record.message == "--carry-initial-prompt has no effect without --initial-prompt"


def test_patience_without_beams_is_refused():
    with pytest.raises(UsageError, match="--patience requires --beam-size"):
        options("--beam-size", "None", "--patience", "2")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--device cuda", "--device: must be cpu"),
        ("--fp16 maybe", "True or False"),
        ("--temperature -1", "--temperature must be one or more numbers from 0 up"),
        ("--temperature warm", "must be a number, not 'warm'"),
        ("--temperature_increment_on_fallback 0", "must be 0.01 or more, or None"),
        ("--beam_size 0", "--beam-size: must be 1 or more"),
        ("--patience 0", "--patience must be above 0"),
        ("--patience inf", "--patience must be above 0"),
        ("--length_penalty 2", "--length-penalty must be within 0 and 1"),
        ("--repetition_penalty=-1", "--repetition-penalty must be above 0"),
        ("--suppress_tokens full,stop", "numbers of tokens with commas between"),
        ("--suppress_tokens -1,-7", "--suppress-tokens must be numbers of tokens from 0 up, or -1"),
        ("--clip_timestamps 5,1", "--clip-timestamps must be one or more seconds from 0 up, in order"),
        ("--clip_timestamps nan", "seconds from 0 up"),
        ("--languages en,germn", "did you mean german?"),
        ("--languages auto", "--languages must be codes or names"),
        ("--languages fr,Spanish", "knows only English, not French or Spanish"),
    ],
)
def test_wrong_usage_is_one_line_and_two(run, flags, says):
    code, out, err = run(*flags.split())
    assert (code, out) == (2, "")
    assert err.startswith("sottovoce: ")
    assert err.count("\n") == 1
    assert says in err


def test_languages_that_the_model_does_not_know_are_refused(run):
    code, out, err = run("--model", "base", "--languages", "Cantonese")
    assert (code, out) == (2, "")
    assert err == "sottovoce: base: knows none of the languages yue\n"


def test_flags_reach_the_decoder(run):
    flags = "--suppress_tokens -1,30,11 --fp16 False --device cpu --languages fr,english --clip_timestamps 0,2"
    code, out, err = run(*flags.split(), "--beam_size", "None", "-f", "json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["text"].lower().startswith(" are you coming tonight")
    assert "keys" not in record["text"]
    assert not set("?,") & set(record["text"])


def test_live_is_told_which_words_to_expect(run):
    prompt = "ARE YOU COMING TONIGHT? IF NOT, WHO IS DRIVING? ARE YOU COMING? WHO IS DRIVING?"
    code, out, err = run("--initial-prompt", prompt, command="live")
    assert (code, err) == (0, "")
    assert out.startswith("ARE YOU COMING TONIGHT")
