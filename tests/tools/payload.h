// The payload of a native library, read out of the file without loading it: for tools that run plans of any
// architecture.
#ifndef SLIPWAY_TESTS_TOOLS_PAYLOAD_H_
#define SLIPWAY_TESTS_TOOLS_PAYLOAD_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/executor/plan_file.h"

namespace slipway::kernels {

struct Payload {
  std::unique_ptr<uint8_t, void (*)(void*)> memory{nullptr, std::free};  // constants lie at multiples of 64 bytes in it
  std::span<const uint8_t> plan, weights;
};

// "" or what is wrong.
inline std::string ReadPayload(const char* path, Payload* payload) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  // It begins at a page.
  size_t at = 0;
  PayloadHeader header{};
  for (; at + sizeof header <= bytes.size(); at += 4096)
    if (std::memcmp(bytes.data() + at, kPayloadMagic, sizeof kPayloadMagic) == 0) break;
  if (at + sizeof header > bytes.size()) return "no payload";
  std::memcpy(&header, bytes.data() + at, sizeof header);
  auto inside = [&](uint64_t offset, uint64_t size) { return offset <= header.size && size <= header.size - offset; };
  if (header.size > bytes.size() - at || !inside(header.plan_offset, header.plan_size) ||
      !inside(header.weights_offset, header.weights_size))
    return "the payload is cut off";
  payload->memory.reset(static_cast<uint8_t*>(std::aligned_alloc(4096, (header.size + 4095) / 4096 * 4096)));
  if (!payload->memory) return "out of memory";
  std::memcpy(payload->memory.get(), bytes.data() + at, header.size);
  payload->plan = {payload->memory.get() + header.plan_offset, header.plan_size};
  payload->weights = {payload->memory.get() + header.weights_offset, header.weights_size};
  return "";
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_TESTS_TOOLS_PAYLOAD_H_
