// What units did when, for a timeline in Perfetto or Chrome (the JSON of trace events; a cycle is a microsecond there).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "description.h"

namespace tw {

class Trace {
 public:
  bool on = false;
  void instruction(Unit unit, const std::string& name, const std::string& text, int64_t from, int64_t to) { add(unit, name, text, from, to); }
  void wait(Unit unit, const std::string& reason, int64_t from, int64_t to) { add(unit + kUnits, reason, "", from, to); }
  void bandwidth(int64_t at, double bytes_per_cycle) { rates_.push_back({at, bytes_per_cycle}); }
  void clear() { events_.clear(), rates_.clear(); }
  std::string json() const;

 private:
  struct Event {
    int track;
    std::string name, text;
    int64_t from, to;
  };
  struct Rate {
    int64_t at;
    double bytes;
  };
  void add(int track, const std::string& name, const std::string& text, int64_t from, int64_t to) {
    events_.push_back({track, name, text, from, to});
  }
  std::vector<Event> events_;
  std::vector<Rate> rates_;
};

}  // namespace tw
