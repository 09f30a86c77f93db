// Where the record of a seal stands:
// - in a library, in a note of Tilewright's, which the program headers point to and which strip and objcopy keep. The checksum is of all that
//   the system's loader maps, as it lies in the file, and of the headers; not of the place of the table of sections, which only tools read;
// - in an object, in a note among its sections; in an archive (tar), at the beginning of its first member. The checksum is of the whole file.
// A copy of the record ends the file. It tells that there was one where the head is damaged; it may be absent.
#include "seal.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "core.h"
#include "crc32.h"
#include "elf_file.h"

namespace tw {
namespace {

struct Record {
  char magic[16];
  uint64_t length;  // bytes of the file without the copy at its end, 0 as long as it is not sealed
  uint64_t sum;
};
constexpr char kMagic[] = "Tilewright seal\n", kOwner[] = "Tilewright", kMember[] = "tilewright.seal";
static_assert(sizeof kMagic == sizeof(Record::magic) + 1, "the magic fills its field");
constexpr uint64_t kTarBlock = 512, kNotes = uint64_t{1} << 16;
constexpr size_t kPiece = size_t{1} << 20;

bool is_record(const Record& r) { return memcmp(r.magic, kMagic, sizeof r.magic) == 0; }
bool read_record(const InputFile& file, uint64_t at, Record* record) {
  return at + sizeof *record <= file.size() && file.read(at, record, sizeof *record) == sizeof *record && is_record(*record);
}

[[noreturn]] void damaged(const std::string& path, const char* what) {
  fail("ValueError", "%s is damaged: %s; copy or compile it again", path.c_str(), what);
}

// Where a file's record is; 0 where it has none. Throws where it should be, and cannot be read.
uint64_t find_record(const InputFile& file, const ElfFile& elf) {
  if (!elf.is_elf) {
    const std::string head = file.bytes(0, kTarBlock + sizeof(Record));
    Record record;
    const bool found = read_record(file, kTarBlock, &record);
    if (!found && head.compare(0, sizeof kMember, kMember, sizeof kMember) == 0) damaged(file.path(), "its first member, the seal, cannot be read");
    return found ? kTarBlock : 0;
  }
  for (auto& range : elf.notes) {
    const std::string note = file.bytes(range.at, std::min(range.size, kNotes));
    const size_t at = note.find(kMagic);
    if (at != std::string::npos && at + sizeof(Record) <= note.size()) return range.at + at;
    uint32_t name = 0;
    if (note.size() < 12) continue;
    memcpy(&name, note.data(), 4);
    const bool is_note = name <= note.size() && note.compare(0, 12, std::string(12, '\0')) != 0;
    if (!is_note || note.find(kOwner) != std::string::npos) damaged(file.path(), "a note at its head cannot be read");
  }
  return 0;
}

// Bytes that count as zeros: those of the sum itself, and what tools may change.
struct Plan {
  std::vector<Range> pieces, zeros;
};
Plan plan_of(const ElfFile& elf, uint64_t record, uint64_t length) {
  Plan plan{{}, {{record + offsetof(Record, length), sizeof(Record) - offsetof(Record, length)}}};
  std::vector<Range> covered{{0, length}};
  if (elf.is_elf && !elf.relocatable) {
    covered = elf.loaded;
    plan.zeros.insert(plan.zeros.end(), elf.tool_made.begin(), elf.tool_made.end());
  }
  for (auto& range : covered)
    for (uint64_t at = 0; at < range.size; at += kPiece) plan.pieces.push_back({range.at + at, std::min<uint64_t>(kPiece, range.size - at)});
  return plan;
}

// The CRC-32 of the CRC-32s of all pieces and of the length; as many threads as help read them.
uint64_t sum_of(const InputFile& file, const Plan& plan, uint64_t length) {
  std::vector<unsigned char> sums(4 * plan.pieces.size() + sizeof length);
  memcpy(sums.data() + 4 * plan.pieces.size(), &length, sizeof length);
  std::atomic<size_t> next{0};
  std::mutex lock;
  std::exception_ptr failed;
  auto work = [&] {
    try {
      std::unique_ptr<unsigned char[]> held(new unsigned char[kPiece]);
      for (size_t i; (i = next++) < plan.pieces.size();) {
        const Range& piece = plan.pieces[i];
        const size_t size = file.read(piece.at, held.get(), static_cast<size_t>(piece.size));
        for (auto& z : plan.zeros) {
          const uint64_t from = std::max(z.at, piece.at), to = std::min(z.at + z.size, piece.at + size);
          if (from < to) memset(held.get() + (from - piece.at), 0, static_cast<size_t>(to - from));
        }
        const uint32_t sum = crc32(0, held.get(), size);
        for (size_t k = 0; k < 4; ++k) sums[4 * i + k] = static_cast<unsigned char>(sum >> (8 * k));
      }
    } catch (...) {
      std::lock_guard<std::mutex> hold(lock);
      failed = std::current_exception();
    }
  };
  const size_t most = std::min<size_t>({4, std::thread::hardware_concurrency(), plan.pieces.size() / 8});
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < most) threads.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: those that there are do it
  }
  work();
  for (auto& t : threads) t.join();
  if (failed) std::rethrow_exception(failed);
  return crc32(0, sums.data(), sums.size());
}

void check(const InputFile& file, const ElfFile& elf) {
  const char* path = file.path().c_str();
  auto need = [&](uint64_t bytes) {
    if (file.size() < bytes)
      fail("ValueError", "%s is cut off: it has %llu bytes of at least %llu; copy or compile it again", path, static_cast<unsigned long long>(file.size()),
           static_cast<unsigned long long>(bytes));
  };
  need(elf.needed);
  Record record, copy;
  const uint64_t at = find_record(file, elf);
  if (at) read_record(file, at, &record);
  if (!at || (record.length == 0 && record.sum == 0)) {  // not ours, or linked by others, who did not seal it
    if (file.size() >= sizeof copy && read_record(file, file.size() - sizeof copy, &copy)) damaged(file.path(), "the seal at its head is gone");
    return;
  }
  if (!elf.is_elf || elf.relocatable) need(record.length);
  if (sum_of(file, plan_of(elf, at, record.length), record.length) != record.sum)
    damaged(file.path(), "its checksum does not agree");
}

}  // namespace

void check_seal(const std::string& path) {
  InputFile file(path);
  if (!file.is_open()) return;
  const ElfFile elf = read_elf(file);
  const bool object = path.size() > 2 && path.compare(path.size() - 2, 2, ".o") == 0;
  if (object && !elf.relocatable) fail("ValueError", "%s is not an object: its %llu bytes do not begin with the header of an ELF object", path.c_str(), static_cast<unsigned long long>(file.size()));
  check(file, elf);
}

void check_shared_library(const std::string& path) {
  InputFile file(path);
  if (!file.is_open()) return;
  const ElfFile elf = read_elf(file);
  check_library(file, elf);
  check(file, elf);
}

void seal_file(const std::string& path) {
  InputFile file(path);
  if (!file.is_open()) fail("OSError", "%s cannot be read: %s", path.c_str(), strerror(errno));
  const ElfFile elf = read_elf(file);
  const uint64_t at = find_record(file, elf);
  if (!at) return;
  Record record;
  read_record(file, at, &record);
  record.length = file.size();
  record.sum = sum_of(file, plan_of(elf, at, record.length), record.length);
  std::unique_ptr<FILE, int (*)(FILE*)> out(fopen(path.c_str(), "rb+"), fclose);
  auto put = [&](uint64_t to) { return seek(out.get(), to) && fwrite(&record, sizeof record, 1, out.get()) == 1; };
  if (!out || !put(at) || !put(record.length) || fflush(out.get()) != 0) fail("OSError", "%s cannot be written: %s", path.c_str(), strerror(errno));
}

static void register_seal() {
  register_global("runtime.SealFile", [](Args args) {
    seal_file(as_string(args[0]));
    return none();
  });
  register_global("runtime.CheckSeal", [](Args args) {
    check_seal(as_string(args[0]));
    return none();
  });
}
static const int seal_registered = (register_seal(), 0);

}  // namespace tw
