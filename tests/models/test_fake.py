from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from pytest_battery.edges.models.client import Provider
from pytest_battery.edges.models.fake import FakeModel
from pytest_battery.errors import CallError
from pytest_battery.values.calls import Reply, Request
from pytest_battery.values.usage import Usage

pytestmark = pytest.mark.anyio
Ask = Callable[..., Request]


async def test_a_text_becomes_a_reply_with_every_knob_seen_as_asked_for(ask: Ask) -> None:
    fake = FakeModel(lambda request: request.messages[-1].content.upper(), identity={"weights": "none"})
    request = ask("any/model:high@temperature=0.5", "hello")
    fake.check(request.subject)
    reply = await fake.complete(request)
    assert (reply.text, reply.stop_reason, reply.model) == ("HELLO", "stop", "model")
    assert reply.observed == {"thinking": "high", "temperature": "0.5"}
    assert (reply.cost.usd, reply.cost.priced_by) == (0.0, "fake")
    assert reply.usage == Usage()
    assert fake.identify(request.subject) == {"weights": "none"}
    assert (fake.limit(request.subject), fake.engine()) == (None, None)
    assert isinstance(fake, Provider)


async def test_no_text_is_an_empty_reply(ask: Ask) -> None:
    assert (await FakeModel(lambda request: "").complete(ask())).stop_reason == "empty"


async def test_a_handler_may_be_async_and_a_reply_is_passed_on_as_it_is(ask: Ask) -> None:
    made = Reply("yes", stop_reason="length", usage=Usage(output=1))

    async def handler(request: Request) -> Reply:
        await anyio.sleep(0)
        return made

    assert await FakeModel(handler).complete(ask()) is made


async def test_what_a_handler_raises_is_raised(ask: Ask) -> None:
    def handler(request: Request) -> str:
        raise CallError("http-500", "infrastructure", "down")

    with pytest.raises(CallError, match="down"):
        await FakeModel(handler).complete(ask())


@pytest.mark.parametrize(("limit", "most"), [(None, 6), (2, 2)])
async def test_slots_hold_to_the_limit(limit: int | None, most: int, ask: Ask) -> None:
    in_flight: list[int] = [0]

    async def handler(request: Request) -> str:
        in_flight.append(in_flight[-1] + 1)
        await anyio.sleep(0.01)
        in_flight.append(in_flight[-1] - 1)
        return "done"

    fake = FakeModel(handler, limit=limit)

    async def call() -> None:
        request = ask()
        async with fake.slot(request.subject):
            await fake.complete(request)

    async with anyio.create_task_group() as calls:
        for _ in range(6):
            calls.start_soon(call)
    assert max(in_flight) == most
    assert in_flight[-1] == 0
