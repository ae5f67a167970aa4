"""Instants of a life that a change must not move the wrong way."""

from __future__ import annotations

from trio_reactor.renewal.policy.lifespan import Lifespan


def test_a_notice_never_puts_off_the_preparation_that_jitter_had_brought_forward() -> None:
    life = Lifespan(opened_at=0.0, expires_at=100.0, prepare_at=87.0, stable_at=30.0)
    told = life.shortened(10.0, 89.0, lead=10.0)
    assert (told.expires_at, told.prepare_at) == (99.0, 87.0)
