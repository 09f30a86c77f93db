// A program that serves one client on the socket that is its standard input and output, with the code that is linked into it (system_lib):
// what rpc.with_minrpc adds to a model's objects. It needs the runtime library alone.
#include <tilewright/host.h>
#include <unistd.h>

#include <cstdio>

int main() {
  const int socket = dup(0);
  dup2(2, 1);  // what the code prints is none of the answers
  try {
    tilewright::Function::global("rpc.Serve")(socket, "the program that runs this one");
  } catch (const tilewright::Error& error) {
    fprintf(stderr, "the session failed: %s\n", error.what());
    return 1;
  }
}
