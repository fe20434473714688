"""What stays inside a program: its own server, coroutines in a set, jobs that never begin."""

from __future__ import annotations

import sys

import pytest

from tests.integration.running import Theatre

pytestmark = pytest.mark.slow


def test_a_program_that_talks_to_itself_does_so_in_a_replay_too(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os, threading
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        import httpx, requests

        class Inside(BaseHTTPRequestHandler):
            def do_GET(self):
                print("served", self.path)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Inside)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        own = f"http://127.0.0.1:{server.server_address[1]}"
        print(requests.get(own + "/requests").text, httpx.get(own + "/httpx").text)
        print(requests.get(os.environ["SERVER"] + "/json").text)
        server.shutdown()
        thread.join()
        server.server_close()
        """,
    )
    recorded = theatre.check("program.py")
    assert recorded.out.count(b"served") == 2
    assert [url for _, url in theatre.asked()] == ["/json"]


def test_coroutines_in_as_completed_are_started_in_their_order(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import asyncio, os
        import httpx

        async def main():
            async with httpx.AsyncClient() as client:
                asked = [client.get(os.environ["SERVER"] + f"/json?n={n}") for n in range(8)]
                for one in asyncio.as_completed(asked):
                    print((await one).text)

        asyncio.run(main())
        """,
    )
    theatre.check("program.py")
    by_lane = sorted((event.lane, event.data["request"]["url"]) for event in theatre.calls())
    assert [url[-1] for _, url in by_lane] == list("01234567")


def test_a_job_that_was_cancelled_in_time_makes_no_call_in_a_replay(theatre: Theatre) -> None:
    """In the replay it begins, because the switch is thrown the other way round."""
    theatre.write(
        "program.py",
        """
        import os, sys, threading
        from concurrent.futures import ThreadPoolExecutor
        from urllib.request import urlopen

        def ask(what):
            with urlopen(os.environ["SERVER"] + f"/json?{what}") as answer:
                return answer.read()

        release = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(release.wait)
            if "begins" in sys.argv:
                release.set()
                second = pool.submit(ask, "second")
                try:
                    second.result()
                except BaseException as error:
                    print(type(error).__name__, file=sys.stderr)
            else:
                second = pool.submit(ask, "second")
                assert second.cancel()
                release.set()
        print(ask("last"))
        """,
    )
    recorded = theatre.record("program.py")
    replayed = theatre.replay(sys.executable, "program.py", "begins")
    assert (replayed.code, replayed.out) == (0, recorded.out)
    assert "CancelledError" in replayed.err
    assert "0 unused" in replayed.summary


def test_a_net_tape_has_the_calls_inside_a_tool(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os
        from urllib.request import urlopen
        import reenact

        @reenact.boundary(capability="tool.call")
        def tool(name):
            with urlopen(os.environ["SERVER"] + f"/json?{name}") as answer:
                return answer.read().decode()

        print(tool("inside"))
        """,
    )
    recorded = theatre.run("--record-net-to", "net.jsonl", "--", sys.executable, "program.py")
    replayed = theatre.run("--replay-net-from", "net.jsonl", "--", sys.executable, "program.py")
    assert (replayed.code, replayed.out) == (recorded.code, recorded.out) == (0, recorded.out)
    assert "1 call in 1 lane" in recorded.summary
    assert "replayed 1 call" in replayed.summary
