"""The package as its documentation says: an attributor; ratios by the packaged population."""

from typing import Any

from answering import answer


def attribute(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    from whowrote import Attributor, Corpus

    corpus = Corpus.from_texts([one["text"] for one in known], [one["author"] for one in known])
    model = Attributor().fit(corpus)
    found = model.attribute([one["text"] for one in questions])
    return [(a.best.author, -1.0 if a.stranger is None else -a.stranger, a.author) for a in found]


def verify(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    from whowrote.attribution.verification import (
        compare,
        packaged_extractor,
    )

    extractor = packaged_extractor()
    found = [compare(extractor, None, one["known"], one["unknown"], None) for one in questions]
    return [comparison.log10_lr for comparison in found]


if __name__ == "__main__":
    answer({"attribution": attribute, "verification": verify})
