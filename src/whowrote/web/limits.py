"""What one server accepts: sizes, numbers, waiting and time; more is refused in a sentence.

A refusal is a status and a sentence: 413 too large, 422 not understood, 429 too much from one
client, 503 too much at once or no model.
"""

from __future__ import annotations

from dataclasses import dataclass

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
