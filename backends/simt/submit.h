// Work for a stream, or for the graph that the stream is captured into. Internal.
#pragma once

#include <functional>
#include <memory>

#include "backends/simt/work.h"
#include "musaic/stream.h"

namespace musaic::simt {

int device_of_stream(Stream stream);
/// `make` is called once now, or at every replay of the graph.
void submit_to(Stream stream, std::function<std::shared_ptr<Work>()> make);

}  // namespace musaic::simt
