#include "../threads.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tw {

static_assert(sizeof(cpu_set_t) == sizeof(Processors), "the system's set of processors is one of bits by number");

int current_processor() { return sched_getcpu(); }
ThreadHandle this_thread() { return static_cast<ThreadHandle>(pthread_self()); }
bool get_processors(ThreadHandle thread, Processors* set) {
  return pthread_getaffinity_np(static_cast<pthread_t>(thread), sizeof *set, reinterpret_cast<cpu_set_t*>(set->words)) == 0;
}
bool set_processors(ThreadHandle thread, const Processors& set) {
  return pthread_setaffinity_np(static_cast<pthread_t>(thread), sizeof set, reinterpret_cast<const cpu_set_t*>(set.words)) == 0;
}

namespace {

std::string read_file(const std::string& path) {
  std::string text;
  if (FILE* f = fopen(path.c_str(), "r")) {
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;) text.append(buffer, n);
    fclose(f);
  }
  return text;
}

// Processors granted by the cgroups of the process, rounded up; a large number when there is no quota.
int quota() {
  double best = 1e9;
  auto limit = [&](double allowed, double period) {
    if (allowed > 0 && period > 0) best = std::min(best, allowed / period);
  };
  auto visit = [&](const std::string& root, std::string path, bool v2) {
    for (;;) {
      if (v2) {
        double allowed, period;
        std::string text = read_file(root + path + "/cpu.max");
        if (sscanf(text.c_str(), "%lf %lf", &allowed, &period) == 2) limit(allowed, period);
      } else {
        limit(atof(read_file(root + path + "/cpu.cfs_quota_us").c_str()), atof(read_file(root + path + "/cpu.cfs_period_us").c_str()));
      }
      size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) break;
      path.resize(slash);
    }
  };
  std::string groups = read_file("/proc/self/cgroup");
  for (size_t at = 0; at < groups.size();) {
    size_t end = std::min(groups.find('\n', at), groups.size());
    std::string line = groups.substr(at, end - at);
    at = end + 1;
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string names = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (names.empty()) visit("/sys/fs/cgroup", path, true);
    else if (("," + names + ",").find(",cpu,") != std::string::npos) visit("/sys/fs/cgroup/cpu", path, false);
  }
  return best >= 1e9 ? 1 << 20 : std::max(1, static_cast<int>(best + 0.999));
}

}  // namespace

int allowed_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

int usable_processors() {
  static const int by_quota = quota();
  return std::max(1, std::min(allowed_processors(), by_quota));
}

}  // namespace tw
