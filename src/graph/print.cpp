// Graphs as text and as dot.
#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "graph/control.h"
#include "graph/custom.h"
#include "graph/graph.h"
#include "graph/node_map.h"

namespace heddle {
namespace {

constexpr int64_t kPreview = 6;

std::string op_name(const Node& node) {
  switch (node.op) {
    case NodeOp::Scalar: return info(node.scalar_op).name;
    case NodeOp::Reduce: return name(node.reduce_op);
    case NodeOp::ArgReduce: return text("arg", name(node.reduce_op));
    case NodeOp::Scatter: return text("scatter_", name(node.scatter_op));
    case NodeOp::Scan: return text("cum", name(node.reduce_op));
    default: return name(node.op);
  }
}

// attrs[first], attrs[first + step], ... as " label=[1, 2]".
void write_list(std::ostream& out, const char* label, const Node& node, size_t first = 0, size_t step = 1) {
  out << " " << label << "=[";
  for (size_t i = first; i < node.attrs.size(); i += step) out << (i > first ? ", " : "") << node.attrs[i];
  out << "]";
}

void write_named(std::ostream& out, const Node& node, std::initializer_list<const char*> labels) {
  size_t i = 0;
  for (const char* label : labels) out << " " << label << "=" << node.attrs[i++];
}

// The first elements of realised data: " {1, 2, 3, ...}".
void write_preview(std::ostream& out, const Node& node) {
  const void* data = node.storage->host_data();
  if (!data) {
    out << " {not readable from the host}";
    return;
  }
  int64_t stored = static_cast<int64_t>(node.storage->bytes()) / size_of(node.dtype);
  int64_t count = node.shape.is_static() ? node.shape.static_numel() : stored;
  out << " {";
  for (int64_t i = 0; i < std::min(count, kPreview); ++i)
    out << (i > 0 ? ", " : "") << load_scalar(data, i, node.dtype);
  out << (count > kPreview ? ", ...}" : "}");
}

void write_attributes(std::ostream& out, const Node& node) {
  switch (node.op) {
    case NodeOp::Const: out << " " << node.literal; break;
    case NodeOp::Buffer: write_preview(out, node); break;
    case NodeOp::Input: write_named(out, node, {"number", "function"}); break;
    case NodeOp::Iota:
    case NodeOp::ArgReduce:
    case NodeOp::Scan:
    case NodeOp::Scatter:
    case NodeOp::Cat: write_named(out, node, {"axis"}); break;
    case NodeOp::Gather:
      write_named(out, node, {"axis"});
      if (!node.attrs[1].is_const(0)) out << " along";
      break;
    case NodeOp::Reduce:
    case NodeOp::Permute:
    case NodeOp::Flip: write_list(out, "axes", node); break;
    case NodeOp::Pad:
      write_list(out, "before", node, 0, 2);
      write_list(out, "after", node, 1, 2);
      out << " value=" << node.literal;
      break;
    case NodeOp::Shrink: write_list(out, "begin", node); break;
    case NodeOp::Window: write_named(out, node, {"axis", "size", "stride", "dilation"}); break;
    case NodeOp::Unwindow: write_named(out, node, {"axis", "size", "stride", "dilation", "n"}); break;
    case NodeOp::Sort: write_named(out, node, {"descending"}); break;
    case NodeOp::To: out << " device=" << device_name(node.device); break;
    case NodeOp::Get: write_named(out, node, {"result"}); break;
    case NodeOp::Custom: out << " @" << node.custom->name; break;
    case NodeOp::Loop:
      if (!node.control->condition()) out << " length=" << node.control->length;
      out << " carried=" << node.control->carried << " stacked=" << node.control->stacked
          << (node.control->reverse ? " reverse" : "");
      break;
    case NodeOp::Scalar:
    case NodeOp::Cast:
    case NodeOp::Bitcast:
    case NodeOp::Reshape:
    case NodeOp::Expand:
    case NodeOp::Cond:
    case NodeOp::Barrier: break;
    case NodeOp::Pullback: out << " rule=" << (node.rule ? node.rule->name : "detach"); break;
  }
}

std::string escaped(const std::string& label) {
  std::string result;
  for (char c : label) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// Lines of a graph, and of those inside of it a step further to the right. Each has numbers of its own.
void write_graph(std::ostream& out, std::span<const NodeRef> roots, std::span<const NodeRef> parameters,
                 const std::string& margin) {
  NodeMap number;
  uint32_t next = 0;
  auto write_list = [&](std::span<const NodeRef> nodes) {
    const char* separator = " %";
    for (const NodeRef& node : nodes) {
      out << separator << number.find(node.get());
      separator = ", %";
    }
  };
  auto write_node = [&](const Node* node) {
    if (!number.insert(node, next)) return;
    out << margin << "%" << next++ << " = " << op_name(*node) << " " << node->dtype << node->shape;
    write_list(node->inputs);
    write_attributes(out, *node);
    out << "\n";
    if (!node->control) return;
    for (const Region& region : node->control->regions) {
      out << margin << "{\n";
      write_graph(out, region.results, region.parameters, margin + "  ");
      out << margin << "}\n";
    }
  };
  for (const NodeRef& parameter : parameters) write_node(parameter.get());
  for (const Node* node : topological(roots)) write_node(node);
  out << margin << "return";
  write_list(roots);
  out << "\n";
}

}  // namespace

std::string print_graph(std::span<const NodeRef> roots) {
  std::ostringstream out;
  write_graph(out, roots, {}, "");
  return out.str();
}

std::string print_dot(std::span<const NodeRef> roots) {
  std::ostringstream out;
  NodeMap number;
  uint32_t next = 0;
  out << "digraph graph_of_tensors {\n  node [shape=box, fontname=monospace];\n";
  for (const Node* node : topological(roots)) {
    number.insert(node, next);
    std::ostringstream attributes;
    write_attributes(attributes, *node);
    out << "  n" << next << " [label=\"" << op_name(*node) << escaped(attributes.str()) << "\\n"
        << node->dtype << escaped(to_string(node->shape)) << "\"" << (node->is_leaf() ? ", style=rounded" : "")
        << "];\n";
    for (const NodeRef& input : node->inputs) out << "  n" << number.find(input.get()) << " -> n" << next << ";\n";
    ++next;
  }
  for (size_t i = 0; i < roots.size(); ++i)
    out << "  result" << i << " [shape=plaintext];\n  n" << number.find(roots[i].get()) << " -> result" << i << ";\n";
  out << "}\n";
  return out.str();
}

}  // namespace heddle
