#include "registration.h"

#include <cstdio>

namespace tw::server {
namespace {

using std::chrono::seconds;

constexpr seconds kAnswersIn{5}, kAsked{1};  // an answer of the tracker; between two questions, and two tries to reach it
constexpr int kComesIn = 3;                  // questions that find the key handed out, after which its client is given up
constexpr size_t kLongestJson = 1 << 20;
enum Code { kPut = 3, kUpdateInfo = 5, kPendingKeys = 7 };

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    if (static_cast<unsigned char>(c) < 0x20) all += format("\\u%04x", c);
    else all += c;
  }
  return all + '"';
}

std::string random_key(const std::string& prefix) {
  uint32_t number[2];
  random_bytes(number, sizeof number);
  return prefix + format(":0.%010u%010u", number[0], number[1]);
}

}  // namespace

bool Registration::take(const std::string& key) {
  if (matchkey_.empty() || key != matchkey_) return false;
  matchkey_.clear();
  --room_;
  changed_ = true;
  return true;
}

void Registration::free() {
  ++room_;
  changed_ = true;
}

void Registration::work() {
  try {
    if (!link_) {
      if (Clock::now() >= next_) begin();
      return;
    }
    link_->step();
    const auto now = Clock::now();
    if (!idle_ && now > link_->deadline) fail("RPCError", "it does not answer");
    if (idle_ && (changed_ || now >= next_)) offer();
    if (link_->writes()) link_->step();
  } catch (const Error& error) {
    lose(error.message);
  }
}

void Registration::lose(const std::string& why) {
  if (heard_) fprintf(stderr, "the tracker %s:%d does not answer (%s); it is tried again\n", options_.tracker_host.c_str(), options_.tracker_port, why.c_str());
  heard_ = idle_ = false;
  link_.reset();
  next_ = Clock::now() + kAsked;
}

void Registration::begin() {
  next_ = Clock::now() + kAnswersIn;
  link_ = std::make_unique<Link>(connect_to(options_.tracker_host, options_.tracker_port), options_.tracker_host);
  link_->deadline = next_;
  enter_tracker(*link_, options_.secret, [this] { registered(); });
}

void Registration::registered() {
  const std::string addr = options_.custom_addr.empty() ? "null" : quoted(options_.custom_addr);
  ask(format("[%d, {\"key\": %s, \"addr\": [%s, %d]}]", kUpdateInfo, quoted("server:" + options_.key).c_str(), addr.c_str(), port_), [this](const std::string&) {
    heard_ = true;
    offered_.clear();
    missed_ = 0;
    changed_ = true;
  });
}

// The answer makes the tracker idle.
void Registration::ask(const std::string& message, Link::Then then) {
  idle_ = false;
  link_->deadline = next_ = Clock::now() + kAnswersIn;
  link_->send(text(message));
  link_->expect_text(kLongestJson, [this, then = std::move(then)](const std::string& answer) {
    idle_ = true;
    next_ = Clock::now() + kAsked;
    then(answer);
  });
}

void Registration::offer() {
  changed_ = false;
  if (room_ > 0 && (offered_.empty() || matchkey_ != offered_ || missed_ >= kComesIn)) {
    matchkey_ = offered_ = random_key(options_.key);
    missed_ = 0;
    const std::string addr = options_.custom_addr.empty() ? "null" : quoted(options_.custom_addr);
    ask(format("[%d, %s, [%d, %s], %s]", kPut, quoted(options_.key).c_str(), port_, quoted(matchkey_).c_str(), addr.c_str()), [](const std::string&) {});
    return;
  }
  ask(format("[%d]", kPendingKeys), [this](const std::string& answer) {
    if (matchkey_.empty()) return;
    if (answer.find(quoted(matchkey_)) != std::string::npos) missed_ = 0;
    else ++missed_;
  });
}

}  // namespace tw::server
