"""``reenact serve --demo``: a small shop, real in all but the money, so that every page has something
to show."""
