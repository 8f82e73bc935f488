"""bitig's recipe `delta_attribution`, and General Impostors with its calibration."""

from typing import Any

from answering import answer


def attribute(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    import numpy as np
    from bitig import BurrowsDelta, Corpus, Document, MFWExtractor

    corpus = Corpus([Document(str(n), one["text"]) for n, one in enumerate(known)])
    asked = Corpus([Document(str(n), one["text"]) for n, one in enumerate(questions)])
    words = MFWExtractor(500).fit(corpus)
    authors = np.array([one["author"] for one in known])
    model = BurrowsDelta().fit(words.transform(corpus), authors)
    nearness = model.decision_function(words.transform(asked))
    return [(str(model.classes_[row.argmax()]), float(row.max())) for row in nearness]


def verify(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    from bitig import Corpus, Document, MFWExtractor
    from bitig.forensic import CalibratedScorer, GeneralImpostors

    def corpus(texts):
        return Corpus([Document(str(n), text) for n, text in enumerate(texts)])

    words = MFWExtractor(500).fit(corpus([" ".join(one["known"]) for one in known]))
    method = GeneralImpostors()

    def score(problem, others):
        return method.verify(
            questioned=words.transform(corpus([problem["unknown"]])),
            known=words.transform(corpus(problem["known"])),
            impostors=words.transform(corpus(others)),
        ).values["score"]

    pool = [one["known"][0] for one in known]
    trained = [score(one, pool[:n] + pool[n + 1 :]) for n, one in enumerate(known)]
    curve = CalibratedScorer().fit(trained, [int(one["same"]) for one in known])
    return curve.predict_log_lr([score(one, pool) for one in questions]).tolist()


if __name__ == "__main__":
    answer({"attribution": attribute, "verification": verify})
