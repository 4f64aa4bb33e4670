"""From one window's audio features to its tokens: filters say what may come, window chooses, fallback judges."""
