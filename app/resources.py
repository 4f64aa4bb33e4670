"""Where the files lie that come with the app: icons, and the clip to try it with.

It exists so that one place knows the layout of an installed copy and of a checkout, which is the same:
`resources` stands beside `app`. Any thread may read these.
"""

from pathlib import Path

RESOURCES = Path(__file__).resolve().parent.parent / "resources"
ICONS = RESOURCES / "icons"
SAMPLE_CLIP = RESOURCES / "sample.flac"
