"""The desktop app around the engine: capture, pipeline, dictation state, windows, command line."""
