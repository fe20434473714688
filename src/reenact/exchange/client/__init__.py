"""Client of the server: uploads exchanges, and receives and runs replay commands."""
