#include "trace.h"

#include "../common/errors.h"

namespace tw {

std::string Trace::json() const {
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n{\"ph\": \"M\", \"pid\": 1, \"name\": \"process_name\", \"args\": {\"name\": \"VTA\"}}";
  for (int track = 0; track < 2 * kUnits; ++track)
    text += format(",\n{\"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"name\": \"thread_name\", \"args\": {\"name\": \"%s%s\"}}", track,
                   kUnitNames[track % kUnits], track < kUnits ? "" : " waits");
  for (const Event& e : events_)
    text += format(",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %lld, \"dur\": %lld, \"name\": \"%s\", \"args\": {\"instruction\": \"%s\"}}", e.track,
                   static_cast<long long>(e.from), static_cast<long long>(e.to - e.from), e.name.c_str(), e.text.c_str());
  for (const Rate& r : rates_)
    text += format(",\n{\"ph\": \"C\", \"pid\": 1, \"ts\": %lld, \"name\": \"DRAM\", \"args\": {\"bytes per cycle\": %.3f}}", static_cast<long long>(r.at), r.bytes);
  return text + "\n]}\n";
}

}  // namespace tw
