#include "linking.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "../src/core.h"
#include "../src/platform/files.h"
#include "../src/seal.h"
#include "folders.h"
#include "system.h"

namespace tw::server {
namespace {

constexpr uint64_t kBlock = 512;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The objects of a tar file, written into a folder by their names without folders.
std::vector<std::string> unpacked(const std::string& path, const std::string& folder) {
  InputFile file(path);
  std::vector<std::string> objects;
  for (uint64_t at = 0; at + kBlock <= file.size();) {
    const std::string head = file.bytes(at, kBlock);
    const std::string name = head.substr(0, 100).c_str();
    if (name.empty()) break;
    const uint64_t size = strtoull(head.substr(124, 12).c_str(), nullptr, 8);
    if (size > file.size() - at - kBlock) fail("ValueError", "%s is damaged: its member %s goes beyond its end; upload it again", path.c_str(), name.c_str());
    const std::string leaf = name_of(name);
    if (ends_with(leaf, ".o")) {
      objects.push_back(joined(folder, leaf));
      std::unique_ptr<FILE, int (*)(FILE*)> out(fopen(objects.back().c_str(), "wb"), fclose);
      const std::string data = file.bytes(at + kBlock, size);
      if (!out || fwrite(data.data(), 1, data.size(), out.get()) != data.size()) fail("OSError", "%s cannot be written", objects.back().c_str());
    }
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return objects;
}

std::string linker() {
  const char* given = getenv("CC");
  for (const std::string& name : {std::string(given ? given : ""), std::string("cc"), std::string("gcc"), std::string("clang"), std::string("ld.lld"), std::string("ld")}) {
    const std::string found = name.empty() ? "" : find_program(name);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

bool is_archive(const std::string& path) {
  return ends_with(path, ".tar") || ends_with(path, ".o");
}

std::string link_archive(const std::string& path) {
  check_seal(path);
  const std::string program = linker(), name = name_of(path);
  if (program.empty())
    fail("RuntimeError", "%s holds objects, and this machine has neither a compiler (cc) nor a linker (ld): link it where it is compiled, with export_library(\"model.so\") or"
         " `tilewright compile -o model.so`, and upload that", name.c_str());
  const std::string library = path + ".so";
  const std::string folder = path + ".objects";
  make_folders(folder);
  std::vector<std::string> command{program, "-shared", "-o", library};
  const auto objects = ends_with(path, ".tar") ? unpacked(path, folder) : std::vector<std::string>{path};
  if (objects.empty()) fail("ValueError", "%s holds no objects (.o)", name.c_str());
  command.insert(command.end(), objects.begin(), objects.end());
  std::string said;
  const int status = run_program(command, &said);
  remove_all(folder);
  if (status != 0) fail("RuntimeError", "%s cannot be linked here: %s says\n%s", name.c_str(), program.c_str(), said.c_str());
  return library;
}

}  // namespace tw::server
