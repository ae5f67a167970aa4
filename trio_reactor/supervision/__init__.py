"""Supervision: leased, fenced, journaled worker processes.

A session is a lease on a key.  What runs in it is an execution, a worker process under a guard; it
is journaled before it may run, ends at the latest when its lease does, and never runs twice.

Read `supervisor` for the handle and `model` for what it is about; `store` and `execution` for what
an application or an adapter's author gives it.
"""

from .errors import (
    AdmissionFull,
    AdoptionFailed,
    CodeFailed,
    ExecutionFailed,
    HostFenced,
    KeyHeld,
    LeaseExpired,
    LimitRefused,
    RecordRefused,
    RecordUnreadable,
    RestartsExhausted,
    SessionConflict,
    SessionStopped,
    StaleSession,
    StoreBusy,
    StoreError,
    StoreFailed,
    StoreUnusable,
    SupervisorPoisoned,
    TerminationUnconfirmed,
)
from .events import SUPERVISION_EVENTS, SupervisionEvent
from .execution.processes import LocalProcesses
from .execution.protocol import Execution, OrphanPolicy, Output, OutputStatistics
from .model.ends import (
    Exited,
    ExitStatus,
    Killed,
    NotStarted,
    Stop,
    StopReason,
    Termination,
)
from .model.keys import Handle, Key
from .model.records import (
    Loaded,
    Loading,
    Open,
    Phase,
    SessionRecord,
    SessionStatus,
    Stopped,
    Stopping,
)
from .model.work import (
    UNLIMITED,
    CodeIdentity,
    Command,
    Enforced,
    Limits,
    PythonCode,
    Work,
)
from .options import SupervisorOptions
from .service import Restart, RestartPolicy, Service, ServiceEnd, open_service
from .store.memory import MemoryStore
from .store.protocol import Store
from .store.sqlite import SqliteStore
from .supervisor.block import open_supervisor
from .supervisor.supervisor import Supervisor, SupervisorStatistics
from .timeline import supervision_timeline

__all__ = [
    "SUPERVISION_EVENTS",
    "UNLIMITED",
    "AdmissionFull",
    "AdoptionFailed",
    "CodeFailed",
    "CodeIdentity",
    "Command",
    "Enforced",
    "Execution",
    "ExecutionFailed",
    "ExitStatus",
    "Exited",
    "Handle",
    "HostFenced",
    "Key",
    "KeyHeld",
    "Killed",
    "LeaseExpired",
    "LimitRefused",
    "Limits",
    "Loaded",
    "Loading",
    "LocalProcesses",
    "MemoryStore",
    "NotStarted",
    "Open",
    "OrphanPolicy",
    "Output",
    "OutputStatistics",
    "Phase",
    "PythonCode",
    "RecordRefused",
    "RecordUnreadable",
    "Restart",
    "RestartPolicy",
    "RestartsExhausted",
    "Service",
    "ServiceEnd",
    "SessionConflict",
    "SessionRecord",
    "SessionStatus",
    "SessionStopped",
    "SqliteStore",
    "StaleSession",
    "Stop",
    "StopReason",
    "Stopped",
    "Stopping",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreFailed",
    "StoreUnusable",
    "SupervisionEvent",
    "Supervisor",
    "SupervisorOptions",
    "SupervisorPoisoned",
    "SupervisorStatistics",
    "Termination",
    "TerminationUnconfirmed",
    "Work",
    "open_service",
    "open_supervisor",
    "supervision_timeline",
]
