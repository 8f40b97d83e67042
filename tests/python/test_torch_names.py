"""What programs of PyTorch's users ask for besides operators and layers."""

import os
import pickle

import numpy as np
import pytest

import heddle as hd
from heddle import nn


def test_files_of_nested_values(tmp_path):
    net = nn.Linear(3, 2)
    state = {"net": net.state_dict(), "half": [hd.ones(2, dtype="f16")], "epoch": 3, "parameter": net.weight}
    hd.save(state, tmp_path / "state.pt")
    loaded = hd.load(tmp_path / "state.pt", map_location="cpu")
    assert loaded["epoch"] == 3 and loaded["half"][0].dtype == hd.float16 and loaded["parameter"].requires_grad
    assert loaded["net"]["weight"].tolist() == net.weight.tolist()


def test_a_file_cannot_name_code(tmp_path):
    for harmful in (print, os.system, hd.save, hd.tree_map, nn.Linear):
        (tmp_path / "bad.pt").write_bytes(pickle.dumps({"x": harmful}))
        with pytest.raises(pickle.UnpicklingError, match="names"):
            hd.load(tmp_path / "bad.pt")


def test_in_place_activations():
    for make in (lambda: nn.ReLU(inplace=True), lambda: nn.ReLU(True), lambda: lambda x: nn.functional.relu(x, inplace=True)):
        x = hd.tensor([-1.0, 2.0])
        assert make()(x) is x and x.tolist() == [0.0, 2.0]
    x = hd.tensor([-1.0, 2.0])
    assert nn.ReLU()(x) is not x and x.tolist() == [-1.0, 2.0]


def test_kaiming_modes(rng):
    w = hd.zeros(400, 100)
    for mode, fan in (("fan_in", 100), ("fan_out", 400)):
        nn.init.kaiming_normal_(w, mode=mode, nonlinearity="relu")
        assert w.std().item() == pytest.approx((2 / fan) ** 0.5, rel=0.02)
        nn.init.kaiming_uniform_(w, mode=mode, nonlinearity="linear")
        assert abs(w).max().item() == pytest.approx((3 / fan) ** 0.5, rel=0.02)
    with pytest.raises(hd.ValueError, match="fan_in"):
        nn.init.kaiming_normal_(w, mode="in")


def test_rates_of_groups():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    groups = [{"params": a.parameters(), "lr": 0.1}, {"params": b.parameters(), "weight_decay": 0.5}]
    opt = hd.optim.SGD(groups, lr=0.2, weight_decay=0.25)
    assert [g["lr"] for g in opt.param_groups] == pytest.approx([0.1, 0.2])
    assert [(len(g["params"]), g["weight_decay"]) for g in opt.param_groups] == [(2, 0.25), (2, 0.5)]
    for group in opt.param_groups:
        group["lr"] *= 0.5
    assert [g["lr"] for g in opt.param_groups] == pytest.approx([0.05, 0.1])
    groups = opt.param_groups
    groups[0]["lr"] = 1.0
    with pytest.raises(hd.ValueError, match="proportions"):
        groups[1]["lr"] = 1.0
    with pytest.raises(hd.ValueError, match="weight_decay"):
        groups[0]["weight_decay"] = 0.0
    before = a.weight.tolist()
    opt = hd.optim.SGD([{"params": [a.weight], "lr": 0.0}, {"params": [b.weight]}], lr=1.0)
    opt.step([hd.ones(2, 2), hd.ones(2, 2)])
    assert a.weight.tolist() == before


def test_schedulers():
    schedulers = hd.optim.lr_scheduler
    rates = {
        "StepLR": (schedulers.StepLR, (2, 0.5), [1, 1, 0.5, 0.5, 0.25]),
        "MultiStepLR": (schedulers.MultiStepLR, ([1, 3],), [1, 0.1, 0.1, 0.01, 0.01]),
        "ExponentialLR": (schedulers.ExponentialLR, (0.5,), [1, 0.5, 0.25, 0.125, 0.0625]),
        "LinearLR": (schedulers.LinearLR, (0.5, 1.0, 2), [0.5, 0.75, 1, 1, 1]),
        "CosineAnnealingLR": (schedulers.CosineAnnealingLR, (4,), [1, 0.853553, 0.5, 0.146447, 0]),
        "LambdaLR": (schedulers.LambdaLR, (lambda epoch: 1 / (epoch + 1),), [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]),
    }
    for name, (kind, settings, expected) in rates.items():
        opt = hd.optim.SGD([hd.zeros(2, requires_grad=True)], lr=1.0)
        scheduler, seen = kind(opt, *settings), []
        for _ in expected:
            seen.append(opt.lr)
            scheduler.step()
        assert seen == pytest.approx(expected, abs=1e-6), name
    plateau = schedulers.ReduceLROnPlateau(opt := hd.optim.SGD([hd.zeros(2, requires_grad=True)], lr=1.0), patience=1)
    for loss in (3.0, 2.0, 2.0, 2.0):
        plateau.step(loss)
    assert opt.lr == pytest.approx(0.1)


def test_loaders():
    utils = hd.utils.data

    class Pairs(utils.Dataset):
        def __len__(self):
            return 7

        def __getitem__(self, i):
            return {"x": np.full(3, i, np.float32), "label": i, "name": str(i)}

    batches = list(utils.DataLoader(Pairs(), batch_size=3))
    assert [len(b["name"]) for b in batches] == [3, 3, 1] and batches[0]["x"].shape == (3, 3)
    assert batches[1]["label"].tolist() == [3, 4, 5] and batches[1]["name"] == ["3", "4", "5"]
    assert len(utils.DataLoader(Pairs(), batch_size=3, drop_last=True)) == 2
    rows = utils.TensorDataset(hd.arange(10), hd.arange(10) * 2)
    seen = [x.tolist() for x, y in utils.DataLoader(rows, batch_size=4, shuffle=True) if (y == x * 2).all()]
    assert sorted(sum(seen, [])) == list(range(10)) and len(seen) == 3
    parts = utils.random_split(rows, [0.7, 0.3])
    assert [len(p) for p in parts] == [7, 3]
    assert sorted(x.item() for part in parts for x, _ in part) == list(range(10))
    both = utils.ConcatDataset([Pairs(), Pairs()])
    assert len(both) == 14 and both[8]["label"] == 1 and both[-1]["label"] == 6

    class Stream(utils.IterableDataset):
        def __iter__(self):
            yield from range(5)

    assert [b.tolist() for b in utils.DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    with pytest.raises(hd.ValueError):
        utils.DataLoader(rows, batch_size=0)


def test_states_are_dicts():
    opt = hd.optim.AdamW([hd.zeros(2, requires_grad=True)])
    for wrong in (hd.ones(2), 3, None, [("step", 1)]):
        with pytest.raises(TypeError, match="dict"):
            opt.load_state_dict(wrong)
    with pytest.raises(TypeError):
        hd.load(0)  # no descriptor of an open file
