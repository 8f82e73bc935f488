"""Many fits as a few fleets: a grid over splits and seeds that can be killed and resumed."""

from whowrote.sweep.data import Vectors as Vectors
from whowrote.sweep.data import read_vectors as read_vectors
from whowrote.sweep.data import shares_of as shares_of
from whowrote.sweep.grid import Halving as Halving
from whowrote.sweep.grid import RandomSearch as RandomSearch
from whowrote.sweep.grid import Range as Range
from whowrote.sweep.results import Choice as Choice
from whowrote.sweep.results import Record as Record
from whowrote.sweep.results import RecordWarning as RecordWarning
from whowrote.sweep.results import Results as Results
from whowrote.sweep.results import Row as Row
from whowrote.sweep.results import pack as pack
from whowrote.sweep.results import read as read
from whowrote.sweep.runner import Config as Config
from whowrote.sweep.runner import read_config as read_config
from whowrote.sweep.runner import run_config as run_config
from whowrote.sweep.runner import sweep as sweep
