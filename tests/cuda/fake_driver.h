// What the driver of fake_driver.cpp counts, and how it can be told to fail.
#pragma once

#include <cstddef>
#include <cstdint>

struct FakeLaunch {
  void* function = nullptr;
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  uint64_t words[4] = {};  // the first parameters: as many as FakeDriver::wanted_words says
};

struct FakeDriver {
  int version = 13000;
  size_t memory = size_t{256} << 20;
  const char* fails_in = nullptr;  // this function answers `fails_with`
  int fails_with = 0;
  int broken = 0;  // what every function answers
  int launches = 0, graph_launches = 0, graphs_made = 0, nodes_changed = 0, nodes = 0, allocations = 0, modules = 0;
  int loops = 0, loop_nodes = 0;            // conditional nodes, and kernels inside of the last one
  int pinned = 0;                           // pieces of pinned memory
  int waits = 0;                            // of one stream for an event of another
  void* waiting = nullptr;                  // the last stream that did
  int stream_waits = 0, context_waits = 0;  // of the host
  int edges = 0, early_edges = 0;           // between nodes of graphs, the latter of kernels that wait themselves
  int maps = 0;                             // descriptors of matrices
  FakeLaunch last;
  int wanted_words = 0;
};
