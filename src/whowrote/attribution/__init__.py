"""From texts by known people to an answer for others: who, how sure, or none of these."""

from whowrote.attribution.attributor import Attributor as Attributor
from whowrote.attribution.records import Attribution as Attribution
from whowrote.attribution.records import Candidate as Candidate
from whowrote.attribution.records import Combination as Combination
from whowrote.attribution.records import ModelIdentity as ModelIdentity
from whowrote.attribution.roll import Enrolled as Enrolled
from whowrote.attribution.verification import Verdict as Verdict
