"""Pages about replays: form, preview, progress, result and batches."""
