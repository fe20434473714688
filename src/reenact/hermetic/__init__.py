"""What keeps a replay offline besides the boundaries: an audit hook, and what it has to know."""
