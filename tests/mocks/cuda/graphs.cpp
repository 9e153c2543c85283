// SPDX-License-Identifier: Apache-2.0
// The mock driver's graphs: what was put into streams is recorded, and done again for each launch,
// in any order that the streams' and the events' allow.
#include "more_api.hpp"
#include "state.hpp"

namespace mock {
namespace {

template <class T> std::shared_ptr<T> find(call& c, std::map<handle, std::shared_ptr<T>>& all, handle number) {
  const auto found = all.find(number);
  if (found != all.end()) return found->second;
  c.failed = c.misuse(invalid_handle, "the graph " + hex(number) + " is " + gone(c.s, number));
  return nullptr;
}

// Does the end of the stream come after all that was captured?
bool is_joined(const capture& of, std::vector<std::size_t> from) {
  std::vector<char> seen(of.nodes.size(), 0);
  std::size_t count = 0;
  while (!from.empty()) {
    const std::size_t n = from.back();
    from.pop_back();
    if (seen[n]) continue;
    seen[n] = 1;
    ++count;
    from.insert(from.end(), of.nodes[n].after.begin(), of.nodes[n].after.end());
  }
  return count == of.nodes.size();
}

cu::result make_kernel(call& c, operation& op, const cu::kernel_node& n) {
  return make_kernel(c, op, n.code, {n.groups[0], n.groups[1], n.groups[2]}, {n.items[0], n.items[1], n.items[2]},
                     n.dynamic_bytes, n.values, n.extra);
}

bool is_alive(const state& s, const range& r) {
  const auto found = find_memory(s, r.begin);
  if (found != s.memory.end()) return r.end <= found->first + found->second.bytes;
  for (const auto& [from, one] : s.registered)
    if (from <= r.begin && r.end <= from + one.bytes) return true;
  return false;
}

} // namespace
} // namespace mock

using namespace mock;

MOCK_EXPORT cu::result cuStreamBeginCapture_v2(cu::stream h, int mode) {
  call c("cuStreamBeginCapture", needs::context);
  if (c.failed) return c.failed;
  if (!h || mode < 0 || mode > 2) return c.misuse(invalid_value, "the usual stream, or an unknown mode");
  const auto one = c.find_stream(h);
  if (!one) return c.failed;
  if (one->capturing) return c.misuse(invalid_value, "operations of the stream are captured already");
  const auto made = std::make_shared<capture>();
  made->origin = one->number;
  made->device = c.at;
  made->mode = mode;
  made->thread = std::this_thread::get_id();
  one->capturing = made;
  one->last.clear();
  std::erase_if(c.s.captures, [](const auto& weak) { return weak.expired(); });
  c.s.captures.push_back(made);
  return 0;
}

MOCK_EXPORT cu::result cuStreamEndCapture(cu::stream h, graph_plan* to) {
  call c("cuStreamEndCapture", needs::context);
  if (c.failed) return c.failed;
  *to = nullptr;
  const auto one = c.find_stream(h);
  if (!one) return c.failed;
  const std::shared_ptr<capture> made = one->capturing;
  if (!made) return c.misuse(capture_unmatched, "nothing is captured of the stream");
  if (made->origin != one->number) return c.misuse(capture_unmatched, "the capture was begun in another stream");
  if (made->mode != 2 && made->thread != std::this_thread::get_id())
    return c.misuse(capture_wrong_thread, "the capture was begun in another thread");
  const bool joined = is_joined(*made, one->last);
  for (const auto& [number, each] : c.s.streams)
    if (each->capturing == made) each->capturing = nullptr, each->last.clear();
  made->over = true;
  if (made->broken) return capture_invalidated;
  if (!joined) return c.misuse(capture_unjoined, "a stream that was captured too was not waited for");
  c.s.graphs.emplace(++c.s.given, made);
  *to = as_handle<graph_plan>(c.s.given);
  return 0;
}

MOCK_EXPORT cu::result cuGraphCreate(graph_plan* to, unsigned flags) {
  call c("cuGraphCreate", needs::context);
  if (c.failed) return c.failed;
  if (flags != 0) return c.misuse(invalid_value, "flags are 0");
  const auto made = std::make_shared<capture>();
  made->device = c.at;
  made->over = true;
  c.s.graphs.emplace(++c.s.given, made);
  *to = as_handle<graph_plan>(c.s.given);
  return 0;
}

MOCK_EXPORT cu::result cuGraphAddKernelNode_v2(cu::graph_node* to, graph_plan h, const cu::graph_node* after,
                                               std::size_t count, const cu::kernel_node* what) {
  call c("cuGraphAddKernelNode", needs::context);
  if (c.failed) return c.failed;
  const auto of = find(c, c.s.graphs, number_of(h));
  if (!of) return c.failed;
  node made;
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = of->names.find(number_of(after[i]));
    if (found == of->names.end())
      return c.misuse(invalid_value, "a node that another is to follow is not of its graph");
    made.after.push_back(found->second);
  }
  if (what->kernel || (what->in && number_of(what->in) != c.here().context))
    return c.misuse(invalid_value, "a kernel node is given a function and the device's context");
  if (const cu::result r = make_kernel(c, made.op, *what)) return r;
  of->names.emplace(++c.s.given, of->nodes.size());
  of->nodes.push_back(std::move(made));
  *to = as_handle<cu::graph_node>(c.s.given);
  return 0;
}

MOCK_EXPORT cu::result cuGraphExecKernelNodeSetParams_v2(graph_exec h, cu::graph_node n, const cu::kernel_node* what) {
  call c("cuGraphExecKernelNodeSetParams", needs::context);
  const auto one = c.failed ? nullptr : find(c, c.s.executables, number_of(h));
  if (!one) return c.failed;
  const auto found = one->names.find(number_of(n));
  if (found == one->names.end()) return c.misuse(invalid_value, "the node is not of the graph");
  node made;
  if (const cu::result r = make_kernel(c, made.op, *what)) return r;
  made.after = one->nodes[found->second].after;
  ++c.s.counted.graph_updates;
  // Launches that are not done keep what they were given.
  const auto changed = std::make_shared<executable>(*one);
  changed->nodes[found->second] = std::move(made);
  c.s.executables[number_of(h)] = changed;
  return 0;
}

MOCK_EXPORT cu::result cuGraphInstantiateWithFlags(graph_exec* to, graph_plan h, unsigned long long flags) {
  call c("cuGraphInstantiate", needs::context);
  if (c.failed) return c.failed;
  const auto from = find(c, c.s.graphs, number_of(h));
  if (!from) return c.failed;
  if (flags != 0) return c.misuse(not_supported, "the mock knows no flags");
  if (c.s.set.fail_graph > 0 && --c.s.set.fail_graph == 0) return cu::out_of_memory;
  const auto made = std::make_shared<executable>();
  made->nodes = from->nodes;
  made->names = from->names;
  made->device = from->device;
  c.s.executables.emplace(++c.s.given, made);
  *to = as_handle<graph_exec>(c.s.given);
  return 0;
}

MOCK_EXPORT cu::result cuGraphLaunch(graph_exec h, cu::stream to) {
  call c("cuGraphLaunch", needs::context);
  if (c.failed) return c.failed;
  const auto one = find(c, c.s.executables, number_of(h));
  const auto stream = one ? c.find_stream(to) : nullptr;
  if (!stream) return c.failed;
  if (stream->capturing) return c.misuse(not_supported, "the mock captures no graphs in graphs");
  if (one->device != c.at) return c.misuse(invalid_context, "the graph is of device " + std::to_string(one->device));
  for (const node& n : one->nodes)
    for (const range& r : n.op.uses)
      if (!is_alive(c.s, r))
        return c.misuse(invalid_value, describe(n.op) + " in the graph uses memory that is gone: " + hex(r.begin));
  ++c.s.counted.graph_launches;
  operation op;
  op.is = work::graph;
  op.graph.what = one;
  op.graph.done.assign(one->nodes.size(), 0);
  if (one->last) op.after.push_back(one->last);
  one->last = c.put(*stream, std::move(op));
  return 0;
}

MOCK_EXPORT cu::result cuGraphExecDestroy(graph_exec h) {
  call c("cuGraphExecDestroy", needs::init);
  if (c.failed || !find(c, c.s.executables, number_of(h))) return c.failed;
  c.s.executables.erase(number_of(h));
  return 0;
}

MOCK_EXPORT cu::result cuGraphDestroy(graph_plan h) {
  call c("cuGraphDestroy", needs::init);
  if (c.failed || !find(c, c.s.graphs, number_of(h))) return c.failed;
  c.s.graphs.erase(number_of(h));
  return 0;
}

MOCK_EXPORT cu::result cuGraphExecUpdate_v2(graph_exec h, graph_plan from, update_info* info) {
  call c("cuGraphExecUpdate", needs::context);
  if (c.failed) return c.failed;
  auto one = find(c, c.s.executables, number_of(h));
  const auto now = one ? find(c, c.s.graphs, number_of(from)) : nullptr;
  if (!now) return c.failed;
  *info = {};
  const auto refuse = [&](int result) {
    info->result = result;
    return update_failure;
  };
  if (now->nodes.size() != one->nodes.size()) return refuse(update_topology_changed);
  for (std::size_t i = 0; i < now->nodes.size(); ++i) {
    if (now->nodes[i].after != one->nodes[i].after) return refuse(update_topology_changed);
    if (now->nodes[i].op.is != one->nodes[i].op.is) return refuse(update_kind_changed);
    if (now->nodes[i].op.copy.way != one->nodes[i].op.copy.way) return refuse(update_parameters_changed);
  }
  ++c.s.counted.graph_updates;
  // Launches that are not done keep what they were given: they have the one before.
  const auto changed = std::make_shared<executable>(*one);
  changed->nodes = now->nodes;
  c.s.executables[number_of(h)] = changed;
  return 0;
}
