"""A case: registered texts, a log that cannot be changed unseen, findings, a report, a replay.

Validation comes before findings, and a finding is a likelihood ratio, never a verdict.
"""

from whowrote.case.exhibits import Case as Case
from whowrote.case.exhibits import Exhibit as Exhibit
