"""Real files of many kinds, made here with FFmpeg's encoders or byte by byte, against what went into them."""

import io
import os
import struct
import subprocess
import sys
import wave
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio import SAMPLE_RATE, decode, duration_s, read
from engine.downmix import mix_weights, nominal_weights
from engine.errors import AudioError, CancelledError

CLIP = Path(__file__).parents[1] / "data" / "note_shopping.flac"


def sine(hertz, seconds, rate, amplitude=0.5):
    return amplitude * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def riff(path, samples, rate=SAMPLE_RATE, tag=1, channels=None, data_size=None):
    """A WAV written field by field, so that every field can be wrong; tag 1 is integers, 3 floats."""
    samples = np.asarray(samples) if np.ndim(samples) == 2 else np.asarray(samples)[:, None]
    channels = samples.shape[1] if channels is None else channels
    body = samples.tobytes()
    width = samples.itemsize
    fmt = struct.pack(
        "<HHIIHH",
        tag,
        channels,
        rate,
        rate * channels * width & 0xFFFFFFFF,
        channels * width & 0xFFFF,
        8 * width,
    )
    data = struct.pack("<4sI", b"data", len(body) if data_size is None else data_size) + body
    path.write_bytes(struct.pack("<4sI4s4sI", b"RIFF", 28 + len(data), b"WAVE", b"fmt ", 16) + fmt + data)
    return path


def encode(path, tracks, codec, rate=SAMPLE_RATE, format=None):
    """Mono tracks of float samples through FFmpeg's encoder."""
    with av.open(str(path), "w", format=format) as container:
        streams = [container.add_stream(codec, rate=rate, layout="mono") for _ in tracks]
        for stream, samples in zip(streams, tracks, strict=True):
            frame = av.AudioFrame.from_ndarray(np.round(samples * 32767).astype(np.int16)[None], "s16", "mono")
            frame.sample_rate, frame.pts = rate, 0
            resampler = av.AudioResampler(
                stream.format, "mono", stream.rate, frame_size=stream.codec_context.frame_size or 1024
            )
            for piece in [*resampler.resample(frame), *resampler.resample(None)]:
                container.mux(stream.encode(piece))
            container.mux(stream.encode(None))
    return path


def level(samples, hertz):
    """Amplitude of one tone in 16 kHz samples, a fifth of a second left out at both ends."""
    samples = samples[3200:-3200]
    turns = 2j * np.pi * hertz * np.arange(samples.size) / SAMPLE_RATE
    return abs(2 * np.mean(samples * np.exp(-turns)))


def test_sixteen_kilohertz_mono_is_taken_as_it_is(tmp_path):
    samples = np.array([0, 1, -1, 32767, -32768] * 7000, np.int16)
    assert np.array_equal(read(riff(tmp_path / "a.wav", samples)), samples.astype(np.float32) / 32768)


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("a.flac", "flac", 44_100),
        ("a.mp3", "libmp3lame", 44_100),
        ("a.m4a", "aac", 48_000),
        ("a.ogg", "flac", 22_050),
        ("a.opus", "libopus", 48_000),
        ("a.webm", "libopus", 48_000),
        ("a.mka", "pcm_f32le", 96_000),
        ("a.wav", "pcm_mulaw", 8_000),
        ("a.ac3", "ac3", 48_000),
        ("noextension", "libopus", 48_000),
    ],
)
def test_a_tone_survives_every_common_format(tmp_path, name, codec, rate):
    tone = sine(700, 2.5, rate)
    samples = read(encode(tmp_path / name, [tone], codec, rate, "ogg" if name == "noextension" else None))
    assert samples.dtype == np.float32
    assert samples.size == pytest.approx(2.5 * SAMPLE_RATE, abs=0.1 * SAMPLE_RATE)
    assert level(samples, 700) == pytest.approx(0.5, rel=0.06)  # LAME turns down by 5 %


@pytest.mark.parametrize("rate", [8_000, 11_025, 17_123, 44_100, 48_000, 96_000])
def test_resampling_follows_the_ideal_sine_across_blocks(tmp_path, rate):
    path = riff(tmp_path / "a.wav", np.float32(sine(1000, 3.7, rate)), rate, tag=3)
    samples = read(path)
    assert samples.size == pytest.approx(3.7 * SAMPLE_RATE, abs=2)
    ideal = sine(1000, 3.7, SAMPLE_RATE)[200:-200]
    assert np.abs(samples[200 : 200 + ideal.size] - ideal).max() < 1e-3


def test_what_16_khz_cannot_hold_does_not_fold_back(tmp_path):
    samples = read(riff(tmp_path / "a.wav", np.float32(sine(10_000, 2, 48_000)), 48_000, tag=3))
    assert np.abs(samples[200:-200]).max() < 1e-4


def test_blocks_stay_small_however_long_the_file(tmp_path):
    sizes = [block.size for block in decode(riff(tmp_path / "a.wav", np.zeros(90 * SAMPLE_RATE, np.int16)))]
    assert sum(sizes) == 90 * SAMPLE_RATE
    assert max(sizes) < 1.5 * SAMPLE_RATE


def test_ordinary_stereo_becomes_its_mean(tmp_path):
    rng = np.random.default_rng(1)
    left, right = rng.integers(-9000, 9000, (2, 40_000), np.int16)
    samples = read(riff(tmp_path / "a.wav", np.stack([left, right], 1)))
    assert np.allclose(samples, (left / 65536 + right / 65536), atol=1e-6)


def test_stereo_wired_the_wrong_way_round_is_not_averaged_away(tmp_path):
    speech = read(CLIP)
    samples = read(riff(tmp_path / "a.wav", np.stack([speech, -speech], 1), tag=3))
    assert np.array_equal(np.abs(samples), np.abs(speech))


@pytest.mark.parametrize(("channels", "spoken"), [(2, 0), (2, 1), (6, 2), (6, 3), (8, 7)])
def test_the_one_channel_with_speech_is_taken_whole(tmp_path, channels, spoken):
    speech = read(CLIP)
    everything = np.zeros((speech.size, channels), np.float32)
    everything[:, spoken] = speech
    assert np.allclose(read(riff(tmp_path / "a.wav", everything, tag=3)), speech, atol=1e-6)


def test_a_second_speaker_on_a_so_far_silent_channel_is_heard_at_once(tmp_path):
    silence, low, high = np.zeros(32_000), sine(300, 2, SAMPLE_RATE), sine(900, 2, SAMPLE_RATE)
    stereo = np.stack([np.concatenate([low, silence]), np.concatenate([silence, high])], 1)
    samples = read(riff(tmp_path / "a.wav", np.float32(stereo), tag=3))
    assert level(samples[:16_000], 300) == pytest.approx(0.5, rel=0.01)  # alone, so not halved
    assert level(samples[32_000:], 900) == pytest.approx(0.25, rel=0.01)


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_mix_weights_are_weights(channels, seed):
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(channels, 50)) * 10.0 ** rng.uniform(-9, 3, (channels, 1))
    covariance = signal @ signal.T / 50
    nominal = nominal_weights(rng.choice(["FL", "FR", "FC", "SL", "NONE"], channels).tolist())
    weights = mix_weights(nominal, covariance.diagonal(), covariance)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    loudest = covariance.diagonal().max()
    assert weights @ covariance @ weights >= 1e-3 * loudest  # whatever was loud is still there


def test_a_silent_first_track_gives_way_to_the_one_with_speech(tmp_path, caplog):
    tone = sine(700, 2, SAMPLE_RATE)
    path = encode(tmp_path / "two.mkv", [0 * tone, tone], "flac")
    assert level(read(path), 700) == pytest.approx(0.5, rel=0.01)
    assert "track 2 is used, because track 1 is silent" in caplog.text


def test_only_the_first_of_two_tracks_with_sound_is_used_and_that_is_said(tmp_path, caplog):
    path = encode(tmp_path / "two.mkv", [sine(500, 2, SAMPLE_RATE), sine(700, 2, SAMPLE_RATE)], "flac")
    samples = read(path)
    assert level(samples, 500) == pytest.approx(0.5, rel=0.01)
    assert level(samples, 700) < 0.01
    assert "has 2 audio tracks; track 1 is used." in caplog.text


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e-40])
def test_values_that_are_no_sound_become_silence(tmp_path, odd):
    samples = np.float32(sine(700, 1, SAMPLE_RATE))
    samples[100:120] = odd
    result = read(riff(tmp_path / "a.wav", samples, tag=3))
    assert not result[100:120].any()
    assert np.array_equal(np.delete(result, range(100, 120)), np.delete(samples, range(100, 120)))


def test_doubles_beyond_the_range_of_floats_become_silence(tmp_path):
    assert not read(riff(tmp_path / "a.wav", np.full(4000, 1e300), tag=3)).any()


@pytest.mark.parametrize("scale", [6.0, 32768.0, 2.0**31])
def test_floats_at_another_scale_are_turned_down_without_clipping(tmp_path, scale):
    tone = sine(700, 3, SAMPLE_RATE, 0.9)
    samples = read(riff(tmp_path / "a.wav", np.float32(tone * scale), tag=3))
    assert np.abs(samples).max() <= 1
    assert np.corrcoef(samples, tone)[0, 1] > 0.9999


def test_one_damaged_sample_does_not_silence_the_rest(tmp_path):
    tone = np.float32(sine(700, 3, SAMPLE_RATE))
    tone[20_000] = 1e9
    samples = read(riff(tmp_path / "a.wav", tone, tag=3))
    assert samples[20_000] == 1
    assert np.array_equal(np.delete(samples, 20_000), np.delete(tone, 20_000))


def test_a_file_cut_short_gives_its_readable_part_and_says_so(tmp_path, caplog):
    whole = read(CLIP)
    cut = tmp_path / "cut.flac"
    cut.write_bytes(CLIP.read_bytes()[: CLIP.stat().st_size // 2])
    part = read(cut)
    assert 0.4 * whole.size < part.size < 0.6 * whole.size
    assert np.array_equal(part, whole[: part.size])
    assert "cut.flac: damaged or cut short" in caplog.text


def test_damage_in_the_middle_costs_only_itself(tmp_path, caplog, capfd):
    path = encode(tmp_path / "a.aac", [sine(700, 6, SAMPLE_RATE)], "aac")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 700] = bytes(700)
    path.write_bytes(damaged)
    samples = read(path)
    assert samples.size > 4 * SAMPLE_RATE
    assert level(samples[:40_000], 700) == pytest.approx(0.5, rel=0.05)
    assert level(samples[-32_000:], 700) == pytest.approx(0.5, rel=0.05)
    assert capfd.readouterr().err == ""  # FFmpeg keeps its chatter to itself


@pytest.mark.parametrize("promised", [0, 0xFFFFFFFF, 2 * 64_000])
def test_a_wav_is_read_to_its_end_whatever_size_it_promises(tmp_path, promised):
    tone = np.int16(9000 * sine(700, 2, SAMPLE_RATE))
    assert read(riff(tmp_path / "a.wav", tone, data_size=promised)).size == tone.size


def no_audio(path):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10, width=64, height=64, pix_fmt="yuv420p")
        container.mux(stream.encode(av.VideoFrame(64, 64, "yuv420p")))
        container.mux(stream.encode(None))


def picture(path):
    with av.open(str(path), "w", format="image2") as container:
        stream = container.add_stream("png", rate=1, width=16, height=16, pix_fmt="rgb24")
        container.mux(stream.encode(av.VideoFrame(16, 16, "rgb24")))
        container.mux(stream.encode(None))


TONE = np.int16(9000 * sine(700, 1, SAMPLE_RATE))
UNREADABLE = {
    "missing.wav": (lambda path: None, "no such file"),
    "directory": (lambda path: path.mkdir(), "is a directory"),
    "empty.wav": (lambda path: path.touch(), "empty (0 bytes)"),
    "text.wav": (lambda path: path.write_text("Dear Sir or Madam,\n" * 50), "not an audio file"),
    "random.mp3": (
        lambda path: path.write_bytes(np.random.default_rng(7).bytes(20_000)),
        "not an audio file",
    ),
    "headerless.raw": (lambda path: path.write_bytes(TONE.tobytes()), "not an audio file"),
    "picture.png": (picture, "not an audio file"),
    "film.mp4": (no_audio, "has no audio track"),
    "no_sound.wav": (lambda path: riff(path, TONE[:0]), "no sound in it"),
    "no_channels.wav": (lambda path: riff(path, TONE, channels=0), "number of channels"),
    "many_channels.wav": (lambda path: riff(path, TONE, channels=65_535), "number of channels"),
    "rate.wav": (lambda path: riff(path, TONE, rate=2_000_000_000), "impossible sample rate, 2000000000 Hz"),
    "codec.wav": (lambda path: riff(path, TONE, tag=0x7777), "coded in a way that cannot be read"),
    "big_endian.wav": (lambda path: path.write_bytes(b"RIFX" + bytes(100)), "big-endian WAV"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path, name, capfd):
    make, words = UNREADABLE[name]
    path = tmp_path / name
    make(path)
    with pytest.raises(AudioError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert words in message
    assert "\n" not in message
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["a:b.wav", "http:x.wav", "50%d.wav", "-dash.wav", "тест 音声.wav", "caf\udce9.wav"])
def test_any_file_name_is_just_a_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    riff(Path(name), TONE)
    assert read(name).size == TONE.size


def test_a_playlist_reaches_no_network(tmp_path):
    playlist = tmp_path / "list.m3u8"
    playlist.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(AudioError, match="not an audio file"):
        read(playlist)


def test_tags_that_are_not_utf8_do_no_harm(tmp_path):
    path = encode(tmp_path / "a.mp3", [sine(700, 1, SAMPLE_RATE)], "libmp3lame")
    title = b"\x03caf\xe9 \xff\xfe"  # says UTF-8, is not
    frame = b"TIT2" + struct.pack(">IH", len(title), 0) + title
    tagged = tmp_path / "tagged.mp3"
    tagged.write_bytes(b"ID3\x03\x00\x00" + struct.pack(">I", len(frame)) + frame + path.read_bytes())
    assert read(tagged).size > 0.9 * SAMPLE_RATE


def test_a_pipe_is_read_too(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    source = riff(tmp_path / "a.wav", TONE)
    writer = os.fork()
    if writer == 0:
        pipe.write_bytes(source.read_bytes())
        os._exit(0)
    assert read(pipe).size == TONE.size
    os.waitpid(writer, 0)


class Generous(io.BytesIO):
    """Gives more than it is asked for."""

    def read(self, size=-1):
        return super().read() if size else b""


def test_a_file_object_is_read_from_its_start_and_left_open():
    with CLIP.open("rb") as file:
        file.seek(1000)
        assert duration_s(file) == pytest.approx(4.968, abs=0.01)
        assert np.array_equal(read(file), read(CLIP))
        assert not file.closed
    assert np.array_equal(read(Generous(CLIP.read_bytes())), read(CLIP))


def test_a_file_object_that_cannot_seek_is_read_on():
    command = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())", CLIP]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert np.array_equal(read(process.stdout), read(CLIP))


def test_the_track_with_speech_is_found_in_a_file_object_too(tmp_path):
    tone = sine(700, 2, SAMPLE_RATE)
    path = encode(tmp_path / "two.mkv", [0 * tone, tone], "flac")
    assert np.array_equal(read(io.BytesIO(path.read_bytes())), read(path))


@pytest.mark.parametrize(
    "list_of_files", ["#EXTM3U\n#EXTINF:9,\n{}\n#EXT-X-ENDLIST\n", "ffconcat version 1.0\nfile {}\n"]
)
def test_a_file_object_opens_no_file(list_of_files):
    content = list_of_files.format(CLIP.as_posix()).encode()
    with pytest.raises(AudioError, match=r"^file object: not an audio file"):
        read(io.BytesIO(content))


def closed():
    file = io.BytesIO(b"RIFF")
    file.close()
    return file


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda path: io.BytesIO(), AudioError, "file object: the file is empty"),
        (lambda path: io.BytesIO(b"RIFX" + bytes(99)), AudioError, "file object: big-endian WAV"),
        (lambda path: io.BytesIO(b"Dear Sir or Madam, " * 50), AudioError, "file object: not an audio file"),
        (lambda path: closed(), AudioError, "file object: is closed, or not open for reading"),
        (lambda path: path.open("wb"), AudioError, "x.wav: is closed, or not open for reading"),
        (lambda path: io.StringIO("RIFF"), ValueError, "file object: gives str, not bytes; open it in binary mode"),
    ],
)
def test_file_objects_that_cannot_be_read_are_said_in_one_sentence(tmp_path, make, error, says):
    file = make(tmp_path / "x.wav")
    with pytest.raises(error) as caught:
        read(file)
    file.close()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("asked", [0, 3])
def test_cancelling_is_asked_for_at_every_packet(tmp_path, asked):
    tone = sine(700, 2, SAMPLE_RATE)
    path = encode(tmp_path / "two.mkv", [0 * tone, tone], "flac")  # of which one has to be chosen first
    answers = iter([False] * asked + [True])
    with pytest.raises(CancelledError):
        list(decode(path, lambda: next(answers)))


def test_the_promised_duration(tmp_path):
    assert duration_s(CLIP) == pytest.approx(4.968, abs=0.01)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(4 * 12_000))
    assert duration_s(tmp_path / "a.wav") == pytest.approx(1.5)
