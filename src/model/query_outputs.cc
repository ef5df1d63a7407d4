// SPDX-License-Identifier: Apache-2.0
#include "model/query_outputs.h"

#include <memory>
#include <openvino/core/model.hpp>
#include <openvino/opsets/opset13.hpp>
#include <string_view>

namespace incipit::model {

namespace op = ov::opset13;

std::string queries_name(std::size_t layer) { return "queries." + std::to_string(layer); }

void add_query_outputs(ov::Model& model) {
  const auto rows = std::make_shared<op::Parameter>(ov::element::i64, ov::PartialShape{-1});
  rows->set_friendly_name(kQueryRows);
  rows->output(0).get_tensor().set_names({kQueryRows});
  const auto first_axis = op::Constant::create(ov::element::i64, {}, {0});
  ov::ResultVector results;
  for (const auto& node : model.get_ordered_ops()) {  // In the order of the layers.
    if (std::string_view(node->get_type_name()) != "PagedAttentionExtension") continue;
    const auto queries = std::make_shared<op::Gather>(node->input_value(0), rows, first_axis);
    queries->output(0).get_tensor().set_names({queries_name(results.size())});
    results.push_back(std::make_shared<op::Result>(queries));
  }
  model.add_parameters({rows});
  model.add_results(results);
}

}  // namespace incipit::model
