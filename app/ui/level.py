"""How loud something looks: from decibels to the part of the ring that is filled.

It exists so that the ring moves at once when someone speaks and falls back gently, whatever the block size.
Pure arithmetic; the Qt thread calls it.
"""

QUIET_DBFS = -55.0  # a silent room
LOUD_DBFS = -12.0  # speaking up, close to the microphone
FALL = 0.35  # of the way down for each new value


def fraction(rms_dbfs: float) -> float:
    """Return 0 for a silent room up to 1 for a raised voice; straight in decibels, as ears are."""
    return min(max((rms_dbfs - QUIET_DBFS) / (LOUD_DBFS - QUIET_DBFS), 0.0), 1.0)


def follow(shown: float, heard: float) -> float:
    """Return the next shown value: up at once, down by a part of the way."""
    return heard if heard >= shown else shown + (heard - shown) * FALL
