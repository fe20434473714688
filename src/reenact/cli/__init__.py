"""The command line. Each command group is one module, imported only when it is used."""
