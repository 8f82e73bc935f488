r"""A training run: all that changes from step to step, and what it tells of itself.

.. math:: \theta \leftarrow \theta - \eta(t)\, \mathrm{AdamW}\!\left(
    g \min(1, c / \lVert g \rVert)\right), \qquad g = \tfrac1P \textstyle\sum_p g_p, \qquad
    \bar\theta \leftarrow \beta \bar\theta + (1 - \beta)\, \theta

The running average :math:`\bar\theta` is what is evaluated, on authors never trained on, and what
is kept at its best. Each of P processes draws a batch of its own; after the mean of their gradients
all hold one model. A draw or a mask depends on seed, process and step alone, so a run resumed from
its checkpoint is the run that was never interrupted. The run appends records; showing them is
someone else's job.
"""

from __future__ import annotations

import copy
import json
import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whowrote import private
from whowrote.arrays import Arrays, IntArray
from whowrote.features.encoder import encode
from whowrote.features.extractor.batches import AuthorBatches, Crops
from whowrote.features.extractor.checkpoints import Checkpoint, write_checkpoint
from whowrote.features.extractor.losses import BatchLoss, imitation, pairs_of_batch
from whowrote.features.extractor.preparation import Prepared
from whowrote.features.extractor.recipe import Config, check_same
from whowrote.features.extractor.start import (
    learning_rate,
    make_network,
    make_optimizer,
    mark_rare,
    start_from,
    start_grams,
)
from whowrote.features.network import Network, lay_out
from whowrote.features.reading import DeviceCorpus, Extractor, embed, write_extractor
from whowrote.files import below, write_text
from whowrote.metrics import auc, balanced_pairs, cosines, recall_at_1, svm_error


@dataclass(frozen=True)
class Evaluation:
    """How the averaged weights do on development authors."""

    step: int
    seconds: float
    loss: float
    documents_per_second: float
    learning_rate: float
    auc: dict[str, float]
    recall_at_1: dict[str, float]
    towers: dict[str, dict[str, float]] = field(default_factory=dict)
    """AUC of each tower by itself, where there are two."""
    svm_error: dict[str, float] = field(default_factory=dict)
    """Of a linear SVM that names development authors by half of their texts."""

    @property
    def mean_auc(self) -> float:
        """Over the domains, each counting alike; not a number where there are none."""
        return float(np.mean(list(self.auc.values()))) if self.auc else math.nan


@dataclass(frozen=True)
class Step:
    """Where a run stands."""

    step: int
    share_done: float
    loss: float
    documents_per_second: float
    seconds_left: float


@dataclass
class Since:
    """What was done since the last evaluation."""

    steps: int = 0
    documents: int = 0
    seconds: float = 0.0

    def add(self, documents: int, seconds: float) -> None:
        """Count one step."""
        self.steps, self.documents = self.steps + 1, self.documents + documents
        self.seconds += seconds

    @property
    def documents_per_second(self) -> float:
        """Zero where nothing was done."""
        return self.documents / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Processes:
    """One process among those that train together."""

    rank: int = 0
    size: int = 1

    def mean_(self, tensor: Tensor) -> None:
        """Average over all processes, in place."""
        if self.size > 1:
            torch.distributed.all_reduce(tensor)
            tensor /= self.size

    def first(self, *values: float) -> list[float]:
        """What the first process says."""
        if self.size == 1:
            return list(values)
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        told = torch.tensor(values, dtype=torch.float64, device=device)
        torch.distributed.broadcast(told, 0)
        return told.tolist()


def join_processes() -> Processes:
    """Join the processes that torchrun started; alone without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Processes()
    if not torch.distributed.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        torch.distributed.init_process_group(backend)
    return Processes(torch.distributed.get_rank(), size)


WEIGHTS, HISTORY = "extractor.safetensors", "history.jsonl"
EVALUATION_PAIRS = 5000
TEXTS_AT_ONCE = 1024


class Run:
    """All that changes while training, and the steps that change it."""

    def __init__(
        self, config: Config, prepared: Prepared, device: torch.device, processes: Processes
    ) -> None:
        self.config, self.prepared, self.device = config, prepared, device
        self.processes = processes
        self.recipe = config.recipe
        self.corpus = DeviceCorpus.place(
            prepared.tokens, prepared.types, device, prepared.rows, prepared.pieces
        )
        self.batches = AuthorBatches(
            prepared, config.batch, self.recipe.seed, processes.rank, config.mixture
        )
        self.network = make_network(
            config, prepared.vocabulary, prepared.ngrams, prepared.table
        ).to(device)
        mark_rare(self.network, prepared, self.recipe.common_pieces)
        if not config.start_tables:  # else the table of the same n-grams is taken over
            start_grams(self.network, self.corpus, prepared, self.recipe.seed)
        start_from(self.network, config.start)
        self.loss = BatchLoss(self.recipe.temperature).to(device)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.best = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.optimizer = make_optimizer(self.modules(), self.recipe, device)
        self.step, self.seconds, self.best_auc = 0, 0.0, -math.inf
        self.history: list[Evaluation] = []
        self.generator = torch.Generator(device)
        self._losses = torch.zeros((), device=device)
        self._since = Since()

    def modules(self) -> nn.ModuleDict:
        """Everything with parameters."""
        return nn.ModuleDict({"network": self.network, "loss": self.loss})

    @property
    def half(self) -> bool:
        """Whether the network computes in half precision: where asked for, and on a GPU."""
        return self.device.type == "cuda" and self.recipe.precision == "bfloat16"

    def share_done(self) -> float:
        """How much of the run lies behind, by steps or by minutes, whichever is further."""
        r = self.recipe
        by_steps = self.step / r.steps if r.steps else 0.0
        by_time = self.seconds / (60 * r.max_minutes) if r.max_minutes else 0.0
        return max(by_steps, by_time)

    def learn(self, share_done: float) -> int:
        """One step; how many documents it read."""
        crops = self.batches.draw(self.step)
        rate = learning_rate(self.recipe, self.step, share_done)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        loss = self._loss(crops)
        torch.autograd.backward(loss)
        self._finish_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._share_statistics()
        self._update_average()
        self._losses += loss.detach()
        self.step += 1
        return len(crops)

    def _loss(self, crops: Crops) -> Tensor:
        a = self.network.architecture
        layout = lay_out(crops.starts, crops.lengths, a.window, a.hop, self.device)
        pieces = None
        if self.corpus.pieces is not None:
            longest = a.encoder.positions - 2
            drawn = self.batches.draw_pieces(self.step, crops.documents, longest)
            pieces = self.corpus.pieces.batch(drawn, a.encoder, len(crops))
        self.generator.manual_seed(_mixed(self.recipe.seed, self.processes.rank, self.step))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            levs = self.network(
                layout.ids(self.corpus.tokens, a.window),
                layout,
                self.corpus.characters,
                self.corpus.words,
                self.config.dropout,
                self.generator,
                self.corpus.rows_of(crops.documents),
                pieces,
            )
        if self.recipe.loss == "pairs":
            return pairs_of_batch(levs, self.config.batch.views)
        return self._batch_loss(levs, crops)

    def _batch_loss(self, levs: Tensor, crops: Crops) -> Tensor:
        """Of all towers together and, if wanted, of each; the first may imitate all."""
        authors = torch.from_numpy(crops.authors).to(self.device)
        documents = torch.from_numpy(crops.documents).to(self.device)
        domains = torch.from_numpy(self.prepared.domain_of[crops.authors]).to(self.device)
        about = (authors, documents, domains, self.recipe.same_text)
        loss: Tensor = self.loss(levs, *about)
        towers = [levs[:, own] for own in self.towers().values()]
        if self.recipe.tower_weight:
            for own in towers:
                loss = loss + self.recipe.tower_weight * self.loss(own, *about)
        if self.recipe.imitation and towers:
            near = imitation(towers[0], levs, domains, self.loss.scale)
            loss = loss + self.recipe.imitation * near
        return loss

    def towers(self) -> dict[str, slice]:
        """The columns of each tower, where there are two."""
        a = self.network.architecture
        if not a.encoder.layers or a.encoder.alone:
            return {}
        return {"small": slice(0, a.lev_dim), "encoder": slice(a.lev_dim, None)}

    def _finish_gradients(self) -> None:
        """Average over processes, clip; gradients that are not finite count as zero."""
        parameters = [p for p in self.modules().parameters() if p.grad is not None]
        flat = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        self.processes.mean_(flat)
        norm = flat.norm()
        flat *= (self.recipe.clip_norm / norm).clamp(max=1.0)
        flat = torch.where(norm.isfinite(), flat, 0.0)
        low = 0
        for parameter in parameters:
            parameter.grad = flat[low : low + parameter.numel()].view_as(parameter)
            low += parameter.numel()

    @torch.no_grad()
    def _share_statistics(self) -> None:
        """Average what each process has seen of its own batch, so that all hold one model."""
        for buffer in self.network.buffers() if self.processes.size > 1 else ():
            self.processes.mean_(buffer)

    @torch.no_grad()
    def _update_average(self) -> None:
        keep = min(self.recipe.average, (1 + self.step) / (10 + self.step))
        old, new = (
            list(self.average.state_dict().values()),
            list(self.network.state_dict().values()),
        )
        private.move_each(old, new, 1 - keep)

    def evaluate(self) -> Evaluation:
        """Evaluate the averaged weights on development authors and keep them if they are best."""
        roc: dict[str, float] = {}
        recall: dict[str, float] = {}
        errors: dict[str, float] = {}
        towers: dict[str, dict[str, float]] = {name: {} for name in self.towers()}
        for number, name in enumerate(self.prepared.domains):
            documents = self.prepared.documents(number, part=1)[: self.recipe.evaluate_documents]
            authors = self.prepared.authors[documents]
            if len(np.unique(authors)) < 2:
                continue
            vectors = self.embed(documents)
            pairs = balanced_pairs(authors - authors.min(), EVALUATION_PAIRS)
            roc[name] = auc(cosines(vectors, pairs), pairs.same)
            recall[name] = recall_at_1(vectors, authors)
            for tower, own in self.towers().items():
                towers[tower][name] = auc(cosines(vectors[:, own], pairs), pairs.same)
            error = svm_error(vectors, authors) if self.network.encoder is not None else None
            errors |= {} if error is None else {name: error}
        loss, speed = self.take_losses()
        rate = self.optimizer.param_groups[0]["lr"]
        record = Evaluation(self.step, self.seconds, loss, speed, rate, roc, recall, towers, errors)
        self.history.append(record)
        if not record.auc or record.mean_auc > self.best_auc:
            self.best_auc = record.mean_auc if record.auc else self.best_auc
            self.best = {name: v.clone() for name, v in self.average.state_dict().items()}
        return record

    def embed(self, documents: IntArray) -> NDArray[np.float32]:
        """Vectors of documents by the averaged weights, all towers side by side."""
        longest, encoder = self.config.batch.max_crop, self.average.encoder
        alone = encoder is not None and encoder.shape.alone
        parts = []
        if not alone:
            parts.append(
                embed_documents(
                    self.average,
                    self.corpus,
                    self.prepared,
                    documents,
                    longest=longest,
                    half=self.half,
                )
            )
        if encoder is not None and self.corpus.pieces is not None:
            assert self.prepared.pieces is not None
            places = (
                self.prepared.pieces.offsets[documents],
                self.prepared.pieces.lengths[documents],
            )
            encoded = encode(
                encoder, self.corpus.pieces, *places, at_once=TEXTS_AT_ONCE, half=self.half
            )
            parts.append(encoded.cpu().numpy())
        return np.concatenate(parts, axis=1)

    def find_neighbours(self) -> None:
        """For every training author the nearest ones of the same domain, by one text of each."""
        table = np.zeros((len(self.prepared.part), self.recipe.neighbours), dtype=np.int64)
        random = np.random.default_rng([self.recipe.seed, self.step])
        for pool in self.batches.pools:
            if len(pool) <= self.recipe.neighbours:
                table[pool] = random.choice(pool, (len(pool), self.recipe.neighbours))
                continue
            place = random.integers(0, self.batches.count[pool])
            vectors = torch.from_numpy(self.embed(self.batches.first[pool] + place))
            table[pool] = pool[nearest(vectors.to(self.device), self.recipe.neighbours)]
        self.batches.neighbours = table

    def take_losses(self) -> tuple[float, float]:
        """Mean loss and documents per second since the last evaluation."""
        since, self._since = self._since, Since()
        loss = float(self._losses) / max(1, since.steps)
        self._losses.zero_()
        return loss, since.documents_per_second

    def count_step(self, documents: int, seconds: float) -> None:
        """Count a step's work."""
        self.seconds += seconds
        self._since.add(documents, seconds)

    def recent(self) -> Step:
        """Where the run stands, with the loss since the last evaluation."""
        since, done = self._since, self.share_done()
        left = self.seconds * (1 - done) / done if done else math.inf
        loss = float(self._losses) / max(1, since.steps)
        return Step(self.step, done, loss, since.documents_per_second, left)

    def save(self) -> None:
        """Checkpoint, history and the best weights so far; by the first process."""
        if self.processes.rank:
            return
        out = self.config.out
        values: dict[str, Any] = {
            "settings": self.config.settings(),
            "step": self.step,
            "seconds": self.seconds,
            "best_auc": self.best_auc if math.isfinite(self.best_auc) else None,
            "history": [asdict(record) for record in self.history],
        }
        write_checkpoint(out, Checkpoint(values, self._arrays()))
        write_text(out / HISTORY, "".join(json.dumps(r) + "\n" for r in values["history"]))
        write_extractor(out / WEIGHTS, self.extractor())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {}
        for name, parameter in self.modules().named_parameters():
            arrays[f"model/{name}"] = _numpy(parameter)
            for key in ("exp_avg", "exp_avg_sq"):
                if parameter in self.optimizer.state:
                    arrays[f"{key}/{name}"] = _numpy(self.optimizer.state[parameter][key])
        arrays |= {f"model/network.{n}": _numpy(v) for n, v in self.network.named_buffers()}
        arrays |= {f"average/{n}": _numpy(v) for n, v in self.average.state_dict().items()}
        arrays |= {f"best/{name}": _numpy(value) for name, value in self.best.items()}
        if self.batches.neighbours is not None:
            arrays["neighbours"] = self.batches.neighbours.astype(np.int32)
        since = self._since
        arrays["since"] = np.array(
            [float(self._losses), since.steps, since.documents, since.seconds]
        )
        return arrays

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over a state."""
        values, arrays = checkpoint.values, checkpoint.arrays
        check_same(values["settings"], json.loads(json.dumps(self.config.settings())))
        self.step, self.seconds = values["step"], values["seconds"]
        self.best_auc = -math.inf if values["best_auc"] is None else values["best_auc"]
        self.history = [Evaluation(**record) for record in values["history"]]
        for prefix, module in (("model/", self.modules()), ("average/", self.average)):
            module.load_state_dict(_tensors(prefix, arrays))
        self.best = {name: v.to(self.device) for name, v in _tensors("best/", arrays).items()}
        self._restore_optimizer(arrays)
        if "neighbours" in arrays:
            self.batches.neighbours = arrays["neighbours"].astype(np.int64)
        losses, steps, documents, seconds = arrays["since"].tolist()
        self._losses = torch.tensor(losses, device=self.device)
        self._since = Since(int(steps), int(documents), seconds)

    def _restore_optimizer(self, arrays: Arrays) -> None:
        names = {parameter: name for name, parameter in self.modules().named_parameters()}
        order = [names[p] for group in self.optimizer.param_groups for p in group["params"]]
        state = {
            number: {
                "step": torch.tensor(float(self.step)),
                "exp_avg": torch.from_numpy(arrays[f"exp_avg/{name}"]),
                "exp_avg_sq": torch.from_numpy(arrays[f"exp_avg_sq/{name}"]),
            }
            for number, name in enumerate(order)
            if f"exp_avg/{name}" in arrays
        }
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})

    def extractor(self) -> Extractor:
        """The best weights so far with their card."""
        network = Network(self.network.architecture)
        network.load_state_dict({name: value.cpu() for name, value in self.best.items()})
        card = {
            "settings": self.config.settings(),
            "documents": int(np.isin(self.prepared.part[self.prepared.authors], 0).sum()),
            "authors": int((self.prepared.part == 0).sum()),
            "step": self.step,
            "minutes": round(self.seconds / 60, 2),
            "best_development_auc": self.best_auc if math.isfinite(self.best_auc) else None,
        }
        longest, ngrams = self.config.batch.max_crop, self.prepared.ngrams
        return Extractor(
            network, self.prepared.vocabulary, longest, card, ngrams, self.prepared.table
        )


def embed_documents(
    network: Network, corpus: DeviceCorpus, prepared: Prepared, documents: IntArray, **options: int
) -> NDArray[np.float32]:
    """LEVs of documents of a prepared corpus; options are those of :func:`embed`."""
    starts, lengths = prepared.offsets[documents], prepared.lengths[documents]
    levs = embed(network, corpus, starts, lengths, documents=documents, **options)  # type: ignore[arg-type]
    found: NDArray[np.float32] = levs.cpu().numpy()
    return found


def nearest(vectors: Tensor, count: int) -> IntArray:
    """For every row the ``count`` nearest others by cosine."""
    unit = nn.functional.normalize(vectors, dim=1)
    found = []
    for low in range(0, len(unit), 4096):
        part = unit[low : low + 4096] @ unit.T
        part[torch.arange(len(part)), torch.arange(low, low + len(part))] = -math.inf
        found.append(part.topk(count, dim=1).indices.cpu())
    return torch.cat(found).numpy()


def _mixed(*numbers: int) -> int:
    """One seed of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _numpy(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy().copy()


def _tensors(prefix: str, arrays: Arrays) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in below(prefix, arrays).items()}
