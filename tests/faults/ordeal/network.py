"""Troubles of the way to the server: connections that keep silent, are slow, or are cut."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tests.faults.kit.proxy import BOTH, Proxy, Way
from tests.faults.ordeal.plan import Event, Lasts
from tests.faults.ordeal.stage_server import ServerStage
from tests.faults.ordeal.troubles import Catalogue, Scene

NETWORK = Catalogue()

ServerScene = Scene[ServerStage]


@NETWORK.trouble("cut", Lasts.AT_ONCE)
def cut(scene: ServerScene, event: Event) -> Iterator[str]:
    """Reset all connections."""
    scene.stage.proxy.cut()
    yield "all connections are reset"


@NETWORK.trouble("silent-to-server")
def silent_to_server(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let the server hear nothing more on the connections that are open."""
    yield from silence(scene.stage.proxy, event, {Way.TO_SERVER}, new=False)


@NETWORK.trouble("silent-to-client")
def silent_to_client(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let workers hear nothing more on the connections that are open."""
    yield from silence(scene.stage.proxy, event, {Way.TO_CLIENT}, new=False)


@NETWORK.trouble("silent-both")
def silent_both(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let neither hear the other on the connections that are open."""
    yield from silence(scene.stage.proxy, event, BOTH, new=False)


@NETWORK.trouble("silent-all")
def silent_all(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let nobody hear anybody, on new connections neither."""
    ways = event.chosen.choice(({Way.TO_SERVER}, {Way.TO_CLIENT}, BOTH))
    yield from silence(scene.stage.proxy, event, ways, new=True)


@NETWORK.trouble("slow")
def slow(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let everything come late, or trickle."""
    proxy = scene.stage.proxy
    rate = event.chosen.uniform(2_000, 10_000)
    if event.chosen.random() < 0.5:
        proxy.slow(rate=rate)
        text = f"{rate:,.0f} bytes a second on each connection"
    else:
        proxy.slow(latency=0.3)
        text = "0.3 s later, each way"
    try:
        yield text
    finally:
        proxy.slow()


def silence(proxy: Proxy, event: Event, ways: Collection[Way], *, new: bool) -> Iterator[str]:
    """Keep silent for a while; at the end what waited goes on, or is reset, as it happens."""
    reset = event.chosen.random() < 0.5
    proxy.silence(ways, new=new)
    try:
        told = " and ".join(sorted(way.value for way in ways))
        whose = "all connections" if new else "the open connections"
        yield f"{whose} are silent {told}; {'reset' if reset else 'resumed'} at the end"
    finally:
        if reset:
            proxy.cut()
        proxy.speak()
