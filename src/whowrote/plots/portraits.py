"""Pictures of a fitted attributor: where its authors lie, who is like whom, and their tails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from whowrote.attribution.maps import author_distances, latent_map_of
from whowrote.plots.authors import degrees_of_freedom, dendrogram
from whowrote.plots.latent import Ellipses, latent_map

if TYPE_CHECKING:
    from whowrote.attribution import Attributor


def author_pictures(attributor: Attributor) -> dict[str, Figure]:
    """The latent map of the training texts, the tree of authors, and nu by author."""
    model, names = attributor.model_, attributor.classes_.tolist()
    place = latent_map_of(
        attributor.training_latents_, attributor.training_codes_, names, model.means_, model.scales_
    )
    ellipses = Ellipses(place.means, place.scales)
    pictures = {"map": latent_map(place.points, place.groups, place.names, ellipses)}
    if len(names) > 2:
        pictures["tree"] = dendrogram(author_distances(model.means_, model.scales_), names)
    if model.component == "student-t":
        pictures["tails"] = degrees_of_freedom(model.degrees_of_freedom_, names)
    return pictures
