"""Rooms: local-first replicas of many shared rooms.

A connection holds copies of rooms in a local store and follows their authority.  What is held can
be read, searched and edited at any time; edits wait, durably, until the authority has them; and a
room that is taken away is forgotten at once, to the byte.

Read `connection` for the handle and `model` for what it is about; `provider` for what speaks to an
authority, and `sync` for the decisions, all of which are pure.
"""

from .connection.block import open_rooms
from .connection.following import Wants
from .connection.rooms import Rooms, RoomsStatistics
from .connection.watching import Change, Watch
from .errors import (
    ActionRefused,
    ConnectionRefused,
    EditRefused,
    ErasureFailed,
    PathRefused,
    ProviderFault,
    ReplicaBusy,
    ReplicaError,
    ReplicaFailed,
    ReplicaUnusable,
    RoomNotHeld,
    RoomNotReadable,
    RoomRefused,
    RoomsStopped,
    TooLarge,
)
from .events import ROOMS_EVENTS, RoomsEvent
from .model.answers import HistoryPage, Message, Revision
from .model.collections import Collection, Item, Problem
from .model.edits import Delete, Move, Operation, Put, PutBinary
from .model.entries import Binary, Document, Entry
from .model.held import Draft, DraftReason, QueuedEdit, Seen
from .model.status import Attention, RoomStatus, Status
from .model.terms import Action, Input, Limits, Listing, Terms
from .options import RoomsOptions
from .provider.protocol import Provider
from .store.content import Found
from .store.file import ReplicaStore

__all__ = [
    "ROOMS_EVENTS",
    "Action",
    "ActionRefused",
    "Attention",
    "Binary",
    "Change",
    "Collection",
    "ConnectionRefused",
    "Delete",
    "Document",
    "Draft",
    "DraftReason",
    "EditRefused",
    "Entry",
    "ErasureFailed",
    "Found",
    "HistoryPage",
    "Input",
    "Item",
    "Limits",
    "Listing",
    "Message",
    "Move",
    "Operation",
    "PathRefused",
    "Problem",
    "Provider",
    "ProviderFault",
    "Put",
    "PutBinary",
    "QueuedEdit",
    "ReplicaBusy",
    "ReplicaError",
    "ReplicaFailed",
    "ReplicaStore",
    "ReplicaUnusable",
    "Revision",
    "RoomNotHeld",
    "RoomNotReadable",
    "RoomRefused",
    "RoomStatus",
    "Rooms",
    "RoomsEvent",
    "RoomsOptions",
    "RoomsStatistics",
    "RoomsStopped",
    "Seen",
    "Status",
    "Terms",
    "TooLarge",
    "Wants",
    "Watch",
    "open_rooms",
]
