"""Commands for recordings, cassettes, policies and the installation."""
