"""Which devices are offered, from listings of machines that are not at hand."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.devices import Device, MicrophoneInfo, PulseSource, choose_inputs, parse_sources


def device(index: int, name: str, inputs: int, rate: float = 44_100) -> dict[str, Any]:
    return {"index": index, "name": name, "max_input_channels": inputs, "default_samplerate": rate}


def api(name: str, devices: Sequence[int], default: int) -> dict[str, Any]:
    return {"name": name, "devices": list(devices), "default_input_device": default}


def test_alsa_offers_cards_and_the_default_but_no_aliases() -> None:
    listed = [
        device(0, "HDA Intel PCH: ALC257 Analog (hw:0,0)", 2, 48_000),
        device(1, "HDA Intel PCH: HDMI 0 (hw:0,3)", 0),
        device(2, "UMC1820: USB Audio (hw:2,0)", 18, 96_000),
        device(3, "sysdefault", 128),
        device(4, "samplerate", 128),
        device(5, "pipewire", 64),
        device(6, "default", 64),
        device(7, "/dev/dsp", 16),
    ]
    chosen = choose_inputs(listed, [api("ALSA", range(7), 6), api("OSS", [7], 7)])
    assert chosen == [
        (
            MicrophoneInfo("HDA Intel PCH: ALC257 Analog", "HDA Intel PCH: ALC257 Analog", default=False),
            Device(0, "HDA Intel PCH: ALC257 Analog", 48_000, 2),
        ),
        (
            MicrophoneInfo("UMC1820: USB Audio", "UMC1820: USB Audio", default=False),
            Device(2, "UMC1820: USB Audio", 96_000, 8),
        ),
        (
            MicrophoneInfo("default", "System default", default=True),
            Device(6, "System default", 44_100, 2),
        ),
    ]


def test_two_cards_of_one_name_keep_their_numbers() -> None:
    listed = [device(0, "Headset: USB Audio (hw:1,0)", 1), device(1, "Headset: USB Audio (hw:2,0)", 1)]
    names = [info.name for info, _ in choose_inputs(listed, [api("ALSA", [0, 1], 0)])]
    assert names == ["Headset: USB Audio (hw:1,0)", "Headset: USB Audio (hw:2,0)"]


def test_windows_offers_each_microphone_once_by_its_whole_name() -> None:
    listed = [
        device(0, "Microsoft Sound Mapper - Input", 2),
        device(1, "Microphone Array (Intel® Smart ", 2),
        device(2, "Speakers (Realtek Audio)", 0),
        device(3, "Microphone Array (Intel® Smart Sound Technology)", 4, 48_000),
    ]
    chosen = choose_inputs(listed, [api("MME", [0, 1], 0), api("Windows WASAPI", [2, 3], 3)])
    name = "Microphone Array (Intel® Smart Sound Technology)"
    assert chosen == [(MicrophoneInfo(name, name, default=True), Device(3, name, 48_000, 4))]


def test_a_machine_that_can_only_play_has_no_microphone() -> None:
    assert choose_inputs([device(0, "Speakers", 0)], [api("Core Audio", [0], -1)]) == []
    assert choose_inputs([], []) == []


@pytest.mark.parametrize(
    ("positions", "channels"),
    [
        ("mono", 1),
        ("front-left,front-right", 2),
        ("front-left,front-right,rear-left,rear-right", 4),
        ("front-left,front-right,front-center", 5),
        ("front-left,front-right,rear-left,rear-right,front-center,lfe", 6),
        ("front-left,front-center,front-right,side-left,side-right,rear-center", 1),
        ("aux0,aux1,aux2,aux3", 1),
    ],
)
def test_a_source_is_opened_with_the_channels_that_keep_its_own_apart(positions: str, channels: int) -> None:
    (source,) = parse_sources(
        f"Source #3\n\tState: IDLE\n\tName: mic\n\tSample Specification: s32le 9ch 96000Hz\n"
        f"\tChannel Map: {positions}\n\tMonitor of Sink: n/a\n",
        "mic",
    )
    assert source == PulseSource("mic", "mic", 96_000, channels, monitor=False, default=True)


def test_when_pulseaudio_has_only_monitors_none_is_the_default() -> None:
    listing = (
        "Source #0\n\tState: IDLE\n\tName: out.monitor\n\tDescription: Monitor of Output\n"
        "\tSample Specification: s16le 2ch 44100Hz\n\tMonitor of Sink: out\n"
    )
    (source,) = parse_sources(listing, "out.monitor")
    assert (source.label, source.monitor, source.default) == ("Monitor of Output", True, False)
    assert parse_sources("", "@DEFAULT_SOURCE@") == []
