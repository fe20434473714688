"""Building blocks of pages: HTML, layout, forms, tables and values."""
