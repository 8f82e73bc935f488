"""bitig's own classifier on its character n-grams: the strongest of what its parts make."""

from typing import Any

from answering import answer


def attribute(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    import numpy as np
    from bitig import CharNgramExtractor, Corpus, Document, build_classifier

    corpus = Corpus([Document(str(n), one["text"]) for n, one in enumerate(known)])
    asked = Corpus([Document(str(n), one["text"]) for n, one in enumerate(questions)])
    ngrams = CharNgramExtractor(3, scale="l2").fit(corpus)
    model = build_classifier("svm_linear", random_state=0)
    model.fit(ngrams.transform(corpus).X, np.array([one["author"] for one in known]))
    rows = ngrams.transform(asked).X
    probable = model.predict_proba(rows).max(axis=1)
    return list(zip(model.predict(rows).tolist(), probable.tolist(), strict=True))


if __name__ == "__main__":
    answer({"attribution": attribute})
