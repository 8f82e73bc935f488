"""The case that every program of this kind is tried on."""

from pathlib import Path

import numpy as np
import pytest

from whowrote import Attributor, load


@pytest.mark.data
def test_the_disputed_papers_go_to_madison(data: Path) -> None:
    corpus = load(data / "federalist.parquet")
    authors = np.array(corpus.authors)
    known = corpus.subset(np.flatnonzero(np.isin(authors, ["Hamilton", "Madison", "Jay"])))
    disputed = corpus.subset(np.flatnonzero(authors == "disputed"))
    model = Attributor().fit(known)
    named = [answer.best.author for answer in model.attribute(disputed)]
    assert named.count("Madison") >= 11
    assert model.fitted_.calibration.held_out.right >= 0.95 * len(known)
