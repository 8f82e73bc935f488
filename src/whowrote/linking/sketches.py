r"""Sketches of n-grams: :math:`s(t) = V_D^\top g(t)`, some hundred numbers for a text.

*g* is the row of character and word n-grams of the text in which all but the commonest words are
masked (:mod:`whowrote.features.counting`): habits of spelling, marks and small words, little of the
topic. :math:`V_D` are the leading right singular vectors of the rows of some texts. They know of no
account: axes on which each account has its own would make its halves more alike than two accounts
of one person. A corpus of any size is read in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whowrote.features.ngrams import NGrams
from whowrote.progress import tell

DIMENSIONS = 200
MOST_TEXTS, MOST_COLUMNS = 3000, (8_000, 4_000)
"""Texts that are learnt from; n-grams of characters and of words that count."""
BLOCK = 1000


def sketches(texts: Sequence[str], seed: int = 0) -> NDArray[np.float32]:
    """(texts, columns): a sketch of every text."""
    from sklearn.utils.extmath import randomized_svd  # late: loads scikit-learn

    random = np.random.default_rng([seed, 31])
    some = np.sort(random.permutation(len(texts))[:MOST_TEXTS])
    ngrams = NGrams(readings=("masked",), max_features=MOST_COLUMNS)
    known = ngrams.fit_transform([texts[row] for row in some])
    size = min(DIMENSIONS, min(known.shape) - 1)
    axes = randomized_svd(known, size, n_iter=2, random_state=seed)[2].T
    found = []
    for low in range(0, len(texts), BLOCK):
        found.append((ngrams.transform(texts[low : low + BLOCK]) @ axes).astype(np.float32))
        tell("sketching n-grams", min(low + BLOCK, len(texts)), len(texts))
    return np.concatenate(found)
