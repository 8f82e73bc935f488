import sys
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
from whowrote.evaluation import LengthBin
from whowrote.metrics import Interval, calibration_error, evaluate, wilson
from whowrote.plots import (
    OUTSIDE,
    RIGHT,
    WRONG,
    Bar,
    Curve,
    Ellipses,
    Panel,
    confusion_matrix,
    curves,
    degrees_of_freedom,
    dendrogram,
    latent_map,
    length_errors,
    probability_bars,
    reliability_diagram,
    save,
    scatter_panels,
    svg,
)
from whowrote.plots.style import group_colour

BARS = [
    Bar("ann, 1", "ann", 0.999, True),
    Bar("bob, 2", "ann", 0.6, False),
    Bar("cyd, 3", "none of these", 0.3, None),
]


def words(figure: Figure) -> list[str]:
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def test_confusion_matrix_shows_counts_and_shades_shares() -> None:
    figure = confusion_matrix([[8, 2, 0], [0, 1, 0], [0, 0, 0]], ["ann", "bob", "cyd"])
    (axes,) = figure.axes
    assert words(figure) == ["8", "2", "1"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ann", "bob", "cyd"]
    shades = np.asarray(axes.images[0].get_array())
    np.testing.assert_allclose(shades, [[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])


def test_a_matrix_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match=r"counts has shape \(2, 2\) for 3 classes.*square"):
        confusion_matrix(np.eye(2), ["a", "b", "c"])


def test_bars_say_probability_and_name_the_answer_when_it_is_not_right() -> None:
    figure = probability_bars(BARS)
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches] == [0.999, 0.6, 0.3]
    assert [text.strip() for text in words(figure)] == [">99%", "60%  ann", "none of these"]
    colours = [patch.get_facecolor() for patch in axes.patches]
    assert colours == [to_rgba(colour) for colour in (RIGHT, WRONG, OUTSIDE)]
    legend = axes.get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 3


def test_the_legend_has_only_what_is_drawn() -> None:
    legend = probability_bars(BARS[:1]).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["right"]


def test_no_bars_no_plot() -> None:
    with pytest.raises(InputError, match=r"bars is empty.*one Bar per text"):
        probability_bars([])


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_saved_files_are_what_they_say_and_always_the_same(
    tmp_path: Path, name: str, start: bytes
) -> None:
    path = save(probability_bars(BARS), tmp_path / "new" / name)
    first = path.read_bytes()
    assert first.startswith(start)
    assert save(probability_bars(BARS), path).read_bytes() == first
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_another_format_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path is 'a\.jpeg'.*\.png or \.svg"):
        save(probability_bars(BARS), tmp_path / "a.jpeg")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_plot_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("disk full")

    figure = probability_bars(BARS)
    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        save(figure, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_no_global_state() -> None:
    before = "matplotlib.pyplot" in sys.modules
    probability_bars(BARS)
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_panels_give_a_group_one_colour_and_a_tail_no_say() -> None:
    points = np.random.default_rng(0).normal(size=(400, 2))
    points[0] = 1e6
    groups = np.arange(400) % 2
    figure = scatter_panels([Panel("left", points, groups), Panel("right", points, groups)])
    left, right = figure.axes
    colours = [
        [tuple(c.get_facecolor()[0][:3]) for c in axes.collections] for axes in (left, right)
    ]
    assert colours[0] == colours[1]
    assert len(set(colours[0])) == 2
    assert left.get_xlim()[1] < 10


def test_curves_carry_their_spread_and_their_name() -> None:
    line = Curve("with the rest", [1, 2, 5], [50.0, 45.0, 40.0], [1.0, 0.5, 0.2])
    figure = curves([line], title="t", x_label="labels", y_label="error", log_x=True)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["with the rest"]
    assert axes.get_xscale() == "log"
    assert len(axes.containers[0][2]) == 1  # the error bars
    plain = curves([line], title="t", x_label="labels", y_label="error")
    assert plain.axes[0].get_xscale() == "linear"


def test_dollars_in_a_name_are_no_mathematics(tmp_path: Path) -> None:
    names = ["$\\nonsense$", "a$b"]
    save(confusion_matrix(np.eye(2, dtype=int), names), tmp_path / "a.png")
    save(probability_bars([Bar(names[0], names[0], 0.5, False)]), tmp_path / "b.png")
    save(degrees_of_freedom([3.0, 4.0], names), tmp_path / "c.png")


def test_long_names_keep_both_ends_and_stay_apart() -> None:
    names = [f"a collection of texts with one beginning/{end}" for end in ("ann", "bob")]
    shown = [
        text.get_text() for text in dendrogram(DISTANCES[:2, :2], names).axes[0].get_yticklabels()
    ]
    assert len(set(shown)) == 2
    assert all(len(name) <= 32 and name.startswith("a collection") for name in shown)


# -- the map of authors ------------------------------------------------------------------------


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


def test_twenty_four_groups_have_colours_of_their_own() -> None:
    assert len({group_colour(group) for group in range(24)}) == 24
    assert group_colour(24) == group_colour(0)


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


# -- how good the answers are ------------------------------------------------------------------


def test_reliability_shows_share_interval_count_and_ece() -> None:
    confidence, right = [0.62, 0.64, 0.95, 0.97, 0.99], [True, False, True, True, True]
    figure = reliability_diagram(confidence, right, n_bins=10)
    above, below = figure.axes
    dots = [np.asarray(dot.get_offsets())[0] for dot in above.collections[1::2]]
    np.testing.assert_allclose(dots, [[0.63, 0.5], [0.97, 1.0]])
    low, high = above.collections[0].get_segments()[0][:, 1]
    assert (low, high) == (wilson(1, 2).low, wilson(1, 2).high)
    assert [bar.get_height() for bar in below.patches] == [0] * 6 + [2, 0, 0, 3]
    assert f"ECE {calibration_error(confidence, right, n_bins=10):.1%}" in above.get_title("left")


def test_the_ece_of_the_title_is_that_of_evaluate() -> None:
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1.0, size=200)
    codes = (rng.random(200) > sure**2).astype(int)
    found = evaluate(codes, np.column_stack([sure, 1.0 - sure]), [0, 1])
    title = reliability_diagram(sure, codes == 0).axes[0].get_title("left")
    assert title.endswith(f"ECE {found.ece:.1%}")


def test_reliability_refuses_what_is_no_probability() -> None:
    with pytest.raises(
        InputError, match=r"confidence has 1\.5; a probability lies between 0 and 1"
    ):
        reliability_diagram([0.5, 1.5], [True, True])
    with pytest.raises(InputError, match=r"confidence has nan"):
        reliability_diagram([np.nan], [True])
    with pytest.raises(InputError, match=r"confidence has shape \(1,\) and right \(2,\)"):
        reliability_diagram([0.5], [True, True])


def test_length_errors_draw_each_bin_with_its_count() -> None:
    bins = [
        LengthBin(10, 90, 5, 0.4, Interval(0.1, 0.8)),
        LengthBin(100, 900, 1200, 0.0, Interval(0.0, 0.1)),
    ]
    (axes,) = length_errors(bins).axes
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["5", "1,200"]
    dots = [np.asarray(dot.get_offsets())[0] for dot in axes.collections[2::3]]
    np.testing.assert_allclose(dots, [[30.0, 0.4], [300.0, 0.0]])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "90", "900"]


def test_texts_of_one_length_are_drawn_as_well(tmp_path: Path) -> None:
    save(length_errors([LengthBin(300, 300, 5, 0.4, Interval(0.1, 0.8))]), tmp_path / "a.png")


def test_no_bins_no_plot() -> None:
    with pytest.raises(InputError, match=r"bins is empty.*error_by_length"):
        length_errors([])


# -- the authors among themselves --------------------------------------------------------------


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


DISTANCES = np.array([[0.0, 8.0, 1.0], [8.0, 0.0, 6.0], [1.0, 6.0, 0.0]])


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
