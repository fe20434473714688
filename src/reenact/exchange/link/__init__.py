"""An app's link to the server: what it has recorded goes out, what is to be replayed comes in."""
