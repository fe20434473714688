"""What a program learns of the machine that it runs on, and of itself as a process of it."""
