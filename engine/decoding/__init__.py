"""From the audio features of one window to its tokens: filters say what may come next, window chooses, fallback judges."""
