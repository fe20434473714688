"""Web interface of a Reenact server: HTML pages, forms and their static files."""
