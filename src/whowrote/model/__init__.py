"""The model: a variational autoencoder with an embedded Student-t (or Gaussian) mixture.

Torch only: no text, no files, no scikit-learn. Every tensor has a leading member dimension ``m``;
one model is a fleet of one. Shapes are written with ``m`` members, ``n`` documents, ``l``
observation dimensions, ``d`` latent dimensions, ``k`` components and ``t`` Monte Carlo samples.
"""

from whowrote.model.distributions import Component as Component
from whowrote.model.distributions import DiagonalNormal as DiagonalNormal
from whowrote.model.distributions import Gaussian as Gaussian
from whowrote.model.distributions import StudentT as StudentT
from whowrote.model.distributions import component_for as component_for
from whowrote.model.fleet import Architecture as Architecture
from whowrote.model.fleet import Batch as Batch
from whowrote.model.fleet import Member as Member
from whowrote.model.fleet import Rows as Rows
from whowrote.model.fleet import SparseRows as SparseRows
from whowrote.model.fleet import StoredRows as StoredRows
from whowrote.model.fleet import Streams as Streams
from whowrote.model.mixture import Mixture as Mixture
from whowrote.model.mixture import Scores as Scores
from whowrote.model.mixture import place_components as place_components
from whowrote.model.networks import Network as Network
from whowrote.model.networks import initialize_networks as initialize_networks
from whowrote.model.vae import BoundTerms as BoundTerms
from whowrote.model.vae import MixtureVAE as MixtureVAE
from whowrote.model.vae import six_terms as six_terms
