"""How one call is decided: served, made live and recorded, or refused."""
