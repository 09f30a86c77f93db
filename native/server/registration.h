// What a tracker knows of the server: the key under which it waits for its next client.
#pragma once
#include <memory>
#include <string>

#include "link.h"
#include "options.h"

namespace tw::server {

class Registration {
 public:
  // port: where the tracker sends clients.
  Registration(const Options& options, int port) : options_(options), port_(port), room_(options.sessions) {}
  // Whether a client has the key of this server. No other will.
  bool take(const std::string& key);
  // A session is over.
  void free();
  // What is to be done now: it connects, registers, and asks again each second. A tracker that is lost is tried again.
  void work();
  Link* link() { return link_.get(); }
  Clock::time_point next() const { return next_; }  // when work() has something to do

 private:
  void begin();
  void registered();
  void ask(const std::string& message, Link::Then then);
  void offer();
  void lose(const std::string& why);

  const Options& options_;
  const int port_;
  int room_;
  std::unique_ptr<Link> link_;
  std::string matchkey_, offered_;
  bool heard_ = true, idle_ = false, changed_ = false;  // idle: the last question is answered
  int missed_ = 0;
  Clock::time_point next_ = Clock::now();
};

}  // namespace tw::server
