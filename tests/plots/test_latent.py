"""The map of authors, the tree of authors, and their tails."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from whowrote.errors import InputError
from whowrote.plots import (
    Ellipses,
    degrees_of_freedom,
    dendrogram,
    latent_map,
    save,
    svg,
)
from whowrote.plots.style import OUTSIDE, RIGHT, group_colour

DISTANCES = np.array([[0.0, 8.0, 1.0], [8.0, 0.0, 6.0], [1.0, 6.0, 0.0]])


def test_long_names_keep_both_ends_and_stay_apart() -> None:
    names = [f"a collection of texts with one beginning/{end}" for end in ("ann", "bob")]
    shown = [
        text.get_text() for text in dendrogram(DISTANCES[:2, :2], names).axes[0].get_yticklabels()
    ]
    assert len(set(shown)) == 2
    assert all(len(name) <= 32 and name.startswith("a collection") for name in shown)


def author_map(n_names: int, *, spread: float = 6.0, name: str = "Theodore Roosevelt") -> Figure:
    rng = np.random.default_rng(n_names)
    means = spread * rng.normal(size=(n_names, 2))
    groups = np.repeat(np.arange(n_names), 10)
    points = means[groups] + rng.normal(size=(len(groups), 2))
    names = [f"{name} {number}" for number in range(n_names)]
    return latent_map(points, groups, names, Ellipses(means, [np.eye(2)] * n_names))


def annotations(figure: Figure) -> list[Annotation]:
    return [text for text in figure.axes[0].texts if isinstance(text, Annotation)]


def name_boxes(figure: Figure) -> list[Bbox]:
    """Where the names are once the picture is drawn, their lines not counted."""
    figure.draw_without_rendering()
    return [super(Annotation, text).get_window_extent() for text in annotations(figure)]


def collisions(figure: Figure) -> int:
    """Pairs of names that share pixels."""
    boxes = name_boxes(figure)
    return sum(one.overlaps(other) for k, one in enumerate(boxes) for other in boxes[:k])


@pytest.mark.parametrize(("n_names", "spread"), [(1, 6.0), (3, 6.0), (12, 6.0), (12, 1.0)])
def test_up_to_twelve_authors_are_all_named_and_no_two_names_collide(
    n_names: int, spread: float
) -> None:
    figure = author_map(n_names, spread=spread)
    assert len(annotations(figure)) == n_names
    assert collisions(figure) == 0


def test_the_search_for_collisions_finds_one() -> None:
    figure = author_map(3)
    first = annotations(figure)[0]
    first.axes.annotate(first.get_text(), first.xy, ha="center", va="center")
    assert collisions(figure) > 0


@pytest.mark.parametrize("n_names", [30, 100])
def test_of_many_authors_some_are_named_and_the_picture_says_so(n_names: int) -> None:
    figure = author_map(n_names, spread=3.0)
    shown = len(annotations(figure))
    assert 5 < shown <= 30
    assert collisions(figure) == 0
    assert f"{shown} of {n_names} authors named" in figure.axes[0].get_xlabel()


def test_lonely_names_stand_at_their_means_and_crowded_ones_keep_a_line() -> None:
    apart = author_map(3, spread=30.0)
    assert all(text.arrow_patch is None for text in annotations(apart))
    crowded = author_map(12, spread=0.5)
    assert any(text.arrow_patch is not None for text in annotations(crowded))


def test_names_stay_inside_the_picture() -> None:
    figure = author_map(12)
    frame = figure.axes[0].get_window_extent()
    for box in name_boxes(figure):
        assert frame.x0 <= box.x0 <= box.x1 <= frame.x1
        assert frame.y0 <= box.y0 <= box.y1 <= frame.y1


def test_ellipses_are_the_level_sets_of_the_scale_matrix() -> None:
    scale = np.array([[4.0, 1.5], [1.5, 1.0]])
    figure = latent_map(np.empty((0, 2)), [], ["ann"], Ellipses([[1.0, 2.0]], [scale]))
    (axes,) = figure.axes
    drawn = [patch for patch in axes.patches if isinstance(patch, Ellipse)]
    for patch, times in zip(drawn, (1.0, 2.0), strict=True):
        border = patch.get_patch_transform().transform(patch.get_path().vertices[:-1:3])
        apart = border - [1.0, 2.0]
        squared = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(scale), apart)
        np.testing.assert_allclose(squared, times**2, rtol=1e-3)


def test_one_unit_is_equally_long_both_ways_and_a_tail_has_no_say() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 2)) * [5.0, 0.5]
    points[0] = 1e6
    figure = latent_map(points, np.zeros(400, int), ["ann"], Ellipses([[0, 0]], [np.eye(2)]))
    (axes,) = figure.axes
    units = np.diff(axes.transData.transform([[0.0, 0.0], [1.0, 1.0]]), axis=0)[0]
    np.testing.assert_allclose(units[0], units[1])
    assert axes.get_xlim()[1] < 30
    outside = ((points[:, 0] > axes.get_xlim()[1]) | (points[:, 0] < axes.get_xlim()[0])).sum()
    assert f"{outside} of 400 texts lie outside" in axes.get_xlabel()


def test_an_unknown_text_is_a_grey_cross() -> None:
    ellipses = Ellipses([[0.0, 0.0], [5.0, 0.0]], [np.eye(2)] * 2)
    figure = latent_map([[0.0, 1.0], [5.0, 1.0], [2.0, 2.0]], [0, 1, -1], ["ann", "bob"], ellipses)
    known, unknown = figure.axes[0].collections
    assert [tuple(colour[:3]) for colour in known.get_facecolor()] == [
        to_rgba(group_colour(group))[:3] for group in (0, 1)
    ]
    assert np.asarray(unknown.get_offsets()).tolist() == [[2.0, 2.0]]
    assert tuple(unknown.get_edgecolor()[0][:3]) == to_rgba(OUTSIDE)[:3]


def test_many_points_do_not_swell_an_svg() -> None:
    rng = np.random.default_rng(0)
    ellipses = Ellipses([[0.0, 0.0]], [np.eye(2)])

    def size(n: int) -> int:
        return len(svg(latent_map(rng.normal(size=(n, 2)), np.zeros(n, int), ["ann"], ellipses)))

    assert size(20_000) < 4 * size(2_000)


@pytest.mark.parametrize("scales", [[np.eye(3)], [np.eye(2)] * 2])
def test_a_map_of_other_shapes_is_refused(scales: Any) -> None:
    with pytest.raises(
        InputError, match=r"ellipses has means \(1, 2\).*for 1 names.*latent_map_of"
    ):
        latent_map([[0.0, 0.0]], [0], ["ann"], Ellipses([[0.0, 0.0]], scales))


def test_a_map_of_other_points_is_refused() -> None:
    ellipses = Ellipses([[0.0, 0.0]], [np.eye(2)])
    with pytest.raises(InputError, match=r"points has shape \(1, 3\).*\(n, 2\)"):
        latent_map([[0.0, 0.0, 0.0]], [0], ["ann"], ellipses)
    with pytest.raises(InputError, match=r"groups has 1 to 1; a group must be -1 .*1 names"):
        latent_map([[0.0, 0.0]], [1], ["ann"], ellipses)


def test_degrees_of_freedom_are_sorted_and_heavy_tails_coloured() -> None:
    (axes,) = degrees_of_freedom([40.0, 2.5, 9.0], ["ann", "bob", "cyd"]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bob", "cyd", "ann"]
    dots = axes.collections[1]
    assert np.asarray(dots.get_offsets())[:, 0].tolist() == [2.5, 9.0, 40.0]
    assert [tuple(c) for c in dots.get_facecolor()] == [to_rgba(c) for c in (RIGHT, RIGHT, OUTSIDE)]
    assert axes.get_xscale() == "log"


def test_gaussian_components_have_no_degrees_of_freedom_to_draw() -> None:
    with pytest.raises(InputError, match=r"df has inf;.*Gaussian components have none"):
        degrees_of_freedom([3.0, np.inf], ["ann", "bob"])
    with pytest.raises(InputError, match=r"df has shape \(2,\) for 1 names"):
        degrees_of_freedom([3.0, 4.0], ["ann"])


def test_the_tree_joins_by_average_linkage() -> None:
    (axes,) = dendrogram(DISTANCES, ["ann", "bob", "cyd"]).axes
    heights = sorted(max(line.get_xdata()) for line in axes.lines)
    assert heights == [1.0, 7.0]  # ann and cyd, then bob at (8 + 6) / 2; single linkage has 6
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert abs(names.index("ann") - names.index("cyd")) == 1
    assert axes.get_xlim()[1] == 0.0


def test_leaves_stand_beside_their_names() -> None:
    (axes,) = dendrogram(DISTANCES, ["ann", "bob", "cyd"]).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    tallest = max(axes.lines, key=lambda line: max(line.get_xdata()))
    (alone,) = {y for x, y in zip(*tallest.get_data(), strict=True) if x == 0.0}
    assert names[list(axes.get_yticks()).index(alone)] == "bob"


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (np.zeros((1, 1)), r"distances has shape \(1, 1\) for 1 names"),
        (np.zeros((2, 3)), r"distances has shape \(2, 3\) for 2 names"),
        ([[0.0, -1.0], [-1.0, 0.0]], r"distances has a negative"),
        ([[1.0, 2.0], [2.0, 0.0]], r"off zero on its diagonal"),
        ([[0.0, 1.0], [2.0, 0.0]], r"distances is not symmetric"),
    ],
)
def test_what_is_no_distance_is_refused(distances: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dendrogram(distances, ["ann", "bob"][: len(distances)])


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_new_pictures_are_always_the_same(tmp_path: Path, kind: str) -> None:
    for number in range(2):
        save(author_map(5), tmp_path / f"map{number}.{kind}")
        save(dendrogram(DISTANCES, ["ann", "bob", "cyd"]), tmp_path / f"tree{number}.{kind}")
    for name in ("map", "tree"):
        assert len({(tmp_path / f"{name}{number}.{kind}").read_bytes() for number in range(2)}) == 1
