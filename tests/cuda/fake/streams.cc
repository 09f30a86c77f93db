// Streams, events and graphs.
#include "state.h"

using namespace fake;

FAKE Result cuStreamCreate(Stream** stream, unsigned) {
  const auto held = hold();
  if (const Result code = enter("cuStreamCreate")) return code;
  state().streams.insert(*stream = new Stream{current.back()});
  return kSuccess;
}
FAKE Result cuStreamDestroy_v2(Stream* stream) {
  const auto held = hold();
  if (const Result code = enter("cuStreamDestroy_v2")) return code;
  if (!state().streams.erase(stream)) return kInvalidHandle;
  const Result code = drain(*stream);
  delete stream;
  return code;
}
FAKE Result cuStreamSynchronize(Stream* stream) {
  const auto held = hold();
  const Result code = enter("cuStreamSynchronize");
  return code ? code : drain(stream_of(stream));
}
FAKE Result cuEventCreate(Event** event, unsigned flags) {
  const auto held = hold();
  if (const Result code = enter("cuEventCreate")) return code;
  *event = new Event;
  (*event)->timed = !(flags & 2);
  state().events.insert(*event);
  return kSuccess;
}
FAKE Result cuEventDestroy_v2(Event* event) {
  const auto held = hold();
  state().calls.push_back("cuEventDestroy_v2");
  return state().events.erase(event) ? kSuccess : kInvalidHandle;  // streams may still know it
}
FAKE Result cuEventRecord(Event* event, Stream* stream) {
  const auto held = hold();
  if (const Result code = enter("cuEventRecord")) return code;
  Stream& where = stream_of(stream);
  event->recorded = false;
  event->where = &where;
  return give(stream, [event, &where] { return event->recorded = true, event->at = where.context->clock, kSuccess; });
}
FAKE Result cuEventQuery(Event* event) {
  const auto held = hold();
  if (const Result code = enter("cuEventQuery")) return code;
  return event->recorded ? kSuccess : kNotReady;
}
FAKE Result cuEventSynchronize(Event* event) {
  const auto held = hold();
  if (const Result code = enter("cuEventSynchronize")) return code;
  return event->recorded || !event->where ? kSuccess : drain(*event->where, event);
}
FAKE Result cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  const auto held = hold();
  if (const Result code = enter("cuStreamWaitEvent")) return code;
  return give(stream, [event] { return event->recorded ? kSuccess : drain(*event->where, event); });
}
FAKE Result cuEventElapsedTime(float* milliseconds, Event* begin, Event* end) {
  const auto held = hold();
  if (const Result code = enter("cuEventElapsedTime")) return code;
  if (!begin->timed || !end->timed) return kInvalidHandle;
  if (!begin->recorded || !end->recorded) return kNotReady;
  return *milliseconds = static_cast<float>((end->at - begin->at) * 1000), kSuccess;
}

FAKE Result cuStreamBeginCapture_v2(Stream* stream, int) {
  const auto held = hold();
  if (const Result code = enter("cuStreamBeginCapture_v2")) return code;
  if (!stream || stream->captured) return kCaptureUnsupported;
  return stream->captured = new std::vector<Work>, stream->spoilt = false, kSuccess;
}
FAKE Result cuStreamEndCapture(Stream* stream, Graph** graph) {
  const auto held = hold();
  if (const Result code = enter("cuStreamEndCapture")) return code;
  const std::unique_ptr<std::vector<Work>> work(stream->captured);
  stream->captured = nullptr;
  if (stream->spoilt) return kCaptureInvalidated;
  return *graph = new Graph{*work}, kSuccess;
}
FAKE Result cuGraphInstantiateWithFlags(Graph** made, Graph* graph, unsigned long long) {
  const auto held = hold();
  if (const Result code = enter("cuGraphInstantiateWithFlags")) return code;
  return *made = new Graph(*graph), kSuccess;
}
FAKE Result cuGraphDestroy(Graph* graph) { return delete graph, kSuccess; }
FAKE Result cuGraphExecDestroy(Graph* graph) {
  const auto held = hold();
  state().calls.push_back("cuGraphExecDestroy");
  return delete graph, kSuccess;
}
FAKE Result cuGraphLaunch(Graph* graph, Stream* stream) {
  const auto held = hold();
  if (const Result code = enter("cuGraphLaunch")) return code;
  for (const Work& work : graph->work)
    if (const Result code = give(stream, work)) return code;
  return kSuccess;
}
