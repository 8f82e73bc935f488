"""Plain scikit-learn: TF-IDF of character and word n-grams, a linear SVM, a logistic curve."""

from typing import Any

from answering import answer


def attribute(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    characters = TfidfVectorizer(analyzer="char", ngram_range=(2, 4), sublinear_tf=True)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model = make_pipeline(make_union(characters, words), LinearSVC())
    model.fit([one["text"] for one in known], [one["author"] for one in known])
    margins = model.decision_function([one["text"] for one in questions])
    return [(model.classes_[row.argmax()], float(row.max())) for row in margins]


def verify(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectors = TfidfVectorizer(analyzer="char", ngram_range=(2, 4), sublinear_tf=True)
    vectors.fit([" ".join(one["known"]) for one in known] + [one["unknown"] for one in known])
    cosines = [
        vectors.transform([" ".join(one["known"]) for one in problems])
        .multiply(vectors.transform([one["unknown"] for one in problems]))
        .sum(axis=1)
        for problems in (known, questions)
    ]
    curve = LogisticRegression(C=1e6, class_weight="balanced")
    curve.fit(np.asarray(cosines[0]), [one["same"] for one in known])
    return (curve.decision_function(np.asarray(cosines[1])) / np.log(10)).tolist()


if __name__ == "__main__":
    answer({"attribution": attribute, "verification": verify})
