"""Adapters between an app's entry points and the recorder: ASGI, WSGI, routes and tasks."""
