#include "state.h"

namespace fake {

State& state() {
  static auto* all = new State;
  return *all;
}
thread_local Contexts current;
size_t room() { return static_cast<size_t>(state().settings["room"]) << 20; }

Result enter(const char* name, bool needs_context) {
  State& s = state();
  s.calls.push_back(name);
  auto refused = s.refused.find(name);
  if (refused != s.refused.end()) {
    const Result code = refused->second;
    s.refused.erase(refused);
    return code;
  }
  if (!needs_context) return kSuccess;
  if (current.empty()) return 201;  // invalid context
  return current.back()->fault;
}

bool is_inside(Address address, size_t bytes, int device) {
  auto found = state().blocks.upper_bound(address);
  if (found == state().blocks.begin()) return false;
  --found;
  return found->second.second == device && address - found->first + bytes <= found->second.first;
}
char* real(Address address) { return reinterpret_cast<char*>(address - kShift); }
Stream& stream_of(Stream* given) { return given ? *given : state().defaults[current.back()->device]; }

Result give(Stream* given, Work work) {
  Stream& stream = stream_of(given);
  if (stream.context != current.back()) return kInvalidHandle;
  if (stream.captured) stream.captured->push_back(std::move(work));
  else stream.queue.push_back(std::move(work));
  return kSuccess;
}

Result drain(Stream& stream, const Event* until) {
  if (stream.captured) {
    stream.spoilt = true;
    return kCaptureUnsupported;
  }
  while (!stream.queue.empty() && !(until && until->recorded)) {
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    const Result code = stream.context->fault ? stream.context->fault : work();
    if (code) stream.context->fault = code;
  }
  return stream.context->fault;
}

Result drain_all(Context* context) {
  for (Stream* s : std::set<Stream*>(state().streams))
    if (s->context == context)
      if (const Result code = drain(*s)) return code;
  return drain(state().defaults[context->device]);
}

}  // namespace fake

using namespace fake;

// What tests set and ask.
FAKE void fake_set(const char* name, int value) {
  const auto held = hold();
  state().settings[name] = value;
}
FAKE void fake_refuse(const char* name, int code) {
  const auto held = hold();
  state().refused[name] = code;
}
// The calls since the last time, with lines between them.
FAKE const char* fake_calls() {
  static std::string text;
  const auto held = hold();
  text.clear();
  for (auto& call : state().calls) text += call + "\n";
  state().calls.clear();
  return text.c_str();
}
// What was not given back: bytes of devices, and how many streams, events and modules.
FAKE long fake_live(const char* what) {
  const auto held = hold();
  State& s = state();
  const std::string name = what;
  if (name == "bytes") {
    long bytes = 0;
    for (auto& b : s.blocks) bytes += static_cast<long>(b.second.first);
    return bytes;
  }
  return static_cast<long>(name == "streams" ? s.streams.size() : name == "events" ? s.events.size() : name == "host" ? s.host.size() : s.modules.size());
}
// A device works again.
FAKE void fake_heal(int device) {
  const auto held = hold();
  state().contexts[device].fault = kSuccess;
}
FAKE int fake_context_depth() { return current.depth; }
