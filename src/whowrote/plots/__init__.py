"""Pictures of results: each a pure function from records or arrays to a matplotlib figure.

Made with the object-oriented interface alone: no window, no global state, no display needed.
"""

from whowrote.plots.curves import AuthorPanel as AuthorPanel
from whowrote.plots.curves import Curve as Curve
from whowrote.plots.curves import CurvePanel as CurvePanel
from whowrote.plots.curves import Panel as Panel
from whowrote.plots.curves import author_panels as author_panels
from whowrote.plots.curves import curve_panels as curve_panels
from whowrote.plots.curves import curves as curves
from whowrote.plots.curves import labelled_curves as labelled_curves
from whowrote.plots.curves import scatter_panels as scatter_panels
from whowrote.plots.latent import Ellipses as Ellipses
from whowrote.plots.latent import degrees_of_freedom as degrees_of_freedom
from whowrote.plots.latent import dendrogram as dendrogram
from whowrote.plots.latent import latent_map as latent_map
from whowrote.plots.quality import Bar as Bar
from whowrote.plots.quality import RatioRow as RatioRow
from whowrote.plots.quality import calibration_plot as calibration_plot
from whowrote.plots.quality import confusion_matrix as confusion_matrix
from whowrote.plots.quality import length_errors as length_errors
from whowrote.plots.quality import probability_bars as probability_bars
from whowrote.plots.quality import ratio_rows as ratio_rows
from whowrote.plots.quality import reliability_diagram as reliability_diagram
from whowrote.plots.quality import tippett_plot as tippett_plot
from whowrote.plots.style import save as save
from whowrote.plots.style import save_all as save_all
from whowrote.plots.style import svg as svg
