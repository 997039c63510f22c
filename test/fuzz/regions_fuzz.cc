// SPDX-License-Identifier: MIT
//
// The files of regions and of their segments in the runtime directory, which every process of the
// user can write, with arbitrary contents.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "test/fuzz/api_rig.h"
#include "test/process/configs.h"
#include "urma_ext.h"

namespace {

using urma_fuzz::Bytes;
using urma_fuzz::require;

constexpr char kName[] = "region";
constexpr uint64_t kToken = 7;
constexpr uint32_t kBytes = 4096;

// Two segments of this process in a region, before anything is written to the files.
class Region {
 public:
  explicit Region(urma_context_t* ctx) : ctx_(ctx) {
    for (int i = 0; i < 2; ++i) {
      urma_seg_cfg_t cfg = urma_test::seg_config(
          reinterpret_cast<uint64_t>(memory()) + static_cast<uint64_t>(i) * kBytes, kBytes,
          URMA_ACCESS_READ | URMA_ACCESS_WRITE);
      segments_[i] = urma_register_seg(ctx, &cfg);
      require(segments_[i] != nullptr, "a segment");
    }
    urma_ur_t ur = {};
    std::strcpy(ur.name, kName);
    ur.size = 1 << 20;
    ur.token = kToken;
    require(urma_create_ur(ctx, &ur) == URMA_SUCCESS, "a region");
    require(urma_attach_ur(ctx, kName, kToken, segments_, 2) == URMA_SUCCESS, "its segments");
    for (const auto& entry : std::filesystem::directory_iterator(std::getenv("URMA_RUNTIME_DIR"))) {
      const std::string name = entry.path().filename();
      if (name.rfind("ur-", 0) == 0 || name.find(".urseg-") != std::string::npos) {
        files_.push_back(entry.path());
      }
    }
    require(files_.size() == 3, "a file of the region and one of each segment");
  }
  // Such writes may keep the region's own process from finding its attachments; the rest goes with
  // the names of the files.
  ~Region() {
    urma_detach_ur(ctx_, kName, segments_, 2);
    require(urma_destroy_ur(ctx_, kName) == URMA_SUCCESS, "a region ends with its creator");
    for (urma_target_seg_t* segment : segments_) {
      require(urma_unregister_seg(segment) == URMA_SUCCESS, "a segment can be unregistered");
    }
    std::error_code gone;
    for (const auto& file : files_) std::filesystem::remove(file, gone);
  }

  void write(Bytes* in) {
    const auto& path = files_[in->below(static_cast<uint32_t>(files_.size()))];
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    file.clear();
    const uint32_t at = in->below(static_cast<uint32_t>(all.size()) + 8);
    const auto bytes = in->some(40);
    file.seekp(at);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (in->chance(16)) static_cast<void>(::truncate(path.c_str(), in->below(512)) == 0);
  }
  void look() {
    std::vector<uint64_t> room((sizeof(urma_ur_info_t) + 4 * sizeof(urma_seg_info_t)) / 8 + 1);
    auto* info = reinterpret_cast<urma_ur_info_t*>(room.data());
    uint32_t count = 4;
    if (urma_lookup_ur(ctx_, kName, info, &count) == URMA_SUCCESS) {
      require(info->cnt <= 4 && info->cnt <= count, "no more is reported than fits");
      require(std::memchr(info->name, '\0', sizeof info->name) != nullptr, "a name is terminated");
    }
    urma_ur_t list[2];
    count = 2;
    urma_get_ur_list(ctx_, list, &count);
  }
  void import(Bytes* in) {
    if (imported_ != nullptr) {
      urma_ext_refresh_ur(imported_);
      if (in->chance(128)) end_import();
      return;
    }
    imported_ = urma_import_ur(ctx_, kName, in->chance(16) ? 0 : kToken, {});
  }
  void end_import() {
    if (imported_ == nullptr) return;
    require(urma_unimport_ur(imported_) == URMA_SUCCESS, "an import can be ended");
    imported_ = nullptr;
  }

 private:
  static char* memory() {
    static char* pages = urma_fuzz::fenced_pages(2 * kBytes);
    return pages;
  }

  urma_context_t* ctx_;
  urma_target_seg_t* segments_[2];
  std::vector<std::filesystem::path> files_;
  urma_target_ur_t* imported_ = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static urma_context_t* ctx = urma_fuzz::start_library();
  Bytes in(data, size);
  Region region(ctx);
  while (!in.empty()) {
    switch (in.below(3)) {
      case 0:
        region.write(&in);
        break;
      case 1:
        region.look();
        break;
      default:
        region.import(&in);
    }
  }
  region.end_import();
  return 0;
}
