// A session: it answers its client in a process of its own.
#include <cstdio>

#include "../src/core.h"
#include "../src/rpc/endpoint.h"
#include "files.h"
#include "folders.h"
#include "system.h"

namespace tw::server {

void run_session(const Session& session) {
  const int failed = guarded([&] {
    work_in(session.folder);
    offer_files(session.folder, session.most_disk);
    auto endpoint = std::make_shared<rpc::Endpoint>(session.stream, session.peer, true);
    rpc::Patience patience;
    patience.within = 1000 * session.silence;
    if (session.idle > 0) patience.between = 1000 * session.idle;
    endpoint->limit(session.most_message, patience);
    endpoint->serve();
    endpoint->free_memory();
  });
  if (!failed) return;
  Ref<ErrorObject> error = take_raised();
  if (!session.silent && error) fprintf(stderr, "the session with %s failed: %s\n", session.peer.c_str(), error->message.c_str());
}

}  // namespace tw::server
