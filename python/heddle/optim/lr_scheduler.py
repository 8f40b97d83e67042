"""Rates that change while a program trains, as in torch.optim.lr_scheduler: step() after each epoch, or each step.

Inside of captured functions schedules of the optimiser itself do the same without a call: `lr=hd.optim.cosine(...)`.
"""

import math

__all__ = ["CosineAnnealingLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "ReduceLROnPlateau", "StepLR"]


class LRScheduler:
    """Sets the optimiser's rate to its first rate times factor(epoch).

    >>> w = hd.ones(1, requires_grad=True)
    >>> opt = hd.optim.SGD([w], lr=1.0)
    >>> class Halves(hd.optim.lr_scheduler.LRScheduler):
    ...     def factor(self, epoch):
    ...         return 0.5**epoch
    >>> scheduler = Halves(opt)
    >>> scheduler.step()
    >>> opt.lr, scheduler.get_last_lr()
    (0.5, [0.5])
    """

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer, self.last_epoch = optimizer, last_epoch
        self.base_lr = optimizer.lr
        self.step()

    def factor(self, epoch):
        """What the first rate is multiplied by."""
        raise NotImplementedError(f"{type(self).__name__} has no factor()")

    def step(self):
        """An epoch is over."""
        self.last_epoch += 1
        self.optimizer.lr = self.base_lr * self.factor(self.last_epoch)

    def get_last_lr(self):
        """The rate of each group of parameters."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        """Everything that changes."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer" and not callable(value)}

    def load_state_dict(self, state):
        """Goes on from what state_dict() gave."""
        self.__dict__.update(state)


class LambdaLR(LRScheduler):
    """The first rate times what a function gives for the epoch.

    >>> w = hd.ones(1, requires_grad=True)
    >>> opt = hd.optim.SGD([w], lr=1.0)
    >>> scheduler = hd.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (1 + epoch))
    >>> rates = []
    >>> for epoch in range(3):
    ...     rates.append(round(opt.lr, 4))
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 0.3333]
    """

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.lr_lambda = lr_lambda
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        """What the first rate is multiplied by."""
        return self.lr_lambda(epoch)


class StepLR(LRScheduler):
    """Times gamma every step_size epochs.

    >>> w = hd.ones(1, requires_grad=True)
    >>> opt = hd.optim.SGD([w], lr=1.0)
    >>> scheduler = hd.optim.lr_scheduler.StepLR(opt, 2)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates.append(round(opt.lr, 4))
    ...     scheduler.step()
    >>> rates
    [1.0, 1.0, 0.1, 0.1]
    """

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        """What the first rate is multiplied by."""
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Times gamma at each of the milestones.

    >>> w = hd.ones(1, requires_grad=True)
    >>> opt = hd.optim.SGD([w], lr=1.0)
    >>> scheduler = hd.optim.lr_scheduler.MultiStepLR(opt, [1, 3])
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates.append(round(opt.lr, 4))
    ...     scheduler.step()
    >>> rates
    [1.0, 0.1, 0.1, 0.01]
    """

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        """What the first rate is multiplied by."""
        return self.gamma ** sum(milestone <= epoch for milestone in self.milestones)


class ExponentialLR(LRScheduler):
    """Times gamma at every epoch.

    >>> w = hd.ones(1, requires_grad=True)
    >>> opt = hd.optim.SGD([w], lr=1.0)
    >>> scheduler = hd.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    >>> rates = []
    >>> for epoch in range(3):
    ...     rates.append(round(opt.lr, 4))
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        """What the first rate is multiplied by."""
        return self.gamma**epoch


class LinearLR(LRScheduler):
    """A straight line from start_factor to end_factor of the first rate in total_iters epochs.

    >>> w = hd.ones(1, requires_grad=True)
    >>> opt = hd.optim.SGD([w], lr=1.0)
    >>> scheduler = hd.optim.lr_scheduler.LinearLR(opt, 0.5, 1.0, total_iters=2)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates.append(round(opt.lr, 4))
    ...     scheduler.step()
    >>> rates
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        """What the first rate is multiplied by."""
        done = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate down to eta_min in T_max epochs.

    >>> w = hd.ones(1, requires_grad=True)
    >>> opt = hd.optim.SGD([w], lr=1.0)
    >>> scheduler = hd.optim.lr_scheduler.CosineAnnealingLR(opt, 2)
    >>> rates = []
    >>> for epoch in range(3):
    ...     rates.append(round(opt.lr, 4))
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 0.0]
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        """What the first rate is multiplied by."""
        if self.base_lr == 0:
            return 0.0
        low = self.eta_min / self.base_lr
        return low + (1 - low) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class ReduceLROnPlateau:
    """A smaller rate once a number has not become better for longer than `patience` epochs.

    >>> w = hd.ones(1, requires_grad=True)
    >>> opt = hd.optim.SGD([w], lr=1.0)
    >>> scheduler = hd.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)
    >>> scheduler.step(2.0)
    >>> scheduler.step(2.0)  # not better
    >>> opt.lr
    0.1
    """

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, min_lr=0.0):
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: the mode is 'min' or 'max', not {mode!r}")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.min_lr = threshold, min_lr
        self.best, self.waited = None, 0

    def step(self, metrics):
        """An epoch is over, with this number to judge it by."""
        value = float(metrics)
        margin = self.threshold * abs(self.best or 0.0)
        better = self.best is None or (value < self.best - margin if self.mode == "min" else value > self.best + margin)
        if better:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited > self.patience:
            self.optimizer.lr = max(self.optimizer.lr * self.factor, self.min_lr)
            self.waited = 0
