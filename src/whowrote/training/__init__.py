"""Training a fleet: one visible loop over epochs, its members, its step, its optimizer."""

from whowrote.training.loop import Plan as Plan
from whowrote.training.loop import initialize as initialize
from whowrote.training.loop import initialize_by_regression as initialize_by_regression
from whowrote.training.loop import initialize_by_scores as initialize_by_scores
from whowrote.training.loop import refine as refine
from whowrote.training.loop import train as train
from whowrote.training.loop import validation_losses as validation_losses
from whowrote.training.members import Assignment as Assignment
from whowrote.training.members import Divergence as Divergence
from whowrote.training.members import DivergenceError as DivergenceError
from whowrote.training.members import DivergenceWarning as DivergenceWarning
from whowrote.training.members import EarlyStopping as EarlyStopping
from whowrote.training.members import Epoch as Epoch
from whowrote.training.members import Members as Members
from whowrote.training.members import Outcome as Outcome
from whowrote.training.members import Runs as Runs
from whowrote.training.members import Validation as Validation
from whowrote.training.members import assign as assign
from whowrote.training.members import leave_out as leave_out
