"""Command line. Each command is defined in one module; ``_commands`` lists them."""
