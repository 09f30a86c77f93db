// Graphs of CUDA: work that a stream was given once, to be given again in one call.
#pragma once

namespace tw {

// Registers runtime.cuda.begin_capture and runtime.cuda.end_capture.
void register_graphs();

}  // namespace tw
