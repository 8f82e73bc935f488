"""lir's way to a ratio: distances of common-word frequencies, a logistic curve, ELUB bounds."""

from typing import Any

from answering import answer


def verify(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    import numpy as np
    from lir.algorithms.bayeserror import ELUBBounder
    from lir.algorithms.logistic_regression import LogitCalibrator
    from lir.data.models import LLRData
    from sklearn.feature_extraction.text import CountVectorizer

    counts = CountVectorizer(max_features=500)
    counts.fit([" ".join(one["known"]) for one in known])

    def distances(problems):
        sides = [counts.transform([" ".join(one["known"]) for one in problems]).toarray()]
        sides.append(counts.transform([one["unknown"] for one in problems]).toarray())
        shares = [np.sqrt(s / np.maximum(1, s.sum(axis=1, keepdims=True))) for s in sides]
        return -np.abs(shares[0] - shares[1]).sum(axis=1, keepdims=True)

    labels = np.array([int(one["same"]) for one in known])
    curve = LogitCalibrator().fit(distances(known), labels)
    trained, asked = (curve.transform(distances(part)) for part in (known, questions))
    bounds = ELUBBounder().fit(LLRData(features=trained, labels=labels))
    return bounds.transform(LLRData(features=asked)).llrs.tolist()


if __name__ == "__main__":
    answer({"verification": verify})
