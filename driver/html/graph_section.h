// A program's nodes as a section of a page: by module, to be searched and followed from value to value.
#ifndef SLIPWAY_DRIVER_HTML_GRAPH_SECTION_H_
#define SLIPWAY_DRIVER_HTML_GRAPH_SECTION_H_

#include <string>
#include <string_view>

#include "driver/html/page.h"
#include "ir/graph.h"

namespace slipway::driver {

// The module that a node came from, "layers.3.mlp"; of an ONNX node that has none the folders of its name,
// "/layers.3/mlp/MatMul".
std::string ModuleOf(const ir::Node& n);

// Nodes of subgraphs follow those of the graph that has them.
void AddGraph(std::string_view title, const ir::Program& p, Page* page);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_HTML_GRAPH_SECTION_H_
