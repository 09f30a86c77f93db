#include <cstdio>
#include <cstdlib>

#include "../src/core.h"
#include "files.h"
#include "server.h"
#include "system.h"

namespace tw::server {
namespace {

void load(const std::string& path) {
  TVMFFIAny name = from_string(path);
  TVMFFIAny module = call(get_global("runtime.ModuleLoadFromFile").get(), &name, 1);
  destroy(name);
  destroy(module);
}

// One client, until it ends the session.
void serve_pipe(const Options& options) {
  const Stream stream = take_standard_streams();
  struct Folder {
    std::string path;
    ~Folder() { remove_folder(path); }
  } folder{make_folder(options.work_dir)};
  run_session({stream, "the program that runs this one", folder.path, options.message, options.disk, options.silence, options.idle, options.silent});
}

// What start_session gives a program that runs itself again where processes cannot fork.
constexpr size_t kSessionWords = 8;
int serve_session(const std::vector<std::string>& w) {
  const auto number = [&](size_t i) { return strtoull(w[i].c_str(), nullptr, 10); };
  return guarded([&] {
    begin_system();
    const Socket socket = given_socket();
    run_session({{socket, socket}, w[1], w[2], number(3), number(4), static_cast<int>(number(5)), static_cast<int>(number(6)), number(7) != 0});
  });
}

int run(std::vector<std::string> words) {
  if (words.size() == kSessionWords && words[0] == "session") return serve_session(words);
  const bool help = words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help";
  if (help) return fputs(kUsage, words.empty() ? stderr : stdout), words.empty() ? 2 : 0;
  const std::string command = words[0];
  if (command != "server" && command != "pipe" && command != "--pipe") {
    fprintf(stderr, "error: there is no command `%s`: it is server or pipe; --help shows their options\n", command.c_str());
    return 2;
  }
  words.erase(words.begin());
  for (auto& word : words)
    if (word == "--help" || word == "-h") return fputs(kUsage, stdout), 0;
  const int failed = guarded([&] {
    const Options options = read_options(words);
    begin_system();
    for (auto& library : options.libraries) load(library);
    if (command == "server") {
      catch_stops();
      serve(options);
    } else {
      serve_pipe(options);
    }
  });
  if (!failed) return 0;
  Ref<ErrorObject> error = take_raised();
  fprintf(stderr, "error: %s\n", error ? error->message.c_str() : "unknown");
  return error && error->kind == "ValueError" ? 2 : 1;
}

}  // namespace
}  // namespace tw::server

int main(int argc, char** argv) { return tw::server::run({argv + 1, argv + argc}); }
