#include "server.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>

#include "files.h"
#include "link.h"
#include "registration.h"

namespace tw::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kGreetedIn{5}, kLeavesIn{1}, kToldIn{1};  // for the handshake; for a session to end once its client is gone; before a client is told that it waits
constexpr milliseconds kWatch{50}, kWatchNew{2};  // between two looks at a session; at one that has just begun

// A client, from its connection to the end of its session.
struct Client {
  enum State { kGreeted, kWaits, kEnters, kRefused, kServed, kGone } state = kGreeted;
  std::unique_ptr<Link> link;
  std::string where, folder;
  Socket socket = kNoSocket;  // of the session
  Process process = 0;
  int limit = 0;  // seconds that it may last, 0: no limit
  bool registered = false;
  bool wants_to_know = false;  // that it waits for its turn
  Clock::time_point begun, end = kNever, left = kNever;
};

class Server {
 public:
  explicit Server(const Options& options) : options_(options) {}
  ~Server() {
    for (auto& client : clients_) close(client);
    if (listener_ != kNoSocket) close_socket(listener_);
  }

  void run() {
    remove_left_folders(options_.work_dir);
    int port = 0;
    listener_ = listen_on(options_.host, options_.port, options_.port_end, &port);
    if (!options_.tracker_host.empty()) registration_ = std::make_unique<Registration>(options_, port);
    if (!options_.silent) {
      const bool loopback = options_.host == "localhost" || options_.host == "::1" || options_.host.compare(0, 4, "127.") == 0;
      if (!loopback) fprintf(stderr, "the server listens on %s:%d: whoever %s can run code on this machine\n", options_.host.c_str(), port, options_.secret.empty() ? "reaches it" : "knows its key file");
      printf("serving on %s:%d\n", options_.host.c_str(), port);
      fflush(stdout);
    }
    while (!stop_asked()) {
      wait();
      accept();
      if (registration_) registration_->work();
      for (auto& client : clients_) look_at(client);
      clients_.remove_if([](const Client& c) { return c.state == Client::kGone; });
    }
  }

 private:
  void wait() {
    const auto now = Clock::now();
    auto until = now + std::chrono::hours(1);
    std::vector<Wait> all{{listener_, true, false}};
    auto add = [&](Link* link) {
      if (link->reads() || link->writes()) all.push_back({link->socket(), link->reads(), link->writes()});
      until = std::min(until, link->deadline);
    };
    if (registration_) {
      if (registration_->link()) add(registration_->link());
      until = std::min(until, registration_->next());
    }
    for (auto& client : clients_) {
      if (client.link) add(client.link.get());
      if (client.state == Client::kServed) until = std::min(until, now + (now - client.begun < seconds(1) ? kWatchNew : kWatch));
      if (client.state == Client::kWaits) until = std::min(until, now + kWatch);
    }
    const auto left = std::chrono::duration_cast<milliseconds>(until - now).count();
    wait_for(all, static_cast<int>(std::max<long long>(0, left + 1)));
  }

  void accept() {
    std::string where;
    for (Socket socket; (socket = accept_client(listener_, &where)) != kNoSocket;) {
      if (clients_.size() >= static_cast<size_t>(options_.connections)) {
        tell("%s is refused: there are %zu connections already (--max-connections)", where.c_str(), clients_.size());
        close_socket(socket);
        continue;
      }
      clients_.emplace_back();
      Client& client = clients_.back();
      client.where = where;
      client.link = std::make_unique<Link>(socket, where);
      client.link->deadline = Clock::now() + kGreetedIn;
      admit(*client.link, options_.secret, [this, &client](const std::string& key) { admitted(client, key); });
    }
  }

  // "client:<name> <options>"
  void admitted(Client& client, const std::string& key) {
    const std::string who = "client:";
    const size_t space = std::min(key.find(' '), key.size());
    const std::string name = key.compare(0, who.size(), who) == 0 ? key.substr(who.size(), space - who.size()) : "";
    const bool fits = key.compare(0, who.size(), who) == 0 && (registration_ ? registration_->take(name) : name == options_.key);
    if (!fits) {
      tell("%s has another key", client.where.c_str());
      client.link->send(number(kMismatch) + text(""));
      client.state = Client::kRefused;
      return;
    }
    client.registered = registration_ != nullptr;
    const char* option = "-timeout=";
    const size_t at = key.find(option, space);
    client.limit = at == std::string::npos ? 0 : std::max(0, atoi(key.c_str() + at + strlen(option)));
    client.wants_to_know = key.find(" -waits", space) != std::string::npos;
    if (options_.timeout > 0) client.limit = client.limit > 0 ? std::min(client.limit, options_.timeout) : options_.timeout;
    client.state = Client::kWaits;
    client.begun = Clock::now();
    client.link->deadline = kNever;
  }

  void look_at(Client& client) {
    const auto now = Clock::now();
    try {
      if (client.link) {
        client.link->step();
        if (now > client.link->deadline) fail("RPCError", "it does not finish the handshake in %d s", static_cast<int>(kGreetedIn.count()));
      }
      if (client.state == Client::kRefused && !client.link->writes()) return close(client);
      if (client.state == Client::kWaits) await_turn(client);
      if (client.state == Client::kEnters && !client.link->writes()) start(client);
      if (client.state == Client::kServed) watch(client, now);
    } catch (const Error& error) {
      tell("%s is refused: %s", client.where.c_str(), error.message.c_str());
      close(client);
    }
  }

  // Clients are looked at in the order in which they came.
  void await_turn(Client& client) {
    if (is_gone(client.link->socket())) return close(client);
    const auto busy = std::count_if(clients_.begin(), clients_.end(), [](const Client& c) { return c.state == Client::kServed || c.state == Client::kEnters; });
    if (busy >= options_.sessions) {
      if (client.wants_to_know && Clock::now() > client.begun + kToldIn) {
        client.wants_to_know = false;
        client.link->send(number(kWaits) + text(format("it serves other clients (--max-sessions %d)", options_.sessions)));
      }
      return;
    }
    client.link->send(number(kMagic) + text("server:" + options_.key));
    client.state = Client::kEnters;
    client.link->deadline = Clock::now() + kGreetedIn;
    client.link->step();
  }

  void start(Client& client) {
    client.folder = make_folder(options_.work_dir);
    tell("session with %s", client.where.c_str());
    client.socket = client.link->release();
    client.link.reset();
    std::vector<Socket> others{listener_};
    if (registration_ && registration_->link()) others.push_back(registration_->link()->socket());
    for (auto& other : clients_) {
      if (other.link) others.push_back(other.link->socket());
      if (&other != &client && other.socket != kNoSocket) others.push_back(other.socket);
    }
    const Session session{{client.socket, client.socket}, client.where, client.folder, options_.message, options_.disk, options_.silence, options_.idle, options_.silent};
    client.process = start_session(session, others);
    client.state = Client::kServed;
    client.begun = Clock::now();
    if (client.limit > 0) client.end = client.begun + seconds(client.limit);
  }

  void watch(Client& client, Clock::time_point now) {
    if (client.left == kNever && is_gone(client.socket)) client.left = now;
    const bool late = now > client.end, left = client.left != kNever && now > client.left + kLeavesIn;
    if (!has_ended(client.process)) {
      if (!late && !left) return;
      if (late) tell("the session with %s took longer than %d s", client.where.c_str(), client.limit);
      kill_process(client.process);
    }
    tell("the session with %s has ended", client.where.c_str());
    client.process = 0;
    close(client);
  }

  void close(Client& client) {
    if (client.process) kill_process(client.process);
    if (client.socket != kNoSocket) close_socket(client.socket);
    if (!client.folder.empty()) remove_folder(client.folder);
    if (client.registered) registration_->free();
    client.process = 0;
    client.socket = kNoSocket;
    client.folder.clear();
    client.registered = false;
    client.link.reset();
    client.state = Client::kGone;
  }

  template <typename... Values>
  void tell(const char* pattern, Values... values) {
    if (!options_.silent) fprintf(stderr, "%s\n", format(pattern, values...).c_str());
  }

  const Options& options_;
  Socket listener_ = kNoSocket;
  std::unique_ptr<Registration> registration_;
  std::list<Client> clients_;  // in the order in which they came
};

}  // namespace

void serve(const Options& options) { Server(options).run(); }

}  // namespace tw::server
