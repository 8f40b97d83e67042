// The builder of kernels that somebody wrote.
#include <algorithm>

#include "graph/build.h"
#include "graph/custom.h"

namespace heddle {

NodeRef make_custom(std::span<const NodeRef> inputs, std::shared_ptr<const CustomKernel> custom) {
  HD_ASSERT(!custom->results.empty(), "kernel ", custom->name, " without results");
  HD_ASSERT(inputs.size() == custom->inputs.size(), "kernel ", custom->name, " of ", custom->inputs.size(),
            " inputs gets ", inputs.size());
  auto found = std::ranges::find_if(custom->results, [](const ResultType& r) { return is_float(r.dtype); });
  const ResultType& first = found == custom->results.end() ? custom->results[0] : *found;
  NewNode node = new_node(NodeOp::Custom, first.dtype, first.shape);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_operand(custom->name.c_str(), inputs[i]);
    const ResultType& wanted = custom->inputs[i];
    HD_ASSERT(inputs[i]->dtype == wanted.dtype && same_shape(inputs[i]->shape, wanted.shape), "kernel ", custom->name,
              ": input ", i, " is ", inputs[i]->dtype, inputs[i]->shape, ", not ", wanted.dtype, wanted.shape);
    node->inputs.push_back(inputs[i]);
  }
  node->custom = std::move(custom);
  return finish_as_is(std::move(node));
}

}  // namespace heddle
