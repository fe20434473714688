"""``http.client``, and with it ``urllib.request`` and whatever else is built on it."""
