"""The pytest plugin: a test that talks to the world records once, and replays for ever after."""
