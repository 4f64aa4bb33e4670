"""The voice activity network against Silero's own program, and the kernels against NumPy."""

from pathlib import Path

import numpy as np
import pytest

from engine import kernels, reference
from engine.voice import CHUNK, VoiceActivity, VoiceNetwork

from . import recipes

GOLDENS = np.load(Path(__file__).parent / "goldens" / "voice.npz")


@pytest.fixture(scope="module", autouse=True)
def warm():
    kernels.warm_up()


@pytest.mark.parametrize("ops", [kernels, reference], ids=["kernels", "reference"])
@pytest.mark.parametrize("clip", recipes.SPEECH)
def test_probabilities(clip, ops):
    samples = recipes.speech(clip)
    voice = VoiceActivity(VoiceNetwork(ops))
    voice.push(samples)
    found = voice.probabilities()
    assert len(found) == len(samples) // CHUNK
    np.testing.assert_allclose(found, GOLDENS[clip], atol=1e-4)
