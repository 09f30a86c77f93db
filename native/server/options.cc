#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../src/core.h"

namespace tw::server {

const char* const kUsage = R"(tilewright_rpc: runs compiled models for clients on other machines (tilewright.rpc.connect).

  tilewright_rpc server [OPTIONS]   serve on a port until Ctrl-C
  tilewright_rpc pipe [OPTIONS]     serve one client on standard input and output (also: --pipe)

  --host=ADDRESS          address to listen on; 0.0.0.0: all of this machine's (default: 127.0.0.1)
  --port=N, --port-end=N  first port to try, and the port after the last one (default: 9090, 9199)
  --tracker=HOST:PORT     a tracker to register with
  --key=NAME              the name that clients ask for; a tracker needs one
  --custom-addr=ADDRESS   the address that the tracker tells clients (default: the one it sees)
  --work-dir=FOLDER       where the folders of sessions are (default: TMPDIR, or the system's folder for temporary files)
  --load-library=FILES    libraries to load first, with colons between
  --timeout=SECONDS       how long a session may last (default: no limit)
  --key-file=FILE         a secret that clients and the tracker must know
  --silent                write nothing but errors

Limits, whole numbers with K, M, G or T for powers of 1024:
  --max-message=BYTES     of one message that is kept in memory (default: 1G)
  --max-connections=N     connections at once; more are refused (default: 64)
  --max-sessions=N        sessions at once; further clients wait (default: 1)
  --silence=SECONDS       without a byte in the middle of a message, after which a connection ends (default: 60)
  --idle=SECONDS          without a byte between two messages, after which a session ends; 0: no limit (default: 0)
  --max-disk=BYTES        of a session's files (default: 16G)
)";

namespace {

constexpr size_t kShortestSecret = 16;

uint64_t whole(const std::string& name, const std::string& text, uint64_t least, uint64_t most) {
  char* end = nullptr;
  const unsigned long long value = strtoull(text.c_str(), &end, 10);
  uint64_t unit = 1;
  const std::string units = "KMGT", rest = end;
  if (rest.size() == 1) {
    const size_t power = units.find(static_cast<char>(toupper(static_cast<unsigned char>(rest[0]))));
    unit = power == std::string::npos ? 0 : uint64_t{1} << (10 * (power + 1));
  }
  uint64_t found = 0;
  const bool is_number = !text.empty() && text[0] >= '0' && text[0] <= '9' && rest.size() <= 1 && unit > 0;
  if (!is_number || __builtin_mul_overflow(uint64_t{value}, unit, &found) || found < least || found > most)
    fail("ValueError", "--%s=%s: a whole number from %llu to %llu is needed", name.c_str(), text.c_str(), static_cast<unsigned long long>(least), static_cast<unsigned long long>(most));
  return found;
}

std::string read_secret(const std::string& path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rb"), fclose);
  if (!file) fail("ValueError", "the key file %s cannot be read: %s", path.c_str(), strerror(errno));
  char bytes[4096];
  std::string secret(bytes, fread(bytes, 1, sizeof bytes, file.get()));
  const char* spaces = " \t\r\n\f\v";
  const size_t first = secret.find_first_not_of(spaces);
  secret = first == std::string::npos ? "" : secret.substr(first, secret.find_last_not_of(spaces) + 1 - first);
  if (secret.size() < kShortestSecret)
    fail("ValueError", "the key file %s holds %zu bytes, where at least %zu are needed; make one with: head -c 32 /dev/urandom | base64", path.c_str(), secret.size(), kShortestSecret);
  return secret;
}

void set_address(Options* options, const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) fail("ValueError", "--tracker=%s: an address is host:port, such as 192.168.1.2:9190", text.c_str());
  options->tracker_host = text.substr(0, colon);
  if (options->tracker_host.front() == '[' && options->tracker_host.back() == ']') options->tracker_host = options->tracker_host.substr(1, options->tracker_host.size() - 2);
  options->tracker_port = static_cast<int>(whole("tracker", text.substr(colon + 1), 1, 65535));
}

}  // namespace

Options read_options(const std::vector<std::string>& words) {
  Options o;
  constexpr uint64_t kMost = uint64_t{1} << 62, kInt = 1 << 30;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    std::string name = words[i].substr(0, equals), value;
    if (name.compare(0, 2, "--") != 0) fail("ValueError", "`%s` is no option; --help shows them", words[i].c_str());
    name.erase(0, 2);
    if (name == "silent" || name == "pipe") {
      o.silent |= name == "silent";
      continue;
    }
    if (equals != std::string::npos) value = words[i].substr(equals + 1);
    else if (++i < words.size()) value = words[i];
    else fail("ValueError", "--%s needs a value", name.c_str());
    auto count = [&](uint64_t least) { return static_cast<int>(whole(name, value, least, kInt)); };
    if (name == "host") o.host = value;
    else if (name == "port") o.port = static_cast<int>(whole(name, value, 0, 65535));
    else if (name == "port-end") o.port_end = static_cast<int>(whole(name, value, 0, 65536));
    else if (name == "tracker") set_address(&o, value);
    else if (name == "key") o.key = value;
    else if (name == "custom-addr") o.custom_addr = value;
    else if (name == "work-dir") o.work_dir = value;
    else if (name == "timeout") o.timeout = count(0);
    else if (name == "key-file") o.secret = read_secret(value);
    else if (name == "max-message") o.message = whole(name, value, 1, kMost);
    else if (name == "max-connections") o.connections = count(1);
    else if (name == "max-sessions") o.sessions = count(1);
    else if (name == "silence") o.silence = count(1);
    else if (name == "idle") o.idle = count(0);
    else if (name == "max-disk") o.disk = whole(name, value, 1, kMost);
    else if (name == "load-library") {
      for (size_t at = 0, end; at < value.size(); at = end + 1) {
        end = std::min(value.find(':', at), value.size());
        if (end > at) o.libraries.push_back(value.substr(at, end - at));
      }
    } else fail("ValueError", "there is no option --%s; --help shows them", name.c_str());
  }
  if (!o.tracker_host.empty() && o.key.empty()) fail("ValueError", "a server that registers with a tracker needs a key: --key=NAME");
  return o;
}

}  // namespace tw::server
