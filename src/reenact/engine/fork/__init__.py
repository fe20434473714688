"""Forks of a recorded run: replay up to a call, change its request or result, and continue live.

``os.fork`` and child processes are in :mod:`reenact.engine.session.child_processes`."""
