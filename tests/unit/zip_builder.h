// Makes zip archives byte by byte, right or deliberately wrong, so that the tests need no files and no other tool.
#ifndef SLIPWAY_TESTS_UNIT_ZIP_BUILDER_H_
#define SLIPWAY_TESTS_UNIT_ZIP_BUILDER_H_

#include <libdeflate.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace slipway::testing {

inline void Put(std::string* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

inline std::string Deflate(std::string_view data) {
  std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> compressor(
      libdeflate_alloc_compressor(6), libdeflate_free_compressor);
  std::string out(libdeflate_deflate_compress_bound(compressor.get(), data.size()), '\0');
  out.resize(libdeflate_deflate_compress(compressor.get(), data.data(), data.size(), out.data(), out.size()));
  return out;
}

// One member. The optional fields say something else than the truth.
struct ZipMember {
  std::string name;
  std::string data;
  bool deflated = false;
  bool descriptor = false;  // sizes only in the directory and behind the data
  bool zip64 = false;       // sizes and offset in zip64 extra fields
  std::optional<std::string> local_name = {};
  std::optional<uint16_t> method = {};
  std::optional<uint16_t> flags = {};
  std::optional<uint32_t> crc = {};
  std::optional<uint64_t> size = {};
  std::optional<uint64_t> compressed_size = {};
  std::optional<uint64_t> header_offset = {};
};

struct ZipOptions {
  bool zip64_end = false;
  std::optional<uint64_t> count = {};
  std::optional<uint64_t> directory_offset = {};
  std::string comment = {};
};

inline std::string BuildZip(const std::vector<ZipMember>& members, const ZipOptions& options = {}) {
  std::string out, directory;
  for (const ZipMember& member : members) {
    const std::string packed = member.deflated ? Deflate(member.data) : member.data;
    const uint64_t offset = member.header_offset.value_or(out.size());
    const uint64_t size = member.size.value_or(member.data.size());
    const uint64_t compressed_size = member.compressed_size.value_or(packed.size());
    const uint32_t crc = member.crc.value_or(libdeflate_crc32(0, member.data.data(), member.data.size()));
    const uint16_t flags = member.flags.value_or(member.descriptor ? 0x0808 : 0x0800);
    const uint16_t method = member.method.value_or(member.deflated ? 8 : 0);
    const std::string& local_name = member.local_name.value_or(member.name);
    const bool zip64 = member.zip64;
    Put(&out, 0x04034b50, 4);
    Put(&out, 20, 2);
    Put(&out, flags, 2);
    Put(&out, method, 2);
    Put(&out, 0x00210000, 4);
    Put(&out, member.descriptor ? 0 : crc, 4);
    Put(&out, member.descriptor ? 0 : zip64 ? 0xffffffff : compressed_size, 4);
    Put(&out, member.descriptor ? 0 : zip64 ? 0xffffffff : size, 4);
    Put(&out, local_name.size(), 2);
    Put(&out, zip64 && !member.descriptor ? 20 : 0, 2);
    out += local_name;
    if (zip64 && !member.descriptor) {
      Put(&out, 1, 2);
      Put(&out, 16, 2);
      Put(&out, size, 8);
      Put(&out, compressed_size, 8);
    }
    out += packed;
    if (member.descriptor) {
      Put(&out, 0x08074b50, 4);
      Put(&out, crc, 4);
      Put(&out, compressed_size, zip64 ? 8 : 4);
      Put(&out, size, zip64 ? 8 : 4);
    }
    Put(&directory, 0x02014b50, 4);
    Put(&directory, 20, 2);
    Put(&directory, 20, 2);
    Put(&directory, flags, 2);
    Put(&directory, method, 2);
    Put(&directory, 0x00210000, 4);
    Put(&directory, crc, 4);
    Put(&directory, zip64 ? 0xffffffff : compressed_size, 4);
    Put(&directory, zip64 ? 0xffffffff : size, 4);
    Put(&directory, member.name.size(), 2);
    Put(&directory, zip64 ? 34 : 0, 2);
    Put(&directory, 0, 2);
    Put(&directory, 0, 8);
    Put(&directory, zip64 ? 0xffffffff : offset, 4);
    directory += member.name;
    if (zip64) {
      Put(&directory, 0x4246, 2);  // a foreign field first
      Put(&directory, 2, 2);
      directory += "ZZ";
      Put(&directory, 1, 2);
      Put(&directory, 24, 2);
      Put(&directory, size, 8);
      Put(&directory, compressed_size, 8);
      Put(&directory, offset, 8);
    }
  }
  const uint64_t directory_offset = options.directory_offset.value_or(out.size());
  const uint64_t count = options.count.value_or(members.size());
  out += directory;
  const uint64_t end64 = out.size();
  if (options.zip64_end) {
    Put(&out, 0x06064b50, 4);
    Put(&out, 44, 8);
    Put(&out, 0x002d002d, 4);
    Put(&out, 0, 8);
    Put(&out, count, 8);
    Put(&out, count, 8);
    Put(&out, directory.size(), 8);
    Put(&out, directory_offset, 8);
    Put(&out, 0x07064b50, 4);
    Put(&out, 0, 4);
    Put(&out, end64, 8);
    Put(&out, 1, 4);
  }
  Put(&out, 0x06054b50, 4);
  Put(&out, 0, 4);
  Put(&out, options.zip64_end ? 0xffff : count, 2);
  Put(&out, options.zip64_end ? 0xffff : count, 2);
  Put(&out, options.zip64_end ? 0xffffffff : directory.size(), 4);
  Put(&out, options.zip64_end ? 0xffffffff : directory_offset, 4);
  Put(&out, options.comment.size(), 2);
  out += options.comment;
  return out;
}

// A path in this test run's own temporary folder.
inline std::string TempPath(std::string_view name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return ::testing::TempDir() + "slipway_" + test->test_suite_name() + "_" + test->name() + "_" + std::string(name);
}

inline std::string WriteTemp(std::string_view name, std::string_view data) {
  const std::string path = TempPath(name);
  std::ofstream(path, std::ios::binary) << data;
  return path;
}

inline std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace slipway::testing

#endif  // SLIPWAY_TESTS_UNIT_ZIP_BUILDER_H_
