#include "link.h"

#include "sha256.h"

namespace tw::server {
namespace {

constexpr int32_t kProve = kMagic + 3, kTrackerMagic = 0x2f271, kTrackerProve = kTrackerMagic + 3;
constexpr size_t kLongestKey = 4096, kChallengeBytes = 32;

std::string challenge() {
  std::string made(kChallengeBytes, '\0');
  random_bytes(&made[0], made.size());
  return made;
}

[[noreturn]] void refuse(const char* why) { fail("RPCError", "%s", why); }

}  // namespace

std::string number(int32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(static_cast<uint32_t>(value) >> (8 * i));
  return bytes;
}
int32_t number(const std::string& bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return static_cast<int32_t>(value);
}
std::string text(const std::string& value) { return number(static_cast<int32_t>(value.size())) + value; }

void Link::expect_text(size_t most, Then then) {
  expect(4, [this, most, then = std::move(then)](const std::string& size) {
    const int32_t bytes = number(size);
    if (bytes < 0 || static_cast<size_t>(bytes) > most) refuse("it sent a string of a wrong length: it speaks another protocol");
    expect(static_cast<size_t>(bytes), then);
  });
}

void Link::step() {
  const Stream stream{socket_, socket_};
  while (!out_.empty()) {
    const Piece piece{out_.data(), out_.size()};
    const ptrdiff_t n = write_stream(stream, &piece, 1);
    if (n == kBroken) fail("RPCError", "%s", stream_error().c_str());
    if (n < 0) break;
    out_.erase(0, static_cast<size_t>(n));
  }
  while (then_) {
    while (in_.size() < need_) {
      char bytes[4096];
      const ptrdiff_t n = read_stream(stream, bytes, std::min(sizeof bytes, need_ - in_.size()));
      if (n == kWouldWait) return;
      if (n == kBroken) fail("RPCError", "%s", stream_error().c_str());
      if (n == 0) refuse("it has closed the connection");
      in_.append(bytes, static_cast<size_t>(n));
    }
    Then next = std::move(then_);
    const std::string got = std::move(in_);
    then_ = nullptr;
    next(got);
    if (!out_.empty()) return step();
  }
}

void admit(Link& link, const std::string& secret, Link::Then then) {
  link.expect(4, [&link, secret, then = std::move(then)](const std::string& magic) {
    if (number(magic) != kMagic) refuse("it speaks another protocol");
    link.expect_text(kLongestKey, [&link, secret, then](const std::string& key) {
      if (secret.empty()) return then(key);
      const std::string ours = challenge();
      link.send(number(kProve) + ours);
      link.expect(kChallengeBytes + kProofBytes, [&link, secret, then, key, ours](const std::string& answer) {
        const std::string theirs = answer.substr(0, kChallengeBytes);
        if (!same(answer.substr(kChallengeBytes), hmac(secret, "client" + ours + theirs))) refuse("it does not know the secret of the key file");
        link.send(hmac(secret, "server" + theirs + ours));
        then(key);
      });
    });
  });
}

void enter_tracker(Link& link, const std::string& secret, std::function<void()> then) {
  link.send(number(kTrackerMagic));
  const auto finish = [then](const std::string& magic) {
    if (number(magic) != kTrackerMagic) refuse("it is no tracker");
    then();
  };
  link.expect(4, [&link, secret, finish](const std::string& magic) {
    if (number(magic) != kTrackerProve) {
      if (!secret.empty()) refuse("it demands no key file, so that it may be another tracker than it claims to be");
      return finish(magic);
    }
    if (secret.empty()) refuse("it demands a key file (--key-file)");
    link.expect(kChallengeBytes, [&link, secret, finish](const std::string& theirs) {
      const std::string ours = challenge();
      link.send(ours + hmac(secret, "client" + theirs + ours));
      link.expect(kProofBytes, [&link, secret, finish, ours, theirs](const std::string& proof) {
        if (!same(proof, hmac(secret, "server" + ours + theirs))) refuse("it does not know the secret of the key file");
        link.expect(4, finish);
      });
    });
  });
}

}  // namespace tw::server
