"""Classic stylometry for scholars: distances, consensus trees, Zeta, two sides side by side."""

from whowrote.stylometry.comparison import SideBySide as SideBySide
from whowrote.stylometry.comparison import Zeta as Zeta
from whowrote.stylometry.comparison import side_by_side as side_by_side
from whowrote.stylometry.comparison import zeta as zeta
from whowrote.stylometry.consensus import Consensus as Consensus
from whowrote.stylometry.consensus import consensus as consensus
from whowrote.stylometry.frequencies import Distances as Distances
from whowrote.stylometry.frequencies import distances as distances
