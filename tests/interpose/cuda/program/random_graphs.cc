// See random_worker.h: captures, and the graphs that are made of them.
#include <algorithm>
#include <set>
#include <utility>

#include "random_worker.h"

namespace spillway::cuda::test {

void Worker::begin_capture() {
  std::vector<std::size_t> free_lanes;
  for (std::size_t i = 0; i < lanes_.count(); ++i) {
    if (lanes_.may_be_captured(i)) {
      free_lanes.push_back(i);
    }
  }
  if (free_lanes.size() < 3) {
    return;
  }
  Capture capture;
  capture.lane = free_lanes[dice_.below(free_lanes.size())];
  capture.left = dice_.between(1, 6);
  synchronize(capture.lane);
  if (dice_.chance(20)) {
    std::erase(free_lanes, capture.lane);
    capture.forked = true;
    capture.second = free_lanes[dice_.below(free_lanes.size())];
    synchronize(capture.second);
  }
  trace("begin capture on " + std::to_string(capture.lane));
  expect(device_.calls.cuStreamBeginCapture_v2(lanes_.stream(capture.lane), kCuCaptureRelaxed),
         "cuStreamBeginCapture");
  lanes_.set_captured(capture.lane, true);
  if (capture.forked) {
    lanes_.set_captured(capture.second, true);
    lanes_.order_captured(capture.second, capture.lane);
  }
  capture_ = std::make_unique<Capture>(std::move(capture));
}

void Worker::continue_capture() {
  Capture& capture = *capture_;
  const CuStream stream = lanes_.stream(capture.lane);
  if (!capture.forked && dice_.chance(15)) {
    auto made = std::make_unique<Block>();
    made->bytes.resize(8 * dice_.between(512, 128 << 10U));
    made->of_graph = true;
    expect(device_.calls.cuMemAllocAsync(&made->address, made->bytes.size(), stream),
           "cuMemAllocAsync");
    Op op{.kind = dice_.chance(50) ? Op::Kind::kFill : Op::Kind::kSet};
    op.bytes = made->bytes.size();
    op.key = dice_.any() % 251;
    op.to = blocks_.add(std::move(made));
    capture.within.push_back(op.to);
    issue(op, stream);
    capture.graph.ops.push_back(std::move(op));
  }
  Op op;
  if (choose(op, kCaptured)) {
    if (op.kind == Op::Kind::kCopyOut) {
      capture.graph.landings.push_back(op.landing);
    }
    const std::size_t lane = capture.forked && dice_.chance(50) ? capture.second : capture.lane;
    if (capture.forked) {  // in the order of the model
      lanes_.order_captured(lane, lane == capture.lane ? capture.second : capture.lane);
    }
    trace("captured: " + words_of(op));
    issue(op, lanes_.stream(lane));
    capture.graph.ops.push_back(std::move(op));
  }
  if (--capture.left == 0) {
    end_capture();
  }
}

void Worker::end_capture() {
  Capture capture = std::move(*capture_);
  capture_.reset();
  for (Block* const block : capture.within) {
    if (dice_.chance(60)) {
      expect(device_.calls.cuMemFreeAsync(block->address, lanes_.stream(capture.lane)),
             "cuMemFreeAsync");
      block->freed = true;
    }
  }
  if (capture.forked) {
    lanes_.order_captured(capture.lane, capture.second);
    lanes_.set_captured(capture.second, false);
  }
  trace("end capture");
  expect(device_.calls.cuStreamEndCapture(lanes_.stream(capture.lane), &capture.graph.graph),
         "cuStreamEndCapture");
  lanes_.set_captured(capture.lane, false);
  graphs_.push_back(std::move(capture.graph));
  if (dice_.chance(60)) {
    make_executable(graphs_.back());
  }
}

void Worker::make_executable(Graph& graph) {
  trace("instantiate");
  expect(device_.calls.cuGraphInstantiateWithFlags(&graph.exec, graph.graph, 0),
         "cuGraphInstantiate");
  if (dice_.chance(70)) {
    expect(device_.calls.cuGraphDestroy(graph.graph), "cuGraphDestroy");
    graph.graph = nullptr;
  }
}

// As the tables will stand when it runs: it may change them itself.
bool Worker::can_run(const Graph& graph) const {
  std::vector<std::pair<Block*, std::vector<char>>> saved;
  bool can = true;
  for (const Op& op : graph.ops) {
    can = can && blocks_.used_by(op).has_value();
    if (can && op.to != nullptr && op.to->holds != Block::Holds::kWords) {
      saved.emplace_back(op.to, op.to->bytes);
      Op copy = op;
      blocks_.apply(copy, op.to->last);
    }
  }
  std::for_each(saved.rbegin(), saved.rend(), [](auto& it) { it.first->bytes = it.second; });
  return can;
}

void Worker::launch(Graph& graph) {
  if (!can_run(graph)) {
    return;
  }
  if (graph.exec == nullptr) {
    make_executable(graph);
  }
  const std::size_t lane = any_lane();
  trace("launch graph on " + std::to_string(lane));
  std::vector<Blocks::Used> used;
  for (Op& op : graph.ops) {
    prepare(op, &used);
    trace("  " + words_of(op));
  }
  lanes_.before(lane, graph.use, true);
  for (const Blocks::Used& it : used) {
    lanes_.before(lane, it.block->use, it.writes);
  }
  lanes_.count_one(lane);
  expect(device_.calls.cuGraphLaunch(graph.exec, lanes_.stream(lane)), "cuGraphLaunch");
  lanes_.after(lane, graph.use, true);
  for (const Blocks::Used& it : used) {
    lanes_.after(lane, it.block->use, it.writes);
  }
  for (Landing* const it : graph.landings) {
    it->pending = true;
    it->stream = lane;
    it->number = lanes_.issued(lane);
  }
}

void Worker::destroy(std::list<Graph>::iterator graph) {
  trace("destroy graph");
  lanes_.before_host(graph->use, true);
  require_landings();
  if (graph->exec != nullptr) {
    expect(device_.calls.cuGraphExecDestroy(graph->exec), "cuGraphExecDestroy");
  }
  if (graph->graph != nullptr) {
    expect(device_.calls.cuGraphDestroy(graph->graph), "cuGraphDestroy");
  }
  for (Landing* const it : graph->landings) {
    it->of_graph = false;
    it->taken = false;
  }
  std::set<Block*> within;
  for (const Op& op : graph->ops) {
    if (op.to != nullptr && op.to->of_graph) {
      within.insert(op.to);
    }
  }
  graphs_.erase(graph);
  for (Block* const block : within) {
    if (!block->freed) {
      lanes_.before_host(block->use, true);
      expect(device_.calls.cuMemFree_v2(block->address), "cuMemFree");
    }
    blocks_.remove(block);
  }
}

}  // namespace spillway::cuda::test
