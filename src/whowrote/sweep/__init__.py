"""Many fits as a few fleets: a grid over splits and seeds that can be killed and resumed."""

from whowrote.sweep.config import Config as Config
from whowrote.sweep.config import read_config as read_config
from whowrote.sweep.config import run_config as run_config
from whowrote.sweep.grid import Halving as Halving
from whowrote.sweep.grid import RandomSearch as RandomSearch
from whowrote.sweep.grid import Range as Range
from whowrote.sweep.records import Record as Record
from whowrote.sweep.records import RecordWarning as RecordWarning
from whowrote.sweep.records import pack as pack
from whowrote.sweep.results import Choice as Choice
from whowrote.sweep.results import Results as Results
from whowrote.sweep.results import Row as Row
from whowrote.sweep.results import read as read
from whowrote.sweep.run import sweep as sweep
from whowrote.sweep.staging import shares_of as shares_of
from whowrote.sweep.vectors import Vectors as Vectors
from whowrote.sweep.vectors import read_vectors as read_vectors
