"""Datasets and loaders as in torch.utils.data. `hd.data.batches` does the same for tensors with less work per batch."""

from .. import _core
from .._core import Tensor

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "Subset", "TensorDataset", "default_collate", "random_split"]


class Dataset:
    """What has __getitem__, and __len__.

    >>> class Squares(hd.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index, index * index
    >>> [x.tolist() for x in next(iter(hd.utils.data.DataLoader(Squares(), batch_size=4)))]
    [[0, 1, 2, 3], [0, 1, 4, 9]]
    """

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__()")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """What has __iter__ alone: samples come in its order.

    >>> class Count(hd.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> [x.tolist() for x in hd.utils.data.DataLoader(Count(), batch_size=2)]
    [[0, 1], [2]]
    """

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__()")


class TensorDataset(Dataset):
    """Rows of tensors that have as many.

    >>> rows = hd.utils.data.TensorDataset(hd.arange(3), hd.arange(3) * 10)
    >>> len(rows), [x.item() for x in rows[1]]
    (3, [1, 10])
    """

    def __init__(self, *tensors):
        if any(len(tensor) != len(tensors[0]) for tensor in tensors):
            raise _core.ShapeError(f"TensorDataset: tensors of {[len(tensor) for tensor in tensors]} rows")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class Subset(Dataset):
    """Some samples of a dataset.

    >>> rows = hd.utils.data.Subset(range(10), [3, 5])
    >>> len(rows), rows[1]
    (2, 5)
    """

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, list(indices)

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets one after the other.

    >>> rows = hd.utils.data.ConcatDataset([range(3), range(10, 12)])
    >>> len(rows), rows[3]
    (5, 10)
    """

    def __init__(self, datasets):
        self.datasets = list(datasets)

    def __getitem__(self, index):
        place = index + len(self) if index < 0 else index
        for dataset in self.datasets:
            if 0 <= place < len(dataset):
                return dataset[place]
            place -= len(dataset)
        raise IndexError(f"ConcatDataset: sample {index} of {len(self)}")

    def __len__(self):
        return sum(len(dataset) for dataset in self.datasets)


def random_split(dataset, lengths, generator=None):
    """Parts that share no sample, of so many samples each, or of such shares of all.

    >>> a, b = hd.utils.data.random_split(range(10), [0.7, 0.3])
    >>> len(a), len(b)
    (7, 3)
    """
    total, lengths = len(dataset), list(lengths)
    if lengths and all(isinstance(length, float) for length in lengths):
        lengths = [int(total * share) for share in lengths]
        for i in range(total - sum(lengths)):
            lengths[i % len(lengths)] += 1
    if sum(lengths) != total:
        raise _core.ValueError(f"random_split: parts of {sum(lengths)} samples, but there are {total}")
    order = _core.randperm(total, generator=generator).tolist()
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [Subset(dataset, order[end - length : end]) for length, end in zip(lengths, ends)]


def default_collate(samples):
    """Samples as one: tensors, arrays and numbers become a tensor with one more axis; tuples and dicts stay so.

    >>> hd.utils.data.default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.])]
    """
    first = samples[0]
    if isinstance(first, Tensor):
        return _core.stack(samples)
    if isinstance(first, str):
        return list(samples)
    if isinstance(first, dict):
        return {key: default_collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(column)) for column in zip(*samples)))
    if isinstance(first, (tuple, list)):
        return [default_collate(list(column)) for column in zip(*samples)]
    if isinstance(first, (bool, int, float)):
        return _core.tensor(list(samples))
    return _core.stack([_core.tensor(sample) for sample in samples])


class DataLoader:
    """Samples of a dataset in batches.

    Batches are made by the thread that asks for them: num_workers, pin_memory, persistent_workers and prefetch_factor
    are understood and change nothing.

    >>> rows = hd.utils.data.TensorDataset(hd.arange(5))
    >>> [x.tolist() for (x,) in hd.utils.data.DataLoader(rows, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=False,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        generator=None,
        persistent_workers=False,
        prefetch_factor=None,
    ):
        if batch_size is not None and batch_size < 1:
            raise _core.ValueError(f"DataLoader: batches of {batch_size} samples")
        if shuffle and (sampler is not None or batch_sampler is not None):
            raise _core.ValueError("DataLoader: either shuffle or a sampler")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        self.collate_fn = collate_fn

    def __len__(self):
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        count = len(self.dataset if self.sampler is None else self.sampler)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def _order(self):
        if self.sampler is not None:
            return iter(self.sampler)
        if self.shuffle:
            return iter(_core.randperm(len(self.dataset), generator=self.generator).tolist())
        return iter(range(len(self.dataset)))

    def _grouped(self, items):
        """Lists of batch_size of them; the last one may be shorter."""
        group = []
        for item in items:
            group.append(item)
            if len(group) == self.batch_size:
                yield group
                group = []
        if group and not self.drop_last:
            yield group

    def _batch(self, places):
        if self.collate_fn is None and type(self.dataset) is TensorDataset:
            return list(self.dataset[_core.tensor(places)])  # one gather for all rows
        return (self.collate_fn or default_collate)([self.dataset[place] for place in places])

    def __iter__(self):
        if not hasattr(self.dataset, "__len__") and hasattr(self.dataset, "__iter__"):
            collate = self.collate_fn or default_collate
            yield from (collate(group) for group in self._grouped(self.dataset)) if self.batch_size else self.dataset
        elif self.batch_sampler is not None:
            yield from (self._batch(list(places)) for places in self.batch_sampler)
        elif self.batch_size is None:
            yield from (self.dataset[place] for place in self._order())
        else:
            yield from (self._batch(places) for places in self._grouped(self._order()))
