"""What a recording is: canonical JSON, events, the manifest, and how old ones become new. Pure."""
