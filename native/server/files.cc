#include "files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "../src/core.h"
#include "../src/platform/files.h"
#include "../src/platform/process.h"
#include "folders.h"
#include "linking.h"
#include "system.h"

namespace tw::server {
namespace {

constexpr char kFolders[] = "tilewright-rpc-";
constexpr size_t kMostRead = size_t{1} << 30;

std::string place_of_folders(const std::string& work_dir) {
  if (!work_dir.empty()) make_folders(work_dir);
  return real_path(work_dir.empty() ? temporary_place() : work_dir);
}

std::string listed(const std::string& folder, const char* between) {
  std::string all;
  for (auto& name : names_in(folder)) all += (all.empty() ? "" : between) + name;
  return all;
}

struct Folder {
  std::string root;
  uint64_t most;

  // The place of a client's path. Throws ValueError for a path that leads out of the folder, by a link too.
  std::string inside(const std::string& path) const {
    const std::string place = real_path(joined(root, path));
    const bool below = place.compare(0, root.size(), root) == 0 && (place.size() == root.size() || place[root.size()] == '/' || place[root.size()] == '\\');
    if (!below) fail("ValueError", "the path '%s' leads out of the session's folder", path.c_str());
    return place;
  }
  std::string existing(const std::string& path) const {
    const std::string place = inside(path);
    if (kind_of(place) != kAbsent) return place;
    const std::string names = listed(parent_of(place), ", ");
    fail("FileNotFoundError", "there is no '%s' in the session's folder; uploaded are: %s", path.c_str(), names.empty() ? "none" : names.c_str());
  }

  void write(const std::string& path, const char* mode, const std::string& data) const {
    const std::string place = inside(path);
    const uint64_t taken = bytes_below(root);
    if (data.size() > most || taken > most - data.size())
      fail("OSError", "no room for %zu bytes of '%s': files of a session may take %llu bytes, and %llu are in use (--max-disk)", data.size(), path.c_str(),
           static_cast<unsigned long long>(most), static_cast<unsigned long long>(taken));
    make_folders(parent_of(place));
    FILE* file = fopen(place.c_str(), mode);
    bool whole = file && fwrite(data.data(), 1, data.size(), file) == data.size();
    int why = errno;
    if (file && fclose(file) != 0) whole = false, why = errno;
    if (whole) return;
    if (file) remove_all(place);
    if (why == ENOSPC || why == EFBIG)
      fail("OSError", "the disk of the server is full: '%s' is not written, and %llu bytes are free in %s; remove files there, or let --work-dir name a larger folder",
           path.c_str(), static_cast<unsigned long long>(free_bytes(root)), root.c_str());
    fail("OSError", "'%s' cannot be written: %s", path.c_str(), strerror(why));
  }
  std::string read(const std::string& path, uint64_t start, uint64_t count) const {
    const std::string place = existing(path);
    if (kind_of(place) == kFolder) fail("OSError", "'%s' is a folder", path.c_str());
    return InputFile(place).bytes(start, std::min<uint64_t>(count, kMostRead));
  }
  void remove(const std::string& path) const {
    const std::string place = inside(path);
    if (place == root) fail("ValueError", "the session's folder itself cannot be removed");
    remove_all(place);
  }
};

TVMFFIAny load(const Folder& folder, const std::string& path) {
  std::string file = folder.existing(path);
  if (is_archive(file)) file = link_archive(file);
  TVMFFIAny name = from_string(file);
  try {
    TVMFFIAny module = call(get_global("runtime.ModuleLoadFromFile").get(), &name, 1);
    destroy(name);
    return module;
  } catch (...) {
    destroy(name);
    throw;
  }
}

}  // namespace

std::string make_folder(const std::string& work_dir) {
  const std::string place = place_of_folders(work_dir);
  for (;;) {
    uint32_t mark[2];
    random_bytes(mark, sizeof mark);
    const std::string folder = joined(place, format("%s%lld-%08x%08x", kFolders, static_cast<long long>(process_number()), mark[0], mark[1]));
    if (make_new_folder(folder)) return folder;
  }
}

void remove_folder(const std::string& folder) { remove_all(folder); }

void remove_left_folders(const std::string& work_dir) {
  const std::string place = place_of_folders(work_dir);
  for (auto& name : names_in(place)) {
    long long number = 0;
    if (name.compare(0, sizeof kFolders - 1, kFolders) == 0 && sscanf(name.c_str() + sizeof kFolders - 1, "%lld-", &number) == 1 && number > 0 && !is_process(number))
      remove_all(joined(place, name));
  }
}

void offer_files(const std::string& root, uint64_t most) {
  const Folder folder{real_path(root), most};
  auto offer = [](const char* name, NativeFunction function) { register_global((std::string("tvm.rpc.server.") + name).c_str(), std::move(function)); };
  auto amount = [](const TVMFFIAny& v, const char* what) {
    const int64_t n = as_int(v, what);
    if (n < 0) fail("ValueError", "%s is negative: %lld", what, static_cast<long long>(n));
    return static_cast<uint64_t>(n);
  };
  offer("upload", [folder](Args a) { return folder.write(as_string(a[0]), "wb", as_string(a[1])), none(); });
  offer("append", [folder](Args a) { return folder.write(as_string(a[0]), "ab", as_string(a[1])), none(); });
  offer("size", [folder](Args a) { return from_int(static_cast<int64_t>(file_bytes(folder.existing(as_string(a[0]))))); });
  offer("read", [folder, amount](Args a) {
    return from_string(folder.read(as_string(a[0]), amount(a[1], "the place"), amount(a[2], "the number of bytes")), true);
  });
  offer("download", [folder](Args a) { return from_string(folder.read(as_string(a[0]), 0, kMostRead), true); });
  offer("remove", [folder](Args a) { return folder.remove(as_string(a[0])), none(); });
  offer("listdir", [folder](Args a) { return from_string(listed(folder.existing(as_string(a[0])), ",")); });
  offer("workpath", [folder](Args a) { return from_string(folder.inside(as_string(a[0]))); });
  offer("load_module", [folder](Args a) { return load(folder, as_string(a[0])); });
}

}  // namespace tw::server
