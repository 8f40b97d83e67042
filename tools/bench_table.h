// How `heddle bench` shows figures: a table for people, JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench.h"

namespace heddle::tools {

using Json = nlohmann::ordered_json;

Json to_json(const Figure& figure);
Figure from_json(const Json& json);

void print_machine();
// One table: `suite` on `threads` threads. Columns stand above the first row, because that knows who takes part.
void print_figure(const char* suite, int threads, const Figure& figure, bool first);
// Per group of rows that were compared with libraries: the geometric mean of the ratios, and the least one.
void print_means(const std::vector<Figure>& figures);
// How many bars were reached.
void print_bars(const std::vector<Figure>& figures);

}  // namespace heddle::tools
