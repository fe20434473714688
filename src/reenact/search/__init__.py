"""Search for calls in many recordings, through an index that every search updates."""
