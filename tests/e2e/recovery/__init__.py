"""Recovery, undo and operators on the whole local platform, with time limits of a few seconds."""
