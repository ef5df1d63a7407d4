// SPDX-License-Identifier: Apache-2.0
#include "model/graph_builder.h"

#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <openvino/core/model.hpp>
#include <openvino/op/util/variable.hpp>
#include <openvino/openvino.hpp>
#include <openvino/opsets/opset13.hpp>
#include <openvino/pass/manager.hpp>
#include <openvino/pass/sdpa_to_paged_attention.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/channel_scales.h"

namespace incipit::model {
namespace {

namespace op = ov::opset13;
using Value = ov::Output<ov::Node>;

constexpr std::size_t kWindowInput = 10;  // Of paged attention: how many keys a query sees.

Value ints(const std::vector<std::int64_t>& values) {
  return op::Constant::create(ov::element::i64, {values.size()}, values);
}
Value int_scalar(std::int64_t value) { return op::Constant::create(ov::element::i64, {}, {value}); }
Value int_axis(std::int32_t value) { return op::Constant::create(ov::element::i32, {1}, {value}); }
Value real(float value, const ov::Shape& shape) {
  return op::Constant::create(ov::element::f32, shape, {value});
}
template <typename Op, typename... Arguments>
Value make(Arguments&&... arguments) {
  return std::make_shared<Op>(std::forward<Arguments>(arguments)...);
}

class Builder {
 public:
  Builder(const ModelShape& shape, const PreparedWeights& weights, const GraphOptions& options)
      : shape_(shape), weights_(weights), options_(options) {}

  std::shared_ptr<ov::Model> build() {
    make_inputs();
    const Value embedding = matrix("token_embd.weight");
    Value x = make<op::Gather>(embedding, make<op::Convert>(ids_, ov::element::i32),
                               op::Constant::create(ov::element::i32, {}, {0}));
    if (shape_.embedding_scale != 1)
      x = make<op::Multiply>(x, real(static_cast<float>(shape_.embedding_scale), {1, 1, 1}));
    for (std::size_t layer = 0; layer < shape_.layers; ++layer) x = decoder_layer(x, layer);
    x = norm(x, "output_norm.weight");
    const Value output = shape_.tied_output ? embedding : matrix("output.weight");
    const Value logits = make<op::MatMul>(x, output, false, true);
    logits.get_tensor().set_names({"logits"});
    auto model = std::make_shared<ov::Model>(ov::ResultVector{std::make_shared<op::Result>(logits)},
                                             sinks_, parameters_, "incipit");
    ov::pass::Manager manager;
    manager.register_pass<ov::pass::SDPAToPagedAttention>();
    manager.run_passes(model);
    set_windows(*model);
    const auto wanted = row_list(kLogitsRows);
    if (options_.shows_queries) show_queries(*model, wanted);
    shadow_lone_rows(*model);
    gather_wanted_rows(*model, wanted);
    return model;
  }

 private:
  // Cosines and sines of a pass's positions, [batch, 1, tokens, head_size].
  struct Rope {
    Value cosine;
    Value sine;
  };

  Value input(const std::string& name, ov::element::Type type, const ov::PartialShape& extent) {
    auto parameter = std::make_shared<op::Parameter>(type, extent);
    parameter->set_friendly_name(name);
    parameter->output(0).get_tensor().set_names({name});
    parameters_.push_back(parameter);
    return parameter;
  }

  void make_inputs() {
    ids_ = input("input_ids", ov::element::i64, {-1, -1});
    attention_mask_ = input("attention_mask", ov::element::i64, {-1, -1});
    positions_ = input("position_ids", ov::element::i64, {-1, -1});
    beam_ = input("beam_idx", ov::element::i32, {-1});
    batch_ = make<op::Gather>(make<op::ShapeOf>(ids_), ints({0}), ints({0}));
    rope_ = make_rope(shape_.rope_frequencies);
    if (!shape_.local_rope_frequencies.empty())
      local_rope_ = make_rope(shape_.local_rope_frequencies);
  }

  Rope make_rope(const std::vector<float>& angles_per_position) const {
    const std::size_t half = angles_per_position.size();
    const Value frequencies =
        op::Constant::create(ov::element::f32, {1, half, 1}, angles_per_position);
    const Value wide = make<op::Broadcast>(
        frequencies, concat({batch_, ints({static_cast<std::int64_t>(half)}), ints({1})}, 0));
    const Value position =
        make<op::Convert>(make<op::Unsqueeze>(positions_, ints({1})), ov::element::f32);
    const Value angles = make<op::Transpose>(
        make<op::MatMul>(wide, position), op::Constant::create(ov::element::i32, {3}, {0, 2, 1}));
    const Value both = concat({angles, angles}, -1);
    return {.cosine = make<op::Unsqueeze>(make<op::Cos>(both), ints({1})),
            .sine = make<op::Unsqueeze>(make<op::Sin>(both), ints({1}))};
  }

  static Value concat(const ov::OutputVector& parts, std::int64_t axis) {
    return std::make_shared<op::Concat>(parts, axis);
  }

  // int8 values and f16 scales in the form that the CPU plugin fuses into its int8 matrix product.
  Value matrix(const std::string& name) const {
    const Int8Matrix m = weights_.matrix(name);
    const std::size_t groups = m.columns / m.group;
    const Value values = std::make_shared<op::Constant>(ov::Tensor(
        ov::element::i8, {m.rows, groups, m.group}, const_cast<std::byte*>(m.values.data())));
    const Value scales = std::make_shared<op::Constant>(
        ov::Tensor(ov::element::f16, {m.rows, groups, 1}, const_cast<std::byte*>(m.scales.data())));
    const Value scaled = make<op::Multiply>(make<op::Convert>(values, ov::element::f16), scales);
    const Value flat = make<op::Reshape>(
        scaled, ints({static_cast<std::int64_t>(m.rows), static_cast<std::int64_t>(m.columns)}),
        false);
    return make<op::Convert>(flat, ov::element::f32);
  }

  Value vector(const std::string& name) const {
    const auto values = weights_.vector(name);
    return std::make_shared<op::Constant>(ov::element::f32, ov::Shape{1, 1, values.size()},
                                          values.data());
  }

  // RMS norm (arXiv 1910.07467) over the last axis.
  Value norm(const Value& x, const std::string& name) const {
    const Value square = make<op::Power>(x, real(2, {1, 1, 1}));
    const Value mean = make<op::ReduceMean>(square, int_axis(-1), true);
    const Value root = make<op::Sqrt>(
        make<op::Add>(mean, real(static_cast<float>(shape_.norm_epsilon), {1, 1, 1})));
    return make<op::Multiply>(make<op::Multiply>(make<op::Divide>(real(1, {1, 1, 1}), root), x),
                              vector(name));
  }

  Value linear(const Value& x, const std::string& name) const {
    Value y = make<op::MatMul>(x, matrix(name + ".weight"), false, true);
    if (weights_.vector(name + ".bias").empty()) return y;
    return make<op::Add>(y, vector(name + ".bias"));
  }

  Value split_heads(const Value& y, std::size_t heads) const {
    const Value split = make<op::Reshape>(
        y,
        ints({0, 0, static_cast<std::int64_t>(heads), static_cast<std::int64_t>(shape_.head_size)}),
        true);
    return make<op::Transpose>(split, op::Constant::create(ov::element::i32, {4}, {0, 2, 1, 3}));
  }

  Value rotate(const Value& q, const Rope& rope) const {
    const auto half = static_cast<std::int64_t>(shape_.head_size / 2);
    const Value end = ints({std::numeric_limits<std::int32_t>::max()});
    const Value second = make<op::Slice>(q, ints({half}), end, ints({1}), ints({3}));
    const Value first = make<op::Slice>(q, ints({0}), ints({half}), ints({1}), ints({3}));
    const Value turned = concat({make<op::Multiply>(second, real(-1, {1, 1, 1, 1})), first}, -1);
    return make<op::Add>(make<op::Multiply>(q, rope.cosine), make<op::Multiply>(turned, rope.sine));
  }

  // Appends `fresh` [batch, kv_heads, tokens, head_size] to the state `name`.
  Value append_state(const std::string& name, const Value& fresh) {
    const auto heads = static_cast<std::int64_t>(shape_.kv_heads);
    const auto size = static_cast<std::int64_t>(shape_.head_size);
    const Value empty = make<op::Broadcast>(
        real(0, {}), concat({batch_, ints({heads}), ints({0}), ints({size})}, 0));
    auto variable = std::make_shared<ov::op::util::Variable>(
        ov::op::util::VariableInfo{{-1, heads, -1, size}, ov::element::f32, name});
    const Value read = std::make_shared<op::ReadValue>(empty, variable);
    const Value past = make<op::Gather>(read, beam_, int_scalar(0));
    const Value all = concat({past, fresh}, 2);
    sinks_.push_back(std::make_shared<op::Assign>(all, variable));
    return all;
  }

  // Repeats each key or value head for its group of query heads.
  Value repeat_heads(const Value& k) const {
    const std::size_t group = shape_.heads / shape_.kv_heads;
    if (group == 1) return k;
    const Value target = concat({batch_, ints({static_cast<std::int64_t>(shape_.kv_heads)}),
                                 ints({static_cast<std::int64_t>(group)}), ints({1}),
                                 ints({static_cast<std::int64_t>(shape_.head_size)})},
                                0);
    const Value wide = make<op::Broadcast>(make<op::Unsqueeze>(k, ints({2})), target,
                                           ov::op::BroadcastType::BIDIRECTIONAL);
    return make<op::Reshape>(wide,
                             ints({0, static_cast<std::int64_t>(shape_.heads), -1,
                                   static_cast<std::int64_t>(shape_.head_size)}),
                             true);
  }

  // Causal mask from the lengths of one layer's keys; the same for every layer.
  void make_mask(const Value& keys) {
    const Value total = make<op::Gather>(make<op::ShapeOf>(keys), ints({2}), ints({0}));
    const Value fresh = make<op::Gather>(make<op::ShapeOf>(ids_), ints({1}), ints({0}));
    const auto range = [](const Value& count) {
      return make<op::Range>(int_scalar(0), make<op::Squeeze>(count, ints({0})), int_scalar(1),
                             ov::element::i64);
    };
    const Value query = make<op::Add>(make<op::Reshape>(range(fresh), ints({-1, 1}), false),
                                      make<op::Subtract>(total, fresh));
    const Value key = make<op::Reshape>(range(total), ints({1, -1}), false);
    const Value causal = make<op::Unsqueeze>(make<op::LessEqual>(key, query), ints({0, 1}));
    const Value present =
        make<op::NotEqual>(make<op::Unsqueeze>(attention_mask_, ints({1, 2})), int_scalar(0));
    mask_ =
        make<op::Select>(make<op::LogicalAnd>(causal, present), real(0, {}), real(-65504.0F, {}));
  }

  // The heads of q or k, as attention takes them.
  Value rotated_heads(const Value& h, const std::string& part, std::size_t heads,
                      const Rope& rope) const {
    const Value split = split_heads(linear(h, part), heads);
    return rotate(shape_.head_norms ? norm(split, part + "_norm.weight") : split, rope);
  }

  // Without a scale of its own the operator divides by the root of the head's size.
  Value attend(const Value& q, const Value& k, const Value& v) const {
    if (shape_.attention_scale == 0)
      return make<op::ScaledDotProductAttention>(q, k, v, mask_, false);
    return make<op::ScaledDotProductAttention>(
        q, k, v, mask_, real(static_cast<float>(shape_.attention_scale), {}), false);
  }

  // Heads [batch, heads, tokens, head_size] times the scales of the kv heads that they belong to.
  Value scaled(const Value& heads, const std::vector<float>& scales) const {
    if (scales.empty()) return heads;
    const std::size_t size = shape_.head_size;
    const std::size_t group = shape_.heads / shape_.kv_heads;
    std::vector<float> wide(shape_.heads * size);
    for (std::size_t i = 0; i < wide.size(); ++i)
      wide[i] = scales[i / (group * size) * size + i % size];
    return make<op::Multiply>(heads, channels(wide));
  }

  // Keys or values over their scales.
  Value unscaled(const Value& heads, std::vector<float> scales) const {
    if (scales.empty()) return heads;
    for (float& scale : scales) scale = 1 / scale;
    return make<op::Multiply>(heads, channels(scales));
  }

  Value channels(const std::vector<float>& values) const {
    return op::Constant::create(ov::element::f32,
                                {1, values.size() / shape_.head_size, 1, shape_.head_size}, values);
  }

  Value gate(const Value& x) const {
    if (!shape_.gelu) return make<op::Swish>(x);
    return make<op::Gelu>(x, ov::op::GeluApproximationMode::TANH);
  }

  Value decoder_layer(const Value& x, std::size_t layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const std::string state = "past_key_values." + std::to_string(layer);
    const Rope& rope = shape_.window(layer) == 0 ? rope_ : local_rope_;
    const Value h = norm(x, prefix + "attn_norm.weight");
    const ChannelScales scales =
        options_.even_channels ? channel_scales(shape_, weights_, layer) : ChannelScales();
    const Value q = scaled(rotated_heads(h, prefix + "attn_q", shape_.heads, rope), scales.keys);
    const Value k = append_state(
        state + ".key",
        unscaled(rotated_heads(h, prefix + "attn_k", shape_.kv_heads, rope), scales.keys));
    const Value v = append_state(
        state + ".value",
        unscaled(split_heads(linear(h, prefix + "attn_v"), shape_.kv_heads), scales.values));
    if (mask_.get_node() == nullptr) make_mask(k);
    const Value attention = scaled(attend(q, repeat_heads(k), repeat_heads(v)), scales.values);
    const Value joined = make<op::Reshape>(
        make<op::Transpose>(attention, op::Constant::create(ov::element::i32, {4}, {0, 2, 1, 3})),
        ints({0, 0, static_cast<std::int64_t>(shape_.heads * shape_.head_size)}), true);
    const Value projected = linear(joined, prefix + "attn_output");
    const Value y = make<op::Add>(x, behind(projected, prefix + "post_attention_norm.weight"));
    last_residual_ = y.get_node_shared_ptr();
    last_projection_ = projected.get_node_shared_ptr();
    const Value f = norm(y, prefix + "ffn_norm.weight");
    const Value gated =
        make<op::Multiply>(gate(linear(f, prefix + "ffn_gate")), linear(f, prefix + "ffn_up"));
    return make<op::Add>(
        y, behind(linear(gated, prefix + "ffn_down"), prefix + "post_ffw_norm.weight"));
  }

  // Some families norm a part's result before it joins the residual stream.
  Value behind(const Value& part, const std::string& name) const {
    return shape_.post_norms ? norm(part, name) : part;
  }

  // In the order of the layers.
  static ov::NodeVector paged_attentions(const ov::Model& model) {
    ov::NodeVector found;
    for (const auto& node : model.get_ordered_ops()) {
      if (std::string_view(node->get_type_name()) == "PagedAttentionExtension")
        found.push_back(node);
    }
    return found;
  }

  // The pass recognises windows by the masks of a few exporters and writes "none" for ours.
  void set_windows(ov::Model& model) const {
    std::size_t layer = 0;
    for (const auto& node : paged_attentions(model)) {
      const std::size_t window = shape_.window(layer++);
      if (window == 0) continue;
      const auto none =
          ov::as_type_ptr<op::Constant>(node->get_input_node_shared_ptr(kWindowInput));
      OPENVINO_ASSERT(none != nullptr && none->get_element_type() == ov::element::i32 &&
                          none->cast_vector<std::int32_t>() == std::vector<std::int32_t>{0},
                      "paged attention takes its sliding window elsewhere");
      node->input(kWindowInput)
          .replace_source_output(op::Constant::create(none->get_element_type(), none->get_shape(),
                                                      {static_cast<std::int32_t>(window)}));
    }
    OPENVINO_ASSERT(layer == shape_.layers, "a layer has no paged attention");
  }

  static std::shared_ptr<op::Parameter> row_list(const char* name) {
    auto rows = std::make_shared<op::Parameter>(ov::element::i64, ov::PartialShape{-1});
    rows->set_friendly_name(name);
    rows->output(0).get_tensor().set_names({name});
    return rows;
  }

  // Nothing depends on them. Before attention's rows are gathered: `rows` are those of the pass.
  static void show_queries(ov::Model& model, const Value& rows) {
    ov::ResultVector results;
    for (const auto& node : paged_attentions(model)) {
      const Value queries = make<op::Gather>(node->input_value(0), rows, int_scalar(0));
      queries.get_tensor().set_names({queries_name(results.size())});
      results.push_back(std::make_shared<op::Result>(queries));
    }
    model.add_results(results);
  }

  // Attention takes the rows that one list names, in which a row may stand twice, and the rest of
  // the model goes on with those of its results that another list names. So a lone token can be a
  // piece of two where that decides the kernel, and one row in every matrix product.
  static void shadow_lone_rows(ov::Model& model) {
    const auto attended = row_list(kAttentionRows);
    const auto own = row_list(kOwnRows);
    for (const auto& node : paged_attentions(model)) {
      const auto readers = node->output(0).get_target_inputs();
      const Value result = make<op::Gather>(node->output(0), own, int_scalar(0));
      for (auto reader : readers) reader.replace_source_output(result);
      for (std::size_t part = 0; part < 3; ++part) {  // Queries, keys, values.
        node->input(part).replace_source_output(
            make<op::Gather>(node->input_value(part), attended, int_scalar(0)));
      }
    }
    model.add_parameters({attended, own});
  }

  // After the last attention a row is on its own: only rows whose logits are wanted go on.
  void gather_wanted_rows(ov::Model& model, const std::shared_ptr<op::Parameter>& rows) {
    const auto wanted = [&](const Value& all) {
      return make<op::Gather>(all, rows, int_scalar(0));
    };
    auto projection = last_projection_;
    while (!ov::is_type<op::MatMul>(projection))
      projection = projection->get_input_node_shared_ptr(0);
    projection->input(0).replace_source_output(wanted(projection->input_value(0)));
    last_residual_->input(0).replace_source_output(wanted(last_residual_->input_value(0)));
    model.add_parameters({rows});
    model.validate_nodes_and_infer_types();
  }

  const ModelShape& shape_;
  const PreparedWeights& weights_;
  const GraphOptions options_;
  ov::ParameterVector parameters_;
  ov::SinkVector sinks_;
  Value ids_, attention_mask_, positions_, beam_, batch_, mask_;
  Rope rope_, local_rope_;
  std::shared_ptr<ov::Node> last_residual_, last_projection_;
};

}  // namespace

std::string queries_name(std::size_t layer) { return "queries." + std::to_string(layer); }

Result<std::shared_ptr<ov::Model>> build_graph(const ModelShape& shape,
                                               const PreparedWeights& weights,
                                               const GraphOptions& options) {
  try {
    return Builder(shape, weights, options).build();
  } catch (const std::exception& problem) {
    return failure(ErrorCode::kInternal,
                   std::string("OpenVINO cannot build this model's graph: ") + problem.what());
  }
}

}  // namespace incipit::model
