// The checksum is the CRC-32 (IEEE 802.3) of the CRCs of pieces, or of the only piece; eight bytes a step, by tables.
#include "seal.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "core.h"

namespace tw {
namespace {

constexpr char kMagic[] = "TWSEAL1\n";
constexpr size_t kPiece = size_t{1} << 24, kRead = size_t{1} << 20;
struct Seal {
  uint64_t bytes, sum;
  char magic[8];
};

using Tables = std::array<std::array<uint32_t, 256>, 8>;
const Tables& tables() {
  static const Tables made = [] {
    Tables t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
      t[0][i] = c;
    }
    for (size_t i = 0; i < 256; ++i)
      for (size_t k = 1; k < 8; ++k) t[k][i] = t[0][t[k - 1][i] & 0xff] ^ (t[k - 1][i] >> 8);
    return t;
  }();
  return made;
}

uint32_t crc32(uint32_t crc, const unsigned char* p, size_t n) {
  const Tables& t = tables();
  crc = ~crc;
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t low = crc ^ (uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24);
    crc = t[7][low & 0xff] ^ t[6][(low >> 8) & 0xff] ^ t[5][(low >> 16) & 0xff] ^ t[4][low >> 24] ^ t[3][p[4]] ^ t[2][p[5]] ^
          t[1][p[6]] ^ t[0][p[7]];
  }
  for (; n > 0; --n, ++p) crc = t[0][(crc ^ *p) & 0xff] ^ (crc >> 8);
  return ~crc;
}

// Of the first `bytes` of a file, or of as many as can be read.
uint32_t sum_of(FILE* file, uint64_t bytes) {
  std::vector<unsigned char> held(kRead), sums;
  uint32_t piece = 0;
  size_t in_piece = 0;
  while (bytes > 0) {
    size_t wanted = static_cast<size_t>(std::min<uint64_t>({bytes, kRead, kPiece - in_piece}));
    size_t got = fread(held.data(), 1, wanted, file);
    if (got == 0) break;
    piece = crc32(piece, held.data(), got);
    bytes -= got;
    in_piece += got;
    if (in_piece == kPiece || bytes == 0) {
      for (int k = 0; k < 4; ++k) sums.push_back(static_cast<unsigned char>(piece >> (8 * k)));
      if (sums.size() == 4 && bytes == 0) return piece;
      piece = 0;
      in_piece = 0;
    }
  }
  return crc32(0, sums.data(), sums.size());
}

}  // namespace

void check_seal(const std::string& path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rb"), fclose);
  Seal seal;
  if (!file || fseeko(file.get(), -static_cast<off_t>(sizeof seal), SEEK_END) != 0) return;
  uint64_t size = static_cast<uint64_t>(ftello(file.get()));
  if (fread(&seal, sizeof seal, 1, file.get()) != 1 || memcmp(seal.magic, kMagic, sizeof seal.magic) != 0) return;
  if (seal.bytes != size)
    fail("ValueError", "%s is damaged: its %llu bytes are not the %llu that were written", path.c_str(), static_cast<unsigned long long>(size),
         static_cast<unsigned long long>(seal.bytes));
  rewind(file.get());
  if (sum_of(file.get(), size) != seal.sum)
    fail("ValueError", "%s is damaged: its checksum does not agree; copy or compile it again", path.c_str());
}

static void register_seal() {
  register_global("runtime.CheckSeal", [](Args args) {
    check_seal(as_string(args[0]));
    return none();
  });
}
static const int seal_registered = (register_seal(), 0);

}  // namespace tw
