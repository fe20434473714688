"""The recording format: canonical JSON, events, manifest, deltas and migration. No I/O."""
