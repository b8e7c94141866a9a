"""The relay that agents ask for their model: what goes through it is counted, bounded, recorded and replayed.

Needs the extra ``[agents]`` (starlette, uvicorn).
"""

from pytest_battery.edges.models.relay.caps import Caps
from pytest_battery.edges.models.relay.proof import Summary
from pytest_battery.edges.models.relay.recordings import Recording
from pytest_battery.edges.models.relay.relaying import Relay
from pytest_battery.edges.models.relay.upstreams import HttpUpstream, LocalUpstream, Upstream, local_price
from pytest_battery.edges.models.relay.wording import HostedWording, LocalWording, Wording, speaks

__all__ = [
    "Caps",
    "HostedWording",
    "HttpUpstream",
    "LocalUpstream",
    "LocalWording",
    "Recording",
    "Relay",
    "Summary",
    "Upstream",
    "Wording",
    "local_price",
    "speaks",
]
