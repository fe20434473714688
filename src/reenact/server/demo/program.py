"""One of the two apps, as a process: ``python -m reenact.server.demo.program shop``.

It listens on a socket that it is given, and reads where everything is from its environment. It ends
with the demo, however that ends: then its standard input does, too."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

import uvicorn

from reenact.exchange import Agent
from reenact.server.demo.shop import make_shop
from reenact.server.demo.warehouse import make_warehouse

__all__ = ["main"]


def main(app: str) -> None:
    """Until it is told to stop."""
    threading.Thread(target=_follow, name="demo", daemon=True).start()
    said = os.environ
    with Agent(
        said["DEMO_SERVER"],
        said["DEMO_AGENT_KEY"],
        app=app,
        environment=said["DEMO_ENVIRONMENT"],
        name=f"{app} 1",
        version="1.4.0",
        data=said["DEMO_DATA"],
    ) as agent:
        made = make_shop(agent, said["DEMO_WAREHOUSE"]) if app == "shop" else make_warehouse(agent)
        config = uvicorn.Config(made, log_level="critical", access_log=False)
        with socket.socket(fileno=int(said["DEMO_SOCKET"])) as sock:
            uvicorn.Server(config).run([sock])


def _follow() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1])
