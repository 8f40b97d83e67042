"""Pictures of graphs and profiles, as SVG. Only read when somebody looks at one."""

import html
import json
import os
import tempfile

_FONT = 'font-family="ui-monospace, Menlo, Consolas, monospace"'
_CHARACTER, _HEIGHT, _GAP_X, _GAP_Y = 6.7, 34, 18, 30
_KINDS = {  # fill and edge of boxes
    "leaf": ("#e8f1fb", "#5b8fc7"),
    "movement": ("#f4f4f4", "#a0a0a0"),
    "reduction": ("#fdebdc", "#d18b4a"),
    "control": ("#efe6f9", "#8e68bd"),
    "result": ("#ffffff", "#444444"),
    "other": ("#e9f5e6", "#6aa35a"),
}
_MOVEMENT = set("reshape permute expand pad shrink flip window unwindow cat to bitcast".split())
_REDUCTION = set("sum prod max min argmax argmin gather cumsum cumprod cummax cummin sort".split())


def _kind(op):
    if op in ("buffer", "input", "const", "iota"):
        return "leaf"
    if op in _MOVEMENT:
        return "movement"
    if op in _REDUCTION or op.startswith("scatter"):
        return "reduction"
    return "control" if op in ("loop", "cond", "get") else "other"


def _cut(text, most=26):
    return text if len(text) <= most else text[: most - 1] + "…"


def _boxes(graph, most):
    """The nodes to draw: number -> (two lines of text, kind, whole text), and edges. Constants are written where they
    are used."""
    nodes = {node.number: node for node in graph.nodes}
    chosen = sorted(nodes)[-most:]
    constants = {n for n in chosen if nodes[n].op == "const" and n not in graph.results}
    boxes, edges = {}, []
    for number in chosen:
        node = nodes[number]
        if number in constants:
            continue
        given = [nodes[i].attributes if i in constants else "·" for i in node.inputs]
        call = f"{node.op}({', '.join(given)})" if constants.intersection(node.inputs) else node.op
        first = f"{call} {node.attributes}".strip()
        whole = f"%{number} = {node.op} {node.dtype}[{node.shape}] {node.attributes}\n{node.body}".strip()
        boxes[number] = (_cut(first), f"{node.dtype}[{node.shape}]", _kind(node.op), whole)
        for i in dict.fromkeys(node.inputs):
            if i in constants:
                continue
            if i not in nodes or i < chosen[0]:
                boxes.setdefault(i, ("…", f"%{i}", "movement", "left out"))
            edges.append((i, number))
    for position, number in enumerate(graph.results):
        name = -1 - position
        boxes[name] = ("result" if len(graph.results) == 1 else f"result {position}", "", "result", "")
        edges.append((number, name))
    return boxes, [edge for edge in edges if edge[0] in boxes]


def _layers(boxes, edges):
    """Rows from top to bottom: each box below all that it is computed from, and leaves right above their first user."""
    inputs = {n: [] for n in boxes}
    users = {n: [] for n in boxes}
    for a, b in edges:
        inputs[b].append(a)
        users[a].append(b)
    order = sorted(n for n in boxes if n >= 0) + sorted((n for n in boxes if n < 0), reverse=True)
    row = {}
    for n in order:
        row[n] = max((row[i] + 1 for i in inputs[n]), default=0)
    for n in reversed(order):
        if not inputs[n] and users[n]:
            row[n] = min(row[u] for u in users[n]) - 1
    last = max(row.values(), default=0)
    rows = [[] for _ in range(last + 1)]
    for n in order:
        rows[row[n]].append(n)
    # A long edge has a place of its own in each row that it passes, so that it passes beside the boxes.
    paths = []
    inputs, users = ({n: [] for n in boxes} for _ in range(2))
    for a, b in edges:
        path = [a, *(("via", a, b, i) for i in range(row[a] + 1, row[b])), b]
        paths.append(path)
        for via in path[1:-1]:
            rows[via[3]].append(via)
        for above, below in zip(path, path[1:]):
            inputs.setdefault(below, []).append(above)
            users.setdefault(above, []).append(below)
    return rows, inputs, users, paths


def _places(rows, inputs, users, width):
    """Where boxes are from left to right: near the middle of what they are joined to, none over another."""
    x = {n: 60.0 * i for row in rows for i, n in enumerate(row)}
    order = {n: i for i, n in enumerate(x)}  # who comes first where two want the same place
    for turn in range(12):
        down = turn % 2 == 0
        for row in rows if down else reversed(rows):
            near = inputs if down else users
            wish = {n: sum(x[m] for m in near[n]) / len(near[n]) if near[n] else x[n] for n in row}
            row.sort(key=lambda n: (round(wish[n], 1), order[n]))
            right = None
            for n in row:  # as far left as the wish and the neighbour allow
                left = wish[n] if right is None else max(wish[n], right + _GAP_X + width[n] / 2)
                x[n], right = left, left + width[n] / 2
            shift = sum(wish[n] - x[n] for n in row) / len(row) if row else 0
            for n in row:
                x[n] += shift
    left = min((x[n] - width[n] / 2 for n in x), default=0)
    return {n: x[n] - left + 8 for n in x}


def graph_svg(graph, most):
    boxes, edges = _boxes(graph, most)
    width = {n: max(len(a), len(b), 5) * _CHARACTER + 14 for n, (a, b, _, _) in boxes.items()}
    rows, inputs, users, paths = _layers(boxes, edges)
    width |= {via: 2.0 for path in paths for via in path[1:-1]}
    x = _places(rows, inputs, users, width)
    y = {n: 8 + i * (_HEIGHT + _GAP_Y) for i, row in enumerate(rows) for n in row}
    whole = max((x[n] + width[n] / 2 for n in x), default=0) + 8
    high = 8 + len(rows) * (_HEIGHT + _GAP_Y)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {whole:.0f} {high:.0f}" {_FONT} font-size="11">',
        '<defs><marker id="heddle-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#888"/></marker></defs>',
    ]
    for path in paths:
        line = f"M{x[path[0]]:.1f} {y[path[0]] + _HEIGHT}"
        for a, b in zip(path, path[1:]):
            top, bottom = y[a] + _HEIGHT, y[b]
            bend = (bottom - top) / 2
            line += f" C{x[a]:.1f} {top + bend:.0f} {x[b]:.1f} {bottom - bend:.0f} {x[b]:.1f} {bottom}"
            line += f" V{bottom + _HEIGHT}" if b != path[-1] else ""
        out.append(f'<path d="{line}" fill="none" stroke="#888" marker-end="url(#heddle-arrow)"/>')
    for n, (first, second, kind, about) in boxes.items():
        fill, edge = _KINDS[kind]
        out.append(
            f'<g><title>{html.escape(about)}</title><rect x="{x[n] - width[n] / 2:.1f}" y="{y[n]}" '
            f'width="{width[n]:.1f}" height="{_HEIGHT}" rx="{9 if kind == "leaf" else 3}" fill="{fill}" stroke="{edge}"/>'
        )
        lines = [(first, "#111", 14), (second, "#666", 27)] if second else [(first, "#111", 21)]
        for text, colour, down in lines:
            out.append(
                f'<text x="{x[n]:.1f}" y="{y[n] + down}" text-anchor="middle" fill="{colour}">{html.escape(text)}</text>'
            )
        out.append("</g>")
    return "\n".join([*out, "</svg>"])


def _time(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _count(number, unit):
    for letter, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {letter}{unit}"
    return f"{number:.3g} {unit}".rstrip()


def _events(profile):
    """Kernels, calls and compilations over time: the slices of the trace."""
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        profile.write_trace(path)
        with open(path, encoding="utf-8") as file:
            return [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    finally:
        os.unlink(path)


def _timeline(events, most=2000):
    """Bars over time, a row for each thread and kind. Of very many the longest."""
    if not events:
        return ""
    events = sorted(events, key=lambda e: -e["dur"])[:most]
    first = min(e["ts"] for e in events)
    span = max(e["ts"] + e["dur"] for e in events) - first or 1.0
    lanes = sorted({(e["tid"], e["cat"]) for e in events})
    colours = {"kernel": "#d18b4a", "compile": "#8e68bd", "call": "#5b8fc7"}
    width, left, height = 760, 130, 18
    high = len(lanes) * (height + 4) + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{high}" {_FONT} font-size="11">']
    for i, (thread, kind) in enumerate(lanes):
        y = i * (height + 4)
        out.append(f'<rect x="{left}" y="{y}" width="{width - left}" height="{height}" fill="#f4f4f4"/>')
        out.append(f'<text x="0" y="{y + 13}" fill="#888">thread {thread}, {html.escape(kind)}</text>')
        for e in (e for e in events if (e["tid"], e["cat"]) == (thread, kind)):
            x = left + (e["ts"] - first) / span * (width - left)
            wide = max(e["dur"] / span * (width - left), 0.6)
            about = html.escape(f"{e['name']}: {_time(e['dur'] * 1e-6)}")
            out.append(
                f'<rect x="{x:.2f}" y="{y + 1}" width="{wide:.2f}" height="{height - 2}" '
                f'fill="{colours.get(kind, "#6aa35a")}"><title>{about}</title></rect>'
            )
    out.append(f'<text x="{left}" y="{high - 6}" fill="#888">0</text>')
    out.append(f'<text x="{width}" y="{high - 6}" text-anchor="end" fill="#888">{_time(span * 1e-6)}</text></svg>')
    return "".join(out)


def profile_html(profile):
    """A table of kernels and bars over time."""
    kernels, summary = profile.kernels(), profile.summary()
    total = sum(k["seconds"] for k in kernels) or 1.0
    cell = 'style="text-align:right;padding:2px 10px"'
    head = "".join(
        f'<th style="text-align:{"left" if name in ("kernel", "") else "right"};padding:2px 10px">{name}</th>'
        for name in ("kernel", "calls", "total", "share", "", "mean", "bytes", "flops", "of roofline")
    )
    rows = []
    for k in kernels:
        share = k["seconds"] / total
        bar = f'<div style="background:#d18b4a;height:10px;width:{share * 120:.0f}px;min-width:1px"></div>'
        calls = max(k["calls"], 1)
        cells = [k["calls"], _time(k["seconds"]), f"{share:.0%}", None, _time(k["mean_seconds"])]
        cells += [_count(k["bytes"] / calls, "B"), _count(k["flops"] / calls, ""), f"{k['share_of_roofline']:.0%}"]
        text = "".join(f"<td>{bar}</td>" if value is None else f"<td {cell}>{value}</td>" for value in cells)
        rows.append(f'<tr><td style="text-align:left"><code>{html.escape(k["name"])}</code></td>{text}</tr>')
    line = (
        f"{_time(total if kernels else 0)} in kernels, {_time(summary['compile_seconds'])} compiling, "
        f"{_time(summary['seconds'])} passed"
    )
    return (
        f'<div class="heddle-profile"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
        f'<p style="color:#888">{line}</p>{_timeline(_events(profile))}</div>'
    )


def tensor_html(text, caption):
    return (
        f'<div class="heddle-tensor"><pre style="margin:0">{html.escape(text)}</pre>'
        f'<div style="color:#888;font-size:85%">{html.escape(caption)}</div></div>'
    )
