"""Two texts compared: one author or two, and no more claimed than the pairs have shown."""

import json
from dataclasses import replace

import pytest

from attribution.people import texts_by
from whowrote.attribution import Attributor


def test_verification_tells_one_author_from_two(model: Attributor) -> None:
    same = [model.verify(*texts_by(author, 2, seed=3)) for author in range(4)]
    two = [
        model.verify(texts_by(author, 1, seed=3)[0], texts_by((author + 1) % 4, 1, seed=4)[0])
        for author in range(4)
    ]
    assert min(v.log10_lr for v in same) > max(v.log10_lr for v in two)
    for verdict in same + two:
        odds = 10**verdict.log10_lr
        assert verdict.probability == pytest.approx(odds / (1 + odds), rel=1e-6)
        assert json.loads(json.dumps(verdict.to_dict()))["log10_lr"] == verdict.log10_lr


def test_a_ratio_claims_no_more_than_the_pairs_have_shown(model: Attributor) -> None:
    curve = model.fitted_.verifier
    assert curve is not None
    text = texts_by(1, 1, seed=3)[0]
    free = replace(curve, bias=curve.bias + 50.0)
    read = model.fitted_.reader.read([text, text])
    bounded = free.verdict(read, model.fitted_.reader.features.blocks())
    assert bounded.limited
    assert 10**bounded.log10_lr == pytest.approx(1 + curve.pairs / 2)
    many = replace(free, pairs=10**40).verdict(read, model.fitted_.reader.features.blocks())
    assert not many.limited
    assert many.log10_lr > bounded.log10_lr + 5


def test_verification_warns_of_what_proves_nothing(model: Attributor) -> None:
    text = texts_by(1, 1, seed=3)[0]
    assert model.verify(text, texts_by(2, 1, seed=3)[0]).warnings == ()
    few, same = model.verify("so few words", text).warnings, model.verify(text, text).warnings
    assert few == ("only 3 tokens: an answer from fewer than 20 is mostly chance",)
    assert same == ("both texts are the same: their likeness proves nothing",)
