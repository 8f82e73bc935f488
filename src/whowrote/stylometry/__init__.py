"""Classic stylometry for scholars: distances, consensus trees, Zeta, two sides side by side."""

from whowrote.stylometry.comparison import SideBySide as SideBySide
from whowrote.stylometry.comparison import Zeta as Zeta
from whowrote.stylometry.comparison import side_by_side as side_by_side
from whowrote.stylometry.comparison import zeta as zeta
from whowrote.stylometry.delta import Consensus as Consensus
from whowrote.stylometry.delta import Distances as Distances
from whowrote.stylometry.delta import consensus as consensus
from whowrote.stylometry.delta import distances as distances
