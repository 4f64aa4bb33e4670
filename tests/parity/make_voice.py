"""Take Silero's voice activity network out of its package, and store what the original says of a clip.

The weights go to `resources/voice`, because the package itself cannot be depended on (it needs torch) and the plain
weights that lie in it are those of an older version than its program. The probabilities go to the goldens.

Run it in an environment made from `requirements.txt` with silero-vad 6.2.3 installed: `python make_voice.py`.
"""

import json
import struct
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import recipes
import torch
from oracle import demand

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 512
NAMES = {
    "stft.forward_basis_buffer": "stft_conv.weight",
    **{f"encoder.{i}.reparam_conv.{part}": f"conv{i + 1}.{part}" for i in range(4) for part in ("weight", "bias")},
    **{f"decoder.rnn.{part}_{way}": f"lstm_cell.{part}_{way}" for part in ("weight", "bias") for way in ("ih", "hh")},
    **{f"decoder.decoder.2.{part}": f"final_conv.{part}" for part in ("weight", "bias")},
}


def write_safetensors(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write float32 arrays in that format, without gaps."""
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": (at, at + array.nbytes)}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays.values()))


def main() -> None:
    """Write the weights and the probabilities of each recipe's speech clip."""
    package = distribution("silero-vad")
    demand(package.version == "6.2.3", "the weights that are asked for are those of silero-vad 6.2.3")
    model = torch.jit.load(str(package.locate_file("silero_vad/data/silero_vad.jit")))
    state = dict(model._model.named_parameters()) | dict(model._model.named_buffers())
    demand(set(state) == set(NAMES), f"the network has other parts than expected: {set(state) ^ set(NAMES)}")
    arrays = {NAMES[name]: np.ascontiguousarray(state[name].detach().numpy(), np.float32) for name in NAMES}
    write_safetensors(ROOT / "resources" / "voice" / "silero-vad-16k.safetensors", arrays)

    found = {}
    for name, samples in ((name, recipes.speech(name)) for name in recipes.SPEECH):
        model.reset_states()
        chunks = torch.from_numpy(samples[: len(samples) // CHUNK * CHUNK]).reshape(-1, 1, CHUNK)
        with torch.no_grad():
            found[name] = np.array([float(model(chunk, 16_000)) for chunk in chunks], np.float32)
    np.savez_compressed(Path(__file__).parent / "goldens" / "voice.npz", **found)


if __name__ == "__main__":
    main()
