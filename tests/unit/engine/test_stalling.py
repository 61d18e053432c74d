"""When an attempt counts as stalled."""

from __future__ import annotations

from mutirao.engine.calls.attempt import StallWatch


async def test_signs_put_the_end_off() -> None:
    """Silence counts from the last sign, and from the handler's beginning where that was late."""
    now, values = [0.0], list[float]()
    watch = StallWatch(60.0, lambda: values.append(now[0]), lead=30.0, clock=lambda: now[0])
    now[0] = 80.0
    watch.begin()
    for now[0] in (139.0, 190.0):
        watch.sign()
        watch.look()
    now[0] = 249.9
    watch.look()
    assert values == []
    now[0] = 250.0
    watch.look()
    assert values == [250.0]
    watch.stop()
    watch.begin()  # a child's late word of its beginning does not wake the watch again
    assert values == [250.0]
