"""What the relay costs: a call through it, and the same call without it.

    .venv/bin/python bench/relay.py [RUNS]

The client and the relay share this process; the model is another one, which answers at once with bytes made beforehand.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

from pytest_battery.edges.models.providers import ProviderConfig
from pytest_battery.edges.models.relay import HttpUpstream, Relay
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.usage import Cost

CALLS = 200
EVENTS = 60

MODEL = """
import asyncio, json, sys
events = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "word "}}]}] * int(sys.argv[1])
last = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 60}}
parts = [b"data: " + json.dumps(one).encode() + b"\\n\\n" for one in [*events, last]] + [b"data: [DONE]\\n\\n"]
stream = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
stream += b"".join(b"%x\\r\\n%s\\r\\n" % (len(part), part) for part in parts) + b"0\\r\\n\\r\\n"
document = json.dumps({"model": "m", "choices": [{"message": {"content": "word " * 60}, "finish_reason": "stop"}],
                       "usage": {"prompt_tokens": 10, "completion_tokens": 60}}).encode()
whole = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n%s" % (len(document), document)
async def talk(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            size = next(int(line.split(b":")[1]) for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length"))
            body = await reader.readexactly(size)
            writer.write(stream if b'"stream":true' in body.replace(b" ", b"") else whole)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=2**22)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def body(kilobytes: int, stream: bool) -> dict[str, Any]:
    """A conversation of many turns, of that size."""
    talk = [
        {"role": "user", "content": f"{number} " + "some words of no consequence; " * 32} for number in range(kilobytes)
    ]
    return {"model": "m", "messages": talk, "stream": stream}


async def calls(client: httpx.AsyncClient, url: str, sent: dict[str, Any]) -> tuple[float, float]:
    """Milliseconds a call: wall, and CPU of this process."""
    content = json.dumps(sent).encode()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(CALLS):
        response = await client.post(url, content=content, headers={"content-type": "application/json"})
        assert response.status_code == 200, response.text
    return (time.perf_counter() - wall) / CALLS * 1000, (time.process_time() - cpu) / CALLS * 1000


async def once(model: str, kilobytes: int, stream: bool) -> tuple[float, float, float, float]:
    """Wall without and with the relay, what the relay adds in CPU, and what writing the calls up costs after."""
    sent = body(kilobytes, stream)
    upstream = HttpUpstream(ProviderConfig("lan", "openai-chat", f"{model}/v1"), environ={})
    relay = Relay(parse_subject("lan/m@temperature=0.5"), upstream, price=lambda *_: Cost(usd=0.0))
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        direct, cpu_direct = await calls(client, f"{model}/v1/chat/completions", sent)
        async with relay.serving(listener):
            through, cpu_through = await calls(client, f"{base}/v1/chat/completions", sent)
    await upstream.aclose()
    before = time.process_time()
    assert relay.summary().calls == CALLS
    after = (time.process_time() - before) / CALLS * 1000
    return direct, through, cpu_through - cpu_direct, after


def said(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def main(runs: int) -> None:
    model = subprocess.Popen([sys.executable, "-c", MODEL, str(EVENTS)], stdout=subprocess.PIPE, text=True)
    assert model.stdout is not None
    url = f"http://127.0.0.1:{int(model.stdout.readline())}"
    print("| request, answer | direct, ms | through, ms | ratio | CPU the relay adds, ms | hash of a call, after, ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    try:
        for kilobytes in (4, 64):
            for stream in (True, False):
                found = [asyncio.run(once(url, kilobytes, stream)) for _ in range(runs)]
                column: Callable[[int], list[float]] = lambda index, found=found: [one[index] for one in found]  # noqa: E731
                ratios = [one[1] / one[0] for one in found]
                what = f"{kilobytes} kB, {f'{EVENTS} events' if stream else 'whole'}"
                cells = (said(column(0), ".2f"), said(column(1), ".2f"), said(ratios, ".2f"), said(column(2), ".2f"))
                print(f"| {what} | {' | '.join(cells)} | {said(column(3), '.3f')} |")
    finally:
        model.kill()
        model.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
