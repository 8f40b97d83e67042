"""Data to train on."""

from . import _core


def digits(count, seed=0, held_out=False):
    """Images [count, 28, 28] of drawn digits and their labels; `held_out`: shapes that the others never show."""
    return _core._digits(count, seed, held_out)


class batches:
    """Minibatches of rows of tensors: `for x, t in batches(images, labels, size=128, shuffle_seed=1)`."""

    def __init__(self, *tensors, size, shuffle_seed=None, drop_last=False):
        self._rows = _core._BatchRows(tensors, size, shuffle_seed, drop_last)

    def __len__(self):
        return self._rows.batches()

    def __iter__(self):
        order = self._rows.next_order()
        for number in range(len(self)):
            yield self._rows.rows(order, number)
