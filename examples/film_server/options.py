"""What can be set about a film server, and what goes wrong on purpose."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Faults", "FilmServerOptions"]

Seconds: TypeAlias = Annotated[float, Field(gt=0)]


class Faults(BaseModel):
    """What happens in life, on demand.  Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: int | None = Field(default=None, description="Of all chance; none for the system's.")
    refuse_opens: int = Field(default=0, ge=0, description="How many sessions are refused first.")
    slow_open: float = Field(default=0.0, ge=0, description="Before a session is given.")
    drop_rate: float = Field(
        default=0.0, ge=0, description="Sockets are dropped this often a second, at random."
    )
    drop_after: Seconds | None = Field(
        default=None, description="After which every socket is dropped."
    )
    drop_limit: int | None = Field(
        default=None, ge=0, description="How many sockets are dropped in all; none for any number."
    )
    fail_rate: float = Field(
        default=0.0, ge=0, le=1, description="The share of clips that cannot be built."
    )
    going_away_after: Seconds | None = Field(
        default=None, description="After which a session says that it will end."
    )
    going_away_notice: float = Field(
        default=1.0, ge=0, description="Between saying so and the session's end."
    )


class FilmServerOptions(BaseModel):
    """The terms and the bounds of a film server.  Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    lifetime: Seconds | None = Field(
        default=60.0, description="Of a session; none for as long as it is wanted."
    )
    grace: float = Field(default=5.0, ge=0, description="That a session outlives its socket.")
    build_time: float = Field(default=0.2, ge=0, description="It takes at least to build a clip.")
    token: str | None = Field(
        default=None, min_length=1, max_length=1024, description="What admits; none for everyone."
    )
    max_connections: int = Field(default=64, ge=1, description="Sockets at a time.")
    max_sessions: int = Field(default=16, ge=1, description="Sessions at a time.")
    max_clips: int = Field(default=64, ge=1, description="Clips of a session at a time.")
    max_scene_frames: int = Field(default=1500, ge=1, description="Pictures of a clip.")
    max_scene_bytes: int = Field(
        default=128 * 1024 * 1024, ge=1, description="Pictures of a clip, raw."
    )
    max_ready_clips: int = Field(
        default=4, ge=1, description="Clips of a session that are built ahead."
    )
    max_known_clips: int = Field(
        default=1024, ge=1, description="Clips a session remembers, to be continued."
    )
    max_outgoing_frames: int = Field(
        default=64, ge=1, description="Pictures that wait for a slow reader; more are dropped."
    )
    max_outgoing_bytes: int = Field(
        default=16 * 1024 * 1024, ge=1, description="Media that waits for a slow reader."
    )
    max_outgoing_messages: int = Field(
        default=1024,
        ge=8,
        description="Messages other than media that wait; more, and the reader is cut off.",
    )
    hello_timeout: Seconds = Field(default=5.0, description="For the client to ask for a session.")
    close_timeout: Seconds = Field(default=1.0, description="For a socket to be closed in order.")
    send_timeout: Seconds = Field(default=10.0, description="For one message to be taken.")
    faults: Faults = Field(default=Faults(), description="What goes wrong on purpose.")
