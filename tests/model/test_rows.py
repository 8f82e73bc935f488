"""Rows: gathered by member, dense or compressed."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

from whowrote.model import Rows, SparseRows


@pytest.fixture
def table() -> sparse.csr_array:
    """Twelve rows of nine columns, the third and the last row empty."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(12, 9)) * (rng.uniform(size=(12, 9)) < 0.3)
    dense[[2, 11]] = 0
    return sparse.csr_array(dense)


def compressed(table: sparse.csr_array) -> SparseRows:
    return SparseRows(
        torch.from_numpy(table.indptr).long(),
        torch.from_numpy(table.indices).long(),
        torch.from_numpy(table.data),
    )


def densified(rows: SparseRows, width: int) -> Tensor:
    csr = sparse.csr_array(
        (rows.values.numpy(), rows.columns.numpy(), rows.start.numpy()),
        shape=(len(rows.start) - 1, width),
    )
    return torch.from_numpy(csr.toarray())


def test_sparse_take_equals_dense_take(table: sparse.csr_array) -> None:
    index = torch.tensor([[2, 5, 5, 0], [11, 1, 2, 7]])
    taken = densified(compressed(table).take(index), 9).reshape(2, 4, 9)
    assert torch.equal(taken, torch.from_numpy(table.toarray())[index])
    # Negative control: the same rows in another order.
    assert not torch.equal(taken, torch.from_numpy(table.toarray())[index.flip(1)])


def test_only_empty_rows(table: sparse.csr_array) -> None:
    taken = compressed(table).take(torch.tensor([[2, 11]]))
    assert taken.start.tolist() == [0, 0, 0]
    assert len(taken.columns) == len(taken.values) == 0


def test_dense_rows_are_inputs_and_targets_at_once(build) -> None:
    rows = Rows(build.normal(6, 3), torch.tensor([0, 1, 2, -1, 1, 0]))
    batch = rows.take(torch.tensor([[0, 3], [5, 4]]))
    assert len(rows) == 6
    assert batch.inputs is batch.targets
    assert torch.equal(batch.targets[1, 0], rows.targets[5])
    assert batch.labels.tolist() == [[0, -1], [0, 1]]
    assert batch.unlabelled().labels.tolist() == [[-1, -1], [-1, -1]]
    assert batch.unlabelled().targets is batch.targets


def test_sparse_rows_are_inputs_only(build, table: sparse.csr_array) -> None:
    rows = Rows(build.normal(12, 3), torch.zeros(12, dtype=torch.long), compressed(table))
    index = torch.tensor([[4, 0]])
    batch = rows.take(index)
    assert isinstance(batch.inputs, SparseRows)
    assert torch.equal(densified(batch.inputs, 9), torch.from_numpy(table.toarray())[index[0]])
    assert torch.equal(batch.targets[0], rows.targets[index[0]])
