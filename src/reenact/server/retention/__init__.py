"""What is kept how long, and the end of it."""
