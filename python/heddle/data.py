"""Data to train on."""

from . import _core


def digits(count, seed=0, held_out=False):
    """Images [count, 28, 28] of drawn digits and their labels; `held_out`: shapes that the others never show.

    >>> images, labels = hd.data.digits(100, seed=1)
    >>> images.shape, labels.shape
    ((100, 28, 28), (100,))
    """
    return _core._digits(count, seed, held_out)


def draw_text(image, blocks=True):
    """An image [height, width] as text, two rows of pixels to a line of blocks; one row to a line without blocks.

    >>> images, labels = hd.data.digits(1, seed=1)
    >>> len(hd.data.draw_text(images[0], blocks=False).splitlines())
    28
    """
    return _core._draw_text(image, blocks)


class batches:
    """Minibatches of rows of tensors, in another order in every walk if there is a `shuffle_seed`.

    >>> loader = hd.data.batches(hd.arange(5), hd.arange(5) * 10, size=2)
    >>> len(loader)
    3
    >>> for x, t in loader:
    ...     print(x, t)
    [0 1] [ 0 10]
    [2 3] [20 30]
    [4] [40]
    """

    def __init__(self, *tensors, size, shuffle_seed=None, drop_last=False):
        self._rows = _core._BatchRows(tensors, size, shuffle_seed, drop_last)

    def __len__(self):
        return self._rows.batches()

    def __iter__(self):
        order = self._rows.next_order()
        for number in range(len(self)):
            yield self._rows.rows(order, number)
