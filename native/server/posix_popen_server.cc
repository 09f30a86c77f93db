// A program that serves one client on its standard input and output, with the code that is linked into it (system_lib): what
// rpc.with_minrpc adds to a model's objects.
#include "../src/core.h"
#include "files.h"
#include "options.h"
#include "system.h"

int main() {
  using namespace tw::server;
  const Options options;
  begin_system();
  const tw::Stream stream = take_standard_streams();
  std::string folder;
  if (tw::guarded([&] { folder = make_folder(""); })) return 1;
  run_session({stream, "the program that runs this one", folder, options.message, options.disk, options.silence, options.idle, true});
  remove_folder(folder);
}
