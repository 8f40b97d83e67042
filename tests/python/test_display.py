"""What people look at: graphs, profiles, tensors in notebooks, tables of modules, curves."""

import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import heddle as hd


def model():
    x = hd.ones(4, 3).realize()
    w = hd.ones(3, 2).realize()
    return hd.softmax(hd.relu(x @ w + 1), -1)


def test_graph_of_tensors():
    x = hd.tensor([1.0, 2.0]).realize()
    g = hd.graph(x * 3 + x)
    assert [node.op for node in g.nodes] == ["buffer", "const", "mul", "add"]
    assert g.nodes[3].inputs == [2, 0] and g.results == [3] and len(g) == 4
    assert str(g).splitlines()[-1] == "return %3" and "n2 -> n3" in g.dot()
    assert hd.graph({"a": x * 3, "b": [x + 1]}).results == [2, 4]
    assert not (x * 3).is_realized()


def test_graph_of_functions():
    f = hd.jit(lambda x: {"y": x * 3})
    assert [node.op for node in hd.graph(f, hd.ones(2).realize()).nodes] == ["buffer", "const", "mul"]
    assert f.plans() == []  # it has not run
    with pytest.raises(TypeError, match="expected tensors, not int"):
        hd.graph(3)


def test_graph_of_loops_shows_their_bodies():
    last, sums = hd.scan(lambda s, x: (s + x, s + x), 0.0, hd.tensor([1.0, 2.0, 3.0]))
    g = hd.graph(last, sums)
    (loop,) = [node for node in g.nodes if node.op == "loop"]
    assert "add f32[]" in loop.body and loop.attributes.startswith("length=3")
    assert g.nodes[-1].op == "get" and g.nodes[-1].inputs == [loop.number]


def passages(svg):
    """Where edges pass a row of boxes: x, and y from where to where."""
    tree = ElementTree.fromstring(svg)
    for path in tree.iter("{http://www.w3.org/2000/svg}path"):
        for x, top, bottom in re.findall(r"([\d.]+) ([\d.]+) V([\d.]+)", path.get("d")):
            yield float(x), float(top), float(bottom)


def boxes(svg):
    """Their corners, from left to right and top to bottom."""
    tree = ElementTree.fromstring(svg)
    found = []
    for rect in tree.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found, float(tree.get("width")), float(tree.get("height"))


@pytest.mark.parametrize("seed", range(6))
def test_pictures_of_graphs_have_no_box_over_another(seed):
    rng = np.random.default_rng(seed)
    values = [hd.rand(3, 3).realize() for _ in range(3)]
    for _ in range(25):
        a, b = (values[i] for i in rng.integers(len(values), size=2))
        values.append([a + b, a @ b, hd.exp(a), a.sum(0, keepdim=True) * b, hd.cat([a, b])[:3]][rng.integers(5)])
    svg = hd.graph(values[-3:]).svg()
    found, width, height = boxes(svg)
    assert len(found) > 10 and len(list(passages(svg))) > 3
    for x, top, bottom in passages(svg):
        assert not any(left < x < right and above < bottom and top < below for left, above, right, below in found)
    for i, (left, top, right, bottom) in enumerate(found):
        assert 0 <= left and right <= width and 0 <= top and bottom <= height
        for other in found[:i]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_pictures_of_large_graphs_show_the_end():
    x = hd.ones(2).realize()
    for i in range(400):
        x = hd.sin(x)
    found, _, _ = boxes(hd.graph(x).svg(most=20))
    assert len(found) == 22  # twenty, one that is left out, and the result
    assert hd.graph(x)._repr_svg_().startswith("<svg")


def test_text_in_pictures_is_escaped():
    x = hd.tensor([1.0, 2.0]).realize()
    ElementTree.fromstring(hd.graph(x < 1, (x + 1) > 2).svg())


def test_profiles_are_contexts_and_tables():
    x = hd.rand(64, 64).realize()
    with hd.profile() as p:
        y = (x @ x).realize()
        (y + 1).sum().realize()
    (x * 5).realize()  # afterwards
    assert sum(k["calls"] for k in p.kernels()) == 2
    product = next(k for k in p.kernels() if k["flops"] >= 2 * 64**3)
    assert product["bytes"] == 2 * 64 * 64 * 4 and 0 < product["min_seconds"] <= product["mean_seconds"]
    summary = p.summary()
    assert summary["seconds"] == p.seconds > 0 and summary["flops_per_second"] > 0 and summary["left_out"] == 0
    page = p._repr_html_()
    assert all(k["name"] in page for k in p.kernels()) and page.count("<tr>") == 3
    svg = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    titles = [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert sum(text.startswith(tuple(k["name"] for k in p.kernels())) for text in titles) >= 2


def test_profiles_without_kernels_show_themselves(tmp_path):
    with hd.profile() as p:
        pass
    assert "0 ns in kernels" in p._repr_html_() or "in kernels" in p._repr_html_()
    p.write_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"] is not None


def test_tensors_in_notebooks():
    page = hd.tensor([[1, 2], [3, 4]])._repr_html_()
    assert "[3 4]" in page and "shape (2, 2) · int64 · cpu" in page
    with hd.device("simulated:1"):
        assert "simulated:1" in hd.ones(1)._repr_html_()
    shown = []
    hd.jit(lambda x: shown.append(x._repr_html_()) or x + 1)(hd.ones(2))
    assert set(shown) == {None}  # nothing to see while it is recorded


def test_summaries():
    net = hd.nn.Sequential(hd.nn.Linear(3, 2), hd.nn.BatchNorm1d(2))
    net[0].requires_grad_(False)
    lines = net.summary().splitlines()
    assert lines[1].split() == ["0.weight", "(2,", "3)", "float32", "6", "frozen"]
    assert [line.split()[0] for line in lines if line.endswith("buffer")][0] == "1.running_mean"
    assert lines[-1].split() == ["total", "12"] and net.parameter_count() == 12


def test_loss_curves(tmp_path):
    path = tmp_path / "loss.svg"
    series = {"train": hd.tensor([3.0, 2.0, 1.0]), "test": [3.5, float("nan"), 2.0]}
    hd.plot.write_loss_curve(path, series, x=[0, 10, 20], title="a & b", y_label="nats", smoothing=0.5, width=300)
    text = path.read_text()
    tree = ElementTree.fromstring(text)
    assert tree.get("width") == "300" and all(word in text for word in ("train", "test", "a &amp; b", "nats"))
    hd.plot.write_loss_curve(path, [1, 2, 3])
    with pytest.raises(hd.ValueError):
        hd.plot.write_loss_curve(tmp_path / "missing" / "loss.svg", [1, 2])


def test_reprs_have_commas_where_numpy_has_them():
    for data in ([1.0, -0.5], [[1.0, 2.25], [100.5, 3.0]], [[1, -20], [3, 400]], [float("nan"), 1.25, float("inf")], [1e-10, 1.5]):
        array = np.asarray(data)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        wanted = repr(array).replace("array(", "tensor(").replace(", dtype=float32", "").replace("\n", "\n ")
        assert repr(hd.tensor(array)) == wanted
    assert "\n\n" in repr(hd.zeros(2, 2, 2)) and " \n" not in repr(hd.zeros(2, 2, 2))
