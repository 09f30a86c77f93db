// Runs a program on an accelerator that Verilator has compiled, with a DRAM beside it that keeps the rules of docs/vta_timing.md:
// harness MEMORY ADDRESS COUNT LATENCY WORD MOST: reads the file MEMORY, whose first byte has address 0, writes it back, prints the cycles.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <vector>

#include "Vvta.h"
#include "verilated.h"

namespace {

struct Request {
  uint64_t owner, address, beats;
  int64_t ready;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  std::fstream file(argv[1], std::ios::binary | std::ios::in);
  std::vector<uint8_t> memory((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  file.close();
  const uint64_t address = strtoull(argv[2], nullptr, 0), count = strtoull(argv[3], nullptr, 0), word = strtoull(argv[5], nullptr, 0);
  const int64_t latency = atoll(argv[4]), most = atoll(argv[6]);
  Vvta top;
  std::deque<Request> reads, writes;
  std::deque<int64_t> answers;
  bool read_was_last = false;
  auto edge = [&] {
    top.clk = 1;
    top.eval();
    top.clk = 0;
    top.eval();
  };
  top.clk = 0, top.rst = 0, top.start = 1, top.address = static_cast<uint32_t>(address), top.count = static_cast<uint16_t>(count);
  top.arready = top.awready = 1;
  top.eval();
  edge();
  top.start = 0;
  top.eval();
  int64_t now = 0;
  for (; top.busy && now < most; ++now) {
    top.bvalid = !answers.empty() && answers.front() <= now;
    if (top.bvalid) answers.pop_front();
    top.eval();
    if (top.awvalid) writes.push_back({0, top.awaddr, static_cast<uint64_t>(top.awlen) + 1, now});
    const bool can_read = !reads.empty() && reads.front().ready <= now, can_write = top.wvalid && !writes.empty();
    const bool is_read = can_read && !(can_write && read_was_last);
    if (can_read || can_write) read_was_last = is_read;
    top.rvalid = is_read;
    top.wready = can_write && !is_read;
    if (is_read || can_write) {
      Request& r = is_read ? reads.front() : writes.front();
      const uint64_t base = r.address / word * word;
      if (base + word > memory.size()) {
        fprintf(stderr, "%s at %#llx, outside of the memory\n", is_read ? "a read" : "a write", static_cast<unsigned long long>(base));
        return 1;
      }
      if (is_read) {
        top.rid = static_cast<uint8_t>(r.owner);
        top.rlast = r.beats == 1;
        memcpy(&top.rdata, &memory[base], word);
      } else {
        std::vector<uint8_t> data(sizeof(top.wdata)), strobe(sizeof(top.wstrb));
        memcpy(data.data(), &top.wdata, data.size());
        memcpy(strobe.data(), &top.wstrb, strobe.size());
        for (uint64_t n = 0; n < word; ++n)
          if (strobe[n / 8] >> (n % 8) & 1) memory[base + n] = data[n];
      }
      r.address = base + word;
      if (--r.beats == 0) {
        if (!is_read) answers.push_back(now + latency);
        (is_read ? reads : writes).pop_front();
      }
    }
    top.eval();
    if (top.arvalid) reads.push_back({top.arid, top.araddr, static_cast<uint64_t>(top.arlen) + 1, now + latency});
    edge();
  }
  if (top.busy) {
    fprintf(stderr, "the program has not ended after %lld cycles\n", static_cast<long long>(most));
    return 1;
  }
  std::ofstream(argv[1], std::ios::binary).write(reinterpret_cast<const char*>(memory.data()), static_cast<std::streamsize>(memory.size()));
  printf("%llu\n", static_cast<unsigned long long>(top.cycles));
  return 0;
}
