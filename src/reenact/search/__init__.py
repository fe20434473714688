"""Finding calls in many recordings, through an index that keeps itself up to date."""
