"""faststylometry: Burrows' Delta and its probability curve, as its README shows."""

from typing import Any

from answering import answer


def attribute(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    from faststylometry import Corpus
    from faststylometry.burrows_delta import calculate_burrows_delta
    from faststylometry.en import tokenise_remove_pronouns_en

    training, asked = Corpus(), Corpus()
    for number, one in enumerate(known):
        training.add_book(one["author"], str(number), one["text"])
    for number, one in enumerate(questions):
        asked.add_book("?", f"{number:06}", one["text"])
    training.tokenise(tokenise_remove_pronouns_en)
    asked.tokenise(tokenise_remove_pronouns_en)
    deltas = calculate_burrows_delta(training, asked)
    return [(deltas[name].idxmin(), -float(deltas[name].min())) for name in sorted(deltas.columns)]


if __name__ == "__main__":
    answer({"attribution": attribute})
