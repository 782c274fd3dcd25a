// The processors that native libraries are made for, by the names of `convert --target`, and what runs programs of one
// on another.
#ifndef SLIPWAY_BASE_MACHINE_H_
#define SLIPWAY_BASE_MACHINE_H_

#include <cstdint>
#include <string_view>

namespace slipway {

struct Machine {
  std::string_view name;
  uint16_t elf;               // e_machine of its ELF files
  std::string_view emulator;  // of its programs: qemu-user, by its usual name
  std::string_view sysroot;   // where Debian's cross compiler has its C library
};

inline constexpr Machine kX86_64 = {"x86_64-linux", 62, "qemu-x86_64", "/usr/x86_64-linux-gnu"};
inline constexpr Machine kAarch64 = {"aarch64-linux", 183, "qemu-aarch64", "/usr/aarch64-linux-gnu"};
inline constexpr const Machine* kMachines[] = {&kX86_64, &kAarch64};

#if defined(__aarch64__)
inline constexpr const Machine& kThisMachine = kAarch64;
#else
inline constexpr const Machine& kThisMachine = kX86_64;
#endif

// Null where there is none of the name, or of the number.
constexpr const Machine* FindMachine(std::string_view name) {
  for (const Machine* m : kMachines)
    if (m->name == name) return m;
  return nullptr;
}
constexpr const Machine* FindMachine(uint16_t elf) {
  for (const Machine* m : kMachines)
    if (m->elf == elf) return m;
  return nullptr;
}

}  // namespace slipway

#endif  // SLIPWAY_BASE_MACHINE_H_
