"""A service: a key that is kept running, one session after another.

`decision` says what follows an end, and `policy` is what can be set about it; `service` does it, on
the public face of a supervisor alone.
"""

from .block import open_service
from .policy import Restart, RestartPolicy
from .service import Service, ServiceEnd

__all__ = ["Restart", "RestartPolicy", "Service", "ServiceEnd", "open_service"]
