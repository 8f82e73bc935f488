"""What one server accepts, and from whom: sizes, numbers, waiting and time; hosts and tokens.

A refusal is a status and a sentence: 413 too large, 422 not understood, 429 too much from one
client, 503 too much at once or no model. On loopback everybody on this machine may ask, elsewhere
who has the token.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_urlsafe
from urllib.parse import urlsplit

from whowrote.errors import InputError
from whowrote.formatting import count


@dataclass(frozen=True)
class Limits:
    """The limits of a server; the defaults suit one machine with a few users."""

    body_bytes: int = 12_000_000
    """Of a request with texts."""
    upload_bytes: int = 200_000_000
    """Of a corpus to learn from, also when unpacked."""
    text_characters: int = 5_000_000
    texts: int = 200
    """In one request."""
    waiting_texts: int = 2_000
    """That wait for their turn, of all clients."""
    waiting_tasks: int = 8
    """Explanations, rolling answers and comparisons that wait."""
    at_once: int = 64
    """Texts, of several clients, that are answered together; 1: one at a time."""
    per_client: int = 100
    """Open requests of one address."""
    seconds: float = 120.0
    """For an answer."""
    trainings: int = 3
    """Running and waiting."""
    kept: int = 200
    """Questioned texts that are remembered, in memory alone, while people look at their answers."""
    kept_seconds: float = 3600.0


class RefusalError(Exception):
    """A request that is not answered: the status and why, in one sentence with the cure."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def too_large(what: str, size: int, limit: int, cure: str) -> RefusalError:
    """413.

    >>> too_large("the request", 30_000_000, 12_000_000, "send fewer texts").sentence
    'the request has 30.0 MB and the limit is 12.0 MB: send fewer texts'
    """
    sizes = f"{size / 1e6:,.1f} MB and the limit is {limit / 1e6:,.1f} MB"
    return RefusalError(413, f"{what} has {sizes}: {cure}")


def check_texts(texts: list[str], limits: Limits) -> None:
    """Whether so many texts of such sizes are taken, and each has words."""
    if not texts:
        raise RefusalError(422, "there is no text; an answer needs one: give a text with words")
    if len(texts) > limits.texts:
        raise RefusalError(
            413,
            f"the request has {count(len(texts), 'text')} and the limit is {limits.texts}: send "
            "several requests",
        )
    for number, text in enumerate(texts, 1):
        if len(text) > limits.text_characters:
            raise RefusalError(
                413,
                f"text {number} has {len(text):,} characters and the limit is "
                f"{limits.text_characters:,}: give a part of it",
            )
        if not any(sign.isalnum() for sign in text):
            raise RefusalError(
                422, f"text {number} has no word; an answer needs words: leave it out"
            )


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
