"""Who may ask: on loopback everybody on this machine, elsewhere who has the token."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_urlsafe
from urllib.parse import urlsplit

from whowrote.errors import InputError

SESSION, TOKEN = "whowrote_session", "whowrote_token"
"""Names of the cookies."""


@dataclass
class Access:
    """Who may ask: on loopback everybody on this machine, elsewhere who has the token."""

    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")
    token: str | None = None
    secret: bytes = field(default_factory=lambda: token_urlsafe(32).encode())

    def csrf(self, session: str) -> str:
        """What a form of our own page bears, and no other page can know."""
        return hmac.new(self.secret, session.encode(), sha256).hexdigest()

    def knows(self, host: str) -> bool:
        """Whether a request is meant for us: a foreign name that leads here is not."""
        name = urlsplit(f"//{host}").hostname or ""
        return "*" in self.hosts or name in self.hosts


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def access_for(host: str, token: str | None) -> Access:
    """Off loopback a token is demanded: the given one, or a new one."""
    if is_loopback(host):
        return Access(hosts=("127.0.0.1", "localhost", "::1", host), token=token)
    if token is not None and len(token) < 16:
        raise InputError(
            f"token has {len(token)} characters; beyond this machine it must have at least 16: "
            "leave it out and one is made"
        )
    every = host in ("0.0.0.0", "::")
    return Access(hosts=("*",) if every else (host,), token=token or token_urlsafe(24))
