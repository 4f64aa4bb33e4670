"""What the person sees: widgets that show a `Dictation` and report wishes, and own nothing else."""
