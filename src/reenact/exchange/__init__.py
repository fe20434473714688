"""An app's side of exchange replay, and what it shares with the server: the words they speak."""
