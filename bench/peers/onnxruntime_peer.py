#!/usr/bin/env python3
"""ONNX Runtime beside Heddle: graphs that are made here, on its own CPU provider."""

import models
from peer import Skip, main


def load(arguments):
    import numpy
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(1)
    types = {numpy.dtype("float32"): TensorProto.FLOAT, numpy.dtype("float16"): TensorProto.FLOAT16,
             numpy.dtype("int8"): TensorProto.INT8}

    def noise(shape, scale=1.0):
        return (random.standard_normal(shape, dtype=numpy.float32) * scale).astype(numpy.float32)

    class Value:
        """A tensor of a graph that is being built; operators add nodes to it."""

        def __init__(self, graph, name):
            self.graph, self.name = graph, name

        def __add__(self, other):
            return self.graph.add("Add", self, other)

        def __mul__(self, other):
            return self.graph.add("Mul", self, other)

        def __matmul__(self, other):
            return self.graph.add("MatMul", self, other)

    class Graph:
        def __init__(self):
            self.nodes, self.inputs, self.weights, self.feeds = [], [], [], {}

        def name(self):
            return f"v{len(self.nodes) + len(self.inputs) + len(self.weights)}"

        def input(self, array):
            name = self.name()
            self.inputs.append(helper.make_tensor_value_info(name, types[array.dtype], array.shape))
            self.feeds[name] = array
            return Value(self, name)

        def weight(self, array):
            name = self.name()
            self.weights.append(numpy_helper.from_array(array, name))
            return Value(self, name)

        def add(self, op, *inputs, **attributes):
            name = self.name()
            self.nodes.append(helper.make_node(op, [x.name for x in inputs], [name], **attributes))
            return Value(self, name)

        # What models.py asks for.
        def relu(self, x):
            return self.add("Relu", x)

        def conv2d(self, x, w, stride, padding, groups=1):
            return self.add("Conv", x, w, strides=[stride] * 2, pads=[padding] * 4, group=groups)

        def max_pool_3_2_1(self, x):
            return self.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

        def mean_over(self, x, axes):
            return self.add("Flatten", self.add("GlobalAveragePool", x))

        def timed(self, result, dtype=TensorProto.FLOAT):
            output = helper.make_tensor_value_info(result.name, dtype, None)
            graph = helper.make_graph(self.nodes, "row", self.inputs, [output], self.weights)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = arguments.threads
            options.inter_op_num_threads = 1
            options.log_severity_level = 3
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
            return lambda: session.run(None, self.feeds)

    def matmul(row):
        if row["dtype"] not in ("f32", "i8"):
            raise Skip(f"no {row['dtype']}")
        batch, graph = row["batch"], Graph()

        def factor(rows, columns, transposed):
            shape = (columns, rows) if transposed else (rows, columns)
            x = noise((batch, *shape) if batch > 1 else shape)
            value = graph.input(numpy.clip(x * 40, -127, 127).astype(numpy.int8) if row["dtype"] == "i8" else x)
            return graph.add("Transpose", value, perm=[*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]) \
                if transposed else value

        a = factor(row["m"], row["k"], row["transpose"][0] == "t")
        b = factor(row["k"], row["n"], row["transpose"][1] == "t")
        if row["dtype"] == "i8":
            return graph.timed(graph.add("MatMulInteger", a, b), TensorProto.INT32)
        return graph.timed(a @ b)

    def conv(row):
        if row["dtype"] != "f32":
            raise Skip(f"no {row['dtype']}")
        graph, groups = Graph(), row.get("groups", 1)
        x = graph.input(noise((row["batch"], row["channels"], row["height"], row["width"])))
        w = graph.weight(noise((row["filters"], row["channels"] // groups, row["kernel"], row["kernel"])))
        return graph.timed(graph.conv2d(x, w, row["stride"], row["padding"], groups))

    def resnet18(row):
        graph = Graph()
        p = {name: graph.weight(noise(shape, 0.02)) for name, shape in models.resnet18_shapes().items()}
        x = graph.input(noise((row["batch"], 3, 224, 224)))
        return graph.timed(models.resnet18(graph, p, x))

    def memory(row):
        unary = {"exp(x)": "Exp", "tanh(x)": "Tanh", "erf(x)": "Erf", "softmax": "Softmax", "log_softmax": "LogSoftmax",
                 "transpose, copied": "Transpose"}
        if row["name"] not in unary or row["dtype"] != "f32":
            raise Skip("not written for it")
        graph = Graph()
        return graph.timed(graph.add(unary[row["name"]], graph.input(noise((row["rows"], row["columns"])))))

    works = [matmul, conv, resnet18, memory]
    return {"about": onnxruntime.__version__, "works": {work.__name__: work for work in works}}


if __name__ == "__main__":
    main("ONNX Runtime", load)
